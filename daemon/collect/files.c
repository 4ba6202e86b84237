/* SPDX-License-Identifier: Apache-2.0 */
/* The known files of a watched directory, by name, and how many of them may yet become traces. */
#include "base/alloc.h"
#include "daemon/collect/pipeline.h"
#include <search.h>

static int file_compare_names(const void *a, const void *b)
{
    return strcmp(((const struct discovered_file *)a)->name, ((const struct discovered_file *)b)->name);
}

struct discovered_file *file_find(struct watched_dir *d, const char *name)
{
    struct discovered_file key = {.name = (char *)name};
    struct discovered_file **found = tfind(&key, &d->by_name, file_compare_names);
    return found ? *found : NULL;
}

struct discovered_file *file_new(struct watched_dir *d, const char *name)
{
    struct discovered_file *f = xcalloc(1, sizeof(*f));

    *f = (struct discovered_file){.dir = d, .name = xstrdup(name), .checked_size = -1};
    trace_name_parse(name, &f->parsed);
    tsearch(f, &d->by_name, file_compare_names);
    TAILQ_INSERT_TAIL(&d->files, f, next);
    return f;
}

void file_free(struct discovered_file *f)
{
    file_set_state(f, FILE_IGNORED);
    tdelete(f, &f->dir->by_name, file_compare_names);
    TAILQ_REMOVE(&f->dir->files, f, next);
    free(f->name);
    free(f);
}

static bool file_is_pending(enum file_state state)
{
    return state == FILE_GROWING || state == FILE_IMPORTING;
}

void file_set_state(struct discovered_file *f, enum file_state state)
{
    f->dir->n_pending += file_is_pending(state);
    f->dir->n_pending -= file_is_pending(f->state);
    f->state = state;
}

bool dir_has_pending(const struct watched_dir *d, const struct collection *of)
{
    const struct discovered_file *f;

    if (d->n_pending == 0 || !of)
        return d->n_pending > 0;
    TAILQ_FOREACH(f, &d->files, next)
        if (file_is_pending(f->state) && file_may_be_of(f, of))
            return true;
    return false;
}

bool file_is_cataloged(const struct discovered_file *f)
{
    struct catalog *catalog = f->dir->collector->catalog;
    _cleanup_(freep) char *origin = xasprintf("%s/%s", f->dir->path, f->name);
    const struct removed_file file = {
        .origin = origin, .size = f->size, .recorded_at = f->mtime_ns, .inode = (int64_t)f->inode};
    struct trace_record known;

    trace_record_init(&known);
    bool is_same = catalog_find_trace_by_origin(catalog, origin, &known) == 0 && known.size == f->size &&
                   known.recorded_at == f->mtime_ns;
    trace_record_done(&known);
    return is_same || catalog_was_removed(catalog, &file);
}
