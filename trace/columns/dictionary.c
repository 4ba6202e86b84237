/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/dictionary.h"

#include "base/hash_table.h"
#include <errno.h>
#include <pthread.h>

struct dictionary {
    const struct columns *columns;
    pthread_mutex_t lock; /* while the table is being made */
    bool made;
    struct hash_table numbers;
};

static bool dictionary_equal(const void *columns, size_t number, const void *key)
{
    const struct text *wanted = key;
    struct text t = columns_text(columns, (int64_t)number);

    return t.size == wanted->size && memcmp(t.p, wanted->p, t.size) == 0;
}

/* Of equal strings the first is kept. Without memory the table stays empty. */
static void dictionary_make(struct dictionary *d)
{
    uint32_t n = columns_texts(d->columns);

    d->made = true;
    if (hash_table_reserve(&d->numbers, n) < 0)
        return;
    for (uint32_t number = 0; number < n; number++) {
        struct text t = columns_text(d->columns, number);
        uint64_t hash = hash_bytes(t.p, t.size);
        struct hash_slot *slot = hash_table_slot(&d->numbers, hash, dictionary_equal, d->columns, &t);

        if (slot->number == 0)
            hash_table_fill(&d->numbers, slot, hash, number);
    }
}

int dictionary_new(const struct columns *c, struct dictionary **ret)
{
    struct dictionary *d = calloc(1, sizeof(*d));

    if (!d)
        return -ENOMEM;
    d->columns = c;
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

struct dictionary *dictionary_free(struct dictionary *d)
{
    if (!d)
        return NULL;
    pthread_mutex_destroy(&d->lock);
    hash_table_done(&d->numbers);
    free(d);
    return NULL;
}

int64_t dictionary_find(struct dictionary *d, const char *p, size_t size)
{
    struct text wanted = {p, size};

    pthread_mutex_lock(&d->lock);
    if (!d->made)
        dictionary_make(d);
    pthread_mutex_unlock(&d->lock);

    if (d->numbers.slots)
        return (int64_t)hash_table_slot(&d->numbers, hash_bytes(p, size), dictionary_equal, d->columns,
                                        &wanted)
                   ->number -
               1;
    for (uint32_t number = 0; number < columns_texts(d->columns); number++) {
        if (dictionary_equal(d->columns, number, &wanted))
            return number;
    }
    return -1;
}
