/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/mapped.h"

#include "base/hash_table.h"
#include "trace/columns/partial.h"

enum page_state {
    PAGE_UNREAD,
    PAGE_GOOD,
    PAGE_DAMAGED,
};

/* Of several, the first that is found. */
static void columns_report_damage(const struct columns *c, uint64_t offset)
{
    int64_t none = -1;

    atomic_compare_exchange_strong(c->damage, &none, (int64_t)offset);
}

static bool columns_page_is_good(const struct columns *c, uint64_t page)
{
    uint64_t offset = page * LAYOUT_PAGE;
    return layout_sum(0, c->map + offset, MIN(c->sums_offset - offset, LAYOUT_PAGE)) == c->sums[page];
}

/* The only place where pages are looked at first, and so where a missing one is fetched. */
static uint8_t columns_read_page(const struct columns *c, uint64_t page)
{
    uint64_t offset = page * LAYOUT_PAGE, size = MIN(c->sums_offset - offset, LAYOUT_PAGE);

    if (c->partial && partial_need(c->partial, offset, size) < 0)
        return PAGE_DAMAGED;
    if (columns_page_is_good(c, page))
        return PAGE_GOOD;
    return c->partial && partial_again(c->partial, offset, size) && columns_page_is_good(c, page)
               ? PAGE_GOOD
               : PAGE_DAMAGED;
}

static bool columns_check_page(const struct columns *c, uint64_t page)
{
    uint8_t state = atomic_load_explicit(&c->pages[page], memory_order_acquire);

    if (__builtin_expect(state == PAGE_UNREAD, 0)) {
        state = columns_read_page(c, page);
        /* Two threads that check the same page come to the same end. */
        atomic_store_explicit(&c->pages[page], state, memory_order_release);
        if (state == PAGE_DAMAGED)
            columns_report_damage(c, page * LAYOUT_PAGE);
    }
    return state == PAGE_GOOD;
}

bool columns_check(const struct columns *c, uint64_t offset, uint64_t size)
{
    bool good = true;

    if (size == 0)
        return true;
    for (uint64_t page = offset / LAYOUT_PAGE; page <= (offset + size - 1) / LAYOUT_PAGE; page++)
        good = columns_check_page(c, page) && good;
    return good;
}

uint64_t columns_rows(const struct columns *c, enum column_table table)
{
    return c->table_rows[table];
}

/* How a block is packed, and where; false if its entry in the directory is damaged. */
static bool view_packing(const struct columns *c, const struct column_view *v, uint64_t number,
                         struct packing *ret, uint64_t *ret_offset, uint64_t *ret_size)
{
    const struct layout_block *b = &v->blocks[number];
    uint64_t entry = (uint64_t)((const uint8_t *)b - c->map);

    if (!columns_check_page(c, entry / LAYOUT_PAGE))
        return false;
    *ret = layout_packing(b, ret_offset);
    if (packing_is_sound(*ret)) {
        *ret_size = packing_size(*ret, (size_t)MIN(v->rows - number * BLOCK_ROWS, (uint64_t)BLOCK_ROWS));
        if (*ret_offset <= c->payload_end && *ret_size <= c->payload_end - *ret_offset)
            return true;
    }
    columns_report_damage(c, entry);
    return false;
}

/* What a block is packed in; NULL where that is damaged. */
static const uint8_t *view_block(const struct columns *c, const struct column_view *v, uint64_t number,
                                 struct packing *ret)
{
    uint64_t offset, size;

    if (!view_packing(c, v, number, ret, &offset, &size) || !columns_check(c, offset, size))
        return NULL;
    return c->map + offset;
}

int64_t view_get(const struct columns *c, const struct column_view *v, uint64_t row)
{
    const uint8_t *in;
    struct packing p;
    int64_t value;

    if (row >= v->rows)
        return COLUMN_NULL;
    in = view_block(c, v, row / BLOCK_ROWS, &p);
    if (!in)
        return COLUMN_NULL;
    value = packing_value(p, in, row % BLOCK_ROWS);
    return v->limit && (uint64_t)value >= v->limit ? COLUMN_NULL : value;
}

int64_t columns_get(const struct columns *c, enum column column, uint64_t row)
{
    return view_get(c, &c->views[column], row);
}

static void columns_fill_null(int64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = COLUMN_NULL;
}

/* Whether every value of a block is below the limit, or COLUMN_NULL. */
static bool columns_within_limit(struct packing p, uint64_t limit)
{
    int64_t max;

    return p.base >= 0 && packing_max(p, &max) && (uint64_t)max < limit;
}

