/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format, sample by sample. Pure: what it yields is borrowed from the text, which need not
 * end in a NUL. Comments, lines that are no sample, and values that are no number are passed over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct prometheus_text {
    const char *next, *end;
};

struct prometheus_sample {
    const char *name;
    size_t name_len;
    const char *labels; /* between the braces */
    size_t labels_len;
    double value; /* finite */
};

struct prometheus_text prometheus_text(const char *text, size_t size);
/* False at the end. */
bool prometheus_next(struct prometheus_text *text, struct prometheus_sample *ret);
bool prometheus_is(const struct prometheus_sample *sample, const char *name);
/* The value of a label as it stands between its quotes, escapes and all; false where there is none. */
bool prometheus_label(const struct prometheus_sample *sample, const char *label, const char **ret,
                      size_t *ret_len);
