/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/mapped.h"
#include "trace/columns/partial.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* More facts than any schema will have; a file may be of a later one. */
#define META_ROWS_MAX 1024

/* The tables whose rows a KIND_ROW column holds; those not named here hold slices. */
_Static_assert(TABLE_slice == 0, "what is not named below refers to slices");
static const enum column_table refers_to[_COLUMN_MAX] = {
    [COL_slice_track] = TABLE_track,      [COL_track_thread] = TABLE_thread,
    [COL_track_process] = TABLE_process,  [COL_track_first] = TABLE_by_track,
    [COL_thread_process] = TABLE_process, [COL_counter_track] = TABLE_track,
    [COL_lane_track] = TABLE_track,       [COL_lane_first] = TABLE_by_lane,
    [COL_lane_mip] = TABLE_lanemip,       [COL_lanemip_longest] = TABLE_by_lane,
    [COL_name_first] = TABLE_by_name,
};

static _printf_(2, 3) int columns_refuse(char **ret_reason, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    if (ret_reason && vasprintf(ret_reason, format, ap) < 0)
        *ret_reason = NULL;
    va_end(ap);
    return -EBADMSG;
}

static int columns_check_frame(struct columns *c, struct layout_trailer *ret_trailer, char **ret_reason)
{
    struct layout_trailer t;
    struct layout_head head;
    uint64_t at_end = c->size - sizeof(t);

    memcpy(&head, c->map, sizeof(head));
    if (memcmp(head.magic, COLUMNS_MAGIC, sizeof(head.magic)) != 0)
        return columns_refuse(ret_reason, "does not begin like a columnar file");
    if (head.version != COLUMNS_VERSION) {
        columns_refuse(ret_reason, "is of version %u, this program reads version %u", head.version,
                       COLUMNS_VERSION);
        return -EPROTONOSUPPORT;
    }

    memcpy(&t, c->map + at_end, sizeof(t));
    if (memcmp(t.magic, LAYOUT_END_MAGIC, sizeof(t.magic)) != 0)
        return columns_refuse(ret_reason, "ends too early, or was never finished");
    if (t.sums > at_end || t.sums % sizeof(uint32_t) != 0 || at_end - t.sums != t.n_sums * UINT64_C(4) ||
        t.n_sums != (t.sums + LAYOUT_PAGE - 1) / LAYOUT_PAGE)
        return columns_refuse(ret_reason, "its page sums are not where they should be");
    *ret_trailer = t;
    t.sum = 0;
    if (layout_sum(layout_sum(0, c->map + t.sums, at_end - t.sums), &t,
                   offsetof(struct layout_trailer, magic)) != ret_trailer->sum)
        return columns_refuse(ret_reason, "its trailer is damaged");
    if (t.version != COLUMNS_VERSION || t.payload_end < sizeof(head) || t.payload_end % LAYOUT_ALIGN != 0 ||
        t.columns < t.payload_end || t.columns > t.sums || t.columns % LAYOUT_ALIGN != 0 ||
        t.sums - t.columns != t.n_columns * sizeof(struct layout_column))
        return columns_refuse(ret_reason, "its trailer contradicts itself");
    c->payload_end = t.payload_end;
    c->sums_offset = t.sums;
    c->sums = (const uint32_t *)(c->map + t.sums);
    return 0;
}

static bool columns_is_named(unsigned column, const char *name)
{
    const char *table = layout_table_of(column);
    size_t n = strlen(table);

    return strncmp(name, table, n) == 0 && name[n] == '.' &&
           strcmp(name + n + 1, layout_name_of(column)) == 0;
}

/* The column of a record, _LAYOUT_COLUMN_MAX for one that this schema does not know. */
static unsigned columns_find_column(const struct layout_column *record)
{
    unsigned i = 0;

    while (i < _LAYOUT_COLUMN_MAX && !columns_is_named(i, record->name))
        i++;
    return i;
}

