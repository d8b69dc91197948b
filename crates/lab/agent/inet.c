#include "inet.h"

#include "report.h"
#include "system.h"

#define SOL_SOCKET 1
#define SO_LINGER 13
#define SOL_TCP 6
#define TCP_NODELAY 1

static const struct time timeout = {5, 0};

/* struct linger: closing a connection resets it. One that closes in order outlives its process, and its namespace. */
static const struct {
	i32 on;
	i32 seconds;
} no_linger = {1, 0};

struct inet_address inet_address(u32 host, u16 port)
{
	return (struct inet_address){
		.family = AF_INET,
		.port = __builtin_bswap16(port),
		.host = __builtin_bswap32(host),
	};
}

static void set(i64 socket, u64 level, u64 option, const void *value, u64 bytes)
{
	i64 result = system_call(NR_setsockopt, socket, level, option, (u64)value, bytes, 0);

	if (result < 0)
		fail("setsockopt", "on a socket", result);
}

static void configure(i64 socket, enum transport transport)
{
	i32 yes = 1;

	set(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	set(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (transport == UDP)
		return;
	set(socket, SOL_SOCKET, SO_LINGER, &no_linger, sizeof(no_linger));
	set(socket, SOL_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

i64 inet_socket(enum transport transport)
{
	i64 fd = system_call(NR_socket, AF_INET, transport, 0, 0, 0, 0);

	if (fd < 0)
		fail("socket", "AF_INET", fd);
	configure(fd, transport);
	return fd;
}

i64 inet_server(enum transport transport, struct inet_address address)
{
	i64 fd = inet_socket(transport);
	i64 result = system_call(NR_bind, fd, (u64)&address, sizeof(address), 0, 0, 0);

	if (result < 0)
		fail("bind", "the server", result);
	if (transport == TCP && (result = system_call(NR_listen, fd, 1, 0, 0, 0, 0)) < 0)
		fail("listen", "at the far end", result);
	return fd;
}

i64 inet_client(enum transport transport, struct inet_address address)
{
	i64 fd = inet_socket(transport);
	i64 result = system_call(NR_connect, fd, (u64)&address, sizeof(address), 0, 0, 0);

	if (result < 0)
		fail("connect", "to the server", result);
	return fd;
}

i64 inet_accept(i64 server)
{
	i64 fd = system_call(NR_accept, server, 0, 0, 0, 0, 0);

	if (fd < 0)
		fail("accept", "at the far end", fd);
	configure(fd, TCP);
	return fd;
}

i64 inet_send(i64 socket, const u8 *data, u64 bytes)
{
	return system_call(NR_sendto, socket, (u64)data, bytes, 0, 0, 0);
}

i64 inet_receive(i64 socket, u8 *data, u64 bytes)
{
	return system_call(NR_recvfrom, socket, (u64)data, bytes, 0, 0, 0);
}
