/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/events.h"

#include "trace/read/hash.h"
#include <errno.h>

#define INDEX_FIRST ((size_t)64)
#define LIST_FIRST  ((size_t)16)
#define ROWS_FIRST  ((size_t)1024)

/* The first column of each group; each group's columns follow one another, and one group the other. */
static const enum column group_first[ARG_GROUPS + 1] = {
    COL_gpu_correlation, COL_runtime_correlation, COL_op_external_id, COL_python_id,
    COL_memory_address,  COL_collective_name,     COL_gpu_slice,
};

const size_t arg_group_width[ARG_GROUPS] = {
    COL_runtime_correlation - COL_gpu_correlation,
    COL_op_external_id - COL_runtime_correlation,
    COL_python_id - COL_op_external_id,
    COL_memory_address - COL_python_id,
    COL_collective_name - COL_memory_address,
    COL_gpu_slice - COL_collective_name,
};
_Static_assert(COL_runtime_correlation - COL_gpu_correlation <= ARG_COLUMNS_MAX, "the widest group fits");

size_t arg_group_index(enum column column)
{
    return column - group_first[column_specs[column].table - TABLE_ARGS_FIRST];
}

/* Elements of a list by the hash of what they are; a slot holds a number + 1, 0 is free. */
struct index {
    uint32_t *slots;
    size_t n_slots;
};

struct lookup {
    struct index threads, processes, categories;
};

struct batch *batch_new(void)
{
    struct batch *b = malloc(sizeof(*b));

    if (!b)
        return NULL;
    b->n = 0;
    memset(b->group_n, 0, sizeof(b->group_n));
    memset(b->group_rows, 0, sizeof(b->group_rows));
    memset(b->group_cap, 0, sizeof(b->group_cap));
    return b;
}

struct batch *batch_free(struct batch *b)
{
    if (!b)
        return NULL;
    for (size_t g = 0; g < ARG_GROUPS; g++)
        free(b->group_rows[g]);
    free(b);
    return NULL;
}

void batch_reset(struct batch *b)
{
    b->n = 0;
    memset(b->group_n, 0, sizeof(b->group_n));
}

int intake_new(uint64_t strings_max, struct intake **ret)
{
    _cleanup_(intake_freep) struct intake *in = calloc(1, sizeof(*in));
    int r;

    if (!in)
        return -ENOMEM;
    for (size_t i = 0; i < _META_MAX; i++)
        in->meta[i] = COLUMN_NULL;
    r = strings_new(strings_max, &in->strings);
    if (r < 0)
        return r;
    in->batch = batch_new();
    in->lookup = calloc(1, sizeof(struct lookup));
    if (!in->batch || !in->lookup)
        return -ENOMEM;
    *ret = TAKE_PTR(in);
    return 0;
}

struct intake *intake_free(struct intake *in)
{
    if (!in)
        return NULL;
    struct lookup *l = in->lookup;
    if (l) {
        free(l->threads.slots);
        free(l->processes.slots);
        free(l->categories.slots);
        free(l);
    }
    strings_free(in->strings);
    batch_free(in->batch);
    free(in->threads);
    free(in->processes);
    free(in->categories);
    free(in);
    return NULL;
}

static void fail(struct intake *in, int error)
{
    if (!in->error)
        in->error = error;
}

static bool index_grow(struct index *x, uint64_t (*hash)(const struct intake *in, size_t i),
                       const struct intake *in, size_t n)
{
    size_t n_slots = x->n_slots ? 2 * x->n_slots : INDEX_FIRST;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));

    if (!slots)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t at = hash(in, i) & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(x->slots);
    x->slots = slots;
    x->n_slots = n_slots;
    return true;
}

/* Makes room in an index for one more than n; half of the slots stay free. */
static bool index_room(struct index *x, uint64_t (*hash)(const struct intake *in, size_t i),
                       struct intake *in, size_t n)
{
    if (2 * (n + 1) > x->n_slots && !index_grow(x, hash, in, n)) {
        fail(in, -ENOMEM);
        return false;
    }
    return true;
}

/* The list, with room for one more; NULL where there is none, the list is then as it was. */
static void *list_room(struct intake *in, void *items, size_t n, size_t n_max, size_t *cap, size_t size)
{
    size_t more = *cap ? 2 * *cap : LIST_FIRST;

    if (n == n_max) {
        fail(in, -E2BIG);
        return NULL;
    }
    if (n < *cap)
        return items;
    items = realloc(items, more * size);
    if (items)
        *cap = more;
    else
        fail(in, -ENOMEM);
    return items;
}

static uint64_t process_hash(int64_t pid, uint32_t pid_text)
{
    return hash_words((uint64_t)pid, pid_text);
}

static uint64_t process_hash_at(const struct intake *in, size_t i)
{
    return process_hash(in->processes[i].pid, in->processes[i].pid_text);
}

