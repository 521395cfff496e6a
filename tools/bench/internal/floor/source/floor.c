// floor: what a request costs without HTTP. An epoll server that parses nothing:
// for every "\r\n\r\n" that it reads, it writes the same response.
//
//   floor PORT PROCESSES CLOSE RESPONSE_FILE
//
// It listens on 127.0.0.1:PORT with PROCESSES processes, each with a socket of
// its own. With CLOSE 1, a connection is closed after its first responses.
// Bodies of requests must not have an empty line.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 512, INPUT = 64 << 10, BATCH = 64, PENDING_SIZE = 1 << 20 };

// What a connection has to be remembered by: how far into an empty line its
// input was, and how much of the responses is still to be written.
struct connection {
	unsigned char matched; // bytes of "\r\n\r\n"
	unsigned char waits;   // for the socket to take more
	unsigned int unsent;   // bytes, the last ones of whole responses
};

static const char *response;
static unsigned int response_size;
static char *batch; // BATCH responses, or one if they are long
static unsigned int batch_responses;
static int closes;
static struct connection *connections;
static int poller;

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void watch(int fd, unsigned int events, int operation) {
	struct epoll_event event = {.events = events, .data.fd = fd};
	if (epoll_ctl(poller, operation, fd, &event) < 0) fail("epoll_ctl");
}

static void finish(int fd) {
	connections[fd] = (struct connection){0};
	close(fd);
}

// count_heads returns how many heads end in the input.
static unsigned int count_heads(struct connection *c, const char *in, ssize_t size) {
	unsigned int heads = 0, matched = c->matched;
	const char *end = in + size;
	while (in < end) {
		if (matched == 0) {
			in = memchr(in, '\r', end - in);
			if (in == NULL) break;
			in++;
			matched = 1;
			continue;
		}
		char next = *in++;
		if (next == "\r\n\r\n"[matched])
			matched++;
		else
			matched = next == '\r';
		if (matched == 4) {
			heads++;
			matched = 0;
		}
	}
	c->matched = matched;
	return heads;
}

// flush writes what is unsent. It returns 0 if the connection is no more.
static int flush(int fd) {
	struct connection *c = &connections[fd];
	while (c->unsent > 0) {
		// The rest of a response first, then whole ones.
		unsigned int part = c->unsent % response_size;
		const char *from = batch;
		unsigned int size = c->unsent;
		if (part > 0) {
			from = response + response_size - part;
			size = part;
		} else if (size > batch_responses * response_size) {
			size = batch_responses * response_size;
		}
		ssize_t n = send(fd, from, size, MSG_NOSIGNAL);
		if (n < 0) {
			if (errno != EAGAIN) {
				finish(fd);
				return 0;
			}
			if (!c->waits) watch(fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
			c->waits = 1;
			return 1;
		}
		c->unsent -= n;
	}
	if (c->waits) watch(fd, EPOLLIN, EPOLL_CTL_MOD);
	c->waits = 0;
	return 1;
}

static void serve(int fd) {
	static char input[INPUT];
	struct connection *c = &connections[fd];
	ssize_t n = recv(fd, input, sizeof input, 0);
	if (n < 0 && errno == EAGAIN) return;
	if (n <= 0) {
		finish(fd);
		return;
	}
	unsigned int heads = count_heads(c, input, n);
	if (heads == 0) return;
	c->unsent += heads * response_size;
	if (flush(fd) && closes && c->unsent == 0) finish(fd);
}

static void take(int listener) {
	for (int i = 0; i < 16; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		if (fd < 0) return;
		watch(fd, EPOLLIN, EPOLL_CTL_ADD);
	}
}

static void run(int port) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
	if (listener < 0) fail("socket");
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) fail("SO_REUSEADDR");
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0) fail("SO_REUSEPORT");
	if (setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) fail("TCP_NODELAY");
	if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0) fail("bind");
	if (listen(listener, 4096) < 0) fail("listen");
	if ((poller = epoll_create1(0)) < 0) fail("epoll_create1");
	watch(listener, EPOLLIN, EPOLL_CTL_ADD);
	for (struct epoll_event events[EVENTS];;) {
		int n = epoll_wait(poller, events, EVENTS, -1);
		if (n < 0 && errno != EINTR) fail("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd == listener)
				take(listener);
			else if (!(events[i].events & EPOLLOUT) || flush(fd)) {
				if (closes && connections[fd].waits == 0 && events[i].events & EPOLLOUT)
					finish(fd);
				else if (events[i].events & ~EPOLLOUT)
					serve(fd);
			}
		}
	}
}

static void read_response(const char *name) {
	FILE *f = fopen(name, "rb");
	if (f == NULL) fail(name);
	fseek(f, 0, SEEK_END);
	response_size = ftell(f);
	rewind(f);
	batch_responses = response_size * BATCH <= PENDING_SIZE ? BATCH : 1;
	batch = malloc((size_t)batch_responses * response_size);
	if (batch == NULL || fread(batch, 1, response_size, f) != response_size) fail(name);
	for (unsigned int i = 1; i < batch_responses; i++) memcpy(batch + i * response_size, batch, response_size);
	response = batch;
	fclose(f);
}

int main(int argc, char **argv) {
	if (argc != 5) {
		fprintf(stderr, "usage: floor PORT PROCESSES CLOSE RESPONSE_FILE\n");
		return 2;
	}
	int port = atoi(argv[1]), processes = atoi(argv[2]);
	closes = atoi(argv[3]);
	read_response(argv[4]);
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) fail("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) fail("setrlimit");
	connections = calloc(limit.rlim_max < 1 << 20 ? limit.rlim_max : 1 << 20, sizeof *connections);
	if (connections == NULL) fail("calloc");
	for (int i = 1; i < processes; i++) {
		pid_t parent = getpid(), child = fork();
		if (child < 0) fail("fork");
		if (child > 0) continue;
		// A process ends with the first one, and did not miss its end.
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0) fail("prctl");
		if (getppid() != parent) return 1;
		break;
	}
	run(port);
}
