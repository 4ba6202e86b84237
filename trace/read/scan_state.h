/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that the parts of the scanner share. Private to scan*.c.
 *
 * scan_core.c walks events and is compiled once for each kind of processor; the values of one event go
 * through scan_commit() into the intake, completely or not at all. scan.c walks the text around the events.
 */
#pragma once

#include "trace/read/json_text.h"
#include "trace/read/scan.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define _hot_       static inline __attribute__((always_inline))

/* -- Known keys (scan_keys.c) */

/* The keys of events, and those of their arguments by the class that an event's category selects. All tables are
 * made from those of schema.h at the start. */

#define KEYS_MAX     64
#define KEY_SIZE_MAX 40
#define KEY_SLOTS    256

struct key_table {
    uint8_t slots[KEY_SLOTS]; /* number + 1 */
    uint8_t n;
    struct {
        char text[KEY_SIZE_MAX];
        uint8_t size;
    } key[KEYS_MAX];
};

/* Results of a walk through an object, in addition to the number of a key. */
enum key_answer {
    KEY_OTHER = KEYS_MAX, /* not known */
    KEY_END,              /* none follows */
    KEY_FAULT,            /* the text is cut off or broken there */
};

/* Returns the number or KEY_OTHER; eight bytes after the key must be readable. */
unsigned keys_find(const struct key_table *k, const char *p, size_t size);

enum event_member {
    MEMBER_PH,
    MEMBER_CAT,
    MEMBER_NAME,
    MEMBER_PID,
    MEMBER_TID,
    MEMBER_TS,
    MEMBER_DUR,
    MEMBER_ARGS,
    MEMBER_ID,
    MEMBER_ID2,
    MEMBER_SCOPE,
    MEMBER_BIND_POINT,
    MEMBER_BIND_ID,
    MEMBER_FLOW_IN,
    MEMBER_FLOW_OUT,
    _MEMBER_MAX,
};

void keys_of_events(struct key_table *k);

/*
 * A class of arguments is the group (TABLE_ARGS_FIRST + class) that its rows go to, or one of these.
 */
#define CLASS_UNLISTED ARG_GROUPS       /* the arguments themselves determine the group */
#define CLASS_NAMES    (ARG_GROUPS + 1) /* metadata of threads and processes */
#define CLASS_COUNT    (ARG_GROUPS + 2)

/* The columns of CLASS_NAMES. */
enum names_column { NAMES_NAME, NAMES_LABELS, NAMES_SORT_INDEX };

/* Destination of a value: a cell of the event's row, or of the second row that collectives have in
 * addition. */
#define CELLS_OF_COLLECTIVE ARG_COLUMNS_MAX
#define CELLS_MAX           (2 * ARG_COLUMNS_MAX)
#define TARGETS_MAX         3

struct arg_target {
    uint8_t cell;
    int8_t array; /* element of an array, -1 for the value itself */
};

enum arg_take { TAKE_INT, TAKE_INTS, TAKE_TEXT, TAKE_REAL, TAKE_CLASS };

struct arg_use {
    uint8_t take; /* enum arg_take */
    uint8_t n;
    struct arg_target to[TARGETS_MAX];
};

struct arg_class {
    struct key_table keys;
    struct arg_use arg[KEYS_MAX];
};

void arg_class_init(struct arg_class *c, unsigned class);
unsigned arg_class_of_category(const char *category, size_t size);

/* -- Shapes (scan_shape.c, scan_shape.h) */

/*
 * Writers repeat themselves: all text of an event but a few values is that of an earlier event. A shape is such an
 * event: the texts between those values, and what is done with each value. Shapes are the paths of a tree whose
 * nodes are texts, so that a path determines every key, and with it how each value is read.
 *
 * A shape only ever predicts: an event that none fits is read key by key, which yields the same result, and
 * becomes a shape.
 */

#define EXPECTED_MAX 64 /* two blocks of find.h */
_Static_assert(EXPECTED_MAX <= SCAN_PAD, "an expected text may be looked for at the end of a piece");
#define SHAPE_NODES      2048
#define SHAPE_VALUES_MAX 64   /* of an event */
#define SHAPE_OTHERS_MAX 64   /* texts in the same place */
#define SHAPE_THREADS    64   /* last threads that are remembered */
#define SHAPE_MISSES_MAX 4096 /* events that no shape fitted, after which all are forgotten */

struct expected {
    char text[EXPECTED_MAX];
    uint32_t mask, mask_after; /* of its bytes, in the first and the second block */
    uint8_t size;
};

/* What follows the text of a node: the value of the enum event_member of this number, or one of these. */
enum shape_follows {
    SHAPE_SKIP = _MEMBER_MAX, /* a value that is not used */
    SHAPE_ARG,                /* a value of the arguments */
    SHAPE_GAP,                /* more text */
    SHAPE_END,                /* nothing: the event is complete */
};

