#include "pair.h"

#include "processor.h"
#include "report.h"
#include "system.h"

#define NEAR_HOST 0x0a090001u /* 10.9.0.1 */
#define FAR_HOST 0x0a090002u  /* 10.9.0.2 */
#define PORT 9000

enum news { APART = 'a', SERVING = 's' };

static void tell(i64 pipe, enum news news)
{
	u8 byte = (u8)news;
	i64 result = sys_write(pipe, &byte, 1);

	if (result != 1)
		fail("write", "to the near end", result);
}

static void hear(const struct pair *pair, enum news news)
{
	u8 byte = 0;
	i64 result = sys_read(pair->news, &byte, 1);

	/* 0: the child has ended, and said why. */
	if (result != 1 || byte != news)
		fail("far end", pair->far.name, result);
}

_Noreturn static void far_end(const struct pair *pair, const struct service *service, i64 news)
{
	struct link link;
	i64 result = sys_unshare(CLONE_NEWNET);

	if (result < 0)
		fail("unshare", "network", result);
	links_without_ipv6();
	tell(news, APART);
	link_open(&link, pair->far.name);
	link_up(&link, FAR_HOST);
	link_know(&link, NEAR_HOST, pair->near.mac);
	i64 server = inet_server(service->transport, inet_address(FAR_HOST, PORT));
	tell(news, SERVING);
	service->serve(server, service);
	sys_exit(0);
}

static void start_child(struct pair *pair, const struct service *service)
{
	i32 ends[2];
	i64 result = sys_pipe(ends);

	if (result < 0)
		fail("pipe2", "from the far end", result);
	pair->news = ends[0];
	pair->child = spawn();
	if (pair->child == 0)
		far_end(pair, service, ends[1]);
	/* With this copy open the end of the child would not be the end of the pipe. */
	sys_close(ends[1]);
}

void pair_start(struct pair *pair, const char *near, const char *far, const struct service *service)
{
	link_open(&pair->near, near);
	link_open(&pair->far, far);
	start_child(pair, service);
	hear(pair, APART);
	link_move(&pair->far, pair->child);
	link_up(&pair->near, NEAR_HOST);
	link_know(&pair->near, FAR_HOST, pair->far.mac);
	hear(pair, SERVING);
}

i64 pair_connect(const struct service *service)
{
	return inet_client(service->transport, inet_address(FAR_HOST, PORT));
}

void pair_end(struct pair *pair)
{
	const char *far = pair->far.name;

	join(pair->child, "the pair");
	link_down(&pair->near);
	/* The kernel takes a namespace down in its own time; a physical interface then returns to the first one. */
	link_open(&pair->far, far);
}
