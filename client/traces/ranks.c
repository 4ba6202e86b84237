/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/ranks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/text/text.h"
#include "client/traces/exporting.h"
#include "client/traces/trace.h"
#include "client/traces/trace_paths.h"
#include "trace/export/align.h"
#include "trace/export/selection.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

/* Ranks that begin further apart were hardly recorded together. */
#define APART_NS (INT64_C(60) * NS_PER_S)

static void rank_done(struct named_rank *rank)
{
    columns_close(rank->columns);
    trace_file_done(&rank->file);
    free(rank->label);
    json_decref(rank->trace);
}

void ranks_done(struct named_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++)
        rank_done(&ranks->items[i]);
    free(ranks->items);
}

/* -- Clocks ------------------------------------------------------------------------------------------- */

/* Stamps of every trace become wall-clock time; where one does not tell it, all begin together. */
static int align_wall(struct client *c, struct named_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        ranks->items[i].shift_ns = align_wall_shift(ranks->items[i].columns);
        if (ranks->items[i].shift_ns == COLUMN_NULL)
            return -ENODATA;
    }
    return 0;
}

static int align_start(struct client *c, struct named_ranks *ranks)
{
    int64_t zero = MAX(columns_meta(ranks->items[0].columns, META_first_ns), INT64_C(0));

    for (size_t i = 0; i < ranks->n; i++) {
        int64_t first = columns_meta(ranks->items[i].columns, META_first_ns);
        ranks->items[i].shift_ns = first == COLUMN_NULL ? 0 : sub_ns(zero, first);
    }
    return 0;
}

/* Moves a clock where collectives show that it is off, or in any case. */
static int move_clocks(struct client *c, struct named_ranks *ranks, bool always)
{
    for (size_t i = 1; i < ranks->n; i++) {
        struct named_rank *first = &ranks->items[0], *rank = &ranks->items[i];
        char by[UNIT_TEXT_MAX];
        struct alignment a;
        int r = align_collectives(first->columns, first->shift_ns, rank->columns, rank->shift_ns, &a);
        if (r < 0)
            return r;
        if (always && a.matches < ALIGN_MATCHES_MIN)
            return -ENOMSG;
        if (!always && !alignment_is_needed(&a))
            continue;
        rank->shift_ns = add_ns(rank->shift_ns, a.shift_ns);
        client_say(c, "%s: clock moved by %s%s, where %" PRIu64 " collectives end as those of %s",
                   rank->label, a.shift_ns < 0 ? "-" : "",
                   format_duration(by, a.shift_ns < 0 ? sub_ns(0, a.shift_ns) : a.shift_ns), a.matches,
                   first->label);
    }
    return 0;
}

static int align_by_collectives(struct client *c, struct named_ranks *ranks)
{
    if (align_wall(c, ranks) < 0)
        align_start(c, ranks);
    return move_clocks(c, ranks, true);
}

static int align_auto(struct client *c, struct named_ranks *ranks)
{
    if (align_wall(c, ranks) < 0) {
        client_say(c, "not every trace says what its clock counts from: all begin together");
        align_start(c, ranks);
    }
    return move_clocks(c, ranks, false);
}

/* Traces that hardly belong together are merged all the same, but not without a word. */
static void say_distance(struct client *c, const struct named_ranks *ranks)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    char by[UNIT_TEXT_MAX];

    for (size_t i = 0; i < ranks->n; i++) {
        int64_t start = columns_meta(ranks->items[i].columns, META_first_ns);
        if (start == COLUMN_NULL)
            continue;
        first = MIN(first, add_ns(start, ranks->items[i].shift_ns));
        last = MAX(last, add_ns(start, ranks->items[i].shift_ns));
    }
    if (first <= last && sub_ns(last, first) > APART_NS)
        client_say(c, "the traces begin %s apart; --align start lets them begin together",
                   format_duration(by, sub_ns(last, first)));
}

static const struct {
    const char *name;
    int (*align)(struct client *c, struct named_ranks *ranks);
} alignments[] = {
    {"auto", align_auto},
    {"wall", align_wall},
    {"collectives", align_by_collectives},
    {"start", align_start},
};