uint32_t intake_process(struct intake *in, int64_t pid, uint32_t pid_text)
{
    struct index *x = &((struct lookup *)in->lookup)->processes;
    size_t at, n = in->n_processes;

    if (!index_room(x, process_hash_at, in, n))
        return 0;
    for (at = process_hash(pid, pid_text) & (x->n_slots - 1); x->slots[at];
         at = (at + 1) & (x->n_slots - 1)) {
        const struct process_entry *p = &in->processes[x->slots[at] - 1];
        if (p->pid == pid && p->pid_text == pid_text)
            return x->slots[at] - 1;
    }
    struct process_entry *list =
        list_room(in, in->processes, n, INTAKE_THREADS_MAX, &in->processes_cap, sizeof(*list));
    if (!list)
        return 0;
    in->processes = list;
    list[n] = (struct process_entry){.pid = pid, .pid_text = pid_text};
    x->slots[at] = (uint32_t)++in->n_processes;
    return (uint32_t)n;
}

static uint64_t thread_hash(uint32_t process, int64_t tid, uint32_t tid_text)
{
    return hash_words((uint64_t)tid, (uint64_t)process << 32 | tid_text);
}

static uint64_t thread_hash_at(const struct intake *in, size_t i)
{
    const struct thread_entry *t = &in->threads[i];
    return thread_hash(t->process, t->tid, t->tid_text);
}

uint32_t intake_thread(struct intake *in, int64_t pid, uint32_t pid_text, int64_t tid, uint32_t tid_text)
{
    struct index *x = &((struct lookup *)in->lookup)->threads;
    uint32_t process = intake_process(in, pid, pid_text);
    size_t at, n = in->n_threads;

    if (!index_room(x, thread_hash_at, in, n))
        return 0;
    for (at = thread_hash(process, tid, tid_text) & (x->n_slots - 1); x->slots[at];
         at = (at + 1) & (x->n_slots - 1)) {
        const struct thread_entry *t = &in->threads[x->slots[at] - 1];
        if (t->tid == tid && t->tid_text == tid_text && t->process == process)
            return x->slots[at] - 1;
    }
    struct thread_entry *list =
        list_room(in, in->threads, n, INTAKE_THREADS_MAX, &in->threads_cap, sizeof(*list));
    if (!list)
        return 0;
    in->threads = list;
    list[n] = (struct thread_entry){.tid = tid, .tid_text = tid_text, .process = process};
    x->slots[at] = (uint32_t)++in->n_threads;
    return (uint32_t)n;
}

static uint64_t category_hash(uint32_t string)
{
    return hash_words(string, 0);
}

static uint64_t category_hash_at(const struct intake *in, size_t i)
{
    return category_hash(in->categories[i]);
}

uint16_t intake_category(struct intake *in, uint32_t string)
{
    struct index *x = &((struct lookup *)in->lookup)->categories;
    size_t at, n = in->n_categories;

    if (!index_room(x, category_hash_at, in, n))
        return CATEGORY_NONE;
    for (at = category_hash(string) & (x->n_slots - 1); x->slots[at]; at = (at + 1) & (x->n_slots - 1))
        if (in->categories[x->slots[at] - 1] == string)
            return (uint16_t)(x->slots[at] - 1);
    uint32_t *list =
        list_room(in, in->categories, n, INTAKE_CATEGORIES_MAX, &in->categories_cap, sizeof(*list));
    if (!list)
        return CATEGORY_NONE;
    in->categories = list;
    list[n] = string;
    x->slots[at] = (uint32_t)++in->n_categories;
    return (uint16_t)n;
}

void intake_defect(struct intake *in, enum defect_kind kind, uint64_t place)
{
    if (in->defects.count[kind]++ == 0)
        in->defects.first[kind] = place;
}

static void flush(struct intake *in)
{
    struct batch *empty = NULL;

    if (!in->error && in->flush) {
        empty = in->flush(in, in->batch, in->flush_arg);
        if (empty) {
            in->batch = empty;
            return;
        }
    }
    /* Nobody takes it, so the events in it are lost. */
    fail(in, -ENOMEM);
    batch_reset(in->batch);
}

struct event *intake_event(struct intake *in)
{
    if (in->batch->n == BATCH_EVENTS)
        flush(in);
    return &in->batch->events[in->batch->n++];
}

int64_t *intake_args(struct intake *in, unsigned group)
{
    struct batch *b = in->batch;
    size_t width = arg_group_width[group];

    if (b->group_n[group] == b->group_cap[group]) {
        size_t cap = b->group_cap[group] ? 2 * b->group_cap[group] : ROWS_FIRST;
        int64_t *rows = realloc(b->group_rows[group], cap * width * sizeof(*rows));
        if (!rows) {
            fail(in, -ENOMEM);
            return NULL;
        }
        b->group_rows[group] = rows;
        b->group_cap[group] = cap;
    }
    int64_t *row = b->group_rows[group] + b->group_n[group]++ * width;
    for (size_t i = 0; i < width; i++)
        row[i] = COLUMN_NULL;
    b->events[b->n - 1].flags |= EVENT_IN_GROUP(group);
    return row;
}
