/*
 * A TCP stream in lock step: PHASE IF_A IF_B SIZE WINDOWS. A window is as many messages of SIZE bytes as
 * fit 64 KiB (one, where a message is larger) and one byte back from the application at the far end,
 * which sends it when it has read them all: otherwise segments of one window would be received and
 * acknowledged in another. Both ends are in this machine: a window has the toll of sender and receiver.
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

/* A window of short messages is a thousand of them. */
#define WARM_UP_WINDOWS 4
#define WINDOW_BYTES (64ul << 10)
#define MESSAGE_BYTES_MAX (16ul << 20)

static u64 messages_in_window(u64 message_bytes)
{
	return message_bytes < WINDOW_BYTES ? WINDOW_BYTES / message_bytes : 1;
}

/* service->bytes: of a window */
static void receive(i64 server, const struct service *service)
{
	i64 socket = inet_accept(server);
	u8 *data = buffer(WINDOW_BYTES);

	for (u64 i = 0; i < service->rounds; i++) {
		for (u64 left = service->bytes; left != 0;) {
			i64 got = inet_receive(socket, data, left < WINDOW_BYTES ? left : WINDOW_BYTES);
			if (got <= 0)
				fail("stream", "at the far end", got);
			left -= (u64)got;
		}
		i64 sent = inet_send(socket, data, 1);
		if (sent != 1)
			fail("acknowledgement", "of the far end", sent);
	}
}

struct stream {
	i64 socket;
	u8 *data;
	u64 message_bytes;
	u64 messages;
};

struct outcome {
	i64 sent; /* of the last message that was tried */
	i64 acknowledged;
};

static inline __attribute__((always_inline)) struct outcome window(const struct stream *stream)
{
	struct outcome outcome = {.acknowledged = 0};
	u8 acknowledgement;

	for (u64 i = 0; i < stream->messages; i++) {
		outcome.sent = inet_send(stream->socket, stream->data, stream->message_bytes);
		if (outcome.sent != (i64)stream->message_bytes)
			return outcome;
	}
	outcome.acknowledged = inet_receive(stream->socket, &acknowledgement, 1);
	return outcome;
}

static void check(const struct stream *stream, struct outcome outcome)
{
	if (outcome.sent != (i64)stream->message_bytes)
		fail("message", "of the near end", outcome.sent);
	if (outcome.acknowledged != 1)
		fail("acknowledgement", "at the near end", outcome.acknowledged);
}

static void measure(const struct stream *stream, u64 windows)
{
	for (u64 i = 0; i < windows; i++) {
		mark(MARK_BEGIN);
		struct outcome outcome = window(stream);
		mark(MARK_END);
		check(stream, outcome);
	}
}

void command_tcp(char **words)
{
	u64 phase = number("PHASE", words[0], 0, PHASE_MAX);
	u64 bytes = number("SIZE", words[3], 1, MESSAGE_BYTES_MAX);
	u64 windows = number("WINDOWS", words[4], 1, WINDOWS_MAX);
	u64 messages = messages_in_window(bytes);
	struct service service = {TCP, receive, messages * bytes, warm_up_windows(WARM_UP_WINDOWS) + windows};
	struct pair pair;

	pair_start(&pair, words[1], words[2], &service);
	struct stream stream = {pair_connect(&service), buffer(bytes), bytes, messages};
	settle();
	for (u64 i = 0; i < service.rounds - windows; i++)
		check(&stream, window(&stream));
	mark_phase(phase, messages);
	measure(&stream, windows);
	pair_end(&pair);
	done("tcp", windows);
}
