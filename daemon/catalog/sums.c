/* SPDX-License-Identifier: Apache-2.0 */
/* What was computed of a trace besides its summary: durations of its engine steps by phase, and findings. */
#include "daemon/catalog/internal.h"

#include <errno.h>

/* Phases, and findings, of one trace: more of them are none that a report makes. */
#define SUMS_ROWS_MAX 100

static int sums_run_of_trace(struct catalog *c, enum statement which, int64_t trace_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, trace_id);
    return run_write(c, s);
}

static int sums_add_steps(struct catalog *c, int64_t trace_id, int64_t number _unused_, const json_t *row)
{
    static const char *const numbers[] = {"steps", "sum_ns", "p50_ns", "p99_ns", "max_ns"};
    const char *phase = json_get_str(row, "phase");

    if (!json_is_object(row))
        return 0;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_TRACE_STEPS);
    bind_number(s, 1, trace_id);
    bind_text(s, 2, phase ? phase : "");
    for (int i = 0; i < (int)ARRAY_SIZE(numbers); i++)
        bind_number(s, 3 + i, json_get_int(row, numbers[i], i < 2 ? 0 : RECORD_NONE));
    return run_write(c, s);
}

static int sums_add_finding(struct catalog *c, int64_t trace_id, int64_t number, const json_t *row)
{
    const char *rule = json_get_str(row, "rule");
    const json_t *share = json_object_get(row, "share");

    if (!rule)
        return 0;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_TRACE_FINDING);
    bind_number(s, 1, trace_id);
    bind_number(s, 2, number);
    bind_text(s, 3, rule);
    bind_text(s, 4, json_get_str(row, "label"));
    bind_text(s, 5, json_get_str(row, "what"));
    bind_number(s, 6, json_get_int(row, "cost_ns", RECORD_NONE));
    if (json_is_number(share))
        sqlite3_bind_double(s, 7, json_number_value(share));
    return run_write(c, s);
}

static const struct {
    const char *key;
    enum statement remove;
    int (*add)(struct catalog *c, int64_t trace_id, int64_t number, const json_t *row);
} sums_parts[] = {
    {"steps", STATEMENT_REMOVE_TRACE_STEPS, sums_add_steps},
    {"findings", STATEMENT_REMOVE_TRACE_FINDINGS, sums_add_finding},
};

int catalog_set_sums(struct catalog *c, int64_t trace_id, const json_t *sums)
{
    int r = change_row(c, STATEMENT_TOUCH_TRACE, trace_id, RECORD_NONE);

    for (size_t i = 0; i < ARRAY_SIZE(sums_parts) && r >= 0; i++) {
        const json_t *row;
        size_t k;
        r = sums_run_of_trace(c, sums_parts[i].remove, trace_id);
        json_array_foreach(json_object_get(sums, sums_parts[i].key), k, row) {
            if (r >= 0 && k < SUMS_ROWS_MAX)
                r = sums_parts[i].add(c, trace_id, (int64_t)k + 1, row);
        }
    }
    return r;
}
