/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/snapshot.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#define MARK        "___" /* between a server's class and its name */
#define ENTRIES_MAX 4096
/* File systems keep times a little coarser than the clock. */
#define TIME_SLACK_NS (20 * NS_PER_MS)

static const struct {
    const char *suffix;
    int (*parse)(const char *text, size_t size, struct function_list **ret);
} formats[] = {
    {".callgrind", yappi_callgrind_parse},
    {".log", yappi_table_parse},
};

/* A server's own directory, or its log of an earlier version, by the name that stands there. */
struct found {
    char *entry, *server;
    bool is_log;
    unsigned n_servers; /* that fit */
};

static void found_done(struct found *f)
{
    free(f->entry);
    free(f->server);
}

static void consider(struct found *f, const struct profile_place *place, const char *name)
{
    const char *mark = strstr(name, MARK);
    bool is_log = ends_with(name, ".log");

    if (!mark || !mark[strlen(MARK)])
        return;
    const char *server = mark + strlen(MARK);
    _cleanup_(freep) char *bare = xstrndup(server, strlen(server) - (is_log ? strlen(".log") : 0));
    if (place->server && !streq(bare, place->server))
        return;
    f->n_servers += !streq(f->server, bare);
    if (f->entry && is_log) /* a directory is of the later version */
        return;
    replace_str(&f->entry, name);
    replace_str(&f->server, bare);
    f->is_log = is_log;
}

static int find(DIR *dir, const struct profile_place *place, struct found *ret, struct problem *p)
{
    const struct dirent *e;

    for (int i = 0; i < ENTRIES_MAX && (e = readdir(dir)); i++)
        consider(ret, place, e->d_name);
    if (ret->n_servers > 1) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                    "%s holds profiles of %u servers, and which is this one is not known", place->dir,
                    ret->n_servers);
        problem_remedy(p, "Name the worker by its head server: --router http://HOST:11000.");
        return -ENOENT;
    }
    if (ret->n_servers == 0) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "there is no profile of %s in %s",
                    place->server ? place->server : "a server", place->dir);
        problem_remedy(p,
                       "Is this the directory that +profiling_results_dirpath= names, on the server's host?");
        return -ENOENT;
    }
    return 0;
}

/* -ENOENT: the file does not exist; p is not set then. */
static int read_one(int dir_fd, const char *name, const struct profile_place *place, char **ret,
                    size_t *ret_size, struct problem *p)
{
    struct stat st;
    _cleanup_(closep) int fd = open_regular(dir_fd, name, &st);

    if (fd < 0)
        return fd == -ENOENT ? fd
                             : problem_set(p, fd, PROBLEM_DENIED, "cannot open %s in %s: %s", name,
                                           place->dir, strerror(-fd));
    if (place->uid != UID_UNKNOWN && place->uid != 0 && st.st_uid != place->uid)
        return problem_set(p, -EACCES, PROBLEM_DENIED, "%s in %s does not belong to the server's user", name,
                           place->dir);
    if (st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec < place->not_before - TIME_SLACK_NS)
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                           "%s in %s was not written: it is older than the question", name, place->dir);
    _cleanup_(freep) char *link = xasprintf("/proc/self/fd/%d", fd);
    int r = read_file(AT_FDCWD, link, PROFILE_FILE_MAX, ret, ret_size);
    return r < 0 ? problem_set(p, r, PROBLEM_UPSTREAM, "cannot read %s in %s: %s", name, place->dir,
                               strerror(-r))
                 : 0;
}

static int read_format(int dir_fd, const struct found *f, size_t format, const struct profile_place *place,
                       struct function_list **ret, char **ret_path, struct problem *p)
{
    _cleanup_(freep) char *name =
        f->is_log ? xstrdup(f->entry) : xasprintf("%s%s", f->server, formats[format].suffix);
    _cleanup_(freep) char *path =
        xasprintf("%s/%s%s%s", place->dir, f->is_log ? "" : f->entry, f->is_log ? "" : "/", name);
    _cleanup_(function_list_freep) struct function_list *l = NULL;
    _cleanup_(freep) char *text = NULL;
    size_t size = 0;
    int r = read_one(dir_fd, name, place, &text, &size, p);

    if (r < 0)
        return r;
    if (formats[format].parse(text, size, &l) < 0)
        return problem_set(p, -EBADMSG, PROBLEM_UPSTREAM, "%s is not a profile that yappi wrote", path);
    if (l->n == 0) {
        problem_set(p, -ENODATA, PROBLEM_UPSTREAM,
                    "%s has a heading and no rows: this NeMo Gym exports none there", path);
        problem_remedy(
            p, "Its .callgrind in the same directory has them if gprof2dot and graphviz are installed.");
        return -ENODATA;
    }
    *ret = TAKE_PTR(l);
    *ret_path = TAKE_PTR(path);
    return 0;
}

int profile_files_read(const struct profile_place *place, struct function_list **ret, char **ret_path,
                       struct problem *p)
{
    _cleanup_(found_done) struct found f = {0};
    _cleanup_(closep) int own_fd = -1;
    DIR *dir = opendir(place->dir);
    int r =
        dir ? find(dir, place, &f, p)
            : problem_set(p, -errno, PROBLEM_NOT_FOUND, "cannot list %s: %s", place->dir, strerror(errno));

    if (dir && r == 0) {
        own_fd = openat(dirfd(dir), f.is_log ? "." : f.entry, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = own_fd >= 0 ? -ENOENT
                        : problem_set(p, -errno, PROBLEM_NOT_FOUND, "cannot open %s in %s: %s", f.entry,
                                      place->dir, strerror(errno));
    }
    for (size_t i = f.is_log ? ARRAY_SIZE(formats) - 1 : 0;
         own_fd >= 0 && r == -ENOENT && !(p && p->what) && i < ARRAY_SIZE(formats); i++)
        r = read_format(own_fd, &f, i, place, ret, ret_path, p);
    if (r == -ENOENT)
        problem_set(p, r, PROBLEM_NOT_FOUND, "%s/%s holds neither a .callgrind nor a .log of %s", place->dir,
                    f.entry ? f.entry : "", f.server ? f.server : "the server");
    if (dir)
        closedir(dir);
    return r;
}