/* The values that all events of a shape have in common. */
struct shape_constants {
    uint32_t seen; /* bits of enum event_member */
    char phase, scope, bind_point;
    bool has_args;
    bool complete; /* a complete event on a thread, without flows */
    uint8_t class;
    uint16_t category;
};

struct shape_node {
    struct expected text;
    uint8_t follows;
    uint8_t brace;        /* offset of the event's brace in the text; of the first node of an event */
    uint8_t thread;       /* number of the last thread, before a "pid" */
    bool after_ids;       /* before a "ts" that follows "pid" and "tid" */
    uint16_t other, next; /* nodes: another text in the same place, the first text after the value */
    union {
        const struct arg_use *arg;
        struct shape_constants constants; /* of SHAPE_END; its `next` begins the event that followed last */
    };
};

/* Events of a shape mostly come from the same thread: the text that names it, from the value of "pid" to that of
 * "ts", and the thread. */
struct last_thread {
    struct expected text;
    uint32_t thread;  /* + 1; 0: none */
    uint16_t pid, ts; /* the nodes before these values: other events may have other constants between them */
};

struct shapes {
    uint16_t n, root, last; /* nodes, of which the first is none; the end of the last event */
    uint8_t n_threads;
    uint32_t misses;
    struct shape_node nodes[SHAPE_NODES];
    struct last_thread threads[SHAPE_THREADS];
};

/* The values of an event that is read key by key. */
struct shape_draft {
    bool usable;
    uint8_t n;
    uint32_t members; /* bits of enum event_member */
    struct shape_value {
        const char *begin, *end;
        const struct arg_use *arg;
        uint8_t follows;
    } values[SHAPE_VALUES_MAX];
};

struct scanner;

void shapes_forget(struct shapes *h);
/* Makes a shape of the draft of the event that was just read: of the text from `begin`, where the previous event
 * ended, past the event's brace to its end. */
void shapes_learn(struct scanner *s, const char *begin, const char *brace, const char *end);

static inline void shape_draft_add(struct shape_draft *d, unsigned follows, const struct arg_use *arg,
                                   const char *begin, const char *end)
{
    if (unlikely(d->n == SHAPE_VALUES_MAX))
        d->usable = false;
    else
        d->values[d->n++] = (struct shape_value){begin, end, arg, (uint8_t)follows};
}

/* -- State */

#define CACHE_TEXTS   4096
#define CACHE_THREADS 256

struct cached_text {
    const char *text;
    uint32_t size, number;
};

struct cached_thread {
    int64_t pid, tid;
    uint32_t pid_text, tid_text;
    uint32_t thread; /* + 1 */
};

/* The values of the current event; values that are not in `seen` are not set. */
struct scanned_event {
    uint32_t seen;  /* bits of enum event_member */
    uint32_t flaws; /* bits of enum defect_kind */
    char phase, scope, bind_point;
    bool flow_in, flow_out;
    bool has_args;
    uint8_t class;
    uint16_t category;
    uint32_t name;
    uint32_t pid_text, tid_text;
    int64_t ts, dur, pid, tid;
    struct slice args, id2, bind_id;
    struct slice id; /* without a text where it is the number */
    int64_t id_number;
    uint32_t thread; /* + 1; 0 if it must be looked up by its ids */
    /* From the value of "pid" to that of "ts", where they follow one another, and where to keep it. */
    struct slice thread_text;
    struct last_thread *last_thread;
    uint64_t touched; /* bits of the cells that are set */
    int64_t cells[CELLS_MAX];
};
_Static_assert(_DEFECT_MAX <= 32 && CELLS_MAX <= 64, "bits");

/* State of skipping a value that may extend over any number of pieces. */
struct json_nest {
    uint64_t in_string; /* all ones or zero */
    uint64_t escaped;   /* 1 where the next byte is */
    uint64_t high;      /* not zero if a byte was not ASCII */
    uint32_t depth;
    bool too_deep;
};

enum skipping {
    SKIP_NOTHING,
    SKIP_NESTED, /* an object or array */
    SKIP_STRING,
    SKIP_SCALAR,
    SKIP_TO_EVENT, /* after a broken event, up to a likely event */
};

/* What is compiled for each kind of processor. */
struct scan_ops {
    /* Takes events from p, up to truncated text or the end of their array. */
    const char *(*events)(struct scanner *s, const char *p, const char *end);
    /* Skips from within an object or array, or from its bracket at depth 0, to its end; NULL if the end is
     * not in the text. */
    const char *(*skip_nested)(struct json_nest *n, const char *p, const char *end);
};

extern const struct scan_ops scan_ops_plain, scan_ops_sse2, scan_ops_avx2, scan_ops_neon;

