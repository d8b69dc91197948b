/* IPv4 sockets. */
#ifndef INET_H
#define INET_H

#include "number.h"

/* include/uapi/linux/{socket,in,net,tcp}.h, asm-generic/socket.h; the same on the three architectures */
#define AF_INET 2
#define SOCK_STREAM 1
#define SOCK_DGRAM 2

enum transport { UDP = SOCK_DGRAM, TCP = SOCK_STREAM };

struct inet_address {
	u16 family;
	u16 port; /* big endian, like the next */
	u32 host;
	u8 unused[8];
};

_Static_assert(sizeof(struct inet_address) == 16, "struct sockaddr_in");

struct inet_address inet_address(u32 host, u16 port);

/* A socket whose operations give up after five seconds; TCP sends at once. */
i64 inet_socket(enum transport transport);

/* Bound to the address; TCP listens. */
i64 inet_server(enum transport transport, struct inet_address address);

/* Connected to the address. */
i64 inet_client(enum transport transport, struct inet_address address);

/* The first connection that comes. */
i64 inet_accept(i64 server);

i64 inet_send(i64 socket, const u8 *data, u64 bytes);
i64 inet_receive(i64 socket, u8 *data, u64 bytes);

#endif
