/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/instances.h"

#include "base/alloc.h"
#include "trace/ranks/rank_set.h"
#include <errno.h>

static void ranks_print_note(void *arg, const char *text)
{
    client_note(arg, "%s", text);
}

/* Borrows everything. */
static struct rank_set ranks_lend(struct client *c, const struct named_ranks *ranks)
{
    struct rank_set set = {.items = xcalloc(ranks->n + 1, sizeof(*set.items)),
                           .n = ranks->n,
                           .note = ranks_print_note,
                           .note_arg = c};

    for (size_t i = 0; i < ranks->n; i++) {
        const struct named_rank *rank = &ranks->items[i];
        set.items[i] = (struct set_rank){.columns = rank->columns,
                                         .trace = rank->trace,
                                         .path = rank->path,
                                         .label = rank->label,
                                         .role = rank->role,
                                         .kv_use = rank->kv_use,
                                         .host = rank->file.host,
                                         .clock_offset_ns = rank->file.clock_offset_ns,
                                         .clock_error_ns = rank->file.clock_error_ns,
                                         .item = i,
                                         .instance = rank->instance,
                                         .number = rank->number,
                                         .shift_ns = rank->shift_ns};
    }
    return set;
}

int ranks_find_instances(struct client *c, struct named_ranks *ranks, const struct kernel_patterns *patterns,
                         bool as_one, struct rank **ret)
{
    _cleanup_(rank_set_done) struct rank_set set = ranks_lend(c, ranks);
    _cleanup_(freep) struct named_rank *before = xcalloc(ranks->n + 1, sizeof(*before));

    if (rank_set_find_instances(&set, patterns, as_one, ret) < 0)
        return client_error(c, PROBLEM_INTERNAL, "Name fewer traces.",
                            "cannot group the traces: out of memory");
    if (ranks->n > 0)
        memcpy(before, ranks->items, ranks->n * sizeof(*before));
    for (size_t i = 0; i < ranks->n; i++) {
        ranks->items[i] = before[set.items[i].item];
        ranks->items[i].instance = set.items[i].instance;
        ranks->items[i].number = set.items[i].number;
    }
    ranks->instances = TAKE_PTR(set.instances);
    ranks->names = TAKE_PTR(set.names);
    ranks->n_instances = set.n_instances;
    return EXIT_DONE;
}

int ranks_set_instances(struct client *c, struct named_ranks *ranks)
{
    const struct kernel_patterns patterns = {0};
    struct analysis a = {.view = VIEW_ALL, .patterns = &patterns};
    int status = ranks_find_instances(c, ranks, &patterns, false, &a.ranks);

    a.n = ranks->n;
    analysis_done(&a);
    free(a.ranks);
    return status;
}

int ranks_align(struct client *c, const char *method, struct named_ranks *ranks)
{
    static const char remedy[] = "--align auto chooses what the traces allow.";
    _cleanup_(rank_set_done) struct rank_set set = ranks_lend(c, ranks);

    set.names = ranks->names;
    set.n_instances = ranks->n_instances;
    int r = rank_set_align(&set, method);
    set.names = NULL; /* which were lent, as all else */

    for (size_t i = 0; i < ranks->n && r >= 0; i++)
        ranks->items[i].shift_ns = set.items[i].shift_ns;
    if (r >= 0)
        return EXIT_DONE;
    if (r == -EINVAL)
        return client_refuse(c, remedy, "--align is auto, wall, collectives or start, not %s", method);
    if (r == -ENOMEM)
        return client_error(c, PROBLEM_INTERNAL, remedy, "no memory to compare the clocks");
    return client_error(c, PROBLEM_UNSUPPORTED, remedy, "the traces have %s in common",
                        r == -ENODATA ? "no wall clock" : "too few collectives");
}
