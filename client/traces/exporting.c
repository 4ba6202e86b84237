/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/exporting.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/ranks.h"
#include "trace/read/sum.h"
#include <errno.h>
#include <math.h>
#include <sys/stat.h>

/* Maximum bytes of a list in an error. */
#define CATEGORIES_TEXT_MAX 300

int exporting_check_times(int64_t from, int64_t to, struct problem *p)
{
    if (MAX(from, INT64_C(0)) < to)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--from must be before --to");
    problem_remedy(p, "Both count from the first slice: --from 1.2s --to 1.4s.");
    return -EINVAL;
}

int exporting_selection(const struct exporting *e, struct export_options *ret, struct problem *p)
{
    *ret = EXPORT_ALL;
    ret->only = e->only;
    ret->relative = e->from != OPTION_ABSENT || e->to != OPTION_ABSENT;
    if (e->from != OPTION_ABSENT)
        ret->from = e->from;
    if (e->to != OPTION_ABSENT)
        ret->to = e->to;
    return exporting_check_times(ret->from, ret->to, p);
}

/* "cpu_op, kernel": the categories for --only. */
static char *categories_of(const struct columns *columns)
{
    char *list = xstrdup("");
    int64_t last = COLUMN_NULL;

    for (uint64_t row = 0; row < columns_rows(columns, TABLE_name); row++) {
        int64_t category = columns_get(columns, COL_name_category, row);
        struct text text = columns_text(columns, category);
        if (category == last || text.size == 0 || strlen(list) > CATEGORIES_TEXT_MAX)
            continue;
        append_str(&list, "%s%.*s", *list ? ", " : "", (int)text.size, text.p);
        last = category;
    }
    return list;
}

int exporting_check(struct client *c, const char *name, const struct export_trace *t,
                    const struct export_options *selected, int64_t *ret_slices)
{
    int64_t n = export_count(t, selected);
    char length[UNIT_TEXT_MAX];

    *ret_slices = MAX(n, INT64_C(0));
    if (n < 0)
        return exporting_failed(c, name, (int)n);
    if (n > 0 || columns_rows(t->columns, TABLE_slice) == 0)
        return EXIT_DONE;
    _cleanup_(freep) char *categories = categories_of(t->columns);
    _cleanup_(freep) char *clean = text_clean(categories, false);
    int64_t first = columns_meta(t->columns, META_first_ns), last = columns_meta(t->columns, META_last_ns);
    _cleanup_(freep) char *remedy =
        xasprintf("The trace is %s long; its categories are %s.",
                  format_duration(length, first == COLUMN_NULL ? 0 : difference_of(last, first)), clean);
    return client_error(c, PROBLEM_NOT_FOUND, remedy, "the selected part of %s has no slices", name);
}

void exporting_note(struct client *c, const char *path, const char *what, int64_t n, const char *more)
{
    char number[32], size[UNIT_TEXT_MAX];
    struct stat st;

    if (stat(path, &st) == 0)
        client_note(c, "%s: %s %s, %s%s", path, text_number(number, n), what, format_size(size, st.st_size),
                    more);
}

int exporting_columns(struct client *c, const struct trace_file *file, struct columns **ret)
{
    _cleanup_(freep) char *reason = NULL;
    int r = trace_file_columns(file, ret, &reason);

    if (r >= 0)
        return EXIT_DONE;
    return client_error(c, PROBLEM_STORAGE, "Read the trace again: profctl ingest --again FILE.",
                        "cannot read the columns of %s: %s", file->name, reason ? reason : strerror(-r));
}

int exporting_failed(struct client *c, const char *name, int r)
{
    static const struct {
        int error;
        const char *what, *remedy;
    } known[] = {
        {-EBADMSG, "a part of its columns is damaged", "Read the trace again: profctl ingest --again FILE."},
        {-ERANGE, "the clocks are too far apart for one file",
         "Merge traces of one recording, or use --align start."},
        {-EPIPE, "the reader closed the pipe", NULL},
        {-EFBIG, "a column of a row group has more than 2 GiB", "Export a part: --from, --to or --only."},
        {-ENOSPC, "No space left on device", "Free space on the disk, or write to another one."},
        {-EACCES, "Permission denied", "Write to a directory to which you have write permission."},
        {-ENOTDIR, "Not a directory", "Write to another directory."},
    };
    const char *what = strerror(-r), *remedy = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (known[i].error == r) {
            what = known[i].what;
            remedy = known[i].remedy;
        }
    return client_error(c, PROBLEM_STORAGE, remedy, "cannot write %s: %s", name, what);
}

/* -- Several ranks as one trace -------------------------------------------------------------------------- */

/* The name with its directory; the rest of the path is private to this machine. */
static const char *short_path(const char *path)
{
    const char *name = strrchr(path, '/');

    while (name && name > path && name[-1] != '/')
        name--;
    return name ? name : path;
}

/* The attribution of a rank in a merged trace, for ranks_find_instances() of its readers. */
static char *origin_of(const struct named_rank *rank)
{
    static const char *const keys[] = {"worker", "instance", "name", "stage", "ranks", "recording"};
    _cleanup_json_ origin = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_object_get(rank->trace, keys[i]))
            json_object_set(origin, keys[i], json_object_get(rank->trace, keys[i]));
    if (json_get_str(rank->trace, "session"))
        json_object_set(origin, "recording", json_object_get(rank->trace, "session"));
    if (rank->path)
        json_put_str(origin, "name", short_path(rank->path));
    if (rank->role)
        json_put_str(origin, "role", rank->role);
    if (isfinite(rank->kv_use))
        json_object_set_new(origin, "kv_use", json_real(rank->kv_use));
    char *text = json_dumps(origin, JSON_COMPACT);
    if (!text)
        abort();
    return text;
}

int ranks_export(struct named_ranks *ranks, const struct export_options *selected, FILE *out,
                 int64_t *ret_slices)
{
    _cleanup_(freep) struct export_trace *traces = xcalloc(ranks->n, sizeof(*traces));
    _cleanup_(freep) char **origins = xcalloc(ranks->n + 1, sizeof(*origins));
    int64_t slices = 0;

    for (size_t i = 0; i < ranks->n; i++) {
        struct named_rank *rank = &ranks->items[i];
        traces[i] = (struct export_trace){.columns = rank->columns,
                                          .source_fd = trace_file_original(&rank->file),
                                          .label = rank->label,
                                          .origin = origins[i] = origin_of(rank),
                                          .shift_ns = rank->shift_ns};
        slices += (int64_t)columns_rows(rank->columns, TABLE_slice);
    }
    if (ret_slices)
        *ret_slices = slices;
    int r = export_merge(traces, ranks->n, selected, out);
    for (size_t i = 0; i < ranks->n; i++)
        free(origins[i]);
    return r;
}
