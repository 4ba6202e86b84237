/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a big trace by repeating the events of a real one:
 *
 *     grow [--distinct N] SOURCE.json[.gz] SIZE OUT.json|-
 *
 * The events are repeated completely until SIZE ("500M") is reached. In each copy, times are later by the
 * span of the source, and correlation, External id, flow id and ProfilerStep numbers go on where the copy
 * before ended; every other byte is that of the source. With --distinct, N names of complete events, evenly
 * spread, get an address or a shape behind them that no other has.
 */
#include "base/alloc.h"
#include "base/units.h"
#include "trace/read/json_text.h"

#include <err.h>
#include <inttypes.h>
#include <zlib.h>

#define SOURCE_MAX (INT64_C(2) << 30)
#define OUT_BUFFER (1 << 20)

enum patch_kind {
    PATCH_TIME, /* integral microseconds */
    PATCH_ID,
    PATCH_STEP,
    PATCH_NAME, /* an empty place at the end of a name */
    _PATCH_KIND_MAX,
};

/* What differs between copies. */
struct patch {
    struct slice text;
    int64_t value;
    enum patch_kind kind;
};

struct source {
    struct slice text;   /* all of it */
    struct slice events; /* from the first event to the last one's end */
    struct patch *patches;
    size_t n, cap;
    int64_t min[_PATCH_KIND_MAX], max[_PATCH_KIND_MAX];
    uint64_t names;
};

static const char *const arg_ids[] = {"correlation", "Correlation", "External id", "external id",
                                      "wait_on_cuda_event_record_corr_id"};

static struct slice read_source(const char *path)
{
    gzFile f = gzopen(path, "rb");
    size_t size = 0, cap = 0;
    char *data = NULL;

    if (!f)
        err(1, "%s", path);
    gzbuffer(f, OUT_BUFFER);
    for (int n = 1; n > 0; size += (size_t)n) {
        if (size == cap) {
            cap = cap ? 2 * cap : 64 << 20;
            data = xrealloc(data, cap, 1);
        }
        n = gzread(f, data + size, (unsigned)MIN(cap - size, (size_t)INT32_MAX));
        if (n < 0 || size > SOURCE_MAX)
            errx(1, "%s: %s", path, n < 0 ? gzerror(f, &n) : "too large for a source");
    }
    gzclose(f);
    return (struct slice){data, data + size};
}

static void add_patch(struct source *s, enum patch_kind kind, struct slice text, int64_t value)
{
    VEC_GROW(s->patches, s->n, s->cap);
    s->patches[s->n++] = (struct patch){text, value, kind};
    s->min[kind] = MIN(s->min[kind], value);
    s->max[kind] = MAX(s->max[kind], value);
}

/* Values below `least` stand for something else than a number that goes on. */
static void add_number(struct source *s, enum patch_kind kind, struct slice text, int64_t least)
{
    int64_t value;

    if (slice_int(text, &value) && value >= least)
        add_patch(s, kind, text, value);
}

/* The part of a number that is integral. */
static struct slice integral(struct slice number)
{
    number = slice_unquoted(number);
    const char *point = memchr(number.p, '.', (size_t)(number.end - number.p));

    return (struct slice){number.p, point ? point : number.end};
}

static void add_name(struct source *s, struct slice name)
{
    static const char step[] = "ProfilerStep#";
    const size_t size = sizeof(step) - 1;

    name = slice_unquoted(name);
    if ((size_t)(name.end - name.p) > size && memcmp(name.p, step, size) == 0)
        add_number(s, PATCH_STEP, (struct slice){name.p + size, name.end}, 0);
    else
        add_patch(s, PATCH_NAME, (struct slice){name.end, name.end}, 0);
}

static void add_args(struct source *s, struct slice args)
{
    struct slice rest = json_inside(args), key, value;

    while (json_next(&rest, &key, &value))
        for (size_t i = 0; i < ARRAY_SIZE(arg_ids); i++)
            if (slice_is(slice_unquoted(key), arg_ids[i]))
                add_number(s, PATCH_ID, value, 1);
}

static void add_event(struct source *s, struct slice event)
{
    struct slice rest = json_inside(event), key, value;
    size_t first = s->n;
    int64_t ts = 0, dur = 0;
    bool complete = false;

    while (json_next(&rest, &key, &value)) {
        key = slice_unquoted(key);
        if (slice_is(key, "ph")) {
            complete = slice_is(value, "\"X\"");
        } else if (slice_is(key, "ts")) {
            add_number(s, PATCH_TIME, integral(value), 0);
            slice_int(integral(value), &ts);
        } else if (slice_is(key, "dur")) {
            slice_int(integral(value), &dur);
        } else if (slice_is(key, "id")) {
            add_number(s, PATCH_ID, value, 1);
        } else if (slice_is(key, "name")) {
            add_name(s, value);
        } else if (slice_is(key, "args")) {
            add_args(s, value);
        }
    }
    s->max[PATCH_TIME] = MAX(s->max[PATCH_TIME], ts + dur);
    for (size_t i = first; i < s->n; i++)
        if (s->patches[i].kind == PATCH_NAME) {
            s->patches[i].value = complete;
            s->names += complete;
        }
}

