/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a finished file is: gathers what is known of those who could have written it, lets claim.c decide,
 * and puts the answer into the row.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/collect/internal.h"

static struct claimant claimant_of(const struct collection *k, const struct file *f)
{
    const struct worker *w = &k->target->worker;
    struct claimant claimant = {.profile_id =
                                    k->target->record.output_dir ? k->target->record.profile_id : NULL,
                                .pids = k->pids,
                                .inner_pids = k->inner_pids,
                                .n_pids = k->n_pids,
                                .uid_known = w->pid > 0,
                                .uid = w->uid,
                                .worker = w->url,
                                .started_at = target_began_at(k->target)};
    for (size_t i = 0; i < f->n_openers; i++)
        claimant.had_it_open = claimant.had_it_open || f->openers[i] == w->pid;
    return claimant;
}

static void attribute_to(struct trace_record *row, struct file *f, const struct target *t)
{
    row->session_id = t->record.session_id;
    row->target_id = t->record.target_id;
    replace_str(&row->worker_url, t->worker.url);
    f->claimed_by = t->record.target_id;
}

/* The session is known where all candidates are of one. */
static void attribute_to_some(struct trace_record *row, struct collection **could, size_t n,
                              const bool *candidates)
{
    _cleanup_json_ urls = json_array();
    const struct target *first = NULL;
    bool one_session = true;

    for (size_t i = 0; i < n; i++) {
        if (!candidates[i])
            continue;
        could[i]->may_have_more = true;
        const struct target *t = could[i]->target;
        json_array_append_new(urls, json_text(t->worker.url));
        first = first ? first : t;
        one_session = one_session && t->session == first->session;
    }
    if (one_session && first)
        row->session_id = first->record.session_id;
    free(row->candidates);
    row->candidates = json_dumps(urls, JSON_COMPACT);
}

void file_attribute(struct file *f, struct trace_record *row)
{
    struct claim_evidence evidence = {.profile_id = f->parsed.profile_id[0] ? f->parsed.profile_id : NULL,
                                      .pid = row->pid == RECORD_NONE ? -1 : row->pid,
                                      .owner = f->uid,
                                      .written_at = f->dir->remote ? 0 : f->mtime_ns};
    struct collection *k;
    const char *how;
    size_t n = 0;
    _cleanup_(freep) struct collection **could = xcalloc(f->dir->n_targets, sizeof(struct collection *));
    _cleanup_(freep) struct claimant *facts = xcalloc(f->dir->n_targets, sizeof(*facts));
    _cleanup_(freep) bool *candidates = xcalloc(f->dir->n_targets, sizeof(*candidates));

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (file_may_be_of(f, k)) {
            could[n] = k;
            facts[n++] = claimant_of(k, f);
        }
    int which = claim_decide(facts, n, &evidence, candidates, &how);
    if (which >= 0) {
        attribute_to(row, f, could[which]->target);
        log_debug("%s/%s is of %s, by %s", f->dir->path, f->name, row->worker_url, how);
    } else if (which == CLAIM_AMBIGUOUS) {
        attribute_to_some(row, could, n, candidates);
    }
}
