/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, each stored once and identified by its number, in order of appearance. Number 0 is the empty
 * string.
 *
 * Grows without copying existing text, which is stored in chunks. Bounded by the caller's limit.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/schema.h"

#define STRINGS_NONE UINT32_MAX /* no memory, or over the limit */
/* Readable bytes after every text that is kept or interned, so that texts are compared in complete words. */
#define TEXT_PAD 32

struct strings;

int strings_new(uint64_t bytes_max, struct strings **ret);
struct strings *strings_free(struct strings *s);
/* TEXT_PAD bytes after the text must be readable; they are ignored. */
uint32_t strings_intern(struct strings *s, const char *p, size_t size);
uint32_t strings_count(const struct strings *s);
const char *strings_get(const struct strings *s, uint32_t number, size_t *ret_size);
uint64_t strings_memory(const struct strings *s);

DEFINE_CLEANUP(struct strings *, strings_free)

/*
 * Events as a format's reader delivers them: plain rows without pointers, every text a number of the
 * intake's strings, every thread and process a number of the intake's lists. One intake belongs to one
 * thread.
 *
 * intake_event() and the rows of arguments fill a batch; its receiver sorts a full batch by time and packs
 * it into a run (run.h), and merge.h makes the columns from all runs of all intakes.
 */

enum event_phase {
    EVENT_COMPLETE,
    EVENT_BEGIN,
    EVENT_END,
    EVENT_INSTANT,
    EVENT_INSTANT_PROCESS,
    EVENT_INSTANT_GLOBAL,
    EVENT_ASYNC_BEGIN,
    EVENT_ASYNC_INSTANT,
    EVENT_ASYNC_END,
    EVENT_COUNTER,
    EVENT_FLOW_START,
    EVENT_FLOW_STEP,
    EVENT_FLOW_END,           /* binds to the next slice that begins on its track */
    EVENT_FLOW_END_ENCLOSING, /* binds to the open slice */
    _EVENT_PHASE_MAX,
};

#define CATEGORY_NONE UINT16_MAX

struct event {
    int64_t ts;
    int64_t dur;       /* flow, async: the id; counter: bits of its value as a double; 0 where none */
    uint64_t offset;   /* of its text in the stream; increases with every event of an intake */
    uint32_t name;     /* string */
    uint32_t thread;   /* number in the intake's threads; of a process for EVENT_INSTANT_PROCESS and ASYNC */
    uint16_t category; /* number in the intake's categories, CATEGORY_NONE */
    uint8_t phase;
    uint8_t flags; /* SLICE_HAS_ARGS; EVENT_IN_GROUP(g) for each group that has a row for it */
};
/* Groups of arguments are numbered from 0 = TABLE_ARGS_FIRST. */
#define EVENT_IN_GROUP(group) (uint8_t)(2u << (group))
_Static_assert(ARG_GROUPS <= 7, "flags hold a bit for each group of arguments");

/* Events in a batch, and maximum columns in a row of arguments. */
#define BATCH_EVENTS    65536
#define ARG_COLUMNS_MAX 32

struct thread_entry {
    int64_t tid;       /* valid where tid_text is 0 */
    uint32_t tid_text; /* string, 0 where the id is a number */
    uint32_t process;  /* number in the intake's processes */
    uint32_t name;     /* string, 0 unknown */
    int32_t sort_index;
};

struct process_entry {
    int64_t pid;
    uint32_t pid_text;
    uint32_t name, labels;
    int32_t sort_index;
};

struct defects {
    uint64_t count[_DEFECT_MAX];
    uint64_t first[_DEFECT_MAX]; /* offset in the text */
};

struct batch {
    size_t n;
    struct event events[BATCH_EVENTS];
    /* For each group: rows of group_width[] values, in the order of their events. */
    size_t group_n[ARG_GROUPS];
    int64_t *group_rows[ARG_GROUPS]; /* grown as needed, at most BATCH_EVENTS rows */
    size_t group_cap[ARG_GROUPS];
};

