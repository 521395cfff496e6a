// reference: what a million connections cost without a library. Servers and clients that
// only wait, receive and send.
//
//   reference serve ADDRESS PORT   echoes
//   reference hold WINDOW          connects and asks, as standard input says:
//     SOURCE SERVER PORT CONNS     ... that many connections; several lines
//     .                            ... are all: "CONNECTED FAILED" is printed
//     sweep                        each connection sends 8 bytes and gets them back,
//                                  WINDOW at a time: the number of answers is printed
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, MESSAGE = 8 };

// PATIENCE is how long a sweep waits for the next answer, in milliseconds.
enum { PATIENCE = 30 * 1000 };

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void watch(int poller, int fd) {
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

static struct sockaddr_in address(const char *ip, int port) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, ip, &at.sin_addr) != 1) fail(ip);
	return at;
}

static void say(const char *what, long a, long b) {
	if (printf(what, a, b) < 0 || fflush(stdout) != 0) fail("printf");
}

static void echo(int fd) {
	char message[1024];
	ssize_t n = recv(fd, message, sizeof message, 0);
	if (n < 0 && errno == EAGAIN) return;
	if (n <= 0 || send(fd, message, n, MSG_NOSIGNAL) != n) close(fd);
}

static void serve(const char *ip, int port) {
	struct sockaddr_in at = address(ip, port);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poller = epoll_create1(0), on = 1;
	if (listener < 0 || poller < 0) fail("socket");
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) fail("SO_REUSEADDR");
	if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0) fail("bind");
	if (listen(listener, 4096) < 0) fail("listen");
	watch(poller, listener);
	say("listening\n", 0, 0);
	for (struct epoll_event events[EVENTS];;) {
		int n = epoll_wait(poller, events, EVENTS, -1);
		if (n < 0 && errno != EINTR) fail("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd != listener) {
				echo(fd);
				continue;
			}
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) watch(poller, fd);
		}
	}
}

static int *connections;
static long count, failed;

// connect_to makes a connection. Its port is chosen when its other end is known.
static void connect_to(int poller, struct sockaddr_in source, struct sockaddr_in server) {
	struct linger reset = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (fd < 0) fail("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) < 0) fail("SO_LINGER");
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) < 0) fail("IP_BIND_ADDRESS_NO_PORT");
	if (bind(fd, (struct sockaddr *)&source, sizeof source) < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) < 0) {
		failed++;
		close(fd);
		return;
	}
	watch(poller, fd);
	connections[count++] = fd;
}

// sweep returns the number of answers.
static long sweep(int poller, long window) {
	static char message[MESSAGE];
	long sent = 0, answers = 0;
	struct epoll_event events[EVENTS];
	for (; sent < count && sent < window; sent++)
		if (send(connections[sent], message, MESSAGE, MSG_NOSIGNAL) != MESSAGE) fail("send");
	while (answers < count) {
		int n = epoll_wait(poller, events, EVENTS, PATIENCE);
		if (n == 0) return answers;
		if (n < 0 && errno != EINTR) fail("epoll_wait");
		for (int i = 0; i < n; i++) {
			char answer[MESSAGE];
			if (recv(events[i].data.fd, answer, MESSAGE, MSG_DONTWAIT) != MESSAGE) fail("recv");
			answers++;
			if (sent < count && send(connections[sent++], message, MESSAGE, MSG_NOSIGNAL) != MESSAGE) fail("send");
		}
	}
	return answers;
}

static void hold(long window, long most) {
	char line[256], source[64], server[64];
	int port, poller = epoll_create1(0);
	long conns;
	if (poller < 0) fail("epoll_create1");
	if ((connections = calloc(most, sizeof *connections)) == NULL) fail("calloc");
	while (fgets(line, sizeof line, stdin) != NULL) {
		if (strcmp(line, ".\n") == 0) {
			say("%ld %ld\n", count, failed);
		} else if (strcmp(line, "sweep\n") == 0) {
			say("%ld\n", sweep(poller, window), 0);
		} else if (sscanf(line, "%63s %63s %d %ld", source, server, &port, &conns) == 4 && count + conns <= most) {
			while (conns-- > 0) connect_to(poller, address(source, 0), address(server, port));
		} else {
			fprintf(stderr, "not understood: %s", line);
			exit(2);
		}
	}
}

int main(int argc, char **argv) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) fail("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) fail("setrlimit");
	if (argc == 4 && strcmp(argv[1], "serve") == 0) {
		serve(argv[2], atoi(argv[3]));
	} else if (argc == 3 && strcmp(argv[1], "hold") == 0) {
		hold(atol(argv[2]), limit.rlim_max);
	} else {
		fprintf(stderr, "usage: reference serve ADDRESS PORT | reference hold WINDOW\n");
		return 2;
	}
}
