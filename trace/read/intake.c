/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/intake.h"

#include "base/array.h"
#include "base/hash_table.h"
#include <errno.h>

/* -- Strings -------------------------------------------------------------------------------------------- */

#define CHUNK_FIRST  ((size_t)1 << 16)
#define CHUNK_LAST   ((size_t)1 << 22) /* each chunk is twice as large as the previous one, up to this size */
#define SEGMENT_BITS 15
#define SEGMENT_SIZE ((size_t)1 << SEGMENT_BITS)
#define SLOTS_FIRST  ((size_t)1 << 12) /* of the hash table */

struct string_entry {
    const char *p;
    uint32_t size;
};

struct chunk {
    struct chunk *next;
    char text[];
};

struct strings {
    uint64_t bytes_max, bytes;
    uint32_t n;
    struct hash_table numbers; /* number in the chunk + 1: the empty string needs no entry */
    struct string_entry **segments;
    size_t n_segments, segments_cap;
    struct chunk *chunks;
    size_t chunk_size;
    char *free_text; /* in the newest chunk */
    size_t free_size;
};

/* Every allocation is counted first; false if it would exceed the limit. */
static bool strings_charge(struct strings *s, uint64_t bytes)
{
    if (bytes > s->bytes_max - s->bytes)
        return false;
    s->bytes += bytes;
    return true;
}

static bool strings_add_segment(struct strings *s)
{
    if (!ARRAY_RESERVE(s->segments, s->segments_cap, s->n_segments + 1))
        return false;
    struct string_entry *segment = malloc(SEGMENT_SIZE * sizeof(*segment));
    if (!segment)
        return false;
    s->segments[s->n_segments++] = segment;
    return true;
}

static struct string_entry *strings_entry_of(const struct strings *s, uint32_t number)
{
    return &s->segments[number >> SEGMENT_BITS][number & (SEGMENT_SIZE - 1)];
}

static bool strings_grow_slots(struct strings *s)
{
    size_t n = s->numbers.n_slots ? 2 * s->numbers.n_slots : SLOTS_FIRST;

    return strings_charge(s, (n - s->numbers.n_slots) * sizeof(struct hash_slot)) &&
           hash_table_reserve(&s->numbers, n / 2) == 0;
}

/* Number in the table, from 0 for the string of number 1. */
static bool strings_equal(const void *owner, size_t number, const void *key)
{
    const struct string_entry *e = strings_entry_of(owner, (uint32_t)number + 1), *wanted = key;

    return e->size == wanted->size && memcmp(e->p, wanted->p, wanted->size) == 0;
}

static char *strings_reserve_text(struct strings *s, size_t size)
{
    size_t need = size + TEXT_PAD;

    if (s->free_size < need) {
        /* A text that would waste most of a chunk gets a chunk of its own and leaves the current chunk in
         * use. */
        bool alone = need > s->chunk_size / 8;
        size_t capacity = alone ? need : s->chunk_size - sizeof(struct chunk);
        struct chunk *c = array_alloc_pages(sizeof(*c) + capacity);
        if (!c)
            return NULL;
        c->next = s->chunks;
        s->chunks = c;
        if (alone)
            return c->text;
        s->free_text = c->text;
        s->free_size = capacity;
        s->chunk_size = MIN(2 * s->chunk_size, CHUNK_LAST);
    }
    char *text = s->free_text;
    s->free_text += size;
    s->free_size -= size;
    return text;
}

static bool strings_add_string(struct strings *s, const char *p, size_t size)
{
    if (s->n == STRINGS_NONE || size > UINT32_MAX || !strings_charge(s, size + sizeof(struct string_entry)))
        return false;
    if ((size_t)s->n >> SEGMENT_BITS == s->n_segments && !strings_add_segment(s))
        return false;
    char *text = strings_reserve_text(s, size);
    if (!text)
        return false;
    memcpy(text, p, size);
    *strings_entry_of(s, s->n) = (struct string_entry){text, (uint32_t)size};
    s->n++;
    return true;
}

int strings_new(uint64_t bytes_max, struct strings **ret)
{
    _cleanup_(strings_freep) struct strings *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->bytes_max = bytes_max;
    s->chunk_size = CHUNK_FIRST;
    if (!strings_grow_slots(s) || !strings_add_string(s, "", 0))
        return -ENOMEM;
    *ret = TAKE_PTR(s);
    return 0;
}

struct strings *strings_free(struct strings *s)
{
    if (!s)
        return NULL;
    for (struct chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    for (size_t i = 0; i < s->n_segments; i++)
        free(s->segments[i]);
    free(s->segments);
    hash_table_done(&s->numbers);
    free(s);
    return NULL;
}

uint32_t strings_intern(struct strings *s, const char *p, size_t size)
{
    struct string_entry wanted = {p, (uint32_t)size};
    uint64_t hash = hash_padded(p, size);

    if (size == 0)
        return 0;
    if (size > UINT32_MAX)
        return STRINGS_NONE;
    struct hash_slot *slot = hash_table_slot(&s->numbers, hash, strings_equal, s, &wanted);
    if (slot->number != 0)
        return slot->number;
    if (!strings_add_string(s, p, size))
        return STRINGS_NONE;
    uint32_t number = s->n - 1;
    hash_table_fill(&s->numbers, slot, hash, number - 1);
    /* If memory for more slots is exhausted, the free slots are used until one is left. */
    if (s->n > s->numbers.n_slots / 2 && !strings_grow_slots(s) && s->n >= s->numbers.n_slots)
        s->bytes_max = s->bytes;
    return number;
}

uint32_t strings_count(const struct strings *s)
{
    return s->n;
}

const char *strings_get(const struct strings *s, uint32_t number, size_t *ret_size)
{
    const struct string_entry *e = strings_entry_of(s, number);

    *ret_size = e->size;
    return e->p;
}

uint64_t strings_memory(const struct strings *s)
{
    return s->bytes;
}

/* -- Events --------------------------------------------------------------------------------------------- */

#define ROWS_FIRST ((size_t)1024)

/* The first column of each group; the columns of a group are consecutive, and so are the groups. */
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

struct intake_numbers {
    struct hash_table threads, processes, categories;
};

struct batch *batch_new(void)
{
    struct batch *b = malloc(sizeof(*b));

