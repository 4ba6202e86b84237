/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/events.h"

#include "base/array.h"
#include "base/hash_table.h"
#include <errno.h>

#define ROWS_FIRST ((size_t)1024)

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

struct lookup {
    struct hash_table threads, processes, categories;
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
        hash_table_done(&l->threads);
        hash_table_done(&l->processes);
        hash_table_done(&l->categories);
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

/* The number of a thing in its list, which has room for one more then; -1 after an error. */
static int64_t intake_number(struct intake *in, struct hash_table *numbers, size_t n_max, uint64_t hash,
                             hash_equal is_equal, const void *key)
{
    if (hash_table_reserve(numbers, numbers->n + 1) < 0) {
        fail(in, -ENOMEM);
        return -1;
    }
    struct hash_slot *slot = hash_table_slot(numbers, hash, is_equal, in, key);
    if (slot->number == 0 && numbers->n == n_max) {
        fail(in, -E2BIG);
        return -1;
    }
    if (slot->number == 0)
        hash_table_fill(numbers, slot, hash, numbers->n);
    return slot->number - INT64_C(1);
}

static bool process_equal(const void *owner, size_t number, const void *key)
{
    const struct process_entry *p = &((const struct intake *)owner)->processes[number], *wanted = key;

    return p->pid == wanted->pid && p->pid_text == wanted->pid_text;
}

uint32_t intake_process(struct intake *in, int64_t pid, uint32_t pid_text)
{
    struct process_entry process = {.pid = pid, .pid_text = pid_text};

    if (!ARRAY_RESERVE(in->processes, in->processes_cap, in->n_processes + 1)) {
        fail(in, -ENOMEM);
        return 0;
    }
    int64_t number = intake_number(in, &((struct lookup *)in->lookup)->processes, INTAKE_THREADS_MAX,
                                   hash_words((uint64_t)pid, pid_text), process_equal, &process);
    if (number == (int64_t)in->n_processes)
        in->processes[in->n_processes++] = process;
    return number < 0 ? 0 : (uint32_t)number;
}

static bool thread_equal(const void *owner, size_t number, const void *key)
{
    const struct thread_entry *t = &((const struct intake *)owner)->threads[number], *wanted = key;

    return t->tid == wanted->tid && t->tid_text == wanted->tid_text && t->process == wanted->process;
}

uint32_t intake_thread(struct intake *in, int64_t pid, uint32_t pid_text, int64_t tid, uint32_t tid_text)
{
    struct thread_entry thread = {
        .tid = tid, .tid_text = tid_text, .process = intake_process(in, pid, pid_text)};
    uint64_t hash = hash_words((uint64_t)tid, (uint64_t)thread.process << 32 | tid_text);

    if (!ARRAY_RESERVE(in->threads, in->threads_cap, in->n_threads + 1)) {
        fail(in, -ENOMEM);
        return 0;
    }
    int64_t number = intake_number(in, &((struct lookup *)in->lookup)->threads, INTAKE_THREADS_MAX, hash,
                                   thread_equal, &thread);
    if (number == (int64_t)in->n_threads)
        in->threads[in->n_threads++] = thread;
    return number < 0 ? 0 : (uint32_t)number;
}

static bool category_equal(const void *owner, size_t number, const void *key)
{
    return ((const struct intake *)owner)->categories[number] == *(const uint32_t *)key;
}

uint16_t intake_category(struct intake *in, uint32_t string)
{
    if (!ARRAY_RESERVE(in->categories, in->categories_cap, in->n_categories + 1)) {
        fail(in, -ENOMEM);
        return CATEGORY_NONE;
    }
    int64_t number = intake_number(in, &((struct lookup *)in->lookup)->categories, INTAKE_CATEGORIES_MAX,
                                   hash_words(string, 0), category_equal, &string);
    if (number == (int64_t)in->n_categories)
        in->categories[in->n_categories++] = string;
    return number < 0 ? CATEGORY_NONE : (uint16_t)number;
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
