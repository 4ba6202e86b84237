/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens that no server counted are counted after the run by the worker's tokenizer: outputs from the texts
 * that were kept, inputs of given prompts. For COUNTING_NS at the longest; what is left stays as it was
 * marked.
 */
#pragma once

#include "daemon/load/ask.h"
#include "daemon/load/records.h"

struct counting;

struct counting_setup {
    struct event_base *base;
    struct caller *caller;
    const struct order *order;
    const char *model;
    const struct prompts *prompts;
    const struct target *targets;
    struct records *records;
    void (*done)(void *arg); /* once, never before counting_start() returns; nothing is kept any more */
    void *arg;
};

struct counting *counting_start(const struct counting_setup *setup);
/* Calls are the caller's: caller_free() comes before. */
struct counting *counting_free(struct counting *c);
