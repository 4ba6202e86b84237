/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of the system calls that a child of profd may use: all others are refused. A child lists its own calls
 * in tables of rules; those for memory, time and exit, which every child needs, are here.
 *
 * Names of calls that an architecture does not have (poll of aarch64) have no effect there.
 */
#pragma once

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* A call that is allowed where its arguments match n of `args`; with any arguments where n is 0. */
struct filter_rule {
    int call;
    unsigned n;
    struct scmp_arg_cmp args[3];
};

/* For rules: none of these flags, exactly this value. */
#define FILTER_WITHOUT(arg, flags)                                                                           \
    {                                                                                                        \
        arg, SCMP_CMP_MASKED_EQ, flags, 0                                                                    \
    }
#define FILTER_EQUAL(arg, value)                                                                             \
    {                                                                                                        \
        arg, SCMP_CMP_EQ, (scmp_datum_t)(value), 0                                                           \
    }

/* Allows memory that is never executable, the time, and exit. `otherwise` is the action for calls that are not
 * on the list: SCMP_ACT_KILL_PROCESS, SCMP_ACT_ERRNO(EPERM). NULL: no memory. */
scmp_filter_ctx filter_new(uint32_t otherwise);
/* 0 or a negative errno value, as for filter_load(), which holds for all threads and releases the filter. */
int filter_allow(scmp_filter_ctx filter, const struct filter_rule *rules, size_t n);
int filter_load(scmp_filter_ctx filter);
