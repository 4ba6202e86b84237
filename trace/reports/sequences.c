/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels follow each other again and again under an operator: what could be one kernel. */
#include "base/array.h"
#include "base/hash_table.h"
#include "trace/reports/grouping.h"
#include "trace/reports/ops.h"
#include "trace/reports/report.h"
#include <errno.h>

#define SEQUENCES_COLUMNS(C)                                                                                 \
    C(op, TEXT, "name of the operator")                                                                      \
    C(kernels, TEXT, "names of its kernels in order, separated by ->")                                       \
    C(length, COUNT, "number of kernels in the sequence")                                                    \
    C(count, COUNT, "number of occurrences")                                                                 \
    C(sum_ns, NS, "total duration of the kernels")                                                           \
    C(op_ns, NS, "total duration of the operator on the host", IMPORTANCE_EXTRA)                             \
    C(saved_launches, COUNT, "launches saved if each sequence were one kernel")
REPORT_ROW(sequences, SEQUENCES_COLUMNS);

/* Longer ones nobody fuses. */
#define LENGTH_MAX 64
/* What came once is no pattern. */
#define COUNT_MIN 2
/* What is shown of each name: one may be as long as the trace. */
#define NAME_SHOWN_MAX 512
/* An operator lies in no more of them that launch so little. */
#define CLIMB_MAX 256

/* Of a call: its sequence so far. Two hashes, so that different sequences are as good as never taken for one.
 */
struct sequence {
    uint64_t hash[2];
};

struct sequence_sum {
    uint64_t count, length;
    int64_t sum, op;
    struct text name;
    char *kernels;
};

struct sequences_finding {
    struct name_table texts;
    struct groups groups; /* name of the operator, both hashes, length */
    struct sequence_sum *sums;
    size_t cap;
};

static void sequences_finding_done(struct sequences_finding *f)
{
    for (size_t i = 0; i < f->cap; i++)
        free(f->sums[i].kernels);
    free(f->sums);
    name_table_done(&f->texts);
    groups_done(&f->groups);
}

/* An operator whose kernels are those of the one around it adds no information. */
static bool is_candidate(const struct host_calls *host, uint32_t call)
{
    uint32_t work = host_call_launched(host, call).work_all, outer = host->parent[call];

    return work >= 2 && work <= LENGTH_MAX && host_call_get(host, call).kind == HOST_OP &&
           !(outer != HOST_CALL_NONE && host_call_launched(host, outer).work_all == work &&
             host_call_get(host, outer).kind == HOST_OP);
}

/* The candidates that launched the item of work; returns how many. */
static size_t candidates_of(const struct host_calls *host, size_t item, uint32_t ret[CLIMB_MAX])
{
    uint32_t at = host->launcher[item];
    size_t n = 0;

    for (int i = 0;
         i < CLIMB_MAX && at != HOST_CALL_NONE && host_call_launched(host, at).work_all <= LENGTH_MAX;
         i++, at = host->parent[at])
        if (is_candidate(host, at))
            ret[n++] = at;
    return n;
}

/* "gemm -> softmax": adds the name of the next kernel. */
static int sequence_sum_name(struct sequence_sum *sum, struct text name)
{
    char *longer = NULL;

    if (asprintf(&longer, "%s%s%.*s", sum->kernels ? sum->kernels : "", sum->kernels ? " -> " : "",
                 (int)MIN(name.size, (size_t)NAME_SHOWN_MAX), name.p) < 0)
        return -ENOMEM;
    free(sum->kernels);
    sum->kernels = longer;
    return 0;
}

static int64_t sequences_group_of(struct sequences_finding *f, struct text_numbers *numbers,
                                  const struct host_call *call, uint32_t length,
                                  const struct sequence *sequence)
{
    int64_t name = op_name_number(numbers, call);
    struct group_key key = {{name, (int64_t)sequence->hash[0], (int64_t)sequence->hash[1], length}};
    int64_t number = name < 0 ? name : groups_number(&f->groups, key);

    return number >= 0 && !ARRAY_RESERVE_ZEROED(f->sums, f->cap, f->groups.n) ? -ENOMEM : number;
}