static struct slice find_events(struct slice text)
{
    const char *begin = json_skip_space(text.p, text.end);
    struct slice rest = json_inside((struct slice){begin, text.end}), key, value;

    if (begin < text.end && *begin == '[')
        return (struct slice){begin, text.end};
    while (json_next(&rest, &key, &value))
        if (slice_is(slice_unquoted(key), "traceEvents"))
            return value;
    errx(1, "the source has no traceEvents");
}

static void read_events(struct source *s)
{
    struct slice rest = json_inside(find_events(s->text)), key, event;

    for (size_t kind = 0; kind < _PATCH_KIND_MAX; kind++) {
        s->min[kind] = INT64_MAX;
        s->max[kind] = 0;
    }
    s->events = (struct slice){rest.p, rest.p};
    while (json_next(&rest, &key, &event)) {
        add_event(s, event);
        s->events.end = event.end;
    }
    if (s->events.p == s->events.end)
        errx(1, "the source has no events");
}

static void put(FILE *f, const char *p, size_t size)
{
    if (fwrite_unlocked(p, 1, size, f) != size)
        err(1, "write");
}

static void put_number(FILE *f, int64_t value)
{
    char digits[24], *p = digits + sizeof(digits);

    do
        *--p = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    put(f, p, (size_t)(digits + sizeof(digits) - p));
}

/* The nth of the names that no other event has: half of them look like addresses, half like shapes. */
static void put_variant(FILE *f, uint64_t n)
{
    char text[64];
    int size = n % 2 ? snprintf(text, sizeof(text), " 0x7f%010" PRIx64, n * 0x1200)
                     : snprintf(text, sizeof(text), " [%" PRIu64 ", %" PRIu64 ", 128]", n >> 10, n & 1023);

    put(f, text, (size_t)size);
}

struct variants {
    uint64_t wanted, of; /* so many of so many names */
    uint64_t seen;
};

static void put_copy(FILE *f, const struct source *s, int64_t copy, struct variants *v)
{
    const char *at = s->events.p;

    for (size_t i = 0; i < s->n; i++) {
        const struct patch *patch = &s->patches[i];

        if (patch->kind == PATCH_NAME) {
            uint64_t n = v->seen * v->wanted / v->of;

            v->seen += (uint64_t)patch->value;
            if (n == v->seen * v->wanted / v->of)
                continue;
            put(f, at, (size_t)(patch->text.p - at));
            put_variant(f, n);
        } else {
            int64_t step = s->max[patch->kind] - s->min[patch->kind] + 1;

            put(f, at, (size_t)(patch->text.p - at));
            put_number(f, patch->value + copy * step);
        }
        at = patch->text.end;
    }
    put(f, at, (size_t)(s->events.end - at));
}

static void grow(const struct source *s, uint64_t size_wanted, uint64_t distinct, FILE *f)
{
    size_t events_size = (size_t)(s->events.end - s->events.p);
    uint64_t copies = MAX(1, (size_wanted + events_size - 1) / events_size);
    struct variants variants = {distinct, MAX(1, s->names * copies), 0};

    put(f, s->text.p, (size_t)(s->events.p - s->text.p));
    for (uint64_t copy = 0; copy < copies; copy++) {
        if (copy > 0)
            put(f, ",", 1);
        put_copy(f, s, (int64_t)copy, &variants);
    }
    put(f, s->events.end, (size_t)(s->text.end - s->events.end));
}

int main(int argc, char **argv)
{
    struct source s = {0};
    int64_t size, distinct = 0;

    if (argc == 6 && streq(argv[1], "--distinct")) {
        distinct = strtoll(argv[2], NULL, 10);
        argv += 2;
        argc -= 2;
    }
    if (argc != 4 || distinct < 0 || parse_size(argv[2], &size) < 0)
        errx(2, "usage: grow [--distinct N] SOURCE.json[.gz] SIZE OUT.json|-");

    s.text = read_source(argv[1]);
    read_events(&s);

    FILE *f = streq(argv[3], "-") ? stdout : fopen(argv[3], "we");
    if (!f)
        err(1, "%s", argv[3]);
    setvbuf(f, NULL, _IOFBF, OUT_BUFFER);
    grow(&s, (uint64_t)size, (uint64_t)distinct, f);
    if (fclose(f) != 0)
        err(1, "%s", argv[3]);
    free(s.patches);
    free((char *)s.text.p);
    return 0;
}
