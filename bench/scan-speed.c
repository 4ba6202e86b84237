/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast one core scans a trace that is in memory, arguments kept, along shapes and key by key, next to memchr() for a
 * byte that does not occur in it: scan-speed FILE... Prints the speeds of ROUNDS in turns after a discarded first one, of
 * processor time: the program has one thread, and others may want the processor too.
 */
#include "trace/read/decompress.h"
#include "trace/read/scan.h"
#include <err.h>
#include <fcntl.h>
#include <time.h>

#define ROUNDS     5
#define TEXT_MIN   ((size_t)256 << 20) /* smaller texts are scanned as often as makes this */
#define PIECE_SIZE ((size_t)1 << 20)   /* as the reader hands them on */
#define ABSENT     '\x01'

struct text {
    char *p;
    size_t size, capacity;
};

static void add_room(struct text *t)
{
    t->capacity = t->capacity ? 2 * t->capacity : PIECE_SIZE;
    t->p = realloc(t->p, t->capacity + SCAN_PAD);
    if (!t->p)
        err(EXIT_FAILURE, "realloc");
}

static void load(const char *path, struct text *ret)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_(stream_freep) struct stream *stream = NULL;
    static uint8_t in[64 << 10];
    ssize_t n;

    if (fd < 0 || stream_new(STREAM_LIMITS_DEFAULT, &stream) < 0)
        err(EXIT_FAILURE, "%s", path);
    while ((n = read(fd, in, sizeof(in))) > 0) {
        struct stream_io io = {.in = in, .in_size = (size_t)n};
        do {
            if (ret->size == ret->capacity)
                add_room(ret);
            io.out = (uint8_t *)ret->p + ret->size;
            io.out_size = ret->capacity - ret->size;
            stream_decode(stream, &io);
            ret->size = ret->capacity - io.out_size;
        } while (io.in_size > 0 || io.out_size == 0);
    }
}

static struct batch *reset(struct intake *in, struct batch *full, void *arg)
{
    batch_reset(full);
    return full;
}

static uint64_t scan(const struct text *t, size_t times, bool shapes)
{
    uint64_t events = 0;

    for (size_t i = 0; i < times; i++) {
        _cleanup_(intake_freep) struct intake *in = NULL;
        _cleanup_(scan_freep) struct scanner *s = NULL;
        size_t used = 0, end = 0;
        if (intake_new(UINT64_MAX, &in) < 0 || scan_new(in, SCAN_SIMD_BEST, &s) < 0)
            errx(EXIT_FAILURE, "no memory");
        in->flush = reset;
        if (!shapes)
            scan_without_shapes(s);
        while (end < t->size) {
            end = MIN(end + PIECE_SIZE, t->size);
            used += scan_some(s, t->p + used, end - used, used, end == t->size);
        }
        events += scan_events(s);
    }
    return events;
}

static uint64_t scan_along_shapes(const struct text *t, size_t times)
{
    return scan(t, times, true);
}

static uint64_t scan_key_by_key(const struct text *t, size_t times)
{
    return scan(t, times, false);
}

static uint64_t search(const struct text *t, size_t times)
{
    uint64_t found = 0;

    for (size_t i = 0; i < times; i++) {
        found += memchr(t->p, ABSENT, t->size) != NULL;
        /* The compiler must neither leave it out nor search only once. */
        __asm__ volatile("" ::"r"(found) : "memory");
    }
    return found;
}

static int64_t processor_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static const struct {
    const char *name;
    uint64_t (*work)(const struct text *t, size_t times);
} contestants[] = {{"scan", scan_along_shapes}, {"key by key", scan_key_by_key}, {"memchr", search}};

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct text t = {0};
        double speeds[ARRAY_SIZE(contestants)][ROUNDS + 1]; /* in GB a second */
        load(argv[i], &t);
        size_t times = TEXT_MIN / (t.size + 1) + 1;
        for (size_t round = 0; round <= ROUNDS; round++) {
            for (size_t c = 0; c < ARRAY_SIZE(contestants); c++) {
                int64_t begin = processor_ns();
                contestants[c].work(&t, times);
                speeds[c][round] = (double)(t.size * times) / (double)(processor_ns() - begin);
            }
        }
        printf("%s: %zu bytes\n", argv[i], t.size);
        for (size_t c = 0; c < ARRAY_SIZE(contestants); c++) {
            printf("%s GB/s:", contestants[c].name);
            for (size_t round = 1; round <= ROUNDS; round++)
                printf(" %.2f", speeds[c][round]);
            putchar('\n');
        }
        free(t.p);
    }
    return EXIT_SUCCESS;
}
