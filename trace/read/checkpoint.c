/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/checkpoint.h"

#include <errno.h>
#include <zstd.h>

#define WINDOW_ZSTD_LEVEL 1

bool checkpoint_due(const struct checkpoint_list *list, uint64_t out)
{
    return out >= list->last + ((uint64_t)CHECKPOINT_SPACING << list->doubled);
}

static void drop_every_second(struct checkpoint_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->n; i++)
        if (i % 2 == 0)
            free(list->items[i].window);
        else
            list->items[kept++] = list->items[i];
    list->n = kept;
    list->doubled++;
}

static bool make_room(struct checkpoint_list *list)
{
    if (list->n == CHECKPOINTS_MAX)
        drop_every_second(list);
    if (list->n < list->cap)
        return true;
    size_t cap = list->cap ? 2 * list->cap : 16;
    struct checkpoint *items = reallocarray(list->items, cap, sizeof(*items));
    if (!items)
        return false;
    list->items = items;
    list->cap = cap;
    return true;
}

static uint8_t *pack_window(const uint8_t *window, size_t *ret_size)
{
    uint8_t packed[ZSTD_COMPRESSBOUND(CHECKPOINT_WINDOW)];
    size_t size = ZSTD_compress(packed, sizeof(packed), window, CHECKPOINT_WINDOW, WINDOW_ZSTD_LEVEL);
    uint8_t *copy = ZSTD_isError(size) ? NULL : malloc(size);

    if (copy)
        memcpy(copy, packed, size);
    *ret_size = size;
    return copy;
}

void checkpoint_add(struct checkpoint_list *list, uint64_t in_bit, uint64_t out, const uint8_t *window)
{
    struct checkpoint c = {.in_bit = in_bit, .out = out};

    list->last = out;
    if (!make_room(list))
        return;
    if (window) {
        c.window = pack_window(window, &c.window_size);
        if (!c.window)
            return;
    }
    list->items[list->n++] = c;
}

void checkpoint_give_up(struct checkpoint_list *list, uint64_t out)
{
    list->last = out;
}

void checkpoint_list_done(struct checkpoint_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].window);
    free(list->items);
    *list = (struct checkpoint_list){0};
}

int checkpoint_unpack(const uint8_t *window, size_t size, uint8_t ret[CHECKPOINT_WINDOW])
{
    return ZSTD_decompress(ret, CHECKPOINT_WINDOW, window, size) == CHECKPOINT_WINDOW ? 0 : -EBADMSG;
}
