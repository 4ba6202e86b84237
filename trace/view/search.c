/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices whose name contains a text: the strings are matched once, then the groups of table `name` have counts and sums,
 * so that the time depends on the names and not on the slices. With a part of the trace, the slices that begin in it are
 * looked at.
 */
#include "base/alloc.h"
#include "trace/columns/schema.h"
#include "trace/view/view.h"
#include <ctype.h>
#include <errno.h>

#define SEARCH_NAMES       100
#define SEARCH_MATCHES     100
#define SEARCH_MATCHES_MAX 1000

/* A name that matches. */
struct search_name {
    int64_t name, count, sum;
};

/* A group of a name that matches; its next slice in order of time. */
struct search_group {
    uint64_t at, end; /* of by_name */
    int64_t slice;
};

struct search {
    const struct trace_view *v;
    struct view_part part;
    uint64_t first_slice, end_slice; /* that begin in the part */
    bool is_complete;                /* the part is the complete trace */
    struct search_name *names;
    size_t n_names, names_cap;
    struct search_group *groups;
    size_t n_groups, groups_cap;
    int64_t count, sum;
};

static void search_done(struct search *s)
{
    free(s->names);
    free(s->groups);
}

/* Letters of ASCII in any case. lower: in lower case. */
static bool search_contains(struct text text, const char *lower, size_t size)
{
    for (size_t i = 0; i + size <= text.size; i++) {
        size_t k = 0;
        while (k < size && tolower((unsigned char)text.p[i + k]) == (unsigned char)lower[k])
            k++;
        if (k == size)
            return true;
    }
    return false;
}

/* Sum over the slices of a group that begin in the part. */
static int64_t search_sum(const struct search *s, uint64_t first, uint64_t end)
{
    struct column_cursor rows = {.c = s->v->c, .column = COL_by_name_slice},
                         durs = {.c = s->v->c, .column = COL_slice_dur},
                         starts = {.c = s->v->c, .column = COL_slice_ts};
    int64_t sum = 0;

    for (uint64_t at = first; at < end; at++) {
        int64_t slice = column_cursor_get(&rows, at);
        if (slice < 0)
            continue;
        int64_t dur = column_cursor_get(&durs, (uint64_t)slice);
        dur = view_shown_dur(s->v, dur < 0 ? column_cursor_get(&starts, (uint64_t)slice) : 0, dur);
        sum = view_add(sum, dur);
    }
    return sum;
}

static int search_add_group(struct search *s, struct search_name *name, uint32_t number)
{
    struct view_group g = view_group_rows(s->v, number);
    uint64_t first = g.first, end = g.end;
    int64_t sum = columns_get(s->v->c, COL_name_sum, number);

    if (!s->is_complete) {
        first = view_group_find(s->v, g.first, g.end, s->first_slice);
        end = view_group_find(s->v, first, g.end, s->end_slice);
    }
    if (first == end)
        return 0;
    name->count += (int64_t)(end - first);
    name->sum = view_add(name->sum, s->is_complete && sum >= 0 ? sum : search_sum(s, first, end));
    if (!ARRAY_RESERVE(s->groups, s->groups_cap, s->n_groups + 1))
        return -ENOMEM;
    s->groups[s->n_groups++] = (struct search_group){.at = first, .end = end};
    return 0;
}

static int search_match_names(struct search *s, const char *lower)
{
    size_t size = strlen(lower);
    int r = 0;

    for (uint32_t text = 0; r == 0 && text < s->v->n_texts; text++) {
        struct search_name name = {.name = text};
        if (s->v->groups[text] == COLUMN_NO_CODE ||
            !search_contains(columns_text(s->v->c, text), lower, size))
            continue;
        for (uint32_t g = s->v->groups[text]; r == 0 && g != COLUMN_NO_CODE; g = s->v->next_group[g])
            r = search_add_group(s, &name, g);
        if (name.count == 0)
            continue;
        if (!ARRAY_RESERVE(s->names, s->names_cap, s->n_names + 1))
            return -ENOMEM;
        s->names[s->n_names++] = name;
        s->count = view_add(s->count, name.count);
        s->sum = view_add(s->sum, name.sum);
    }
    return r;
}

