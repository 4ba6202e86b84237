/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/intern.h"

#include "base/array.h"
#include "base/hash_table.h"
#include <errno.h>

#define CHUNK_FIRST  ((size_t)1 << 16)
#define CHUNK_LAST   ((size_t)1 << 22) /* each is twice as large as the one before, up to this */
#define SEGMENT_BITS 15
#define SEGMENT_SIZE ((size_t)1 << SEGMENT_BITS)
#define SLOTS_FIRST  ((size_t)1 << 12) /* of the hash table */
/* Behind every text, so that it can be compared in whole words. */
#define TEXT_PAD 32

struct entry {
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
    struct hash_table numbers; /* number in it + 1: the empty string needs none */
    struct entry **segments;
    size_t n_segments, segments_cap;
    struct chunk *chunks;
    size_t chunk_size;
    char *room;
    size_t room_size;
};

uint64_t strings_hash(const char *p, size_t size)
{
    return hash_padded(p, size);
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
    if (!ARRAY_RESERVE(s->segments, s->segments_cap, s->n_segments + 1))
        return false;
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

static bool grow_slots(struct strings *s)
{
    size_t n = s->numbers.n_slots ? 2 * s->numbers.n_slots : SLOTS_FIRST;

    return charge(s, (n - s->numbers.n_slots) * sizeof(struct hash_slot)) &&
           hash_table_reserve(&s->numbers, n / 2) == 0;
}

/* A number in the table, from 0 for the string of number 1. */
static bool strings_equal(const void *owner, size_t number, const void *key)
{
    const struct entry *e = entry_of(owner, (uint32_t)number + 1), *wanted = key;

    return e->size == wanted->size && memcmp(e->p, wanted->p, wanted->size) == 0;
}

static char *text_room(struct strings *s, size_t size)
{
    size_t need = size + TEXT_PAD;

    if (s->room_size < need) {
        /* A text that would waste most of a chunk lies alone and leaves the present chunk in use. */
        bool alone = need > s->chunk_size / 8;
        size_t room = alone ? need : s->chunk_size - sizeof(struct chunk);
        struct chunk *c = array_alloc_pages(sizeof(*c) + room);
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
    hash_table_done(&s->numbers);
    free(s);
    return NULL;
}

uint32_t strings_intern_hashed(struct strings *s, const char *p, size_t size, uint64_t hash)
{
    struct entry wanted = {p, (uint32_t)size};

    if (size == 0)
        return 0;
    if (size > UINT32_MAX)
        return STRINGS_NONE;
    struct hash_slot *slot = hash_table_slot(&s->numbers, hash, strings_equal, s, &wanted);
    if (slot->number != 0)
        return slot->number;
    if (!add_string(s, p, size))
        return STRINGS_NONE;
    uint32_t number = s->n - 1;
    hash_table_fill(&s->numbers, slot, hash, number - 1);
    /* Where there is no memory for more slots, the free ones serve on until one is left. */
    if (s->n > s->numbers.n_slots / 2 && !grow_slots(s) && s->n >= s->numbers.n_slots)
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
