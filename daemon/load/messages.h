/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to profd (proto/load.h): lines of JSON out, commands in, both on the loop and without waiting.
 *
 * Lines that a slow reader has not taken are kept: few bytes, because requests are written only while
 * messages_accept().
 */
#pragma once

#include "daemon/load/records.h"
#include <event2/event.h>

struct messages;

struct messages_ops {
    void (*writable)(void *arg); /* messages_accept() again, or messages_are_broken() */
    void (*go)(void *arg);
    void (*stop)(void *arg); /* the command, its end of file, SIGTERM or SIGINT */
};

/* Borrows ops. */
int messages_new(struct event_base *base, int lines_fd, int commands_fd, const struct messages_ops *ops,
                 void *arg, struct messages **ret);
struct messages *messages_free(struct messages *m);
void messages_send(struct messages *m, json_t *line); /* takes the reference */
void messages_send_note(struct messages *m, const char *text, const char *remedy);
void messages_send_request(struct messages *m, const struct request_record *r, const char *target_url);
bool messages_accept(const struct messages *m);
/* Nobody reads any more. */
bool messages_are_broken(const struct messages *m);
/* Waits until everything is written, or deadline_ns. */
void messages_flush(struct messages *m, int64_t deadline_ns);
