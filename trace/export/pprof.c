/* SPDX-License-Identifier: Apache-2.0 */
/*
 * https://github.com/google/pprof/blob/main/proto/profile.proto, compressed: how often and how long each
 * stack, with its thread as a label.
 */
#include "base/gzip_writer.h"
#include "trace/export/export.h"
#include "trace/export/selection.h"
#include "trace/export/stacks.h"
#include "trace/export/writers.h"

#include <errno.h>

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME_NS = 9,
    PROFILE_DURATION_NS = 10,

    VALUE_TYPE_TYPE = 1,
    VALUE_TYPE_UNIT = 2,

    SAMPLE_LOCATIONS = 1,
    SAMPLE_VALUES = 2,
    SAMPLE_LABEL = 3,
    LABEL_KEY = 1,
    LABEL_STRING = 2,

    LOCATION_ID = 1,
    LOCATION_LINE = 4,
    LINE_FUNCTION = 1,

    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
};

/* The profile's strings: these, then the labels of threads, then names. */
static const char *const words[] = {"", "slices", "count", "time", "nanoseconds", "thread"};
enum { WORD_NONE, WORD_SLICES, WORD_COUNT, WORD_TIME, WORD_NANOSECONDS, WORD_THREAD };

struct pprof {
    FILE *out;
    const struct columns *c;
    struct stacks stacks;
    struct numbering functions; /* their ids are from 1 on */
    struct proto proto;
};

static void pprof_put_value_type(struct proto *p, int type, int unit)
{
    size_t message = proto_open(p, PROFILE_SAMPLE_TYPE);

    proto_int(p, VALUE_TYPE_TYPE, type);
    proto_int(p, VALUE_TYPE_UNIT, unit);
    proto_close(p, message);
}

static void pprof_put_sample(struct pprof *f, const struct stack_node *node)
{
    struct proto *p = &f->proto;
    size_t message = proto_open(p, PROFILE_SAMPLE), part = proto_open(p, SAMPLE_LOCATIONS);

    for (const struct stack_node *n = node;; n = &f->stacks.nodes[n->parent]) {
        proto_varint(p, numbering_of(&f->functions, n->name) + UINT64_C(1));
        if (n->parent == STACK_NONE)
            break;
    }
    proto_close(p, part);
    part = proto_open(p, SAMPLE_VALUES);
    proto_varint(p, (uint64_t)node->count);
    proto_varint(p, (uint64_t)node->self);
    proto_close(p, part);
    part = proto_open(p, SAMPLE_LABEL);
    proto_int(p, LABEL_KEY, WORD_THREAD);
    proto_int(p, LABEL_STRING, (int64_t)ARRAY_SIZE(words) + node->root);
    proto_close(p, part);
    proto_close(p, message);
}

static void pprof_put_function(struct pprof *f, uint32_t number)
{
    struct proto *p = &f->proto;
    int64_t id = number + INT64_C(1);
    size_t message = proto_open(p, PROFILE_LOCATION), line;

    proto_int(p, LOCATION_ID, id);
    line = proto_open(p, LOCATION_LINE);
    proto_int(p, LINE_FUNCTION, id);
    proto_close(p, line);
    proto_close(p, message);

    message = proto_open(p, PROFILE_FUNCTION);
    proto_int(p, FUNCTION_ID, id);
    proto_int(p, FUNCTION_NAME, (int64_t)(ARRAY_SIZE(words) + f->stacks.n_roots + number));
    proto_close(p, message);
}

static void pprof_put_strings(struct pprof *f, const int64_t *names)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        proto_text(&f->proto, PROFILE_STRING, text_of(words[i]));
    for (size_t i = 0; i < f->stacks.n_roots; i++)
        proto_text(&f->proto, PROFILE_STRING, text_of(f->stacks.roots[i]));
    for (uint32_t i = 0; i < f->functions.n; i++) {
        proto_text(&f->proto, PROFILE_STRING, columns_text(f->c, names[i]));
        proto_flush(&f->proto, f->out);
    }
}

static int pprof_put_profile(struct pprof *f, const struct selection *s)
{
    int64_t first = MAX(columns_get(f->c, COL_slice_ts, 0), s->from),
            base = columns_meta(f->c, META_base_time_ns);

    pprof_put_value_type(&f->proto, WORD_SLICES, WORD_COUNT);
    pprof_put_value_type(&f->proto, WORD_TIME, WORD_NANOSECONDS);
    if (first != COLUMN_NULL) {
        proto_int(&f->proto, PROFILE_TIME_NS, sum_of(first, base == COLUMN_NULL ? 0 : base));
        proto_int(&f->proto, PROFILE_DURATION_NS, MAX(difference_of(MIN(s->last, s->to), first), 0));
    }
    for (size_t i = 0; i < f->stacks.n; i++) {
        pprof_put_sample(f, &f->stacks.nodes[i]);
        proto_flush(&f->proto, f->out);
    }
    for (uint32_t i = 0; i < f->functions.n; i++) {
        pprof_put_function(f, i);
        proto_flush(&f->proto, f->out);
    }
    _cleanup_(freep) int64_t *names = numbering_list(&f->functions);
    if (!names)
        return -ENOMEM;
    pprof_put_strings(f, names);
    proto_flush(&f->proto, f->out);
    return f->proto.failed ? -ENOMEM : 0;
}

int export_pprof(const struct export_trace *t, const struct selection *s, FILE *out)
{
    struct pprof f = {.out = gzip_open(out), .c = t->columns};
    int r = f.out ? numbering_init(&f.functions, t->columns) : -errno;

    if (r == 0)
        r = stacks_collect(&f.stacks, s);
    if (r == 0)
        r = pprof_put_profile(&f, s);
    stacks_done(&f.stacks);
    numbering_done(&f.functions);
    proto_done(&f.proto);
    if (f.out && fclose(f.out) < 0 && r == 0)
        r = -errno;
    return r;
}
