/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading control messages with jansson: typed, tolerant getters and scope cleanup. Never used for traces.
 *
 * Getters return NULL or the fallback where the key is absent or of another type; text is borrowed from the
 * object.
 */
#pragma once

#include "base/util.h"
#include <jansson.h>

/* jansson.h brings json_decrefp(). */
/* clang-format off */
#define _cleanup_json_ _cleanup_(json_decrefp) json_t *
/* clang-format on */

const char *json_get_str(const json_t *object, const char *key);
int64_t json_get_int(const json_t *object, const char *key, int64_t fallback);
bool json_get_bool(const json_t *object, const char *key, bool fallback);
/* Integers and other numbers. */
double json_get_number(const json_t *object, const char *key, double fallback);
/* Values in one message: a fleet of ten thousand workers has half as many. Each takes up to 350 bytes. */
#define JSON_VALUES_MAX 1000000
/* Parses size bytes; NULL with a one-line reason in error (at least 200 bytes) when they are not JSON, or
 * hold more than JSON_VALUES_MAX values. */
json_t *json_parse(const char *data, size_t size, char error[static 200]);
/* The same for a peer of whom fewer values are expected: three bytes of "[]," cost fifty times their size. */
json_t *json_parse_bounded(const char *data, size_t size, size_t values_max, char error[static 200]);
/* The memory that the values of such a text take, about. */
size_t json_memory(const char *data, size_t size);
/* Replaces hidden characters (base/text.h) but for '\n' in all texts of a message from another host, names of members left
 * out. */
void json_clean_texts(json_t *value);
/* Sets a key where the text is not NULL or the number is not absent. Takes no reference. */
void json_put_str(json_t *object, const char *key, const char *value);
void json_put_int(json_t *object, const char *key, int64_t value);
void json_put_bool(json_t *object, const char *key, bool value);
/* JSON has neither NAN nor infinity: they become null. */
json_t *json_number(double value);
/* Text that is not UTF-8 (file names, answers of workers) as JSON: bad bytes become U+FFFD. */
json_t *json_text(const char *s);
