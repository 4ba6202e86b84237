/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd-load as a child of profd: its descriptors (proto/load.h), its limits, the lines that it sends and its
 * end. This module does not interpret the lines.
 *
 * The child is identified by its pidfd alone. It ends by itself when profd ends. When load_child_free()
 * returns, the child is always gone and reaped.
 */
#pragma once

#include "base/util.h"
#include "proto/load.h"

struct event_base;
struct load_child;

struct load_child_handlers {
    /* A line without its end; borrowed. The bytes of one iteration of the loop are bounded. */
    void (*line)(const char *text, size_t size, void *arg);
    /* Once, after the last line. fate: why it did not end well, else NULL. Nothing of the child is used
     * afterwards; the function may free it. */
    void (*ended)(const char *fate, void *arg);
    void *arg;
};

/* memory_max: bytes of data that it may have. 0 or -errno. */
int load_child_start(struct event_base *base, const char *program, int64_t memory_max, const char *spec,
                     size_t size, const struct load_child_handlers *handlers, struct load_child **ret);
/* "go", "stop". */
void load_child_command(struct load_child *c, const char *word);
/* Ends it at once; the first fate is what counts. No line is handed on any more; ended() comes later. */
void load_child_kill(struct load_child *c, const char *format, ...) _printf_(2, 3);
/* Without a further word to the handlers. */
struct load_child *load_child_free(struct load_child *c);
