/*
 * Two interfaces joined outside the machine, one of them in a network namespace of its own: between two
 * addresses of one namespace the kernel would take the loopback device instead of the adapters.
 *
 *   this process, NEAR_HOST -- near interface == wire == far interface -- FAR_HOST, a child that serves
 */
#ifndef PAIR_H
#define PAIR_H

#include "inet.h"
#include "link.h"

/* What the far end does: with its bound socket (TCP: listening) until all was served. */
struct service {
	enum transport transport;
	void (*serve)(i64 socket, const struct service *service);
	u64 bytes;
	u64 rounds;
};

struct pair {
	struct link near;
	struct link far;
	i64 child;
	i64 news; /* a pipe the child reports its progress through */
};

/* Sets both ends up and returns when the far one serves. */
void pair_start(struct pair *pair, const char *near, const char *far, const struct service *service);

/* A socket of this end, connected to the far one. */
i64 pair_connect(const struct service *service);

/* Waits until the far end has served all and its interface is back, so that the next pair finds it. */
void pair_end(struct pair *pair);

#endif