static void columns_apply_limit(struct packing p, uint64_t limit, size_t n, int64_t *values)
{
    if (limit && !columns_within_limit(p, limit)) {
        for (size_t i = 0; i < n; i++)
            values[i] = (uint64_t)values[i] >= limit ? COLUMN_NULL : values[i];
    }
}

/* Rows of a block from `first` on, at most n. */
static size_t columns_rows_of_block(const struct columns *c, enum column column, uint64_t first, size_t n)
{
    uint64_t rows = c->table_rows[column_specs[column].table];

    return first >= rows ? 0 : (size_t)MIN(n, MIN(rows - first, BLOCK_ROWS - first % BLOCK_ROWS));
}

/* The packed block that has row `first`, with n limited to the rows from there to its end; NULL where there is none, and ret has
 * n times COLUMN_NULL. */
static const uint8_t *columns_packed_rows(const struct columns *c, enum column column, uint64_t first,
                                          size_t *n, struct packing *ret_packing, int64_t *ret)
{
    const struct column_view *v = &c->views[column];
    const uint8_t *in = NULL;

    *ret_packing = (struct packing){0};
    *n = columns_rows_of_block(c, column, first, *n);
    if (*n > 0 && v->rows > 0)
        in = view_block(c, v, first / BLOCK_ROWS, ret_packing);
    if (!in)
        columns_fill_null(ret, *n);
    return in;
}

size_t columns_block(const struct columns *c, enum column column, uint64_t first, size_t n, int64_t *ret)
{
    struct packing p;
    const uint8_t *in = columns_packed_rows(c, column, first, &n, &p, ret);

    if (in) {
        packing_unpack(p, in, n, ret);
        columns_apply_limit(p, c->views[column].limit, n, ret);
    }
    return n;
}

_Static_assert(COLUMNS_PART_ROWS == PACKING_ANCHOR_ROWS, "parts begin where unpacking can");

size_t columns_part(const struct columns *c, enum column column, uint64_t first, size_t n, int64_t *ret)
{
    struct packing p;
    const uint8_t *in = columns_packed_rows(c, column, first, &n, &p, ret);

    if (in) {
        packing_unpack_part(p, in, first % BLOCK_ROWS, n, ret);
        columns_apply_limit(p, c->views[column].limit, n, ret);
    }
    return n;
}

size_t columns_values(const struct columns *c, enum column column, uint64_t first, size_t n, int64_t *ret)
{
    int64_t block[BLOCK_ROWS];
    size_t done = 0, some;

    for (; (some = columns_rows_of_block(c, column, first + done, n - done)) > 0; done += some) {
        size_t skip = (first + done) % BLOCK_ROWS;

        if (skip == 0) {
            columns_block(c, column, first + done, some, ret + done);
        } else {
            columns_block(c, column, first + done - skip, skip + some, block);
            memcpy(ret + done, block + skip, some * sizeof(*ret));
        }
    }
    return done;
}

size_t columns_codes(const struct columns *c, enum column column, uint64_t first, size_t n, uint32_t *ret)
{
    const struct column_view *v = &c->views[column];
    uint32_t limit = v->limit ? (uint32_t)MIN(v->limit, (uint64_t)COLUMN_NO_CODE) : COLUMN_NO_CODE;
    size_t done = 0, some;

    for (; (some = columns_rows_of_block(c, column, first + done, n - done)) > 0; done += some) {
        size_t skip = (first + done) % BLOCK_ROWS;
        uint32_t block[BLOCK_ROWS], *to = some == BLOCK_ROWS ? ret + done : block;
        const uint8_t *in = NULL;
        struct packing p = {0};

        if (v->rows > 0)
            in = view_block(c, v, (first + done) / BLOCK_ROWS, &p);
        if (in)
            packing_unpack_codes(p, in, skip + some, limit, to);
        else
            memset(to, 0xff, (skip + some) * sizeof(*to));
        if (to == block)
            memcpy(ret + done, block + skip, some * sizeof(*ret));
    }
    return done;
}

bool columns_block_range(const struct columns *c, enum column column, uint64_t row, int64_t *ret_min,
                         int64_t *ret_max)
{
    const struct column_view *v = &c->views[column];
    uint64_t offset, size;
    struct packing p;

    *ret_min = INT64_MAX;
    *ret_max = INT64_MIN;
    if (row >= v->rows || !view_packing(c, v, row / BLOCK_ROWS, &p, &offset, &size) ||
        (p.nulls && p.range == 0))
        return true;
    *ret_min = p.base;
    return packing_max(p, ret_max);
}