struct scanner {
    struct intake *intake;
    const struct scan_ops *ops;
    enum scan_state state;
    bool bare;         /* events in an array without an object around it */
    bool seen_events;  /* an array of events is open or was read */
    bool last;         /* nothing follows the piece */
    bool cut;          /* reason why a walk stopped: the end of the text, or else broken text */
    const char *piece; /* the current text, whose first byte has this offset */
    uint64_t offset;
    uint64_t n_events;
    uint32_t no_name; /* string; set on first use */

    enum skipping skipping;
    enum scan_state after_skip;
    struct json_nest nest;

    struct scanned_event event;
    struct key_table members;
    struct arg_class classes[CLASS_COUNT];
    struct cached_text texts[CACHE_TEXTS];
    struct cached_thread threads[CACHE_THREADS];
    bool shapeless; /* shapes are not used */
    struct shapes shapes;
    struct shape_draft draft;
    char *buffer; /* for cleaned texts */
    size_t buffer_size;
};

static inline uint64_t scan_offset(const struct scanner *s, const char *p)
{
    return s->offset + (uint64_t)(p - s->piece);
}

/* The bits of the first n, at most 32. */
static inline uint32_t low_bits(size_t n)
{
    return n >= 32 ? UINT32_MAX : (1u << n) - 1;
}

/* From p to end there are at most EXPECTED_MAX bytes. */
static inline void expected_set(struct expected *e, const char *p, const char *end)
{
    size_t size = (size_t)(end - p);

    memcpy(e->text, p, size);
    e->size = (uint8_t)size;
    e->mask = low_bits(size);
    e->mask_after = size > 32 ? low_bits(size - 32) : 0;
}

#define SEEN(values, member) ((values)->seen >> MEMBER_##member & 1)

static inline void scan_flaw(struct scanner *s, enum defect_kind kind)
{
    s->event.flaws |= 1u << kind;
}

static inline bool scan_is_quoted(struct slice value)
{
    return value.p < value.end && *value.p == '"';
}

/* Adds the cells of the event's arguments, which the class has in the first of both rows. */
static inline void scan_add_rows(struct scanner *s, unsigned class)
{
    const struct scanned_event *f = &s->event;
    const struct {
        unsigned group;
        uint64_t touched;
        const int64_t *cells;
    } rows[] = {
        {class, f->touched & low_bits(CELLS_OF_COLLECTIVE), f->cells},
        {TABLE_collective - TABLE_ARGS_FIRST, f->touched >> CELLS_OF_COLLECTIVE,
         f->cells + CELLS_OF_COLLECTIVE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int64_t *row = rows[i].touched ? intake_args(s->intake, rows[i].group) : NULL;
        for (uint64_t rest = row ? rows[i].touched : 0; rest; rest &= rest - 1)
            row[__builtin_ctzll(rest)] = rows[i].cells[__builtin_ctzll(rest)];
    }
}

/* -- Events (scan_event.c) */

enum phase_use {
    USE_UNKNOWN,
    USE_EVENT,
    USE_FLOW,
    USE_COUNTER,
    USE_NAMES,
    USE_NOTHING, /* known, but not used here */
};
enum phase_use scan_phase_use(char phase);
/* Adds the values of the event at p to the intake. */
void scan_commit(struct scanner *s, const char *p);
/* Counts the flaws that were noted for the text at p. */
void scan_commit_flaws(struct scanner *s, const char *p);

/* -- Strings and unusual values (scan_text.c) */

/* Strings are returned as their number, STRINGS_NONE if memory is exhausted (s->intake->error is set). */

/* Sets the category of this string, and its class. */
void scan_set_category(struct scanner *s, uint32_t string);
/* Interns text between two quotes with escapes or other flaws; without unescape, JSON in its written form. */
uint32_t scan_intern_cleaned(struct scanner *s, struct slice text, bool unescape);
/* Notes the flaws of a string that is not kept, such as a key; true if it has none. */
bool scan_check_text(struct scanner *s, struct slice text);
/* Interns a text, after which TEXT_PAD bytes are readable; *c, if not NULL, becomes its cache entry. */
uint32_t scan_intern(struct scanner *s, const char *p, size_t size, struct cached_text *c);
/* Makes s->buffer at least this large; false if memory is exhausted. */
bool scan_reserve_buffer(struct scanner *s, size_t size);

/* Sets *ret, or notes the flaw; false if it is not a number. Quoted text may be a number. value is the complete
 * text. */
bool scan_value_number(struct scanner *s, struct slice value, int decimals, int64_t *ret);
/* The same for a number of any size that is kept in its written form. A scalar that is neither a number nor a
 * literal of JSON is noted. */
bool scan_value_is_number(struct scanner *s, struct slice value);
