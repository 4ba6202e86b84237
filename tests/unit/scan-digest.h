/* SPDX-License-Identifier: Apache-2.0 */
/* All that an intake was given, as one number: to tell whether two readings of a text are the same. */
#pragma once

#include "base/hash_table.h"
#include "trace/read/intake.h"

static inline void digest_add(uint64_t *digest, uint64_t value)
{
    *digest = hash_words(*digest, value);
}

static inline struct batch *digest_batch(struct intake *in, struct batch *full, void *arg)
{
    uint64_t *digest = arg;

    for (size_t i = 0; i < full->n; i++) {
        const struct event *e = &full->events[i];
        digest_add(digest, (uint64_t)e->ts);
        digest_add(digest, (uint64_t)e->dur);
        digest_add(digest, e->offset);
        digest_add(digest, (uint64_t)e->name << 32 | e->thread);
        digest_add(digest, (uint64_t)e->category << 16 | (uint64_t)e->phase << 8 | e->flags);
    }
    for (size_t g = 0; g < ARG_GROUPS; g++)
        for (size_t i = 0; i < full->group_n[g] * arg_group_width[g]; i++)
            digest_add(digest, (uint64_t)full->group_rows[g][i]);
    batch_reset(full);
    return full;
}

/* Everything that an intake knows but its events. */
static inline void digest_intake(const struct intake *in, uint64_t *digest)
{
    for (size_t i = 0; i < in->n_threads; i++) {
        const struct thread_entry *t = &in->threads[i];
        digest_add(digest, (uint64_t)t->tid);
        digest_add(digest, (uint64_t)t->tid_text << 32 | t->process);
        digest_add(digest, (uint64_t)t->name << 32 | (uint32_t)t->sort_index);
    }
    for (size_t i = 0; i < in->n_processes; i++) {
        const struct process_entry *p = &in->processes[i];
        digest_add(digest, (uint64_t)p->pid);
        digest_add(digest, (uint64_t)p->pid_text << 32 | p->name);
        digest_add(digest, (uint64_t)p->labels << 32 | (uint32_t)p->sort_index);
    }
    for (size_t i = 0; i < in->n_categories; i++)
        digest_add(digest, in->categories[i]);
    for (size_t i = 0; i < _META_MAX; i++)
        digest_add(digest, (uint64_t)in->meta[i]);
    for (size_t i = 0; i < _DEFECT_MAX; i++) {
        digest_add(digest, in->defects.count[i]);
        digest_add(digest, in->defects.first[i]);
    }
    for (uint32_t i = 0; i < strings_count(in->strings); i++) {
        size_t size;
        const char *p = strings_get(in->strings, i, &size);
        digest_add(digest, hash_padded(p, size));
    }
}
