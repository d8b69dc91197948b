#include "link.h"

#include "inet.h"
#include "processor.h"
#include "report.h"
#include "setting.h"
#include "system.h"

#define NAME_BYTES 16
#define NETMASK 0xffffff00u
#define PATIENCE_MS 10000
#define PAUSE_MS 10
/* LINKWATCH in net/core/link_watch.c handles what happened to carriers once a second. */
#define LINKWATCH_MS 1200

/* include/uapi/linux/sockios.h, if.h, if_arp.h */
#define SIOCGIFFLAGS 0x8913
#define SIOCSIFFLAGS 0x8914
#define SIOCSIFADDR 0x8916
#define SIOCSIFNETMASK 0x891c
#define SIOCGIFHWADDR 0x8927
#define SIOCGIFINDEX 0x8933
#define SIOCSARP 0x8955
#define IFF_UP 0x1
#define IFF_RUNNING 0x40
#define ATF_COM 0x02
#define ATF_PERM 0x04
#define ARPHRD_ETHER 1

struct hardware_address {
	u16 family;
	u8 mac[6];
	u8 unused[8];
};

/* struct ifreq */
struct interface_request {
	char name[NAME_BYTES];
	union {
		struct inet_address address;
		struct hardware_address hardware;
		u16 flags;
		i32 index;
		u8 room[24];
	};
};

_Static_assert(sizeof(struct interface_request) == 40, "as in the kernel's header");

/* struct arpreq */
struct neighbour_request {
	struct inet_address protocol;
	struct hardware_address hardware;
	u32 flags;
	struct inet_address netmask;
	char name[NAME_BYTES];
};

_Static_assert(sizeof(struct neighbour_request) == 68, "as in the kernel's header");

/* include/uapi/linux/netlink.h, rtnetlink.h, if_link.h */
#define AF_NETLINK 16
#define SOCK_RAW 3
#define RTM_NEWLINK 16
#define NLM_F_REQUEST 1
#define NLM_F_ACK 4
#define NLMSG_ERROR 2
#define IFLA_NET_NS_PID 19

struct netlink_header {
	u32 bytes;
	u16 type;
	u16 flags;
	u32 sequence;
	u32 port;
};

/* struct ifinfomsg and one attribute behind it */
struct move_request {
	struct netlink_header header;
	u8 family, unused;
	u16 type;
	i32 index;
	u32 flags, change;
	u16 attribute_bytes, attribute_type;
	u32 process;
};

_Static_assert(sizeof(struct move_request) == 40, "no padding");

/* struct nlmsgerr, which is followed by what was asked */
struct move_answer {
	struct netlink_header header;
	i32 error;
	struct move_request asked;
};

static void put_name(char to[NAME_BYTES], const char *name)
{
	u64 i = 0;

	for (; name[i] != 0; i++) {
		if (i == NAME_BYTES - 1)
			fail("interface name too long:", name, -EINVAL);
		to[i] = name[i];
	}
	for (; i < NAME_BYTES; i++)
		to[i] = 0;
}

static i64 try_request(const struct link *link, u64 what, struct interface_request *request)
{
	put_name(request->name, link->name);
	return sys_ioctl(link->control, what, request);
}

static void request(const struct link *link, const char *what, u64 number, struct interface_request *request)
{
	i64 result = try_request(link, number, request);

	if (result < 0)
		fail(what, link->name, result);
}

void link_open(struct link *link, const char *name)
{
	struct interface_request index = {.index = 0};
	struct interface_request hardware = {.index = 0};
	i64 result;

	link->name = name;
	link->control = inet_socket(UDP);
	for (u64 waited_ms = 0; (result = try_request(link, SIOCGIFINDEX, &index)) < 0; waited_ms += PAUSE_MS) {
		if (waited_ms == PATIENCE_MS)
			fail("waited for interface", name, result);
		sleep_ms(PAUSE_MS);
	}
	request(link, "hardware address of", SIOCGIFHWADDR, &hardware);
	for (u64 i = 0; i < sizeof(link->mac); i++)
		link->mac[i] = hardware.hardware.mac[i];
}

