/* SPDX-License-Identifier: Apache-2.0 */
/* Traces one after the other, separated by zero bytes: a path, then its distributedInfo. */
#include "trace/read/instance.h"

#define TRACES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next text, which is copied so that reading behind it is seen. */
static char *take_text(const uint8_t **data, size_t *size, size_t *ret_size)
{
    const uint8_t *end = memchr(*data, '\0', *size);
    size_t n = end ? (size_t)(end - *data) : *size;
    char *text = malloc(n + 1);

    if (!text)
        abort();
    memcpy(text, *data, n);
    text[n] = '\0';
    *data += MIN(n + 1, *size);
    *size -= MIN(n + 1, *size);
    *ret_size = n;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct instance_clues clues[TRACES_MAX] = {0};
    char names[TRACES_MAX][INSTANCE_NAME_MAX];
    size_t numbers[TRACES_MAX], n = 0, length;

    for (; n < TRACES_MAX && size > 0; n++) {
        clues[n] = (struct instance_clues){.rank = (int64_t)n / 2,
                                           .world_size = TRACES_MAX,
                                           .dp = INSTANCE_UNKNOWN,
                                           .from_ns = INSTANCE_UNKNOWN,
                                           .to_ns = INSTANCE_UNKNOWN};
        clues[n].path = take_text(&data, &size, &length);
        clues[n].distributed = take_text(&data, &size, &length);
        clues[n].distributed_size = length;
    }
    int64_t found = instances_find(clues, n, NULL, NULL, numbers);
    if (found < 0 || found > (int64_t)n)
        abort();
    instances_name(clues, n, numbers, (size_t)found, names);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if ((clues[i].rank == clues[k].rank && numbers[i] == numbers[k]) ||
                (numbers[i] != numbers[k] && strcmp(names[numbers[i]], names[numbers[k]]) == 0))
                abort();
    for (size_t i = 0; i < n; i++) {
        free((char *)clues[i].path);
        free((char *)clues[i].distributed);
    }
    return 0;
}
