/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <sys/mman.h>

#define ITEMS_FIRST ((size_t)16)
#define HUGE_PAGE   ((size_t)1 << 21)

bool array_grow(void *items, size_t *cap, size_t n, size_t size, bool is_zeroed)
{
    size_t larger = MAX(n, *cap ? *cap * 2 : ITEMS_FIRST);
    size_t bytes;
    void *known;

    /* Checked here, as a sanitizer ends the program for what reallocarray() refuses. */
    if (__builtin_mul_overflow(larger, size, &bytes))
        return false;
    memcpy(&known, items, sizeof(known));
    char *array = realloc(known, bytes);
    if (!array)
        return false;
    if (is_zeroed)
        memset(array + *cap * size, 0, (larger - *cap) * size);
    memcpy(items, &array, sizeof(array));
    *cap = larger;
    return true;
}

void out_of_memory(void)
{
    static const char text[] = "out of memory\n";
    ssize_t ignored _unused_ = write(STDERR_FILENO, text, sizeof(text) - 1);
    abort();
}

void *array_alloc_pages(size_t size)
{
    if (size < HUGE_PAGE)
        return malloc(size);
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, size);
    if (p)
        madvise(p, size, MADV_HUGEPAGE);
    return p;
}

void *array_calloc_pages(size_t size)
{
    char *p = calloc(1, size);

    /* Zeros that calloc() has from the kernel get their pages, large ones then, when they are touched. */
    if (p && size >= 2 * HUGE_PAGE) {
        size_t skip = HUGE_PAGE - (uintptr_t)p % HUGE_PAGE;
        madvise(p + skip, (size - skip) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    }
    return p;
}
