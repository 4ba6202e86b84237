/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a target's collection is over: everything that was expected is there and whole, or it has been quiet
 * for so long that nothing more will come. Then the session hears what became of it, in words that say what
 * is missing and why.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/collect/internal.h"
#include <inttypes.h>

#define MISSING_LISTED_MAX 8
/* A file that still grows then is another program's, or will never end. */
#define COLLECTING_MAX_NS (1800 * NS_PER_S)

static void explain_nothing(const struct collection *k, char **ret_reason, const char **ret_remedy)
{
    const struct target *t = k->target;
    char patience[UNIT_TEXT_MAX];

    if (k->trouble) {
        *ret_reason = xstrdup(k->trouble);
        *ret_remedy = k->trouble_remedy;
        return;
    }
    if (k->n_traces > 0) {
        *ret_reason = xasprintf("%u trace%s in %s may be its own or another worker's", k->n_traces,
                                k->n_traces == 1 ? "" : "s", k->dir->path);
        *ret_remedy = "Give each worker a directory of its own.";
        return;
    }
    const char *err = k->dir->err < 0 ? strerror(-k->dir->err) : NULL;
    *ret_reason = xasprintf(
        "recorded nothing: %s no trace appeared in %s within %s%s%s",
        worker_ops(&t->worker)->stop_path ? "it was stopped, and" : "its time is over, and", k->dir->path,
        format_duration(patience, k->dir->collector->settings->settle_ns), err ? ": " : "", err ? err : "");
    if (worker_ops(&t->worker)->nothing_remedy)
        *ret_remedy = worker_ops(&t->worker)->nothing_remedy;
    else
        *ret_remedy =
            t->worker.setup.wait_iterations > 0 || t->worker.setup.warmup_iterations > 0
                ? "With wait_iterations or warmup_iterations vLLM records only once in the life of its "
                  "process: restart it "
                  "without them."
                : "The worker's log says why: look for \"Failed to start profiler\" or \"Failed to "
                  "stop profiler\".";
}

static char *missing_ranks(const struct collection *k)
{
    char *list = xstrdup("");
    unsigned listed = 0;
    int64_t expected = MIN(k->target->record.ranks_expected, 64);

    for (int64_t i = 0; i < expected && listed < MISSING_LISTED_MAX; i++) {
        if (k->ranks & UINT64_C(1) << i)
            continue;
        char *longer = xasprintf("%s%s%" PRId64, list, listed++ > 0 ? ", " : "", i);
        free(list);
        list = longer;
    }
    return list;
}

/* Some ranks came whole. */
static void explain_some(const struct collection *k, char **ret_reason, const char **ret_remedy)
{
    _cleanup_(freep) char *missing = missing_ranks(k);
    const char *why = k->trouble ? k->trouble : k->damage;

    *ret_reason =
        xasprintf("%u of %" PRId64 " ranks%s%s%s%s", k->n_whole, k->target->record.ranks_expected,
                  missing[0] ? "; missing or damaged: " : "", missing, why ? "; " : "", why ? why : "");
    *ret_remedy = k->target->worker.sizes.nodes > 1
                      ? "Ranks of other nodes write to their own disks: a profd there collects them."
                      : k->trouble_remedy;
}

/* There are traces, and none of them is both whole and its own. */
static void explain_damaged(const struct collection *k, char **ret_reason, const char **ret_remedy)
{
    if (k->n_traces == 1)
        *ret_reason = xasprintf("its trace is not whole: %s", k->damage);
    else
        *ret_reason = xasprintf("none of its %u traces is whole; %s", k->n_traces, k->damage);
    *ret_remedy = "profctl list-traces says what is wrong with each.";
}

static void explain_pending(struct collection *k)
{
    if (k->dir->n_opening > 0) {
        k->trouble = xasprintf("%s does not answer", k->dir->path);
        replace_str(&k->trouble_remedy,
                    "Is its file system's server up? A plain ls of it would hang as well.");
    } else {
        k->trouble = xasprintf("a file in %s still grows, long after the stop", k->dir->path);
    }
}

static void end_collection(struct collection *k)
{
    _cleanup_(freep) char *reason = NULL;
    const char *remedy = NULL;
    enum state outcome = STATE_PARTIAL;

    if (dir_has_pending(k->dir, k) && !k->trouble)
        explain_pending(k);
    if (k->n_whole >= k->target->record.ranks_expected) {
        outcome = STATE_COMPLETE;
    } else if (k->n_whole > 0) {
        explain_some(k, &reason, &remedy);
    } else if (k->damage) {
        explain_damaged(k, &reason, &remedy);
    } else {
        outcome = k->n_traces > 0 && !k->trouble ? STATE_PARTIAL : STATE_FAILED;
        explain_nothing(k, &reason, &remedy);
    }
    target_find_instances(k->dir->collector->catalog, k->target);
    target_collected(k->target, outcome, reason, remedy);
}

static void end_unseen(struct collection *k)
{
    const struct trace_place *place = &k->target->worker.place;
    _cleanup_(freep) char *reason = xasprintf("recorded, but its traces cannot be collected from here: %s",
                                              place->note ? place->note : "its trace directory is not known");

    target_collected(
        k->target, STATE_PARTIAL, reason,
        place->remedy
            ? place->remedy
            : "Name the directory: trace_dir= in [fleet] or [worker URL] of profd.conf, or --trace-dir.");
}

/* A recording whose engine stops by itself is over when its files are. */
static void check_by_itself(struct collection *k)
{
    if (k->n_whole >= k->target->record.ranks_expected && !dir_has_pending(k->dir, k))
        target_files_complete(k->target);
}

static bool is_over(const struct collection *k)
{
    if (mono_ns() - k->began_ns >= COLLECTING_MAX_NS)
        return true;
    if (!k->looked_since_stop || dir_has_pending(k->dir, k))
        return false;
    if (k->n_whole >= k->target->record.ranks_expected)
        return true;
    return mono_ns() - k->last_news_ns >= k->dir->collector->settings->settle_ns;
}

/* May end it, which forgets it. */
static void check(struct collection *k)
{
    if (k->collecting && !k->dir)
        end_unseen(k);
    else if (k->collecting && is_over(k))
        end_collection(k);
    else if (!k->collecting && k->dir && k->target->record.state == STATE_RECORDING)
        check_by_itself(k);
}

void collections_check(struct collector *c)
{
    struct collection *k, *next;

    for (k = TAILQ_FIRST(&c->collections); k; k = next) {
        next = TAILQ_NEXT(k, next);
        check(k);
    }
}

void dir_check_collections(struct dir *d)
{
    struct collection *k, *next;

    for (k = TAILQ_FIRST(&d->collections); k; k = next) {
        next = TAILQ_NEXT(k, next_in_dir);
        check(k);
    }
}