/* One trace of a file of merged traces: its number in the head of the file, from 1, and its processes. 0:
 * all traces of the file. */
struct merged_part {
    int64_t number;
    int64_t first_pid, last_pid;
};

struct intake {
    struct strings *strings;
    struct batch *batch; /* being filled */
    struct defects defects;
    struct thread_entry *threads;
    size_t n_threads, threads_cap;
    struct process_entry *processes;
    size_t n_processes, processes_cap;
    uint32_t *categories; /* strings */
    size_t n_categories, categories_cap;
    int64_t meta[_META_MAX]; /* COLUMN_NULL, or a number, or a string's number */
    struct merged_part part; /* events of other processes are left out */
    int error;               /* -ENOMEM, -E2BIG (a limit): later events are ignored */
    /* Takes the full batch and returns an empty one; set by the owner of the intake. */
    struct batch *(*flush)(struct intake *in, struct batch *full, void *arg);
    void *flush_arg;
    struct intake_numbers
        *numbers; /* private to intake.c: hash tables of threads, processes and categories */
};

#define INTAKE_THREADS_MAX    (1 << 20)
#define INTAKE_CATEGORIES_MAX 65534

/* Number of columns of a group, without that of its slice; they are column_args[] of that table, in order. */
extern const size_t arg_group_width[ARG_GROUPS];
/* Returns the index of a column in the rows of its group. */
size_t arg_group_index(enum column column);

int intake_new(uint64_t strings_max, struct intake **ret);
struct intake *intake_free(struct intake *in);
struct batch *batch_new(void);
struct batch *batch_free(struct batch *b);
void batch_reset(struct batch *b);

/* Numbers of threads, processes and categories of events; callers cache a lookup that is made for every
 * event. tid_text and pid_text are 0 if the id is a number. */
uint32_t intake_thread(struct intake *in, int64_t pid, uint32_t pid_text, int64_t tid, uint32_t tid_text);
uint32_t intake_process(struct intake *in, int64_t pid, uint32_t pid_text);
uint16_t intake_category(struct intake *in, uint32_t string);
void intake_defect(struct intake *in, enum defect_kind kind, uint64_t offset);

/* Private: replace a full batch; make room for more rows, false if memory is exhausted. */
void intake_flush(struct intake *in);
bool intake_grow_rows(struct intake *in, unsigned group);

/* Returns room for the next event; never NULL. A full batch is flushed first. Fill the event before the
 * next call. */
static inline struct event *intake_event(struct intake *in)
{
    if (__builtin_expect(in->batch->n == BATCH_EVENTS, 0))
        intake_flush(in);
    return &in->batch->events[in->batch->n++];
}

/* Returns a row of arguments for the latest event of intake_event(), all COLUMN_NULL, and sets its flag.
 * NULL if memory is exhausted (in->error is set). */
static inline int64_t *intake_args(struct intake *in, unsigned group)
{
    struct batch *b = in->batch;
    size_t width = arg_group_width[group];

    if (__builtin_expect(b->group_n[group] == b->group_cap[group], 0) && !intake_grow_rows(in, group))
        return NULL;
    int64_t *row = b->group_rows[group] + b->group_n[group]++ * width;
    for (size_t i = 0; i < width; i++)
        row[i] = COLUMN_NULL;
    b->events[b->n - 1].flags |= EVENT_IN_GROUP(group);
    return row;
}

DEFINE_CLEANUP(struct intake *, intake_free)
DEFINE_CLEANUP(struct batch *, batch_free)

/* Counts a defect that was detected out of the order of the text: the smallest offset is kept. */

static inline void count_defect(struct defects *d, enum defect_kind kind, uint64_t n, uint64_t offset)
{
    if (n > 0 && (d->count[kind] == 0 || offset < d->first[kind]))
        d->first[kind] = offset;
    d->count[kind] += n;
}
