/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/unify.h"

#include "trace/read/defects.h"

static int unify_strings(struct intake *to, const struct strings *from, struct numbers *n)
{
    for (uint32_t i = 0; i < n->n_strings; i++) {
        size_t size;
        const char *p = strings_get(from, i, &size);

        n->strings[i] = strings_intern(to->strings, p, size);
        if (n->strings[i] == STRINGS_NONE)
            return -ENOMEM;
    }
    return 0;
}

/* What a later part of a trace says about a process or a thread replaces what an earlier one said. */
static void unify_processes(struct intake *to, const struct intake *from, struct numbers *n)
{
    for (size_t i = 0; i < n->n_processes && to->error == 0; i++) {
        const struct process_entry *p = &from->processes[i];
        struct process_entry *q;

        n->processes[i] = intake_process(to, p->pid, n->strings[p->pid_text]);
        q = &to->processes[n->processes[i]];
        if (p->name != 0)
            q->name = n->strings[p->name];
        if (p->labels != 0)
            q->labels = n->strings[p->labels];
        if (p->sort_index != 0)
            q->sort_index = p->sort_index;
    }
}

static void unify_threads(struct intake *to, const struct intake *from, struct numbers *n)
{
    for (size_t i = 0; i < n->n_threads && to->error == 0; i++) {
        const struct thread_entry *t = &from->threads[i];
        const struct process_entry *p = &from->processes[t->process];
        struct thread_entry *q;

        n->threads[i] = intake_thread(to, p->pid, n->strings[p->pid_text], t->tid, n->strings[t->tid_text]);
        q = &to->threads[n->threads[i]];
        if (t->name != 0)
            q->name = n->strings[t->name];
        if (t->sort_index != 0)
            q->sort_index = t->sort_index;
    }
}

static void unify_facts(struct intake *to, const struct intake *from, const struct numbers *n)
{
    for (enum meta_key k = 0; k < _META_MAX; k++)
        if (to->meta[k] == COLUMN_NULL && from->meta[k] != COLUMN_NULL)
            to->meta[k] = meta_is_text(k) ? n->strings[from->meta[k]] : from->meta[k];
    for (enum defect_kind d = 0; d < _DEFECT_MAX; d++)
        count_defect(&to->defects, d, from->defects.count[d], from->defects.first[d]);
}

static int unify(struct intake *to, const struct intake *from, struct budget *budget, struct numbers *n)
{
    int r;

    n->n_strings = strings_count(from->strings);
    n->n_threads = from->n_threads;
    n->n_processes = from->n_processes;
    n->n_categories = from->n_categories;
    n->strings = budget_new(budget, n->n_strings, sizeof(*n->strings));
    n->threads = budget_new(budget, n->n_threads, sizeof(*n->threads));
    n->processes = budget_new(budget, n->n_processes, sizeof(*n->processes));
    n->categories = budget_new(budget, n->n_categories, sizeof(*n->categories));
    if (!n->strings || !n->threads || !n->processes || !n->categories)
        return -ENOMEM;

    r = unify_strings(to, from->strings, n);
    if (r < 0)
        return r;
    unify_processes(to, from, n);
    unify_threads(to, from, n);
    for (size_t i = 0; i < n->n_categories; i++)
        n->categories[i] = intake_category(to, n->strings[from->categories[i]]);
    unify_facts(to, from, n);
    return to->error;
}

int unify_intakes(const struct merge_input *inputs, size_t n_inputs, struct budget *budget,
                  struct numbers *ret)
{
    int r = 0;

    for (size_t i = 1; r == 0 && i < n_inputs; i++)
        r = unify(inputs[0].intake, inputs[i].intake, budget, &ret[i]);
    return r;
}

void numbers_done(struct numbers *n, struct budget *budget)
{
    budget_free(budget, n->strings, n->n_strings, sizeof(*n->strings));
    budget_free(budget, n->threads, n->n_threads, sizeof(*n->threads));
    budget_free(budget, n->processes, n->n_processes, sizeof(*n->processes));
    budget_free(budget, n->categories, n->n_categories, sizeof(*n->categories));
    *n = (struct numbers){0};
}