static int columns_add_column(struct columns *c, const struct layout_column *record, uint64_t blocks_end,
                              char **ret_reason)
{
    uint64_t n_blocks = record->rows / BLOCK_ROWS + (record->rows % BLOCK_ROWS > 0);
    unsigned column = columns_find_column(record);
    struct column_view *v = &c->views[column];

    if (column == _LAYOUT_COLUMN_MAX)
        return 0;
    if (v->rows > 0 || record->rows == 0)
        return columns_refuse(ret_reason, "column %s is there twice, or empty", record->name);
    if (record->kind != (column < _COLUMN_MAX ? column_specs[column].kind : KIND_INT))
        return columns_refuse(ret_reason, "column %s is of another kind", record->name);
    if (record->blocks < c->payload_end || record->blocks > blocks_end ||
        record->blocks % LAYOUT_ALIGN != 0 ||
        n_blocks > (blocks_end - record->blocks) / sizeof(struct layout_block))
        return columns_refuse(ret_reason, "column %s reaches out of the directory", record->name);
    v->blocks = (const struct layout_block *)(c->map + record->blocks);
    v->rows = record->rows;
    return 0;
}

static int columns_add_columns(struct columns *c, const struct layout_trailer *t, char **ret_reason)
{
    const struct layout_column *records = (const struct layout_column *)(c->map + t->columns);

    if (!columns_check(c, t->columns, t->sums - t->columns))
        return columns_refuse(ret_reason, "its directory is damaged");
    for (uint32_t i = 0; i < t->n_columns; i++) {
        int r;

        if (records[i].name[sizeof(records[i].name) - 1] != '\0')
            return columns_refuse(ret_reason, "a column has no sound name");
        r = columns_add_column(c, &records[i], t->columns, ret_reason);
        if (r < 0)
            return r;
    }
    return 0;
}

static int columns_relate_columns(struct columns *c, char **ret_reason)
{
    const struct column_view *offsets = &c->views[LAYOUT_TEXT_OFFSET];

    if (offsets->rows != c->views[LAYOUT_TEXT_SIZE].rows || offsets->rows > UINT32_MAX)
        return columns_refuse(ret_reason, "its dictionary is incomplete");
    for (unsigned i = 0; i < _COLUMN_MAX; i++) {
        uint64_t *rows = &c->table_rows[column_specs[i].table];

        if (c->views[i].rows > 0 && *rows > 0 && c->views[i].rows != *rows)
            return columns_refuse(ret_reason, "table %s has columns of different lengths",
                                  column_table_names[column_specs[i].table]);
        *rows = MAX(*rows, c->views[i].rows);
    }
    return 0;
}

/* Each string is unique and has bytes of its own: a walk over all of them reads the file once
 * at most. */
static int columns_check_texts(const struct columns *c, char **ret_reason)
{
    uint64_t left = c->payload_end;

    if (columns_texts(c) > left)
        return columns_refuse(ret_reason, "it has more strings than bytes");
    for (uint32_t i = 0; i < columns_texts(c); i++) {
        int64_t size = MAX(view_get(c, &c->views[LAYOUT_TEXT_SIZE], i), INT64_C(0));

        if ((uint64_t)size > left)
            return columns_refuse(ret_reason, "its strings are longer than the file");
        left -= (uint64_t)size;
    }
    return 0;
}

static void columns_set_limits(struct columns *c)
{
    for (unsigned i = 0; i < _COLUMN_MAX; i++) {
        enum column_kind kind = column_specs[i].kind;

        if (kind == KIND_ROW)
            c->views[i].limit = c->table_rows[refers_to[i]];
        else if (kind == KIND_TEXT || kind == KIND_REAL)
            c->views[i].limit = c->views[LAYOUT_TEXT_OFFSET].rows;
        else
            continue;
        /* Nothing can be referred to; as no limit is 0, every row is made COLUMN_NULL by there being none. */
        if (c->views[i].limit == 0)
            c->views[i].rows = 0;
    }
}

static void columns_load_meta(struct columns *c)
{
    uint64_t rows = MIN(c->table_rows[TABLE_meta], (uint64_t)META_ROWS_MAX);

    for (size_t i = 0; i < _META_MAX; i++)
        c->meta[i] = COLUMN_NULL;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t key = columns_get(c, COL_meta_key, row);

        if (key >= 0 && key < _META_MAX && c->meta[key] == COLUMN_NULL)
            c->meta[key] = columns_get(c, COL_meta_value, row);
    }
}

