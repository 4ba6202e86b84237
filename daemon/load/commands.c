/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/commands.h"

#include "base/alloc.h"
#include <errno.h>
#include <event2/util.h>
#include <signal.h>

#define WORD_MAX 16

struct commands {
    int fd;
    struct event *readable, *term, *interrupt;
    char word[WORD_MAX]; /* the line so far */
    size_t size;
    void (*go)(void *arg), (*stop)(void *arg);
    void *arg;
};

static void take_word(struct commands *c)
{
    c->word[c->size] = '\0';
    c->size = 0;
    if (streq(c->word, "go"))
        c->go(c->arg);
    else if (streq(c->word, "stop"))
        c->stop(c->arg);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct commands *c = arg;
    char bytes[64];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        event_del(c->readable);
        c->stop(c->arg);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            take_word(c);
        else if (c->size < WORD_MAX - 1)
            c->word[c->size++] = bytes[i];
    }
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct commands *c = arg;
    c->stop(c->arg);
}

int commands_new(struct event_base *base, int fd, void (*go)(void *arg), void (*stop)(void *arg), void *arg,
                 struct commands **ret)
{
    struct commands *c = xcalloc(1, sizeof(*c));

    *c = (struct commands){.fd = fd, .go = go, .stop = stop, .arg = arg};
    c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->term = evsignal_new(base, SIGTERM, on_signal, c);
    c->interrupt = evsignal_new(base, SIGINT, on_signal, c);
    if (!c->readable || !c->term || !c->interrupt || evutil_make_socket_nonblocking(fd) < 0 ||
        event_add(c->readable, NULL) < 0 || event_add(c->term, NULL) < 0 ||
        event_add(c->interrupt, NULL) < 0) {
        commands_free(c);
        return -EIO;
    }
    *ret = c;
    return 0;
}

struct commands *commands_free(struct commands *c)
{
    if (!c)
        return NULL;
    struct event *const events[] = {c->readable, c->term, c->interrupt};
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i])
            event_free(events[i]);
    free(c);
    return NULL;
}
