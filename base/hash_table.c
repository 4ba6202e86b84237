/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash_table.h"

#include "base/array.h"
#include <errno.h>
#include <sys/auxv.h>
#include <sys/random.h>

uint64_t hash_seeds[2] = {HASH_MULTIPLY, HASH_MIX};

/* Before main(): a sandbox may forbid the system call later. Where the kernel has no random bytes yet, those that
 * it gave the process at its start serve. */
__attribute__((constructor)) static void hash_choose_seeds(void)
{
    const void *at_start = (const void *)getauxval(AT_RANDOM);

    if (getrandom(hash_seeds, sizeof(hash_seeds), GRND_NONBLOCK) != sizeof(hash_seeds) && at_start)
        memcpy(hash_seeds, at_start, sizeof(hash_seeds));
}

int hash_table_grow(struct hash_table *t, size_t n)
{
    struct hash_table larger = {.n_slots = MAX(t->n_slots, HASH_SLOTS_FIRST), .n = t->n};

    if (n > HASH_NUMBERS_MAX)
        return -ENOMEM;
    while (larger.n_slots < 2 * n)
        larger.n_slots *= 2;
    larger.slots = array_alloc_pages(larger.n_slots * sizeof(larger.slots[0]));
    if (!larger.slots)
        return -ENOMEM;
    memset(larger.slots, 0, larger.n_slots * sizeof(larger.slots[0]));
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i].number == 0)
            continue;
        size_t at = t->slots[i].hash & (larger.n_slots - 1);
        while (larger.slots[at].number != 0)
            at = (at + 1) & (larger.n_slots - 1);
        larger.slots[at] = t->slots[i];
    }
    free(t->slots);
    *t = larger;
    return 0;
}

void hash_table_done(struct hash_table *t)
{
    free(t->slots);
    *t = (struct hash_table){0};
}
