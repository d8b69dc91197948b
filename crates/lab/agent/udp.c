/*
 * UDP request and response, one of each per window: PHASE IF_A IF_B SIZE WINDOWS.
 * Both ends are in this machine, so a window has the toll of two packets sent and two received.
 */
#include "argument.h"
#include "settle.h"
#include "commands.h"
#include "mark.h"
#include "memory.h"
#include "pair.h"
#include "report.h"
#include "system.h"
#include "warm_up.h"

/* Fills caches of neighbours, routes and pages. */
#define WARM_UP_EXCHANGES 16
/* The longest payload of an IPv4 datagram */
#define DATAGRAM_BYTES_MAX 65507ul

static void echo(i64 socket, const struct service *service)
{
	u8 *data = buffer(service->bytes);

	for (u64 i = 0; i < service->rounds; i++) {
		struct inet_address from;
		u32 bytes = sizeof(from);
		i64 got = system_call(NR_recvfrom, socket, (u64)data, service->bytes, 0, (u64)&from, (u64)&bytes);
		if (got != (i64)service->bytes)
			fail("request", "at the far end", got);
		i64 sent = system_call(NR_sendto, socket, (u64)data, service->bytes, 0, (u64)&from, bytes);
		if (sent != (i64)service->bytes)
			fail("response", "of the far end", sent);
	}
}

static void check(i64 sent, i64 got, u64 bytes)
{
	if (sent != (i64)bytes)
		fail("request", "of the near end", sent);
	if (got != (i64)bytes)
		fail("response", "at the near end", got);
}

static void warm_up(i64 socket, u8 *data, u64 bytes, u64 exchanges)
{
	for (u64 i = 0; i < exchanges; i++) {
		i64 sent = inet_send(socket, data, bytes);
		check(sent, inet_receive(socket, data, bytes), bytes);
	}
}

static void measure(i64 socket, u8 *data, u64 bytes, u64 windows)
{
	for (u64 i = 0; i < windows; i++) {
		mark(MARK_BEGIN);
		i64 sent = inet_send(socket, data, bytes);
		i64 got = inet_receive(socket, data, bytes);
		mark(MARK_END);
		check(sent, got, bytes);
	}
}

void command_udp(char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	u64 bytes = number("SIZE", words[3], 1, DATAGRAM_BYTES_MAX);
	u64 windows = number("WINDOWS", words[4], 1, WINDOWS_MAX);
	struct service service = {UDP, echo, bytes, warm_up_windows(WARM_UP_EXCHANGES) + windows};
	struct pair pair;

	pair_start(&pair, words[1], words[2], &service);
	i64 socket = pair_connect(&service);
	u8 *data = buffer(bytes);
	settle();
	warm_up(socket, data, bytes, service.rounds - windows);
	mark_phase(phase, 1);
	measure(socket, data, bytes, windows);
	pair_end(&pair);
	done("udp", windows);
}