static int add_calls(struct sequences_finding *f, struct text_numbers *numbers, const struct host_calls *host,
                     const struct sequence *sequences, uint32_t *groups)
{
    for (size_t i = 0; i < host->n; i++) {
        if (!is_candidate(host, (uint32_t)i))
            continue;
        struct host_call call = host_call_get(host, i);
        struct host_launched launched = host_call_launched(host, i);
        int64_t number = sequences_group_of(f, numbers, &call, launched.work_all, &sequences[i]);
        if (number < 0)
            return (int)number;
        struct sequence_sum *sum = &f->sums[number];
        if (sum->count++ == 0) {
            sum->name = f->texts.items[f->groups.items[number].part[0]];
            sum->length = launched.work_all;
        }
        if (sum->count == COUNT_MIN)
            groups[i] = (uint32_t)number + 1;
        sum->sum += launched.device_all;
        sum->op += call.end - call.ts;
    }
    return 0;
}

static int sequences_make_rank(struct analysis *a, size_t rank, struct sequences_finding *f)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &f->texts};
    const struct gpu_work *work;
    const struct host_calls *host;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_ops(a, rank, &host);
    if (r < 0)
        return r;
    _cleanup_(freep) struct sequence *sequences = calloc(host->n + 1, sizeof(*sequences));
    _cleanup_(freep) uint32_t *groups = calloc(host->n + 1, sizeof(*groups));
    if (!sequences || !groups)
        return -ENOMEM;
    uint32_t calls[CLIMB_MAX];
    for (size_t i = 0; i < work->n && r >= 0; i++) {
        int64_t name = text_numbers_get(&numbers, work->events[i].name);
        for (size_t k = name < 0 ? 0 : candidates_of(host, i, calls); k-- > 0;) {
            struct sequence *one = &sequences[calls[k]];
            one->hash[0] = hash_words(one->hash[0], (uint64_t)name);
            one->hash[1] = hash_words((uint64_t)name, one->hash[1] + 1);
        }
        r = name < 0 ? (int)name : 0;
    }
    if (r >= 0)
        r = add_calls(f, &numbers, host, sequences, groups);
    for (size_t i = 0; i < work->n && r >= 0; i++)
        for (size_t k = candidates_of(host, i, calls); k-- > 0 && r >= 0;)
            if (groups[calls[k]] > 0)
                r = sequence_sum_name(&f->sums[groups[calls[k]] - 1], columns_text(c, work->events[i].name));
    return r;
}

static int sequences_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(sequences_finding_done) struct sequences_finding f = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = sequences_make_rank(a, i, &f);
    for (size_t i = 0; i < f.groups.n && r >= 0; i++) {
        const struct sequence_sum *s = &f.sums[i];
        if (s->count < COUNT_MIN)
            continue;
        EMIT_ROW(sequences, ret, .op = s->name, .kernels = row_str(s->kernels), .length = (int64_t)s->length,
                 .count = (int64_t)s->count, .sum_ns = s->sum, .op_ns = s->op,
                 .saved_launches = (int64_t)(s->count * (s->length - 1)));
    }
    return r;
}

const struct report report_sequences = {
    .name = "sequences",
    .title = "recurring kernel sequences of an operator: candidates for fusion",
    .method = "The GPU events launched by one call of an operator, nested calls included, in the order in "
              "which they ran; the frequent sequences of Holistic Trace Analysis, for all operators with 2 "
              "to 64 kernels at once. Among nested operators with the same kernels the outermost counts; "
              "sequences that occur once are left out.",
    .needs = NEEDS_GPU,
    .sort_by = "saved_launches",
    .needs_rows = true,
    REPORT_COLUMNS(sequences),
    .make = sequences_make,
};
