/* A network interface: its address, its state, the namespace it is in. */
#ifndef LINK_H
#define LINK_H

#include "number.h"

struct link {
	const char *name;
	i64 control; /* a socket of the namespace the interface was found in */
	u8 mac[6];
};

/* Waits, ten seconds at most, until the interface is in this process's namespace. */
void link_open(struct link *link, const char *name);

/* Brings the interface up as host/24 and waits, ten seconds at most, until it runs. No IPv6 on it. */
void link_up(const struct link *link, u32 host);

void link_down(const struct link *link);

/* Enters a neighbour for good, so that no ARP request falls into a window. */
void link_know(const struct link *link, u32 host, const u8 mac[6]);

/* Moves the interface into the network namespace of another process. */
void link_move(const struct link *link, i64 process);

/* No IPv6 on interfaces that come into this process's namespace from now on: its discovery is traffic too. */
void links_without_ipv6(void);

#endif
