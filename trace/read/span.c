/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/span.h"

#include "trace/read/json_text.h"
#include <errno.h>

/* -- Window --------------------------------------------------------------------------------------------- */

#define RING_SIZE (WINDOW_END + WINDOW_ROOM)

struct text_window {
    uint64_t total;
    size_t at; /* offset of the next byte */
    uint8_t ring[RING_SIZE];
    char head[WINDOW_END];
    char tail[WINDOW_END];
};

int window_new(struct text_window **ret)
{
    struct text_window *w = malloc(sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->total = 0;
    w->at = 0;
    *ret = w;
    return 0;
}

struct text_window *window_free(struct text_window *w)
{
    free(w);
    return NULL;
}

uint8_t *window_room(struct text_window *w, size_t *ret_size)
{
    *ret_size = MIN((size_t)WINDOW_ROOM, RING_SIZE - w->at);
    return w->ring + w->at;
}

void window_filled(struct text_window *w, size_t size)
{
    if (w->total < WINDOW_END)
        memcpy(w->head + w->total, w->ring + w->at, MIN(size, WINDOW_END - (size_t)w->total));
    w->total += size;
    w->at = (w->at + size) % RING_SIZE;
}

uint64_t window_total(const struct text_window *w)
{
    return w->total;
}

const char *window_head(const struct text_window *w, size_t *ret_size)
{
    *ret_size = (size_t)MIN(w->total, (uint64_t)WINDOW_END);
    return w->head;
}

const char *window_tail(struct text_window *w, size_t *ret_size)
{
    size_t size = (size_t)MIN(w->total, (uint64_t)WINDOW_END);
    size_t start = (w->at + RING_SIZE - size) % RING_SIZE;
    size_t first = MIN(size, RING_SIZE - start);

    memcpy(w->tail, w->ring + start, first);
    memcpy(w->tail + first, w->ring, size - first);
    *ret_size = size;
    return w->tail;
}

/* -- Span ----------------------------------------------------------------------------------------------- */

#define NS_PER_US 1000
/* More digits of integral microseconds do not fit as nanoseconds; this number of digits fits in 64 bits
 * unsigned. */
#define US_DIGITS_MAX 16
/* Positions that are searched at a time. */
#define BLOCK 64

typedef uint8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t words2 __attribute__((vector_size(16)));

static bool span_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Microseconds in [p, end) as nanoseconds: digits, or digits with a point and further digits. */
static bool span_parse_us(const char *p, const char *end, int64_t *ret_ns)
{
    const char *start = p;
    uint64_t ns = 0;

    for (; p < end && span_is_digit(*p) && p - start < US_DIGITS_MAX; p++)
        ns = ns * 10 + (uint64_t)(*p - '0');
    if (p == start)
        return false;
    ns *= NS_PER_US;
    if (p < end && *p == '.') {
        uint64_t unit = NS_PER_US / 10;
        for (p++; p < end && span_is_digit(*p); p++, unit /= 10)
            ns += (uint64_t)(*p - '0') * unit;
    }
    *ret_ns = (int64_t)ns;
    return p == end && ns <= INT64_MAX;
}

static const char *span_number_end(const char *p, const char *end)
{
    while (p < end && (span_is_digit(*p) || *p == '.'))
        p++;
    return p;
}

static const char *span_skip_gap_back(const char *start, const char *p)
{
    while (p > start && json_is_space(p[-1]))
        p--;
    return p;
}

/* Steps back over the byte c and the gap before it; NULL if other text is there. */
static const char *span_expect_back(const char *start, const char *p, char c)
{
    p = span_skip_gap_back(start, p);
    return p > start && p[-1] == c ? p - 1 : NULL;
}

/* Parses the number after `"dur"`, at p. A character must follow it: a truncated number is not a number. */
static bool span_read_dur(const char *p, const char *end, int64_t *ret_ns)
{
    p = json_skip_space(p, end);
    if (p == end || *p != ':')
        return false;
    p = json_skip_space(p + 1, end);
    const char *stop = span_number_end(p, end);
    if (stop == end || (*stop != ',' && *stop != '}' && !json_is_space(*stop)))
        return false;
    return span_parse_us(p, stop, ret_ns);
}

/* Parses the number of `"ts": N,` that ends at p; one writer puts it in quotes. */
static bool span_read_ts_back(const char *start, const char *p, int64_t *ret_ns)
{
    static const char key[] = "\"ts\"";

    p = span_expect_back(start, p, ',');
    if (!p)
        return false;
    const char *stop = span_skip_gap_back(start, p);
    bool quoted = stop > start && stop[-1] == '"';
    if (quoted)
        stop--;
    p = stop;
    while (p > start && (span_is_digit(p[-1]) || p[-1] == '.'))
        p--;
    const char *digits = p;
    if (quoted)
        p = span_expect_back(start, p, '"');
    p = p ? span_expect_back(start, p, ':') : NULL;
    p = p ? span_skip_gap_back(start, p) : NULL;
    if (!p || p - start < (ptrdiff_t)strlen(key) || memcmp(p - strlen(key), key, strlen(key)) != 0)
        return false;
    return span_parse_us(digits, stop, ret_ns);
}

static void span_examine(struct span *s, const char *start, const char *dur, const char *end)
{
    static const char key[] = "\"dur\"";
    int64_t ts, length, stop;

    /* The result does not depend on the amount of available text, and so not on the pieces. */
    start = dur - MIN(dur - start, SPAN_BEFORE);
    end = dur + MIN(end - dur, SPAN_AFTER);
    if (end - dur < (ptrdiff_t)strlen(key) || memcmp(dur, key, strlen(key)) != 0)
        return;
    if (!span_read_dur(dur + strlen(key), end, &length) || !span_read_ts_back(start, dur, &ts) ||
        __builtin_add_overflow(ts, length, &stop))
        return;
    if (s->events == 0 || ts < s->first_ns)
        s->first_ns = ts;
    if (s->events == 0 || stop > s->last_ns)
        s->last_ns = stop;
    s->events++;
}

static bool span_is_dur(const char *p)
{
    return p[0] == '"' && p[1] == 'd' && p[2] == 'u' && p[3] == 'r';
}

/* Returns non-zero bytes where `"du` begins, for the sixteen positions at p. */
static bytes16 span_find_in_16(const char *p)
{
    bytes16 first = *(const bytes16 *)p, second = *(const bytes16 *)(p + 1),
            third = *(const bytes16 *)(p + 2);
    return (bytes16)((first == '"') & (second == 'd') & (third == 'u'));
}

static bool span_any(bytes16 offsets)
{
    words2 words = (words2)offsets;
    return (words[0] | words[1]) != 0;
}

static const char *span_find_in_block(const char *p)
{
    for (const char *end = p + BLOCK; p < end; p += 16) {
        if (!span_any(span_find_in_16(p)))
            continue;
        for (const char *q = p; q < p + 16; q++)
            if (span_is_dur(q))
                return q;
    }
    return NULL;
}

/* Returns the next position in [p, end) of `"dur`. */
static const char *span_find_dur(const char *p, const char *end)
{
    for (; end - p >= BLOCK + 4; p += BLOCK) {
        if (!span_any(span_find_in_16(p) | span_find_in_16(p + 16) | span_find_in_16(p + 32) |
                      span_find_in_16(p + 48)))
            continue;
        const char *found = span_find_in_block(p);
        if (found)
            return found;
    }
    for (; end - p >= 4; p++)
        if (span_is_dur(p))
            return p;
    return NULL;
}

/* Examines every "dur" that begins in [from, to) of a text that reaches from start to end. */
static void span_scan(struct span *s, const char *start, const char *from, const char *to, const char *end)
{
    for (const char *p = from; p < to; p++) {
        p = span_find_dur(p, end);
        if (!p || p >= to)
            return;
        span_examine(s, start, p, end);
    }
}

/* Joins the end of the previous text with the beginning of the next. */
static size_t span_join(const struct span *s, const char *data, size_t size, char *ret)
{
    size_t n = MIN(size, sizeof(s->carry));
    memcpy(ret, s->carry, s->carry_size);
    if (n > 0)
        memcpy(ret + s->carry_size, data, n);
    return s->carry_size + n;
}

static void span_keep_end(struct span *s, const char *joined, size_t joined_size, const char *data,
                          size_t size)
{
    if (size >= sizeof(s->carry)) {
        memcpy(s->carry, data + size - sizeof(s->carry), sizeof(s->carry));
        s->carry_size = sizeof(s->carry);
        return;
    }
    size_t n = MIN(joined_size, sizeof(s->carry));
    memcpy(s->carry, joined + joined_size - n, n);
    s->carry_size = n;
}

void span_feed(struct span *s, const char *data, size_t size)
{
    char joined[2 * sizeof(s->carry)];
    uint64_t joined_at = s->offset - s->carry_size, end_at = s->offset + size;
    uint64_t to = end_at > SPAN_AFTER ? end_at - SPAN_AFTER : 0; /* not yet enough text after it */
    uint64_t border = MIN(to, s->offset + SPAN_BEFORE);          /* from here on, enough text before it */

    size_t joined_size = span_join(s, data, size, joined);
    if (border > s->examined) {
        span_scan(s, joined, joined + (s->examined - joined_at), joined + (border - joined_at),
                  joined + joined_size);
        s->examined = border;
    }
    if (to > s->examined) {
        span_scan(s, data, data + (s->examined - s->offset), data + (to - s->offset), data + size);
        s->examined = to;
    }
    span_keep_end(s, joined, joined_size, data, size);
    s->offset = end_at;
}

void span_finish(struct span *s)
{
    uint64_t carry_at = s->offset - s->carry_size;
    if (s->examined < s->offset)
        span_scan(s, s->carry, s->carry + (s->examined - carry_at), s->carry + s->carry_size,
                  s->carry + s->carry_size);
    s->examined = s->offset;
}
