/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner inside: what its parts share. Private to scan*.c.
 *
 * scan_core.h walks events and is compiled once for each kind of processor; what it found in one event goes
 * through scan_commit() into the intake, whole or not at all. scan.c walks what is around the events.
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
 * What stood between two values the last time: `", "name": `. Writers repeat themselves, so a comparison of
 * whole blocks with what followed the same key before tells the next key and where its value begins.
 */
struct expected {
    char text[EXPECTED_MAX];
    uint32_t mask, mask_behind; /* of its bytes, in the first and the second block */
    uint8_t size;
    uint8_t key;  /* number or enum key_answer */
    uint8_t walk; /* where the walk is after it */
};

/* The last two that were not the same. */
struct expectations {
    struct expected first, second;
};

/* Where in an object a walk is: after the key of this number, after one of those that are not known (they
 * share a few), or at the beginning. */
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

/* What was found in the event that is being read; what `seen` does not name is not set. */
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
    uint32_t thread;        /* + 1; 0 where it must be found by its ids */
    struct raw thread_text; /* from the value of "pid" to that of "ts", where they follow one another */
    uint64_t touched;       /* bits of the cells that are set */
    int64_t cells[CELLS_MAX];
};
_Static_assert(_DEFECT_MAX <= 32 && CELLS_MAX <= 64, "bits");

/* Skipping a value that may go on over any number of pieces. */
struct nest {
    uint64_t in_string; /* all ones or zero */
    uint64_t escaped;   /* 1 where the next byte is */
    uint64_t high;      /* not zero where something was not ASCII */
    uint32_t depth;
    bool too_deep;
};

enum skipping {
    SKIP_NOTHING,
    SKIP_NESTED, /* an object or array */
    SKIP_STRING,
    SKIP_SCALAR,
    SKIP_TO_EVENT, /* after a broken event, to where one seems to begin */
};

/* What is compiled for each kind of processor. */
struct scan_ops {
    /* Takes events from p, up to what is cut off or up to the end of their array. */
    const char *(*events)(struct scanner *s, const char *p, const char *end);
    /* From within an object or array, or from its bracket at depth 0, to after its end; NULL where that is
     * not in the text. */
    const char *(*skip_nested)(struct nest *n, const char *p, const char *end);
};

extern const struct scan_ops scan_ops_plain, scan_ops_sse2, scan_ops_avx2, scan_ops_neon;

struct scanner {
    struct intake *intake;
    const struct scan_ops *ops;
    enum scan_state state;
    bool bare;         /* events in an array without an object around it */
    bool seen_events;  /* there is, or was, an array of events */
    bool last;         /* nothing follows the piece */
    bool cut;          /* why a walk stopped: the text ends there, or else it is broken */
    const char *piece; /* the text at hand, whose first byte has this offset */
    uint64_t offset;
    uint64_t n_events;
    uint32_t no_name; /* string, once it was needed */

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
    USE_NOTHING, /* known, and without a meaning here */
};
enum phase_use scan_phase_use(char phase);
/* Puts what was found in the event at p into the intake. */
void scan_commit(struct scanner *s, const char *p);
/* Counts what is noted of what stands at p. */
void scan_commit_flaws(struct scanner *s, const char *p);
struct event *scan_add_event(struct scanner *s, enum event_phase phase, uint64_t offset, uint32_t thread);

/* scan_counter.c */

void scan_commit_counter(struct scanner *s, uint64_t offset, uint32_t thread);

/* scan_strings.c: numbers of strings, STRINGS_NONE where there is no memory (s->intake->error is set) */

#define INTERN_BEHIND 32 /* what may be looked at after a text that is interned */

/* Sets the category of this string, and its class. */
void scan_set_category(struct scanner *s, uint32_t string);
/* What stands between two quotes, with escapes or other flaws. */
uint32_t scan_intern_unescaped(struct scanner *s, const char *p, size_t size);
/* JSON as it is written, with bytes that are not ASCII. */
uint32_t scan_intern_repaired(struct scanner *s, const char *p, size_t size);
/* Notes what is wrong with a string that is not kept, such as a key; true where nothing is. */
bool scan_check_text(struct scanner *s, const char *p, size_t size);
/* A text that is not remembered in its cache entry *c. */
uint32_t scan_intern(struct scanner *s, const char *p, size_t size, struct cached_text *c);
uint32_t scan_intern_text(struct scanner *s, const char *p, size_t size);
/* Makes s->room at least so large; false where there is no memory. */
bool scan_make_room(struct scanner *s, size_t size);

/* scan_value.c: values that are not as expected, of which the whole text is known */

/* Sets *ret, or notes what is wrong with it; false where it is no number. Text in quotes may be one. */
bool scan_value_number(struct scanner *s, struct raw value, int decimals, int64_t *ret);
/* The same for a number of any size that is kept as it is written. */
bool scan_value_real(struct scanner *s, struct raw value);
/* Notes a scalar that is neither a number nor a word of JSON. */
void scan_value_check(struct scanner *s, struct raw value);

/* scan_border.c */

/* Where after a broken event reading goes on: at an event, or at the end of their array. NULL where that is
 * not in the text; *ret_keep is then where the next search must begin. */
const char *scan_border(const struct scanner *s, const char *p, const char *end, const char **ret_keep);

/* scan_meta.c */

/* True where the value of this key of the outer object is kept. */
bool scan_meta_wanted(const char *key, size_t size);
void scan_meta_take(struct scanner *s, const char *key, size_t size, struct raw value);