static int columns_open_mapped(struct columns *c, char **ret_reason)
{
    struct layout_trailer trailer = {0};
    int r = columns_check_frame(c, &trailer, ret_reason);

    if (r < 0)
        return r;
    c->pages = calloc(trailer.n_sums, sizeof(c->pages[0]));
    c->damage = malloc(sizeof(*c->damage));
    if (!c->pages || !c->damage)
        return -ENOMEM;
    atomic_init(c->damage, -1);
    r = columns_add_columns(c, &trailer, ret_reason);
    if (r == 0)
        r = columns_relate_columns(c, ret_reason);
    if (r == 0)
        r = columns_check_texts(c, ret_reason);
    if (r < 0)
        return r;
    columns_set_limits(c);
    columns_load_meta(c);
    c->dictionary = calloc(1, sizeof(*c->dictionary));
    if (!c->dictionary)
        return -ENOMEM;
    pthread_mutex_init(&c->dictionary->lock, NULL);
    return 0;
}

/* flags: of the mapping. */
static int columns_map(struct columns *c, int fd, uint64_t size, int flags, char **ret_reason)
{
    void *map;

    if (size < sizeof(struct layout_head) + sizeof(struct layout_trailer))
        return columns_refuse(ret_reason, "is too small to be a columnar file");
    map = mmap(NULL, size, PROT_READ, flags, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    c->map = map;
    c->size = size;
    return 0;
}

int columns_open(int fd, struct columns **ret, char **ret_reason)
{
    _cleanup_(columns_closep) struct columns *c = calloc(1, sizeof(*c));
    struct stat st;
    int r;

    if (ret_reason)
        *ret_reason = NULL;
    if (!c)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    r = columns_map(c, fd, (uint64_t)st.st_size, MAP_PRIVATE, ret_reason);
    if (r == 0)
        r = columns_open_mapped(c, ret_reason);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

/* What columns_check_frame() looks at: the head, the trailer, and what the trailer says of the page sums. */
static int columns_need_frame(struct columns *c, uint64_t *ret_sums)
{
    struct layout_trailer t;
    uint64_t at_end = c->size - sizeof(t);
    int r = partial_need(c->partial, 0, sizeof(struct layout_head));

    *ret_sums = at_end;
    if (r == 0)
        r = partial_need(c->partial, at_end, sizeof(t));
    if (r < 0)
        return r;
    memcpy(&t, c->map + at_end, sizeof(t));
    if (t.sums > at_end)
        return 0; /* which is refused */
    *ret_sums = t.sums;
    return partial_need(c->partial, t.sums, at_end - t.sums);
}

/* No page sum covers them: where they do not fit together, what an earlier process has left of them is fetched again. */
static int columns_fetch_frame(struct columns *c)
{
    struct layout_trailer trailer;
    uint64_t sums;
    int r = columns_need_frame(c, &sums);

    if (r < 0 || columns_check_frame(c, &trailer, NULL) == 0)
        return r;
    bool fetched = partial_again(c->partial, 0, sizeof(struct layout_head));
    fetched = partial_again(c->partial, sums, c->size - sums) || fetched;
    return fetched ? columns_need_frame(c, &sums) : 0;
}

int columns_open_partial(int fd, uint64_t size, const struct columns_fetch *fetch, struct columns **ret,
                         char **ret_reason)
{
    _cleanup_(columns_closep) struct columns *c = calloc(1, sizeof(*c));
    int r;

    if (ret_reason)
        *ret_reason = NULL;
    if (!c)
        return -ENOMEM;
    r = partial_new(fd, size, fetch, &c->partial);
    /* Shared: what is fetched later must be seen. */
    if (r == 0)
        r = columns_map(c, fd, size, MAP_SHARED, ret_reason);
    if (r == 0)
        r = columns_fetch_frame(c);
    if (r == 0)
        r = columns_open_mapped(c, ret_reason);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(c);
    return 0;
}

struct columns *columns_close(struct columns *c)
{
    if (!c)
        return NULL;
    if (c->dictionary) {
        pthread_mutex_destroy(&c->dictionary->lock);
        hash_table_done(&c->dictionary->numbers);
        free(c->dictionary);
    }
    if (c->map)
        munmap((void *)c->map, c->size);
    partial_free(c->partial);
    free(c->pages);
    free(c->damage);
    free(c);
    return NULL;
}