int ranks_align(struct client *c, const char *how, struct named_ranks *ranks)
{
    _cleanup_(problem_done) struct problem p = {0};
    int r = -EINVAL;

    for (size_t i = 0; i < ARRAY_SIZE(alignments); i++)
        if (streq(alignments[i].name, how))
            r = alignments[i].align(c, ranks);
    if (r >= 0) {
        say_distance(c, ranks);
        return EXIT_DONE;
    }
    if (r == -EINVAL)
        problem_set(&p, r, PROBLEM_BAD_REQUEST, "--align is auto, wall, collectives or start, not %s", how);
    else if (r == -ENOMEM)
        problem_set(&p, r, PROBLEM_INTERNAL, "no memory to compare the clocks");
    else
        problem_set(&p, r, PROBLEM_UNSUPPORTED, "the traces have %s in common",
                    r == -ENODATA ? "no wall clock" : "too few collectives");
    problem_remedy(&p, "--align auto chooses what the traces allow.");
    return client_fail(c, &p);
}

/* -- Traces ------------------------------------------------------------------------------------------- */

/* "rank 3", of several workers with the worker before it; else the file's name. */
static char *label_of(const struct named_rank *rank)
{
    const json_t *trace = rank->trace;
    _cleanup_(freep) char *place = trace ? trace_rank(trace, false) : NULL;
    const char *worker = trace ? json_get_str(trace, "worker") : NULL;
    const char *host = worker ? strstr(worker, "://") : NULL;
    int64_t number = columns_meta(rank->columns, META_rank);

    if (place)
        return host ? xasprintf("%s %s", host + 3, place) : xstrdup(place);
    if (number != COLUMN_NULL)
        return xasprintf("rank %" PRId64, number);
    return xstrdup(rank->file.name);
}

int ranks_too_many(struct client *c)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -E2BIG, PROBLEM_TOO_LARGE, "more than %d traces are not looked at together", RANKS_MAX);
    problem_remedy(&p, "Name fewer of them.");
    return client_fail(c, &p);
}

/* One of many, which nobody named himself, may be left out. */
static int leave_out(struct named_ranks *ranks, bool is_one_of_many, int status)
{
    if (!is_one_of_many)
        return status;
    ranks->status_left_out = status;
    ranks->n_left_out++;
    return EXIT_DONE;
}

static int add_trace(struct client *c, const char *word, json_t *trace, bool is_one_of_many,
                     struct named_ranks *ranks)
{
    if (ranks->n == RANKS_MAX)
        return ranks_too_many(c);
    VEC_GROW(ranks->items, ranks->n, ranks->cap);
    struct named_rank *rank = &ranks->items[ranks->n];

    *rank = (struct named_rank){.is_one_of_many = is_one_of_many};
    int status = trace_file_look(c, word, &rank->file);
    if (status != EXIT_DONE) {
        rank_done(rank);
        return leave_out(ranks, is_one_of_many, status);
    }
    rank->trace = json_incref(trace);
    ranks->n++;
    return EXIT_DONE;
}

/* What is no rank's (a front end's trace, an attachment) stays out, and says so. */
int ranks_add_session(struct client *c, const char *session, struct named_ranks *ranks)
{
    _cleanup_json_ answer = NULL;
    char ref[REF_TEXT_MAX];
    size_t i;
    json_t *trace;

    if (verb_ref(c, session, 's', "s", ref) < 0)
        return EXIT_USAGE;
    _cleanup_(freep) char *path = xasprintf("/v1/traces?session=%s", ref);
    int status = client_need_profd(c);
    if (status == EXIT_DONE)
        status = traces_fetch(c, path, INT64_MAX, &answer);
    json_array_foreach(json_object_get(answer, "traces"), i, trace)
    {
        const char *id = json_get_str(trace, "trace"), *kind = json_get_str(trace, "kind");
        if (status != EXIT_DONE || !id)
            break;
        if (!streq(kind, "trace")) {
            client_say(c, "%s is left out: it is no rank's (%s)", id, kind ? kind : "unknown");
        } else if (!json_get_str(trace, "columns")) {
            client_say(c, "%s is left out: it was not read", id);
            status = leave_out(ranks, true, EXIT_FAILED);
        } else {
            status = add_trace(c, id, trace, true, ranks);
        }
    }
    return status;
}

