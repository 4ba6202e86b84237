/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands at a few places of a JSON text, in one pass and without building it: an answer of ten thousand
 * events a second is looked at, not read. Pure; allocates nothing.
 *
 * The text is not validated beyond what finding needs: what is no JSON gives -EINVAL or nothing found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_SCAN_WANTED_MAX 16
#define JSON_SCAN_DEPTH_MAX  64
#define JSON_SCAN_STEPS_MAX  7

enum json_kind {
    JSON_ABSENT,
    JSON_SCAN_NULL,
    JSON_SCAN_BOOL,
    JSON_SCAN_NUMBER,
    JSON_SCAN_STRING, /* `at` and `size` are of what stands between the quotes, escaped as it is */
    JSON_SCAN_OBJECT,
    JSON_SCAN_ARRAY,
};

struct json_found {
    enum json_kind kind;
    const char *at; /* into the text */
    size_t size;
};

struct json_wanted {
    const char
        *steps[JSON_SCAN_STEPS_MAX + 1]; /* names of members, indexes of arrays; NULL behind the last */
};

/* ret: n of them, of the n <= JSON_SCAN_WANTED_MAX wanted. Of equal members the last counts. */
int json_scan(const char *text, size_t size, const struct json_wanted *wanted, size_t n,
              struct json_found *ret);
/* The first string that is a value and not empty. */
bool json_scan_any_string(const char *text, size_t size, struct json_found *ret);
bool json_found_text(const struct json_found *f); /* a string, and not empty */
/* -1 where it is no whole number, 0 to 2^53. */
int64_t json_found_count(const struct json_found *f);