static void without_ipv6(const char *name)
{
	struct setting setting;

	setting_of(&setting, "/proc/sys/net/ipv6/conf/", name, "/disable_ipv6");
	i64 result = setting_write(&setting, "1");
	/* No such file: a kernel without IPv6, or one told so. */
	if (result < 0 && result != -ENOENT)
		fail("write", setting.path, result);
}

void links_without_ipv6(void)
{
	without_ipv6("default");
}

static u16 flags(const struct link *link)
{
	struct interface_request now = {.index = 0};

	request(link, "flags of", SIOCGIFFLAGS, &now);
	return now.flags;
}

static void set_flags(const struct link *link, u16 flags)
{
	struct interface_request wanted = {.flags = flags};

	request(link, "set flags of", SIOCSIFFLAGS, &wanted);
}

/*
 * IFF_RUNNING lags behind the carrier: right after an interface came up it can still tell of the carrier
 * it had before it went down, and what is sent then is dropped. (The ethtool ioctl for the link is no way
 * out: drivers answer it with the wire's state, before their interface has a carrier.)
 */
static void wait_running(const struct link *link)
{
	sleep_ms(LINKWATCH_MS);
	for (u64 waited_ms = 0; !(flags(link) & IFF_RUNNING); waited_ms += PAUSE_MS) {
		if (waited_ms == PATIENCE_MS)
			fail("waited for a carrier on", link->name, flags(link));
		sleep_ms(PAUSE_MS);
	}
}

void link_up(const struct link *link, u32 host)
{
	struct interface_request address = {.address = inet_address(host, 0)};
	struct interface_request netmask = {.address = inet_address(NETMASK, 0)};

	without_ipv6(link->name);
	request(link, "set address of", SIOCSIFADDR, &address);
	request(link, "set netmask of", SIOCSIFNETMASK, &netmask);
	set_flags(link, flags(link) | IFF_UP);
	wait_running(link);
}

void link_down(const struct link *link)
{
	set_flags(link, flags(link) & ~IFF_UP);
}

void link_know(const struct link *link, u32 host, const u8 mac[6])
{
	struct neighbour_request neighbour = {
		.protocol = inet_address(host, 0),
		.hardware.family = ARPHRD_ETHER,
		.flags = ATF_COM | ATF_PERM,
	};

	put_name(neighbour.name, link->name);
	for (u64 i = 0; i < sizeof(neighbour.hardware.mac); i++)
		neighbour.hardware.mac[i] = mac[i];
	i64 result = sys_ioctl(link->control, SIOCSARP, &neighbour);
	if (result < 0)
		fail("neighbour on", link->name, result);
}

static i32 link_index(const struct link *link)
{
	struct interface_request found = {.index = 0};

	request(link, "index of", SIOCGIFINDEX, &found);
	return found.index;
}

void link_move(const struct link *link, i64 process)
{
	struct move_request move = {
		.header = {sizeof(move), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0},
		.index = link_index(link),
		.attribute_bytes = 8,
		.attribute_type = IFLA_NET_NS_PID,
		.process = (u32)process,
	};
	struct move_answer answer = {.error = -EINVAL};
	i64 route = system_call(NR_socket, AF_NETLINK, SOCK_RAW, 0, 0, 0, 0);

	if (route < 0)
		fail("netlink socket for", link->name, route);
	i64 sent = inet_send(route, (u8 *)&move, sizeof(move));
	if (sent < 0)
		fail("ask to move", link->name, sent);
	i64 got = inet_receive(route, (u8 *)&answer, sizeof(answer));
	if (got < 0 || answer.header.type != NLMSG_ERROR)
		fail("answer to the move of", link->name, got);
	if (answer.error < 0)
		fail("move", link->name, answer.error);
	sys_close(route);
}
