/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds values at a few paths of a JSON text in one pass, without building a tree: streams have ten thousand events a
 * second. Pure; allocates nothing.
 *
 * The text is validated only as far as the search needs: a text that is not JSON gives -EINVAL or finds nothing.
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
    JSON_SCAN_STRING, /* `at` and `size` are of the escaped text between the quotes */
    JSON_SCAN_OBJECT,
    JSON_SCAN_ARRAY,
};

struct json_found {
    enum json_kind kind;
    const char *at; /* into the text */
    size_t size;
};

struct json_wanted {
    /* names of members, indexes of arrays; NULL after the last */
    const char *steps[JSON_SCAN_STEPS_MAX + 1];
};

/* ret: one for each of the n <= JSON_SCAN_WANTED_MAX paths. Of members with the same name the last counts. */
int json_scan(const char *text, size_t size, const struct json_wanted *wanted, size_t n,
              struct json_found *ret);
/* The first string that is a value and not empty. */
bool json_scan_any_string(const char *text, size_t size, struct json_found *ret);
bool json_found_text(const struct json_found *f); /* a string, and not empty */
/* A non-negative integer of at most nine digits; -1 otherwise. */
int64_t json_found_count(const struct json_found *f);
