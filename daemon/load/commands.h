/* SPDX-License-Identifier: Apache-2.0 */
/* What profd says while profd-load works: "go", "stop" (proto/load.h); SIGTERM and SIGINT are "stop". */
#pragma once

#include <event2/event.h>

struct commands;

int commands_new(struct event_base *base, int fd, void (*go)(void *arg), void (*stop)(void *arg), void *arg,
                 struct commands **ret);
struct commands *commands_free(struct commands *c);
