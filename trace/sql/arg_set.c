/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/arg_set.h"

#include "base/array.h"
#include "trace/read/number.h"
#include "trace/read/scan_text.h"
#include <errno.h>
#include <inttypes.h>

enum json_scalar json_scalar(struct text json, int64_t *ret_integer, double *ret_real)
{
    const char *end = json.p + json.size;
    bool is_integer;

    if ((json.size == 4 && memcmp(json.p, "true", 4) == 0) ||
        (json.size == 5 && memcmp(json.p, "false", 5) == 0)) {
        *ret_integer = json.size == 4;
        return SCALAR_BOOL;
    }
    if (!number_is(json.p, end, &is_integer))
        return SCALAR_WORD;
    /* An integer that does not fit keeps its digits: a double would lose some. */
    if (is_integer)
        return slice_int((struct slice){json.p, end}, ret_integer) ? SCALAR_INT : SCALAR_WORD;
    return number_real(json.p, end, ret_real) ? SCALAR_REAL : SCALAR_WORD;
}

#define CHUNK_MIN (16 << 10)
#define KEY_ROOT  "args"

struct arg_chunk {
    struct arg_chunk *next;
    size_t used, size;
    char bytes[];
};

/* The key of the current value, with and without indexes. */
struct arg_path {
    char *key, *flat;
    size_t key_size, flat_size, key_cap, flat_cap;
};

const char *arg_type_name(enum arg_type type)
{
    static const char *const names[_ARG_TYPE_MAX] = {
        [ARG_INT] = "int",   [ARG_REAL] = "real", [ARG_STRING] = "string",
        [ARG_BOOL] = "bool", [ARG_JSON] = "json",
    };

    return names[type];
}

/* Memory that does not move; NULL without memory or over the limit. */
static char *arg_set_alloc(struct arg_set *set, size_t size)
{
    struct arg_chunk *c = set->chunks;

    if (size > ARG_SET_BYTES_MAX - MIN(set->bytes, (size_t)ARG_SET_BYTES_MAX))
        return NULL;
    if (!c || size > c->size - c->used) {
        size_t cap = MAX(size, (size_t)CHUNK_MIN);

        c = malloc(sizeof(*c) + cap);
        if (!c)
            return NULL;
        c->next = set->chunks;
        c->used = 0;
        c->size = cap;
        set->chunks = c;
    }
    set->bytes += size;
    c->used += size;
    return c->bytes + c->used - size;
}

/* Returns the end of what arg_set_alloc() allocated last. */
static void arg_set_give_back(struct arg_set *set, size_t size)
{
    set->bytes -= size;
    set->chunks->used -= size;
}

/* One chunk is kept for the next event. */
static void arg_set_reset(struct arg_set *set)
{
    while (set->chunks && set->chunks->next) {
        struct arg_chunk *next = set->chunks->next;

        free(set->chunks);
        set->chunks = next;
    }
    if (set->chunks)
        set->chunks->used = 0;
    set->n = set->bytes = 0;
}

void arg_set_done(struct arg_set *set)
{
    arg_set_reset(set);
    free(set->chunks);
    free(set->items);
    free(set->sorted);
    *set = (struct arg_set){0};
}

static int arg_set_error(const struct arg_set *set, size_t size)
{
    return size > ARG_SET_BYTES_MAX - MIN(set->bytes, (size_t)ARG_SET_BYTES_MAX) ? -EFBIG : -ENOMEM;
}

static int arg_set_keep(struct arg_set *set, struct text text, struct text *ret)
{
    char *copy = arg_set_alloc(set, MAX(text.size, (size_t)1));

    if (!copy)
        return arg_set_error(set, text.size);
    memcpy(copy, text.p, text.size);
    *ret = (struct text){copy, text.size};
    return 0;
}