/* A trace, or all of a directory. */
int ranks_add_word(struct client *c, char *word, struct named_ranks *ranks)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(trace_paths_done) struct trace_paths paths = {0};
    int64_t id;
    int status = EXIT_DONE;

    if (parse_ref(word, 't', &id) == 't' || access(word, F_OK) < 0)
        return add_trace(c, word, NULL, false, ranks);
    if (trace_paths_find(&paths, 1, &word, &p) < 0)
        return client_fail(c, &p);
    if (paths.n > RANKS_MAX - ranks->n)
        return ranks_too_many(c);
    bool is_directory = paths.n > 1 || !streq(paths.items[0], word);
    for (size_t i = 0; i < paths.n && status == EXIT_DONE; i++)
        status = add_trace(c, paths.items[i], NULL, is_directory, ranks);
    return status;
}

static int compare_ranks(const void *x, const void *y)
{
    const struct named_rank *a = x, *b = y;
    return strverscmp(a->label, b->label);
}

/* The name of a trace whose columns are there twice. */
static const char *find_twice(const struct named_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        struct stat one, other;
        for (size_t k = 0; k < i; k++)
            if (fstat(ranks->items[i].file.columns_fd, &one) == 0 &&
                fstat(ranks->items[k].file.columns_fd, &other) == 0 && one.st_ino == other.st_ino &&
                one.st_dev == other.st_dev)
                return ranks->items[i].file.name;
    }
    return NULL;
}

/* What was read is opened; what was not, and may, is left out. */
static int open_columns(struct client *c, const int *statuses, struct named_ranks *ranks)
{
    size_t kept = 0, n = ranks->n;
    int status = EXIT_DONE;

    for (size_t i = 0; i < n; i++) {
        struct named_rank rank = ranks->items[i];
        int opened = statuses[i] == EXIT_DONE ? exporting_columns(c, &rank.file, &rank.columns) : statuses[i];
        if (opened == EXIT_DONE) {
            rank.label = label_of(&rank);
            ranks->items[kept++] = rank;
            continue;
        }
        int left_out = leave_out(ranks, rank.is_one_of_many, opened);
        status = status == EXIT_DONE ? left_out : status;
        rank_done(&rank);
    }
    ranks->n = kept;
    return status;
}

static int read_ranks(struct client *c, int64_t memory_limit, struct named_ranks *ranks)
{
    _cleanup_(freep) struct trace_file **files = xcalloc(ranks->n + 1, sizeof(struct trace_file *));
    _cleanup_(freep) int *statuses = xcalloc(ranks->n + 1, sizeof(*statuses));

    for (size_t i = 0; i < ranks->n; i++)
        files[i] = &ranks->items[i].file;
    int status = trace_files_read(c, files, ranks->n, memory_limit, statuses);
    return status == EXIT_DONE ? open_columns(c, statuses, ranks) : status;
}

int ranks_status(const struct named_ranks *ranks, int status)
{
    return status == EXIT_DONE && ranks->n_left_out > 0 ? EXIT_PARTIAL : status;
}

int ranks_settle(struct client *c, int64_t memory_limit, struct named_ranks *ranks)
{
    _cleanup_(problem_done) struct problem p = {0};
    int status = read_ranks(c, memory_limit, ranks);

    if (status != EXIT_DONE)
        return status;
    if (ranks->n == 0 && ranks->n_left_out > 0)
        return ranks->status_left_out;
    if (ranks->n_left_out > 0)
        client_say(c, "%zu of %zu traces could not be read, and %s left out", ranks->n_left_out,
                   ranks->n + ranks->n_left_out, ranks->n_left_out == 1 ? "is" : "are");
    const char *twice = find_twice(ranks);
    qsort(ranks->items, ranks->n, sizeof(*ranks->items), compare_ranks);
    if (twice)
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is named twice", twice);
    else
        return EXIT_DONE;
    return client_fail(c, &p);
}
