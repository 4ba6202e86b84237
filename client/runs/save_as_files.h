/* SPDX-License-Identifier: Apache-2.0 */
/* --save-as: writes a benchmark run as the files of another tool (save_as.h makes their contents). */
#pragma once

#include "client/transport/connection.h"

struct save_as_options {
    const char *format, *output;
};

/* Lines of an option table, for a member of that name in the verb's options. */
/* clang-format off */
#define SAVE_AS_OPTIONS(type, m) \
    {"save-as", 0, "FORMAT", OPTION_TEXT, offsetof(type, m.format), "Write the run in the format of vllm-bench or aiperf"}, \
    {"output", 'o', "FILE", OPTION_TEXT, offsetof(type, m.output), "File of --save-as, - for standard output (aiperf: a directory, or a .json for its summary alone; default: r3.FORMAT)"}
/* clang-format on */

/* 0 or the problem, before anything is measured. */
int save_as_check(const struct save_as_options *s, struct problem *p);
/* Writes the file that the options name. An exit status. */
int save_as_write(struct client *c, const struct save_as_options *s, const json_t *run);