static int arg_set_add(struct arg_set *set, const struct arg_path *path, struct arg **ret)
{
    struct arg *a;
    int r;

    if (!ARRAY_RESERVE(set->items, set->cap, set->n + 1))
        return -ENOMEM;
    set->bytes += sizeof(*a);
    a = &set->items[set->n];
    *a = (struct arg){0};
    r = arg_set_keep(set, (struct text){path->key, path->key_size}, &a->key);
    if (r == 0 && path->flat_size == path->key_size)
        a->flat_key = a->key;
    else if (r == 0)
        r = arg_set_keep(set, (struct text){path->flat, path->flat_size}, &a->flat_key);
    if (r < 0)
        return r;
    set->n++;
    *ret = a;
    return 0;
}

static int path_append(char **buffer, size_t *size, size_t *cap, const char *p, size_t n)
{
    if (!ARRAY_RESERVE(*buffer, *cap, *size + n))
        return -ENOMEM;
    memcpy(*buffer + *size, p, n);
    *size += n;
    return 0;
}

static int path_add(struct arg_path *path, const char *p, size_t n)
{
    int r = path_append(&path->key, &path->key_size, &path->key_cap, p, n);

    return r < 0 ? r : path_append(&path->flat, &path->flat_size, &path->flat_cap, p, n);
}

static int path_add_index(struct arg_path *path, uint64_t index)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "[%" PRIu64 "]", index);

    return path_append(&path->key, &path->key_size, &path->key_cap, text, (size_t)n);
}

/* A string between quotes, with its escapes resolved as in the names of events. */
static int arg_set_keep_string(struct arg_set *set, struct slice s, struct text *ret)
{
    size_t size = (size_t)(s.end - s.p), taken = MAX(size, (size_t)1) * SCAN_TEXT_GROWTH;
    char *out = arg_set_alloc(set, taken);
    uint32_t flaws = 0;

    if (!out)
        return arg_set_error(set, taken);
    *ret = (struct text){out, scan_text_clean(s, true, out, &flaws)};
    arg_set_give_back(set, taken - ret->size);
    return 0;
}

static int arg_set_add_leaf(struct arg_set *set, const struct arg_path *path, struct slice value)
{
    static const enum arg_type types[] = {
        [SCALAR_INT] = ARG_INT,
        [SCALAR_REAL] = ARG_REAL,
        [SCALAR_BOOL] = ARG_BOOL,
        [SCALAR_WORD] = ARG_STRING,
    };
    struct text text = {value.p, (size_t)(value.end - value.p)};
    struct arg *a = NULL;
    int r = arg_set_add(set, path, &a);

    if (r < 0)
        return r;
    if (*value.p == '"') {
        a->type = ARG_STRING;
        return arg_set_keep_string(set, slice_unquoted(value), &a->text);
    }
    a->type = *value.p == '{' || *value.p == '[' ? ARG_JSON : types[json_scalar(text, &a->integer, &a->real)];
    return a->type == ARG_JSON || a->type == ARG_STRING ? arg_set_keep(set, text, &a->text) : 0;
}

static int path_add_name(struct arg_set *set, struct arg_path *path, struct slice name)
{
    struct text text = {0};
    int r = path_add(path, ".", 1);

    if (r == 0)
        r = arg_set_keep_string(set, name, &text);
    return r < 0 ? r : path_add(path, text.p, text.size);
}

static int arg_set_flatten(struct arg_set *set, struct arg_path *path, struct slice value, unsigned depth)
{
    bool is_object = *value.p == '{';
    struct slice rest, name, member;
    size_t key_size = path->key_size, flat_size = path->flat_size;
    uint64_t index = 0;
    int r = 0;

    if (slice_is(value, "null"))
        return 0;
    if ((!is_object && *value.p != '[') || depth == ARG_DEPTH_MAX)
        return arg_set_add_leaf(set, path, value);
    rest = json_inside(value);
    while (r == 0 && json_next(&rest, &name, &member)) {
        if (slice_is(member, "null"))
            continue;
        r = is_object ? path_add_name(set, path, name) : path_add_index(path, index++);
        if (r == 0)
            r = arg_set_flatten(set, path, member, depth + 1);
        path->key_size = key_size;
        path->flat_size = flat_size;
    }
    return r;
}

static int compare_keys(const struct arg *x, const struct arg *y)
{
    if (x->key.size != y->key.size)
        return x->key.size < y->key.size ? -1 : 1;
    return memcmp(x->key.p, y->key.p, x->key.size);
}

