/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/trace_paths.h"

#include "base/alloc.h"
#include "trace/read/tracename.h"
#include <errno.h>
#include <fts.h>

/* Suffixes of trace files, in addition to the names of trace_name_parse(). */
static const char *const suffixes[] = {
    ".json", ".json.gz", ".json.zst", ".sqlite", ".sqlite.gz", ".sqlite.zst",
};

static bool looks_like_trace(const char *path, const char *name)
{
    struct trace_name parsed;

    trace_name_parse(path, &parsed);
    if (*name == '.' || parsed.unfinished)
        return false;
    if (parsed.kind != TRACE_NAME_OTHER || starts_with(name, "callgrind.out"))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        if (ends_with(name, suffixes[i]))
            return true;
    return false;
}

static void trace_paths_explain_names(const char *directory, struct problem *p)
{
    _cleanup_(freep) char *names = NULL;
    size_t n = strlen(directory);

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        append_str(&names, "*%s, ", suffixes[i]);
    problem_remedy(p,
                   "Name a file, for example profctl analyze %s%sFILE; recognized names: %scallgrind.out*.",
                   directory, n > 0 && directory[n - 1] == '/' ? "" : "/", names);
}

static int cannot_look(const char *path, int err, struct problem *p)
{
    return problem_set(p, -err, err == ENOENT ? PROBLEM_NOT_FOUND : PROBLEM_STORAGE, "cannot open %s: %s",
                       path, strerror(err));
}

static int no_regular_file(const char *path, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is not a regular file", path);
    problem_remedy(p, "Write its content to a file first; profctl ingest takes directories.");
    return -EINVAL;
}

static int compare_names(const FTSENT **a, const FTSENT **b)
{
    return strverscmp((*a)->fts_name, (*b)->fts_name);
}

static int take_entry(struct trace_paths *paths, FTS *fts, FTSENT *e, struct problem *p)
{
    bool is_word = e->fts_level == FTS_ROOTLEVEL;

    switch (e->fts_info) {
    case FTS_D:
        if (!is_word && *e->fts_name == '.')
            fts_set(fts, e, FTS_SKIP);
        return 0;
    case FTS_F:
        if (!is_word && !looks_like_trace(e->fts_path, e->fts_name))
            return 0;
        VEC_GROW(paths->items, paths->n, paths->cap);
        paths->items[paths->n++] = xstrdup(e->fts_path);
        return 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return cannot_look(e->fts_path, e->fts_errno, p);
    case FTS_DEFAULT:
        return is_word ? no_regular_file(e->fts_path, p) : 0;
    default:
        return 0;
    }
}

int trace_paths_find(struct trace_paths *paths, int n_words, char **words, struct problem *p)
{
    int r = 0;

    for (int i = 0; i < n_words && r == 0; i++) {
        size_t before = paths->n;
        FTS *fts = fts_open((char *const[]){words[i], NULL}, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR,
                            compare_names);
        if (!fts)
            return cannot_look(words[i], errno, p);
        for (FTSENT *e; r == 0 && (e = fts_read(fts));)
            r = take_entry(paths, fts, e, p);
        fts_close(fts);
        if (r == 0 && paths->n == before) {
            r = problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "no trace files in %s", words[i]);
            trace_paths_explain_names(words[i], p);
        }
    }
    return r;
}

void trace_paths_done(struct trace_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->items[i]);
    free(paths->items);
}
