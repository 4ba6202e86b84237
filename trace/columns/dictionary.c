/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/dictionary.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>

struct dictionary {
    const struct columns *columns;
    pthread_mutex_t lock; /* while the table is being made */
    bool made;
    uint64_t seed;
    uint64_t mask;
    /* Upper half of the hash, and the string's number + 1; 0 where nothing is. */
    uint64_t *slots;
};

/* Another one in every process, so that nobody can write a trace whose strings all meet in one slot. */
static uint64_t random_seed(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t seed = 0;

    if (random)
        memcpy(&seed, random, sizeof(seed));
    return seed;
}

static uint64_t hash_word(const struct dictionary *d, uint64_t hash, uint64_t word)
{
    __extension__ unsigned __int128 product = (unsigned __int128)(hash ^ word) * (d->seed | 1);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_text(const struct dictionary *d, const char *p, size_t size)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ size, word = 0;

    for (; size >= sizeof(word); p += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        hash = hash_word(d, hash, word);
    }
    word = 0;
    memcpy(&word, p, size);
    return hash_word(d, hash, word);
}

static bool equals(const struct dictionary *d, int64_t number, const char *p, size_t size)
{
    struct text t = columns_text(d->columns, number);

    return t.size == size && memcmp(t.p, p, size) == 0;
}

/* The slot that holds the string, or the empty one where it would be. */
static uint64_t *find_slot(const struct dictionary *d, uint64_t hash, const char *p, size_t size)
{
    for (uint64_t i = hash;; i++) {
        uint64_t *slot = &d->slots[i & d->mask];

        if (*slot == 0 || (*slot >> 32 == hash >> 32 && equals(d, (int64_t)(uint32_t)*slot - 1, p, size)))
            return slot;
    }
}

static void make_table(struct dictionary *d)
{
    uint32_t n = columns_texts(d->columns);
    uint64_t size = 16;

    while (size < 2 * (uint64_t)n)
        size *= 2;
    d->made = true;
    d->mask = size - 1;
    d->slots = calloc(size, sizeof(d->slots[0]));
    for (uint32_t number = 0; d->slots && number < n; number++) {
        struct text t = columns_text(d->columns, number);
        uint64_t hash = hash_text(d, t.p, t.size), *slot = find_slot(d, hash, t.p, t.size);

        if (*slot == 0)
            *slot = hash >> 32 << 32 | (number + 1);
    }
}

int dictionary_new(const struct columns *c, struct dictionary **ret)
{
    struct dictionary *d = calloc(1, sizeof(*d));

    if (!d)
        return -ENOMEM;
    d->columns = c;
    d->seed = random_seed();
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

struct dictionary *dictionary_free(struct dictionary *d)
{
    if (!d)
        return NULL;
    pthread_mutex_destroy(&d->lock);
    free(d->slots);
    free(d);
    return NULL;
}

int64_t dictionary_find(struct dictionary *d, const char *p, size_t size)
{
    pthread_mutex_lock(&d->lock);
    if (!d->made)
        make_table(d);
    pthread_mutex_unlock(&d->lock);

    if (d->slots) {
        uint64_t slot = *find_slot(d, hash_text(d, p, size), p, size);

        return (int64_t)(uint32_t)slot - 1;
    }
    for (uint32_t number = 0; number < columns_texts(d->columns); number++) {
        if (equals(d, number, p, size))
            return number;
    }
    return -1;
}