    /* Not its events, of which most pages may never be used. */
    if (b) {
        batch_reset(b);
        memset(b->group_rows, 0, sizeof(b->group_rows));
        memset(b->group_cap, 0, sizeof(b->group_cap));
    }
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
    in->numbers = calloc(1, sizeof(*in->numbers));
    if (!in->batch || !in->numbers)
        return -ENOMEM;
    *ret = TAKE_PTR(in);
    return 0;
}

struct intake *intake_free(struct intake *in)
{
    if (!in)
        return NULL;
    if (in->numbers) {
        hash_table_done(&in->numbers->threads);
        hash_table_done(&in->numbers->processes);
        hash_table_done(&in->numbers->categories);
        free(in->numbers);
    }
    strings_free(in->strings);
    batch_free(in->batch);
    free(in->threads);
    free(in->processes);
    free(in->categories);
    free(in);
    return NULL;
}

static void intake_fail(struct intake *in, int error)
{
    if (!in->error)
        in->error = error;
}

/* Returns the number of an item in its list, which then has capacity for one more; -1 after an error. */
static int64_t intake_number(struct intake *in, struct hash_table *numbers, size_t n_max, uint64_t hash,
                             hash_equal is_equal, const void *key)
{
    if (hash_table_reserve(numbers, numbers->n + 1) < 0) {
        intake_fail(in, -ENOMEM);
        return -1;
    }
    struct hash_slot *slot = hash_table_slot(numbers, hash, is_equal, in, key);
    if (slot->number == 0 && numbers->n == n_max) {
        intake_fail(in, -E2BIG);
        return -1;
    }
    if (slot->number == 0)
        hash_table_fill(numbers, slot, hash, numbers->n);
    return slot->number - INT64_C(1);
}

static bool intake_process_equal(const void *owner, size_t number, const void *key)
{
    const struct process_entry *p = &((const struct intake *)owner)->processes[number], *wanted = key;

    return p->pid == wanted->pid && p->pid_text == wanted->pid_text;
}

uint32_t intake_process(struct intake *in, int64_t pid, uint32_t pid_text)
{
    struct process_entry process = {.pid = pid, .pid_text = pid_text};

    if (!ARRAY_RESERVE(in->processes, in->processes_cap, in->n_processes + 1)) {
        intake_fail(in, -ENOMEM);
        return 0;
    }
    int64_t number = intake_number(in, &in->numbers->processes, INTAKE_THREADS_MAX,
                                   hash_words((uint64_t)pid, pid_text), intake_process_equal, &process);
    if (number == (int64_t)in->n_processes)
        in->processes[in->n_processes++] = process;
    return number < 0 ? 0 : (uint32_t)number;
}

static bool intake_thread_equal(const void *owner, size_t number, const void *key)
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
        intake_fail(in, -ENOMEM);
        return 0;
    }
    int64_t number =
        intake_number(in, &in->numbers->threads, INTAKE_THREADS_MAX, hash, intake_thread_equal, &thread);
    if (number == (int64_t)in->n_threads)
        in->threads[in->n_threads++] = thread;
    return number < 0 ? 0 : (uint32_t)number;
}

static bool intake_category_equal(const void *owner, size_t number, const void *key)
{
    return ((const struct intake *)owner)->categories[number] == *(const uint32_t *)key;
}

uint16_t intake_category(struct intake *in, uint32_t string)
{
    if (!ARRAY_RESERVE(in->categories, in->categories_cap, in->n_categories + 1)) {
        intake_fail(in, -ENOMEM);
        return CATEGORY_NONE;
    }
    int64_t number = intake_number(in, &in->numbers->categories, INTAKE_CATEGORIES_MAX, hash_words(string, 0),
                                   intake_category_equal, &string);
    if (number == (int64_t)in->n_categories)
        in->categories[in->n_categories++] = string;
    return number < 0 ? CATEGORY_NONE : (uint16_t)number;
}

void intake_defect(struct intake *in, enum defect_kind kind, uint64_t offset)
{
    if (in->defects.count[kind]++ == 0)
        in->defects.first[kind] = offset;
}

void intake_flush(struct intake *in)
{
    struct batch *empty = NULL;

    if (!in->error && in->flush) {
        empty = in->flush(in, in->batch, in->flush_arg);
        if (empty) {
            in->batch = empty;
            return;
        }
    }
    /* If the batch is not replaced, its events are lost. */
    intake_fail(in, -ENOMEM);
    batch_reset(in->batch);
}

bool intake_grow_rows(struct intake *in, unsigned group)
{
    struct batch *b = in->batch;
    size_t cap = b->group_cap[group] ? 2 * b->group_cap[group] : ROWS_FIRST;
    int64_t *rows = realloc(b->group_rows[group], cap * arg_group_width[group] * sizeof(*rows));

    if (!rows) {
        intake_fail(in, -ENOMEM);
        return false;
    }
    b->group_rows[group] = rows;
    b->group_cap[group] = cap;
    return true;
}
