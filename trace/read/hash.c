/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/hash.h"

#include <sys/auxv.h>

uint64_t hash_seeds[2] = {HASH_MULTIPLY, HASH_MIX};

/* Random bytes that the kernel gave the process at its start: no system call, which a sandbox may forbid. */
__attribute__((constructor)) static void choose_seeds(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);

    if (random)
        memcpy(hash_seeds, random, sizeof(hash_seeds));
}
