/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/directory_list.h"

#include "archive/archive_url.h"
#include "base/alloc.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* Of keys; deeper ones are no archive's. */
#define DEPTH_MAX 32

struct listing {
    const struct archive_request *q;
    struct archive_result *ret;
    size_t max;
    char *last; /* the key that would be one too many, or NULL */
};

struct listing_names {
    char **names; /* of directories with a slash at the end, so that they sort as their keys do */
    size_t n, cap;
};

static void listing_names_done(struct listing_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->names[i]);
    free(l->names);
}

static int listing_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool listing_is_directory(int fd, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int listing_read(int fd, struct listing_names *ret)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = -errno;
        close(fd);
        return r;
    }
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        if (streq(entry->d_name, ".") || streq(entry->d_name, "..") ||
            starts_with(entry->d_name, ARCHIVE_HIDDEN))
            continue;
        if (ret->n == DIRECTORY_ENTRIES_MAX) {
            r = -E2BIG;
            break;
        }
        VEC_GROW(ret->names, ret->n, ret->cap);
        ret->names[ret->n++] =
            xasprintf("%s%s", entry->d_name, listing_is_directory(dirfd(dir), entry) ? "/" : "");
    }
    if (r == 0 && errno)
        r = -errno;
    closedir(dir);
    if (r == 0 && ret->n > 0)
        qsort(ret->names, ret->n, sizeof(*ret->names), listing_compare);
    return r;
}

static void listing_add(struct listing *l, int dir_fd, const char *name, const char *key)
{
    struct archive_result *ret = l->ret;
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        !archive_key_is_valid(key)) {
        ret->n_skipped++;
        return;
    }
    if (ret->n_objects == l->max) {
        l->last = xstrdup(key);
        return;
    }
    VEC_GROW(ret->objects, ret->n_objects, ret->cap_objects);
    struct archive_object *o = &ret->objects[ret->n_objects++];
    *o = (struct archive_object){
        .key = xstrdup(key), .size = (uint64_t)st.st_size, .modified_s = st.st_mtim.tv_sec};
}

/* Whether keys below a directory (its key ends with a slash) can be in the list. */
static bool listing_wants(const struct listing *l, const char *key)
{
    size_t n = strlen(key), n_prefix = strlen(l->q->key);

    if (strncmp(key, l->q->key, MIN(n, n_prefix)) != 0)
        return false;
    return !l->q->after || strcmp(key, l->q->after) > 0 || strncmp(key, l->q->after, n) == 0;
}

static int listing_walk(struct listing *l, int fd, const char *path, unsigned depth)
{
    struct listing_names names = {0};
    int own = dup(fd), r = own < 0 ? -errno : 0;

    if (r == 0)
        r = listing_read(fd, &names);
    else
        close(fd);
    for (size_t i = 0; i < names.n && r == 0 && !l->last; i++) {
        _cleanup_(freep) char *key = xasprintf("%s%s", path, names.names[i]);
        size_t n = strlen(names.names[i]);
        if (names.names[i][n - 1] != '/') {
            if (starts_with(key, l->q->key) && (!l->q->after || strcmp(key, l->q->after) > 0))
                listing_add(l, own, names.names[i], key);
            continue;
        }
        if (!listing_wants(l, key))
            continue;
        names.names[i][n - 1] = '\0';
        int inner = depth < DEPTH_MAX
                        ? openat(own, names.names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                        : -1;
        if (inner < 0)
            l->ret->n_skipped++;
        else
            r = listing_walk(l, inner, key, depth + 1);
    }
    if (own >= 0)
        close(own);
    listing_names_done(&names);
    return r;
}

int archive_directory_list(int root_fd, const struct archive_request *q, struct archive_result *ret)
{
    struct listing l = {q, ret, q->max ? q->max : ARCHIVE_LIST_MAX, NULL};
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : listing_walk(&l, fd, "", 0);

    if (r == 0 && l.last && ret->n_objects > 0)
        ret->next = xstrdup(ret->objects[ret->n_objects - 1].key);
    free(l.last);
    return r;
}
