/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/selection.h"

#include "base/alloc.h"
#include "trace/columns/schema.h"
#include <errno.h>
#include <inttypes.h>

/* A category that the trace does not have selects no slice. */
static void selection_add_category(struct selection *s, const char *name, size_t size)
{
    int64_t number = columns_find_text(s->c, name, size);

    if (number >= 0)
        s->categories[s->n_categories++] = number;
}

static int selection_read_categories(struct selection *s, const char *only)
{
    size_t most = 1;

    for (const char *p = only; *p; p++)
        most += *p == ',';
    /* Each may have an older name. */
    s->categories = calloc(most, 2 * sizeof(s->categories[0]));
    if (!s->categories)
        return -ENOMEM;
    for (const char *p = only; *p; p += *p == ',') {
        size_t size = strcspn(p, ",");
        const char *old_name = category_old_name(p, size);

        if (size > 0)
            selection_add_category(s, p, size);
        if (old_name)
            selection_add_category(s, old_name, strlen(old_name));
        p += size;
    }
    return 0;
}

int selection_init(struct selection *s, const struct columns *c, int64_t from, int64_t to, const char *only)
{
    uint64_t rows = columns_rows(c, TABLE_slice);

    *s = (struct selection){.c = c, .from = from, .to = to, .everything = !only};
    s->end = to == INT64_MAX ? rows : columns_lower_bound(c, COL_slice_ts, to);
    s->last = columns_meta(c, META_last_ns);
    if (s->last == COLUMN_NULL && rows > 0)
        s->last = columns_get(c, COL_slice_ts, rows - 1);
    return only ? selection_read_categories(s, only) : 0;
}

void selection_done(struct selection *s)
{
    free(s->categories);
    *s = (struct selection){0};
}

static bool selection_has_category(const struct selection *s, int64_t category)
{
    for (size_t i = 0; i < s->n_categories; i++) {
        if (s->categories[i] == category)
            return true;
    }
    return s->everything;
}

int64_t selection_slice_end(const struct selection *s, uint64_t row)
{
    int64_t ts = columns_get(s->c, COL_slice_ts, row), dur = columns_get(s->c, COL_slice_dur, row);

    return dur < 0 ? MAX(s->last, ts) : sum_of(ts, dur);
}

bool selection_has_time(const struct selection *s, int64_t ts)
{
    return ts != COLUMN_NULL && ts >= s->from && ts < s->to;
}

bool selection_has(const struct selection *s, uint64_t row)
{
    int64_t ts = columns_get(s->c, COL_slice_ts, row);

    if (ts == COLUMN_NULL || row >= s->end ||
        !selection_has_category(s, columns_get(s->c, COL_slice_category, row)))
        return false;
    return ts >= s->from || selection_slice_end(s, row) > s->from;
}

/* -- Arguments ------------------------------------------------------------------------------------------ */

/* The slice of a row of arguments; after the last row, the largest number. */
static int64_t args_slice(const struct slice_args *a, enum column column, uint64_t row)
{
    return row < columns_rows(a->c, column_specs[column].table) ? columns_get(a->c, column, row) : INT64_MAX;
}

static bool args_seek_group(struct slice_args *a, unsigned group, uint64_t slice)
{
    enum column column = arg_group_slice(TABLE_ARGS_FIRST + group);
    int64_t wanted = (int64_t)slice;
    uint64_t *row = &a->rows[group];

    /* Usually it is the row of the last search, or the next one. */
    if (args_slice(a, column, *row) < wanted)
        ++*row;
    if (args_slice(a, column, *row) < wanted || (*row > 0 && args_slice(a, column, *row - 1) >= wanted))
        *row = columns_lower_bound(a->c, column, wanted);
    return args_slice(a, column, *row) == wanted;
}

void args_seek(struct slice_args *a, uint64_t slice)
{
    for (unsigned group = 0; group < ARG_GROUPS; group++)
        a->has[group] = columns_rows(a->c, TABLE_ARGS_FIRST + group) > 0 && args_seek_group(a, group, slice);
    a->next = 0;
}

/* The elements of an array are columns in a row. */
static bool args_are_one_array(const struct arg_spec *a, const struct arg_spec *b)
{
    return a->array >= 0 && b->array >= 0 && streq(a->keys[0], b->keys[0]);
}

bool args_next(struct slice_args *a, struct slice_arg *ret)
{
    while (a->next < column_args_count) {
        const struct arg_spec *first = &column_args[a->next];
        unsigned group = column_specs[first->column].table - TABLE_ARGS_FIRST;
        bool known = false;

        *ret = (struct slice_arg){.key = first->keys[0],
                                  .column = first->column,
                                  .kind = column_specs[first->column].kind,
                                  .is_array = first->array >= 0};
        do {
            int64_t value =
                a->has[group] ? columns_get(a->c, column_args[a->next].column, a->rows[group]) : COLUMN_NULL;

            known = known || value != COLUMN_NULL;
            ret->values[ret->n++] = value;
            a->next++;
        } while (ret->n < ARG_ARRAY_MAX && a->next < column_args_count &&
                 args_are_one_array(first, &column_args[a->next]));
        if (known)
            return true;
    }
    return false;
}

/* -- Arrows --------------------------------------------------------------------------------------------- */

