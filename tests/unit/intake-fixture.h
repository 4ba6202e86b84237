/* SPDX-License-Identifier: Apache-2.0 */
/* An intake for tests and what is in its batch, which holds all that a small input gives. */
#pragma once

#include "tests/unit/cmocka-all.h"
#include "trace/read/intake.h"

#define FIXTURE_STRINGS_MAX (64 << 20)

static inline struct intake *fixture_new(void)
{
    struct intake *in = NULL;

    assert_int_equal(intake_new(FIXTURE_STRINGS_MAX, &in), 0);
    return in;
}

/* The string, valid until the next call but three. */
static inline const char *fixture_text(const struct intake *in, uint32_t number)
{
    static char texts[4][4096];
    static unsigned at;
    size_t size;
    const char *p = strings_get(in->strings, number, &size);
    char *text = texts[at++ % ARRAY_SIZE(texts)];

    assert_non_null(p);
    assert_true(size < sizeof(texts[0]));
    memcpy(text, p, size);
    text[size] = '\0';
    return text;
}

static inline const char *fixture_category(const struct intake *in, const struct event *e)
{
    return e->category == CATEGORY_NONE ? "" : fixture_text(in, in->categories[e->category]);
}

struct fixture_sum {
    int64_t count, ns, ts;
};

static inline struct fixture_sum fixture_sum(const struct intake *in, const char *category)
{
    struct fixture_sum sum = {0};

    for (size_t i = 0; i < in->batch->n; i++) {
        const struct event *e = &in->batch->events[i];
        if (!streq(fixture_category(in, e), category))
            continue;
        sum.count++;
        sum.ns += e->dur;
        sum.ts += e->ts;
    }
    return sum;
}

/* The first event with the name at or behind `from`; fails where there is none. */
static inline const struct event *fixture_find_from(const struct intake *in, const char *name, size_t from)
{
    for (size_t i = from; i < in->batch->n; i++)
        if (streq(fixture_text(in, in->batch->events[i].name), name))
            return &in->batch->events[i];
    fail_msg("no event %s", name);
    return NULL;
}

static inline const struct event *fixture_find(const struct intake *in, const char *name)
{
    return fixture_find_from(in, name, 0);
}

/* An argument of an event in the batch. */
static inline int64_t fixture_arg(const struct intake *in, const struct event *e, enum column column)
{
    unsigned group = column_specs[column].table - TABLE_ARGS_FIRST;
    size_t row = 0;

    if (!(e->flags & EVENT_IN_GROUP(group)))
        return COLUMN_NULL;
    for (const struct event *before = in->batch->events; before < e; before++)
        row += (before->flags & EVENT_IN_GROUP(group)) != 0;
    return in->batch->group_rows[group][row * arg_group_width[group] + arg_group_index(column)];
}