static int search_compare_names(const void *x, const void *y)
{
    const struct search_name *a = x, *b = y;

    return a->sum != b->sum ? (a->sum < b->sum) - (a->sum > b->sum)
                            : (a->name > b->name) - (a->name < b->name);
}

static json_t *search_names(struct search *s)
{
    json_t *list = json_array();

    if (s->n_names > 0)
        qsort(s->names, s->n_names, sizeof(*s->names), search_compare_names);
    for (size_t i = 0; i < MIN(s->n_names, (size_t)SEARCH_NAMES); i++) {
        json_t *name = json_object();
        json_object_set_new(name, "name", view_text(s->v, s->names[i].name));
        json_put_str(name, "class", view_class(s->v, s->names[i].name));
        json_put_int(name, "count", s->names[i].count);
        json_put_int(name, "sum", s->names[i].sum);
        json_array_append_new(list, name);
    }
    return list;
}

/* -- Matches in order of time: the groups as a heap, the earliest slice first ---------------------------- */

/* Its next slice; false after the last. */
static bool search_group_next(const struct search *s, struct search_group *g)
{
    while (g->at < g->end) {
        g->slice = columns_get(s->v->c, COL_by_name_slice, g->at++);
        if (g->slice >= 0)
            return true;
    }
    return false;
}

static void search_sift(struct search *s, size_t i)
{
    struct search_group *heap = s->groups, moved = heap[i];

    for (size_t child; (child = 2 * i + 1) < s->n_groups; i = child) {
        if (child + 1 < s->n_groups && heap[child + 1].slice < heap[child].slice)
            child++;
        if (heap[child].slice >= moved.slice)
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static void search_begin_matches(struct search *s, int64_t after)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_groups; i++) {
        struct search_group g = s->groups[i];
        if (after >= 0)
            g.at = view_group_find(s->v, g.at, g.end, (uint64_t)after + 1);
        if (search_group_next(s, &g))
            s->groups[n++] = g;
    }
    s->n_groups = n;
    for (size_t i = n / 2; i-- > 0;)
        search_sift(s, i);
}

static json_t *search_matches(struct search *s, int64_t after, int64_t limit)
{
    json_t *list = json_array();

    search_begin_matches(s, after);
    while (s->n_groups > 0 && json_array_size(list) < (size_t)limit) {
        json_array_append_new(list, view_ref(s->v, (uint64_t)s->groups[0].slice));
        if (!search_group_next(s, &s->groups[0]))
            s->groups[0] = s->groups[--s->n_groups];
        if (s->n_groups > 0)
            search_sift(s, 0);
    }
    return list;
}

static int search_read_request(struct search *s, const json_t *request, char **ret_lower, int64_t *ret_after,
                               int64_t *ret_limit, struct problem *p)
{
    const char *name = json_get_str(request, "name");

    int r = view_read_number(request, "after", 0, INT64_MAX - 1, ret_after, p);
    if (r == 0)
        r = view_read_number(request, "limit", 1, SEARCH_MATCHES_MAX, ret_limit, p);
    if (r == 0)
        r = view_read_part(s->v, request, &s->part, p);
    if (r < 0)
        return r;
    if (!name || !*name)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "name is missing: a part of the names to find");
    char *lower = *ret_lower = xstrdup(name);
    for (; *lower; lower++)
        *lower = (char)tolower((unsigned char)*lower);
    s->is_complete = s->part.from <= s->v->first_ns && s->part.to > s->v->last_ns;
    s->first_slice = columns_lower_bound(s->v->c, COL_slice_ts, s->part.from);
    s->end_slice = columns_lower_bound(s->v->c, COL_slice_ts, s->part.to);
    return 0;
}

int view_answer_search(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    _cleanup_(search_done) struct search s = {.v = v};
    _cleanup_(freep) char *lower = NULL;
    int64_t after = -1, limit = SEARCH_MATCHES;

    int r = search_read_request(&s, request, &lower, &after, &limit, p);
    if (r < 0)
        return r;
    if (search_match_names(&s, lower) < 0)
        return problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE, "the search needs too much memory");
    json_t *body = json_object();
    json_put_int(body, "count", s.count);
    json_put_int(body, "sum", s.sum);
    json_object_set_new(body, "names", search_names(&s));
    json_object_set_new(body, "matches", search_matches(&s, after, limit));
    json_put_bool(body, "more", s.n_groups > 0);
    return view_write_json(out, body, p);
}