static int compare_arrow_ends(const void *pa, const void *pb)
{
    const struct arrow_end *a = pa, *b = pb;

    if (a->slice != b->slice)
        return a->slice < b->slice ? -1 : 1;
    return a->flow < b->flow ? -1 : a->flow > b->flow;
}

int arrows_init(struct arrows *a, const struct selection *s)
{
    uint64_t rows = columns_rows(s->c, TABLE_flow);

    *a = (struct arrows){0};
    if (rows == 0)
        return 0;
    a->ends = reallocarray(NULL, rows, 2 * sizeof(a->ends[0]));
    if (!a->ends)
        return -ENOMEM;
    for (uint64_t flow = 0; flow < rows; flow++) {
        int64_t out = columns_get(s->c, COL_flow_out, flow), in = columns_get(s->c, COL_flow_in, flow);

        if (out < 0 || in < 0 || !selection_has(s, (uint64_t)out) || !selection_has(s, (uint64_t)in))
            continue;
        a->ends[a->n++] = (struct arrow_end){(uint64_t)out, flow, false};
        a->ends[a->n++] = (struct arrow_end){(uint64_t)in, flow, true};
    }
    qsort(a->ends, a->n, sizeof(a->ends[0]), compare_arrow_ends);
    return 0;
}

void arrows_done(struct arrows *a)
{
    free(a->ends);
    a->ends = NULL;
}

const struct arrow_end *arrows_at(const struct arrows *a, uint64_t slice, size_t *ret_n)
{
    size_t low = 0, high = a->n, first;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (a->ends[middle].slice < slice)
            low = middle + 1;
        else
            high = middle;
    }
    first = low;
    while (low < a->n && a->ends[low].slice == slice)
        low++;
    *ret_n = low - first;
    return a->n > 0 ? &a->ends[first] : NULL;
}

/* -- Labels --------------------------------------------------------------------------------------------- */

/* As the arguments of a "%.*s". */
#define TEXT(t) (int)MIN((t).size, (size_t)INT32_MAX), (t).p

/* The text of a column, without the space at the end of some names of Kineto. */
static struct text label_text(const struct columns *c, enum column column, int64_t row)
{
    struct text t = columns_text(c, columns_get(c, column, (uint64_t)row));

    while (t.size > 0 && t.p[t.size - 1] == ' ')
        t.size--;
    return t;
}

static char *label_id(const struct columns *c, const char *what, enum column number, enum column text,
                      int64_t row)
{
    struct text t = label_text(c, text, row);
    int64_t id = columns_get(c, number, (uint64_t)row);

    if (t.size > 0)
        return xasprintf("%s %.*s", what, TEXT(t));
    return id == COLUMN_NULL ? xasprintf("%s", what) : xasprintf("%s %" PRId64, what, id);
}

char *label_process(const struct columns *c, int64_t process)
{
    struct text name = label_text(c, COL_process_name, process),
                labels = label_text(c, COL_process_labels, process);

    if (name.size > 0 && labels.size > 0)
        return xasprintf("%.*s %.*s", TEXT(name), TEXT(labels));
    if (labels.size > 0)
        return xasprintf("%.*s", TEXT(labels));
    _cleanup_(freep) char *id =
        label_id(c, name.size > 0 ? "" : "process", COL_process_pid, COL_process_pid_text, process);
    return name.size > 0 ? xasprintf("%.*s%s", TEXT(name), id) : TAKE_PTR(id);
}

char *label_thread(const struct columns *c, int64_t thread)
{
    struct text name = label_text(c, COL_thread_name, thread);

    if (name.size > 0)
        return xasprintf("%.*s", TEXT(name));
    return label_id(c, "thread", COL_thread_tid, COL_thread_tid_text, thread);
}

char *label_track(const struct columns *c, uint64_t track)
{
    int64_t thread = columns_get(c, COL_track_thread, track),
            process = columns_get(c, COL_track_process, track);
    struct text name = label_text(c, COL_track_name, (int64_t)track);
    _cleanup_(freep) char *of_process = process == COLUMN_NULL ? NULL : label_process(c, process),
                          *label = thread != COLUMN_NULL ? label_thread(c, thread)
                                   : name.size > 0       ? xasprintf("%.*s", TEXT(name))
                                                         : xstrdup("instants");

    return of_process ? xasprintf("%s / %s", of_process, label) : TAKE_PTR(label);
}

/* -- Numbers of strings --------------------------------------------------------------------------------- */

int numbering_init(struct numbering *n, const struct columns *c)
{
    *n = (struct numbering){.texts = columns_texts(c)};
    n->given = calloc((size_t)n->texts + 1, sizeof(n->given[0]));
    return n->given ? 0 : -ENOMEM;
}

void numbering_done(struct numbering *n)
{
    free(n->given);
    n->given = NULL;
}

uint32_t numbering_of(struct numbering *n, int64_t text)
{
    uint32_t *given = &n->given[text < 0 || text >= n->texts ? n->texts : text];

    if (*given == 0)
        *given = ++n->n;
    return *given - 1;
}

int64_t *numbering_list(const struct numbering *n)
{
    int64_t *list = calloc((size_t)n->n + 1, sizeof(*list));

    for (size_t text = 0; list && text <= n->texts; text++) {
        if (n->given[text] > 0)
            list[n->given[text] - 1] = (int64_t)text;
    }
    return list;
}