static int compare_arg_pointers(const void *a, const void *b)
{
    const struct arg *x = *(struct arg *const *)a, *y = *(struct arg *const *)b;
    int r = compare_keys(x, y);

    return r != 0 ? r : (x > y) - (x < y);
}

/* Keeps the last argument of each key. */
static int arg_set_drop_repeated(struct arg_set *set)
{
    size_t kept = 0;

    if (!ARRAY_RESERVE(set->sorted, set->sorted_cap, set->n))
        return -ENOMEM;
    for (size_t i = 0; i < set->n; i++)
        set->sorted[i] = &set->items[i];
    qsort(set->sorted, set->n, sizeof(set->sorted[0]), compare_arg_pointers);
    for (size_t i = 1; i < set->n; i++) {
        if (compare_keys(set->sorted[i - 1], set->sorted[i]) == 0)
            set->sorted[i - 1]->key.p = NULL;
    }
    for (size_t i = 0; i < set->n; i++) {
        if (set->items[i].key.p)
            set->items[kept++] = set->items[i];
    }
    set->n = kept;
    return 0;
}

int arg_set_of_text(struct arg_set *set, struct text event)
{
    struct slice rest = {event.p, event.p + event.size}, name, value, args = {NULL, NULL};
    struct arg_path path = {0};
    int r;

    arg_set_reset(set);
    rest = json_inside(rest);
    while (json_next(&rest, &name, &value)) {
        if (slice_is(name, KEY_ROOT))
            args = value;
    }
    if (!args.p)
        return 0;
    r = path_add(&path, KEY_ROOT, strlen(KEY_ROOT));
    if (r == 0)
        r = arg_set_flatten(set, &path, args, 0);
    if (r == 0)
        r = arg_set_drop_repeated(set);
    free(path.key);
    free(path.flat);
    return r;
}

/* "args.grid[0]" and "args.grid", with the first of the names of an argument. */
static int path_of_known(struct arg_path *path, const struct arg_spec *spec)
{
    int r;

    path->key_size = path->flat_size = 0;
    r = path_add(path, KEY_ROOT ".", strlen(KEY_ROOT) + 1);
    if (r == 0)
        r = path_add(path, spec->keys[0], strlen(spec->keys[0]));
    return r < 0 || spec->array < 0 ? r : path_add_index(path, (uint64_t)spec->array);
}

static int arg_set_add_known(struct arg_set *set, struct arg_path *path, const struct columns *c,
                             const struct arg_spec *spec, int64_t value)
{
    struct text text = columns_text(c, value);
    struct arg *a = NULL;
    int r = path_of_known(path, spec);

    if (r == 0)
        r = arg_set_add(set, path, &a);
    if (r < 0)
        return r;
    switch (column_specs[spec->column].kind) {
    case KIND_TEXT:
        a->type = ARG_STRING;
        break;
    case KIND_REAL:
        a->type = json_scalar(text, &a->integer, &a->real) == SCALAR_REAL  ? ARG_REAL
                  : json_scalar(text, &a->integer, &a->real) == SCALAR_INT ? ARG_INT
                                                                           : ARG_STRING;
        break;
    default:
        a->type = ARG_INT;
        a->integer = value;
    }
    return a->type == ARG_STRING ? arg_set_keep(set, text, &a->text) : 0;
}

int arg_set_of_columns(struct arg_set *set, const struct columns *c, uint64_t slice)
{
    struct arg_path path = {0};
    int r = 0;

    arg_set_reset(set);
    for (size_t i = 0; i < column_args_count && r == 0; i++) {
        enum column column = column_args[i].column;
        enum column key = arg_group_slice(column_specs[column].table);
        uint64_t row = columns_lower_bound(c, key, (int64_t)slice);

        if (columns_get(c, key, row) != (int64_t)slice)
            continue;
        int64_t value = columns_get(c, column, row);
        if (value != COLUMN_NULL)
            r = arg_set_add_known(set, &path, c, &column_args[i], value);
    }
    free(path.key);
    free(path.flat);
    return r;
}
