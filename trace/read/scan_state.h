/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that the parts of the scanner share. Private to scan*.c.
 *
 * scan_core.h walks events and is compiled once for each kind of processor; the values of one event go
 * through scan_commit() into the intake, completely or not at all. scan.c walks the text around the events.
 */
#pragma once

#include "trace/read/scan.h"
#include "trace/read/scan_keys.h"

#define EXPECTED_MAX 64 /* two blocks of find.h */
_Static_assert(EXPECTED_MAX <= SCAN_PAD, "an expected text may be looked for at the end of a piece");
#define CACHE_TEXTS      4096
#define CACHE_THREADS    256
#define CACHE_CATEGORIES 64
#define CACHE_LANES      16

/*
 * The previous text between two values: `", "name": `. Writers repeat themselves, so that comparing
 * complete blocks with the text that last followed the same key yields the next key and the start of its
 * value.
 */
struct expected {
    char text[EXPECTED_MAX];
    uint32_t mask, mask_behind; /* of its bytes, in the first and the second block */
    uint8_t size;
    uint8_t key;  /* number or enum key_answer */
    uint8_t walk; /* state of the walk after it */
};

/* The last two different texts. */
struct expectations {
    struct expected first, second;
};

/* Position of a walk in an object: after the key of this number, after one of the unknown keys (they share
 * a few numbers), or at the beginning. */
#define WALK_OTHERS 16
#define WALK_BEGIN  (KEYS_MAX + WALK_OTHERS)
#define WALK_STATES (KEYS_MAX + WALK_OTHERS + 1)

struct cached_text {
    const char *text;
    uint32_t size, number;
};

struct cached_thread {
    int64_t pid, tid;
    uint32_t pid_text, tid_text;
    uint32_t thread; /* + 1 */
};

/* Events of a category mostly come from the same thread: the text that names it, and the thread. */
struct cached_lane {
    struct expected text;
    uint32_t thread; /* + 1 */
};

/* By the first bytes of how they are written, with their quotes. */
struct cached_category {
    struct expected text;
    uint16_t category;
    uint8_t class;
};

/* A value as it is written, with its quotes or brackets. */
struct raw {
    const char *p, *end;
};

/* The values of the current event; values that are not in `seen` are not set. */
struct found {
    uint32_t seen;  /* bits of enum member */
    uint32_t flaws; /* bits of enum defect_kind */
    char phase, scope, bind_point;
    bool flow_in, flow_out;
    bool has_args;
    uint8_t class;
    uint16_t category;
    uint32_t name;
    uint32_t pid_text, tid_text;
    int64_t ts, dur, pid, tid;
    struct raw args, id2, bind_id;
    struct raw id; /* without a text where it is the number */
    int64_t id_number;
    uint32_t thread;        /* + 1; 0 if it must be looked up by its ids */
    struct raw thread_text; /* from the value of "pid" to that of "ts", where they follow one another */
    uint64_t touched;       /* bits of the cells that are set */
    int64_t cells[CELLS_MAX];
};
_Static_assert(_DEFECT_MAX <= 32 && CELLS_MAX <= 64, "bits");

/* State of skipping a value that may extend over any number of pieces. */
struct nest {
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
    const char *(*skip_nested)(struct nest *n, const char *p, const char *end);
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
    enum scan_state behind_skip;
    struct nest nest;

    struct found found;
    struct keys members;
    struct expected between;
    struct expectations members_expected[2][WALK_STATES]; /* second: of complete events */
    struct arg_class classes[CLASS_COUNT];
    struct expectations args_expected[CLASS_COUNT][WALK_STATES];
    struct cached_text texts[CACHE_TEXTS];
    struct cached_thread threads[CACHE_THREADS];
    struct cached_category categories[CACHE_CATEGORIES];
    struct cached_lane lanes[CACHE_LANES];
    char *room; /* for cleaned texts */
    size_t room_size;
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
static inline void expect(struct expected *e, const char *p, const char *end, unsigned key, unsigned walk)
{
    size_t size = (size_t)(end - p);

    memcpy(e->text, p, size);
    e->size = (uint8_t)size;
    e->mask = low_bits(size);
    e->mask_behind = size > 32 ? low_bits(size - 32) : 0;
    e->key = (uint8_t)key;
    e->walk = (uint8_t)walk;
}

#define SEEN(found, member) ((found)->seen >> MEMBER_##member & 1)

static inline void scan_flaw(struct scanner *s, enum defect_kind kind)
{
    s->found.flaws |= 1u << kind;
}

static inline bool scan_is_quoted(struct raw value)
{
    return value.p < value.end && *value.p == '"';
}

/* scan_event.c */

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
struct event *scan_add_event(struct scanner *s, enum event_phase phase, uint64_t offset, uint32_t thread);

/* scan_event.c */

void scan_commit_counter(struct scanner *s, uint64_t offset, uint32_t thread);

/* scan_text.c: numbers of strings, STRINGS_NONE if memory is exhausted (s->intake->error is set) */

#define INTERN_BEHIND 32 /* readable bytes after a text that is interned */

/* Sets the category of this string, and its class. */
void scan_set_category(struct scanner *s, uint32_t string);
/* Interns text between two quotes, with escapes or other flaws. */
uint32_t scan_intern_unescaped(struct scanner *s, const char *p, size_t size);
/* Interns JSON in its written form, with bytes that are not ASCII. */
uint32_t scan_intern_repaired(struct scanner *s, const char *p, size_t size);
/* Notes the flaws of a string that is not kept, such as a key; true if it has none. */
bool scan_check_text(struct scanner *s, const char *p, size_t size);
/* Interns a text that is not in its cache entry *c. */
uint32_t scan_intern(struct scanner *s, const char *p, size_t size, struct cached_text *c);
uint32_t scan_intern_text(struct scanner *s, const char *p, size_t size);
/* Makes s->room at least this large; false if memory is exhausted. */
bool scan_make_room(struct scanner *s, size_t size);

/* scan_text.c: unusual values, whose complete text is known */

/* Sets *ret, or notes the flaw; false if it is not a number. Quoted text may be a number. */
bool scan_value_number(struct scanner *s, struct raw value, int decimals, int64_t *ret);
/* The same for a number of any size that is kept in its written form. */
bool scan_value_real(struct scanner *s, struct raw value);
/* Notes a scalar that is neither a number nor a literal of JSON. */
void scan_value_check(struct scanner *s, struct raw value);

/* scan.c */

/* Returns the position at which reading continues after a broken event: an event, or the end of their
 * array. NULL if that is not in the text; *ret_keep is then the beginning of the next search. */
const char *scan_border(const struct scanner *s, const char *p, const char *end, const char **ret_keep);

/* scan_event.c */

/* Returns true if the value of this key of the outer object is kept. */
bool scan_meta_wanted(const char *key, size_t size);
void scan_meta_take(struct scanner *s, const char *key, size_t size, struct raw value);
