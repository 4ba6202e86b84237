/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/span.h"

#define NS_PER_US 1000
/* More digits of whole microseconds do not fit as nanoseconds; so many do in 64 bits without a sign. */
#define US_DIGITS_MAX 16
/* Places that are searched at a time. */
#define BLOCK 64

typedef uint8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t words2 __attribute__((vector_size(16)));

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_gap(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Microseconds in [p, end) as nanoseconds: digits, or digits with a point and further digits. */
static bool parse_us(const char *p, const char *end, int64_t *ret_ns)
{
    const char *start = p;
    uint64_t ns = 0;

    for (; p < end && is_digit(*p) && p - start < US_DIGITS_MAX; p++)
        ns = ns * 10 + (uint64_t)(*p - '0');
    if (p == start)
        return false;
    ns *= NS_PER_US;
    if (p < end && *p == '.') {
        uint64_t unit = NS_PER_US / 10;
        for (p++; p < end && is_digit(*p); p++, unit /= 10)
            ns += (uint64_t)(*p - '0') * unit;
    }
    *ret_ns = (int64_t)ns;
    return p == end && ns <= INT64_MAX;
}

static const char *number_end(const char *p, const char *end)
{
    while (p < end && (is_digit(*p) || *p == '.'))
        p++;
    return p;
}

static const char *skip_gap(const char *p, const char *end)
{
    while (p < end && is_gap(*p))
        p++;
    return p;
}

static const char *skip_gap_back(const char *start, const char *p)
{
    while (p > start && is_gap(p[-1]))
        p--;
    return p;
}

/* Steps back over the byte c and the gap before it; NULL where something else stands there. */
static const char *expect_back(const char *start, const char *p, char c)
{
    p = skip_gap_back(start, p);
    return p > start && p[-1] == c ? p - 1 : NULL;
}

/* The number behind `"dur"`, at p. It must be followed by something: a cut number is not a number. */
static bool read_dur(const char *p, const char *end, int64_t *ret_ns)
{
    p = skip_gap(p, end);
    if (p == end || *p != ':')
        return false;
    p = skip_gap(p + 1, end);
    const char *stop = number_end(p, end);
    if (stop == end || (*stop != ',' && *stop != '}' && !is_gap(*stop)))
        return false;
    return parse_us(p, stop, ret_ns);
}

/* The number of `"ts": N,` that ends at p; one writer puts it in quotes. */
static bool read_ts_back(const char *start, const char *p, int64_t *ret_ns)
{
    static const char key[] = "\"ts\"";

    p = expect_back(start, p, ',');
    if (!p)
        return false;
    const char *stop = skip_gap_back(start, p);
    bool quoted = stop > start && stop[-1] == '"';
    if (quoted)
        stop--;
    p = stop;
    while (p > start && (is_digit(p[-1]) || p[-1] == '.'))
        p--;
    const char *digits = p;
    if (quoted)
        p = expect_back(start, p, '"');
    p = p ? expect_back(start, p, ':') : NULL;
    p = p ? skip_gap_back(start, p) : NULL;
    if (!p || p - start < (ptrdiff_t)strlen(key) || memcmp(p - strlen(key), key, strlen(key)) != 0)
        return false;
    return parse_us(digits, stop, ret_ns);
}

static void look_at(struct span *s, const char *start, const char *dur, const char *end)
{
    static const char key[] = "\"dur\"";
    int64_t ts, length, stop;

    /* However much of the text happens to be there: the pieces that it came in do not matter. */
    start = dur - MIN(dur - start, SPAN_BEFORE);
    end = dur + MIN(end - dur, SPAN_BEHIND);
    if (end - dur < (ptrdiff_t)strlen(key) || memcmp(dur, key, strlen(key)) != 0)
        return;
    if (!read_dur(dur + strlen(key), end, &length) || !read_ts_back(start, dur, &ts) ||
        __builtin_add_overflow(ts, length, &stop))
        return;
    if (s->events == 0 || ts < s->first_ns)
        s->first_ns = ts;
    if (s->events == 0 || stop > s->last_ns)
        s->last_ns = stop;
    s->events++;
}

static bool is_dur(const char *p)
{
    return p[0] == '"' && p[1] == 'd' && p[2] == 'u' && p[3] == 'r';
}

/* Non-zero bytes where `"du` begins, of the sixteen places at p. */
static bytes16 find_in_16(const char *p)
{
    bytes16 first = *(const bytes16 *)p, second = *(const bytes16 *)(p + 1),
            third = *(const bytes16 *)(p + 2);
    return (bytes16)((first == '"') & (second == 'd') & (third == 'u'));
}

static bool any(bytes16 places)
{
    words2 words = (words2)places;
    return (words[0] | words[1]) != 0;
}

static const char *find_in_block(const char *p)
{
    for (const char *end = p + BLOCK; p < end; p += 16) {
        if (!any(find_in_16(p)))
            continue;
        for (const char *q = p; q < p + 16; q++)
            if (is_dur(q))
                return q;
    }
    return NULL;
}

/* The next place in [p, end) where `"dur` stands. */
static const char *find_dur(const char *p, const char *end)
{
    for (; end - p >= BLOCK + 4; p += BLOCK) {
        if (!any(find_in_16(p) | find_in_16(p + 16) | find_in_16(p + 32) | find_in_16(p + 48)))
            continue;
        const char *found = find_in_block(p);
        if (found)
            return found;
    }
    for (; end - p >= 4; p++)
        if (is_dur(p))
            return p;
    return NULL;
}

/* Looks at every "dur" that begins in [from, to) of a text that reaches from start to end. */
static void scan(struct span *s, const char *start, const char *from, const char *to, const char *end)
{
    for (const char *p = from; p < to; p++) {
        p = find_dur(p, end);
        if (!p || p >= to)
            return;
        look_at(s, start, p, end);
    }
}

/* The end of what was fed, joined with the beginning of what follows it. */
static size_t join(const struct span *s, const char *data, size_t size, char *ret)
{
    size_t n = MIN(size, sizeof(s->carry));
    memcpy(ret, s->carry, s->carry_size);
    if (n > 0)
        memcpy(ret + s->carry_size, data, n);
    return s->carry_size + n;
}

static void keep_end(struct span *s, const char *joined, size_t joined_size, const char *data, size_t size)
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
    uint64_t to = end_at > SPAN_BEHIND ? end_at - SPAN_BEHIND : 0; /* not yet enough text behind it */
    uint64_t border = MIN(to, s->offset + SPAN_BEFORE);            /* from here on, enough text before it */

    size_t joined_size = join(s, data, size, joined);
    if (border > s->looked) {
        scan(s, joined, joined + (s->looked - joined_at), joined + (border - joined_at),
             joined + joined_size);
        s->looked = border;
    }
    if (to > s->looked) {
        scan(s, data, data + (s->looked - s->offset), data + (to - s->offset), data + size);
        s->looked = to;
    }
    keep_end(s, joined, joined_size, data, size);
    s->offset = end_at;
}

void span_finish(struct span *s)
{
    uint64_t carry_at = s->offset - s->carry_size;
    if (s->looked < s->offset)
        scan(s, s->carry, s->carry + (s->looked - carry_at), s->carry + s->carry_size,
             s->carry + s->carry_size);
    s->looked = s->offset;
}
