/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations, sizes and times as people write and read them. Pure functions over text.
 *
 * Parsers consume the entire string or fail with -EINVAL, leaving *ret untouched.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "5s", "250ms", "30min", "1h", "2d", "1h30min"; a bare number is seconds; "infinity" is INT64_MAX. In
 * nanoseconds. */
int parse_duration(const char *s, int64_t *ret_ns);
/* "20G", "512M", "1.5T", bytes without a suffix; suffixes are powers of 1024 with or without "iB"/"B". */
int parse_size(const char *s, int64_t *ret_bytes);
/*
 * A moment in wall nanoseconds: "2026-11-20 14:02:11", "2026-11-20T14:02:11Z", "14:02", "+10s" (from now),
 * "1h" or "-1h" (ago), "@1700000000" (epoch seconds), "now". `bare_is_ago`: a bare duration is in the past,
 * else in the future.
 */
int parse_time(const char *s, int64_t now_ns, int bare_is_ago, int64_t *ret_wall_ns);
int parse_bool(const char *s, int *ret);

#define UNIT_TEXT_MAX 48
/* All write into buf (at least UNIT_TEXT_MAX bytes) and return it. */
char *format_size(char *buf, int64_t bytes);   /* "61.3 MiB" */
char *format_duration(char *buf, int64_t ns);  /* "8.2s", "3.1 ms", "12min 4s" */
char *format_time(char *buf, int64_t wall_ns); /* local "2026-11-20 14:02:11" */
