/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/intern.h"

#include "trace/read/hash.h"
#include <errno.h>
#include <sys/mman.h>

#define CHUNK_FIRST  ((size_t)1 << 16)
#define CHUNK_LAST   ((size_t)1 << 22) /* each is twice as large as the one before, up to this */
#define HUGE_PAGE    ((size_t)1 << 21)
#define SEGMENT_BITS 15
#define SEGMENT_SIZE ((size_t)1 << SEGMENT_BITS)
#define SLOTS_FIRST  ((size_t)1 << 12)
/* Behind every text, so that it can be compared in whole words. */
#define TEXT_PAD 32

struct entry {
    const char *p;
    uint32_t size;
};

/* Where a string with this hash is; number 0 marks a free slot, the empty string needs none. */
struct slot {
    uint32_t hash;
    uint32_t number;
};

struct chunk {
    struct chunk *next;
    char text[];
};

struct strings {
    uint64_t bytes_max, bytes;
    uint32_t n;
    struct slot *slots;
    size_t n_slots;
    struct entry **segments;
    size_t n_segments, segments_cap;
    struct chunk *chunks;
    size_t chunk_size;
    char *room;
    size_t room_size;
};

uint64_t strings_hash(const char *p, size_t size)
{
    return hash_bytes(p, size);
}

/* A look into a large table is a page walk as well, which takes as long: hence large pages, where there are
 * any. */
static void *alloc_pages(size_t size)
{
    if (size < HUGE_PAGE)
        return malloc(size);
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, size);
    if (p)
        madvise(p, size, MADV_HUGEPAGE);
    return p;
}

/* Whatever is allocated is counted first; false where it would go over the limit. */
static bool charge(struct strings *s, uint64_t bytes)
{
    if (bytes > s->bytes_max - s->bytes)
        return false;
    s->bytes += bytes;
    return true;
}

static bool add_segment(struct strings *s)
{
    if (s->n_segments == s->segments_cap) {
        size_t cap = s->segments_cap ? 2 * s->segments_cap : 16;
        struct entry **segments = realloc(s->segments, cap * sizeof(*segments));
        if (!segments)
            return false;
        s->segments = segments;
        s->segments_cap = cap;
    }
    struct entry *segment = malloc(SEGMENT_SIZE * sizeof(*segment));
    if (!segment)
        return false;
    s->segments[s->n_segments++] = segment;
    return true;
}

static struct entry *entry_of(const struct strings *s, uint32_t number)
{
    return &s->segments[number >> SEGMENT_BITS][number & (SEGMENT_SIZE - 1)];
}

/* Half of the slots stay free. */
static bool grow_slots(struct strings *s)
{
    size_t n = s->n_slots ? 2 * s->n_slots : SLOTS_FIRST;
    struct slot *slots;

    if (!charge(s, (n - s->n_slots) * sizeof(*slots)))
        return false;
    slots = alloc_pages(n * sizeof(*slots));
    if (!slots)
        return false;
    memset(slots, 0, n * sizeof(*slots));
    for (size_t i = 0; i < s->n_slots; i++) {
        if (!s->slots[i].number)
            continue;
        size_t at = s->slots[i].hash & (n - 1);
        while (slots[at].number)
            at = (at + 1) & (n - 1);
        slots[at] = s->slots[i];
    }
    free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    return true;
}

static char *text_room(struct strings *s, size_t size)
{
    size_t need = size + TEXT_PAD;

    if (s->room_size < need) {
        /* A text that would waste most of a chunk lies alone and leaves the present chunk in use. */
        bool alone = need > s->chunk_size / 8;
        size_t room = alone ? need : s->chunk_size - sizeof(struct chunk);
        struct chunk *c = alloc_pages(sizeof(*c) + room);
        if (!c)
            return NULL;
        c->next = s->chunks;
        s->chunks = c;
        if (alone)
            return c->text;
        s->room = c->text;
        s->room_size = room;
        s->chunk_size = MIN(2 * s->chunk_size, CHUNK_LAST);
    }
    char *text = s->room;
    s->room += size;
    s->room_size -= size;
    return text;
}

static bool add_string(struct strings *s, const char *p, size_t size)
{
    if (s->n == STRINGS_NONE || size > UINT32_MAX || !charge(s, size + sizeof(struct entry)))
        return false;
    if ((size_t)s->n >> SEGMENT_BITS == s->n_segments && !add_segment(s))
        return false;
    char *text = text_room(s, size);
    if (!text)
        return false;
    memcpy(text, p, size);
    *entry_of(s, s->n) = (struct entry){text, (uint32_t)size};
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
    if (!grow_slots(s) || !add_string(s, "", 0))
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
    free(s->slots);
    free(s);
    return NULL;
}

uint32_t strings_intern_hashed(struct strings *s, const char *p, size_t size, uint64_t hash)
{
    uint32_t h = (uint32_t)hash;
    size_t at;

    if (size == 0)
        return 0;
    for (at = h & (s->n_slots - 1); s->slots[at].number; at = (at + 1) & (s->n_slots - 1)) {
        if (s->slots[at].hash != h)
            continue;
        const struct entry *e = entry_of(s, s->slots[at].number);
        if (e->size == size && memcmp(e->p, p, size) == 0)
            return s->slots[at].number;
    }
    if (!add_string(s, p, size))
        return STRINGS_NONE;
    uint32_t number = s->n - 1;
    s->slots[at] = (struct slot){h, number};
    /* Where there is no memory for more slots, the free ones serve on until one is left. */
    if (s->n > s->n_slots / 2 && !grow_slots(s) && s->n >= s->n_slots)
        s->bytes_max = s->bytes;
    return number;
}

uint32_t strings_intern(struct strings *s, const char *p, size_t size)
{
    return strings_intern_hashed(s, p, size, strings_hash(p, size));
}

uint32_t strings_count(const struct strings *s)
{
    return s->n;
}

const char *strings_get(const struct strings *s, uint32_t number, size_t *ret_size)
{
    const struct entry *e = entry_of(s, number);

    *ret_size = e->size;
    return e->p;
}

uint64_t strings_memory(const struct strings *s)
{
    return s->bytes;
}
