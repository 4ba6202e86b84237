/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single keys of a terminal, for a display that goes on until somebody ends it. The terminal's modes are
 * changed by keys_open() and put back by keys_close(); Ctrl-C and SIGTERM arrive here meanwhile, so that
 * nothing ends in between.
 */
#pragma once

#include <stdint.h>
#include <termios.h>

struct keys {
    int fd; /* -1: standard input is no terminal */
    int signal_fd;
    struct termios before;
};

#define KEY_NONE (-1)
#define KEY_END  3 /* Ctrl-C, or a signal that asks for the end */

void keys_open(struct keys *k);
void keys_close(struct keys *k);
/* Waits for a key, at most until the deadline (monotonic): its byte, KEY_END or KEY_NONE. */
int keys_wait(struct keys *k, int64_t deadline_ns);
