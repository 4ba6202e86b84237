/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that asking many workers takes: requests without a body one after another on one connection to each, all connections at
 * a time, and answers that are counted and not looked at. What fanout.py compares profd with.
 *
 *   http-calls "METHOD PATH"... < ADDRESSES
 *
 * ADDRESSES are lines of "127.0.0.1:PORT". Prints the milliseconds from the first connect() to the last answer.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/util.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define ANSWER_MAX   (64 << 10)
#define EVENTS       256
#define AT_ONCE      256 /* as profd */
#define ADDRESS_LINE 64

struct peer {
    struct sockaddr_in address;
    char name[ADDRESS_LINE];
    int fd, n_asked;
};

struct client {
    int epoll, n_requests;
    char **requests;
    struct peer *peers;
    size_t n, cap, next, n_left;
};

static int ask(struct client *c, struct peer *p)
{
    char request[512];
    int n = snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n",
                     c->requests[p->n_asked++], p->name);

    return send(p->fd, request, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -errno;
}

static int begin(struct client *c)
{
    struct peer *p = &c->peers[c->next++];
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};

    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&p->address, sizeof(p->address)) < 0 ||
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, p->fd, &e) < 0)
        return -errno;
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return ask(c, p);
}

/* Answers of the fault workers come in one piece. An engine does not have each path that it is asked for. */
static int take_answer(struct client *c, struct peer *p)
{
    static char answer[ANSWER_MAX];
    ssize_t n = recv(p->fd, answer, sizeof(answer), 0);

    if (n < 12 || memcmp(answer, "HTTP/1.1 ", 9) != 0)
        return -EPROTO;
    if (p->n_asked < c->n_requests)
        return ask(c, p);
    close(p->fd);
    c->n_left--;
    return c->next < c->n ? begin(c) : 0;
}

static int run(struct client *c)
{
    struct epoll_event events[EVENTS];
    int r = 0;

    while (r == 0 && c->next < MIN(c->n, (size_t)AT_ONCE))
        r = begin(c);
    while (r == 0 && c->n_left > 0) {
        int n = epoll_wait(c->epoll, events, EVENTS, -1);
        for (int i = 0; i < n && r == 0; i++)
            r = take_answer(c, events[i].data.ptr);
    }
    return r;
}

static void read_peers(struct client *c)
{
    char line[ADDRESS_LINE];

    while (fgets(line, sizeof(line), stdin)) {
        struct peer p = {.address = {.sin_family = AF_INET}};
        char host[ADDRESS_LINE];
        unsigned port;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%63[0-9.]:%u", host, &port) != 2 ||
            inet_pton(AF_INET, host, &p.address.sin_addr) != 1)
            continue;
        p.address.sin_port = htons((uint16_t)port);
        strcpy(p.name, line);
        VEC_GROW(c->peers, c->n, c->cap);
        c->peers[c->n++] = p;
    }
}

int main(int argc, char **argv)
{
    struct client c = {.epoll = epoll_create1(EPOLL_CLOEXEC), .n_requests = argc - 1, .requests = argv + 1};

    if (argc < 2) {
        fprintf(stderr, "http-calls \"METHOD PATH\"... < ADDRESSES\n");
        return EXIT_FAILURE;
    }
    read_peers(&c);
    c.n_left = c.n;
    int64_t began = mono_ns();
    int r = run(&c);
    if (r < 0)
        fprintf(stderr, "http-calls: %s\n", strerror(-r));
    else
        printf("%.3f\n", (double)(mono_ns() - began) / NS_PER_MS);
    free(c.peers);
    close(c.epoll);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
