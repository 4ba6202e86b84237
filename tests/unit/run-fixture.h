/* SPDX-License-Identifier: Apache-2.0 */
/* Records of requests as tests make them, and figures out of a summary's JSON. */
#pragma once

#include "base/clock.h"
#include "base/json.h"
#include "daemon/load/records.h"
#include "tests/unit/cmocka-all.h"

#include <math.h>

#define MS(n) ((int64_t)((n)*NS_PER_MS))

/* Sent on time `at_ms` after the run began: 10 tokens of output, `ttft_ms`, then 9 gaps of `gap_ms`. */
static inline struct request_record request_at(int64_t index, double at_ms, double ttft_ms, double gap_ms)
{
    return (struct request_record){
        .index = index,
        .intended_ns = MS(at_ms),
        .sent_ns = MS(at_ms),
        .first_ns = MS(at_ms + ttft_ms),
        .last_ns = MS(at_ms + ttft_ms + 9 * gap_ms),
        .end_ns = MS(at_ms + ttft_ms + 9 * gap_ms),
        .input_tokens = 100,
        .output_tokens = 10,
        .input_source = TOKENS_USAGE,
        .output_source = TOKENS_USAGE,
        .status = 200,
    };
}

/* What a path like "metrics/ttft_ms/p50" leads to; fails where it leads nowhere. */
static inline const json_t *json_at(const json_t *j, const char *path)
{
    char step[64];

    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        assert_true(n < sizeof(step));
        memcpy(step, p, n);
        step[n] = '\0';
        j = json_is_array(j) ? json_array_get(j, (size_t)atoi(step)) : json_object_get(j, step);
        if (!j)
            fail_msg("no %s in %s", step, path);
        p += n + (p[n] == '/');
    }
    return j;
}

static inline void assert_near(const json_t *j, const char *path, double expected, double tolerance)
{
    double value = json_number_value(json_at(j, path));

    assert_true(json_is_number(json_at(j, path)));
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s is %.9g, not %.9g", path, value, expected);
}

static inline void assert_text(const json_t *j, const char *path, const char *expected)
{
    assert_string_equal(json_string_value(json_at(j, path)), expected);
}
