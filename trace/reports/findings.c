/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong, by rules, what costs most first. */
#include "trace/reports/reports.h"
#include "trace/reports/rules/rules.h"
#include "trace/reports/side_by_side.h"

#include <errno.h>

static const struct report_column columns[] = {
    {"rule", UNIT_TEXT, "which rule found it"},
    {"severity", UNIT_TEXT, "high from 20 % of the time on, medium from 5 %, low from 1 %, else info"},
    {"cost_ns", UNIT_NS,
     "time lost in a step where there are several, else in the span; empty for statements"},
    {"share", UNIT_SHARE, "share of the step or span"},
    {"what", UNIT_TEXT, "what was seen, with figures", .is_prose = true},
    {"where", UNIT_TEXT, "when, which kernel, which rank; times as --from and --to count them",
     .is_prose = true},
    {"evidence", UNIT_TEXT, "what it was told from", .is_prose = true},
    {"advice", UNIT_TEXT, "what to try", .is_prose = true},
    {"confidence", UNIT_TEXT, "certain: read off the trace; inferred: concluded from it"},
    {"ground", UNIT_TEXT, "what the confidence rests on", .is_prose = true},
    {"report", UNIT_TEXT, "which report shows more"},
#define K(identifier, column, meaning) {column, UNIT_NS, meaning, .importance = IMPORTANCE_EXTRA},
    TIME_KINDS(K)
#undef K
};
#define COLUMN_COST 2

static const struct rule *const rules[] = {
#define R(name) &rule_##name,
    RULES(R)
#undef R
};

static const struct rule *const last_rules[] = {
#define R(name) &rule_##name,
    LAST_RULES(R)
#undef R
};

struct looking {
    struct scene scene;
    struct report_rows seen[ARRAY_SIZE(rules)]; /* by each rule */
};

static void looking_done(struct looking *l)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        report_rows_done(&l->seen[i]);
    scene_done(&l->scene);
}

static int look(void *arg, size_t i)
{
    struct looking *l = arg;

    report_rows_init(&l->seen[i], ARRAY_SIZE(columns));
    return rules[i]->look(&l->scene, rules[i], &l->seen[i]);
}

static size_t column_of(const char *name)
{
    size_t i = 0;

    while (i < ARRAY_SIZE(columns) && strcmp(columns[i].name, name) != 0)
        i++;
    return i;
}

/* What findings claim of idle time is left by its cause. */
static void count_claims(struct looking *l)
{
    size_t column = column_of("idle_ns");

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        int64_t *left = &l->scene.unclaimed[rules[i]->idle];
        for (size_t row = 0; row < report_rows_count(&l->seen[i]); row++) {
            const struct cell *cell = report_rows_at(&l->seen[i], row, column);
            if (cell->type == CELL_INT)
                *left = MAX(*left - cell->integer * l->scene.units, INT64_C(0));
            /* The rests of the worker are its own finding. */
            if (rules[i] == &rule_idle_worker)
                l->scene.unclaimed[IDLE_NOTHING] = 0;
        }
    }
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(looking_done) struct looking l = {0};
    int r = scene_read(a, &l.scene);

    if (r >= 0)
        r = side_by_side(ARRAY_SIZE(rules), look, &l);
    for (size_t i = 0; i < ARRAY_SIZE(rules) && r >= 0; i++)
        report_rows_append(ret, &l.seen[i]);
    if (r >= 0)
        count_claims(&l);
    for (size_t i = 0; i < ARRAY_SIZE(last_rules) && r >= 0 && l.scene.n > 0; i++)
        r = last_rules[i]->look(&l.scene, last_rules[i], ret);
    return r < 0 ? r : report_rows_sort(ret, COLUMN_COST, true);
}

const struct report report_findings = {
    .name = "findings",
    .title = "what is wrong, what that costs, and what to try",
    .how =
        "A table of rules, each with a threshold below which it says nothing; docs/analysis.md lists them. "
        "Findings partition the time: no nanosecond is the cost of two of them.",
    .order = "cost_ns",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
