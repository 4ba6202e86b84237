/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stream-server and the kernel allow: sends requests as profd-load does and reads the responses as fast as they
 * come, without looking at them. A response ends with its last chunk.
 *
 *   stream-reader PORT REQUESTS CONCURRENCY TOKENS
 *
 * Prints a line of JSON: the seconds from the first request to the last response, and those of the processor.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define EVENTS      256
#define BUFFER      (64 << 10)
#define CONNECT_MAX 10000

static const char last_chunk[] = "\r\n0\r\n\r\n";

static void send_request(int fd, long number, long tokens)
{
    char body[256], request[512];
    int size =
        snprintf(body, sizeof(body),
                 "{\"model\":\"nothing\",\"max_tokens\":%ld,\"stream\":true,\"prompt\":\"request %ld\"}",
                 tokens, number);
    int n = snprintf(request, sizeof(request),
                     "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", size,
                     body);

    if (send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        abort();
}

static int connect_to(int port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        abort();
    return fd;
}

static double processor_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    static char buffer[BUFFER];
    struct epoll_event events[EVENTS];
    const size_t end_size = sizeof(last_chunk) - 1;

    if (argc != 5) {
        fprintf(stderr, "usage: stream-reader PORT REQUESTS CONCURRENCY TOKENS\n");
        return 2;
    }
    long requests = atol(argv[2]), streams = atol(argv[3]), tokens = atol(argv[4]), sent = 0, ended = 0;
    int queue = epoll_create1(EPOLL_CLOEXEC);
    double begun_s = processor_s();
    int64_t begun_ns = mono_ns();

    for (; sent < MIN(streams, requests); sent++) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = connect_to(atoi(argv[1]))};
        epoll_ctl(queue, EPOLL_CTL_ADD, e.data.fd, &e);
        send_request(e.data.fd, sent, tokens);
    }
    while (ended < requests) {
        int n = epoll_wait(queue, events, EVENTS, 0);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            ssize_t size = recv(fd, buffer, sizeof(buffer), 0);
            if (size <= 0)
                abort();
            if ((size_t)size < end_size ||
                memcmp(buffer + (size_t)size - end_size, last_chunk, end_size) != 0)
                continue;
            ended++;
            if (sent < requests)
                send_request(fd, sent++, tokens);
        }
    }
    printf("{\"duration_s\": %.6f, \"cpu_s\": %.6f}\n", (double)(mono_ns() - begun_ns) / 1e9,
           processor_s() - begun_s);
    return 0;
}