uint64_t columns_next_in_range(const struct columns *c, enum column column, uint64_t row, uint64_t end,
                               int64_t min, int64_t max)
{
    int64_t block_min, block_max;

    for (; row < end; row += BLOCK_ROWS - row % BLOCK_ROWS) {
        if (!columns_block_range(c, column, row, &block_min, &block_max) ||
            (block_min <= max && block_max >= min))
            return row;
    }
    return end;
}

uint64_t columns_lower_bound(const struct columns *c, enum column column, int64_t value)
{
    const struct column_view *v = &c->views[column];
    uint64_t low = 0, high = (v->rows + BLOCK_ROWS - 1) / BLOCK_ROWS, offset, size;
    struct packing p;

    /* The first block that begins at or above the value; the base of a sorted block is its first value. */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (!view_packing(c, v, middle, &p, &offset, &size) || p.base < value)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    high = MIN(low * BLOCK_ROWS, v->rows);
    low = (low - 1) * BLOCK_ROWS;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (view_get(c, v, middle) < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const uint8_t *columns_bytes(const struct columns *c, uint64_t offset, size_t size)
{
    if (offset < sizeof(struct layout_head) || offset > c->payload_end || size > c->payload_end - offset ||
        !columns_check(c, offset, size))
        return NULL;
    return c->map + offset;
}

uint32_t columns_texts(const struct columns *c)
{
    return (uint32_t)c->views[LAYOUT_TEXT_OFFSET].rows;
}

struct text columns_text(const struct columns *c, int64_t number)
{
    int64_t offset, size;
    const uint8_t *p;

    if (number < 0)
        return (struct text){"", 0};
    offset = view_get(c, &c->views[LAYOUT_TEXT_OFFSET], (uint64_t)number);
    size = view_get(c, &c->views[LAYOUT_TEXT_SIZE], (uint64_t)number);
    p = offset < 0 || size < 0 ? NULL : columns_bytes(c, (uint64_t)offset, (size_t)size);
    return p ? (struct text){(const char *)p, (size_t)size} : (struct text){"", 0};
}

static bool dictionary_equal(const void *columns, size_t number, const void *key)
{
    const struct text *wanted = key;
    struct text t = columns_text(columns, (int64_t)number);

    return t.size == wanted->size && memcmp(t.p, wanted->p, t.size) == 0;
}

/* Of equal strings the first is kept. Without memory the table stays empty, and each search walks all strings. */
static void dictionary_make(const struct columns *c)
{
    struct dictionary *d = c->dictionary;
    uint32_t n = columns_texts(c);

    d->made = true;
    if (hash_table_reserve(&d->numbers, n) < 0)
        return;
    for (uint32_t number = 0; number < n; number++) {
        struct text t = columns_text(c, number);
        uint64_t hash = hash_bytes(t.p, t.size);
        struct hash_slot *slot = hash_table_slot(&d->numbers, hash, dictionary_equal, c, &t);

        if (slot->number == 0)
            hash_table_fill(&d->numbers, slot, hash, number);
    }
}

int64_t columns_find_text(const struct columns *c, const char *p, size_t size)
{
    struct dictionary *d = c->dictionary;
    struct text wanted = {p, size};

    pthread_mutex_lock(&d->lock);
    if (!d->made)
        dictionary_make(c);
    pthread_mutex_unlock(&d->lock);

    if (d->numbers.slots) {
        const struct hash_slot *slot =
            hash_table_slot(&d->numbers, hash_bytes(p, size), dictionary_equal, c, &wanted);
        return slot->number - INT64_C(1);
    }
    for (uint32_t number = 0; number < columns_texts(c); number++)
        if (dictionary_equal(c, number, &wanted))
            return number;
    return -1;
}

int64_t columns_meta(const struct columns *c, enum meta_key key)
{
    return c->meta[key];
}

struct text columns_meta_text(const struct columns *c, enum meta_key key)
{
    return columns_text(c, meta_is_text(key) ? c->meta[key] : COLUMN_NULL);
}

int64_t columns_damage(const struct columns *c)
{
    return atomic_load(c->damage);
}

uint64_t columns_size(const struct columns *c)
{
    return c->size;
}

uint32_t columns_sum(const struct columns *c)
{
    struct layout_trailer trailer;

    memcpy(&trailer, c->map + c->size - sizeof(trailer), sizeof(trailer));
    return trailer.sum;
}
