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

/* The directory of a server, or its log of an earlier version, by its name in the directory. */
struct profile_match {
    char *entry, *server;
    bool is_log;
    unsigned n_servers; /* that fit */
};

static void profile_match_done(struct profile_match *f)
{
    free(f->entry);
    free(f->server);
}

static void profile_match_add(struct profile_match *f, const struct profile_source *source, const char *name)
{
    const char *mark = strstr(name, MARK);
    bool is_log = ends_with(name, ".log");

    if (!mark || !mark[strlen(MARK)])
        return;
    const char *server = mark + strlen(MARK);
    _cleanup_(freep) char *bare = xstrndup(server, strlen(server) - (is_log ? strlen(".log") : 0));
    if (source->server && !streq(bare, source->server))
        return;
    f->n_servers += !streq(f->server, bare);
    if (f->entry && is_log) /* a directory is of the later version */
        return;
    replace_str(&f->entry, name);
    replace_str(&f->server, bare);
    f->is_log = is_log;
}

static int profile_match_find(DIR *dir, const struct profile_source *source, struct profile_match *ret,
                              struct problem *p)
{
    const struct dirent *e;

    for (int i = 0; i < ENTRIES_MAX && (e = readdir(dir)); i++)
        profile_match_add(ret, source, e->d_name);
    if (ret->n_servers > 1) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                    "%s contains profiles of %u servers, and which one is this server is unknown",
                    source->dir, ret->n_servers);
        problem_remedy(p, "Name the worker by its head server: --router http://HOST:11000.");
        return -ENOENT;
    }
    if (ret->n_servers == 0) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "there is no profile of %s in %s",
                    source->server ? source->server : "a server", source->dir);
        problem_remedy(p,
                       "Is this the directory that +profiling_results_dirpath= names, on the server's host?");
        return -ENOENT;
    }
    return 0;
}

/* -ENOENT: the file does not exist; p is not set then. */
static int profile_read_file(int dir_fd, const char *name, const struct profile_source *source, char **ret,
                             size_t *ret_size, struct problem *p)
{
    struct stat st;
    _cleanup_(closep) int fd = open_regular(dir_fd, name, &st);

    if (fd < 0)
        return fd == -ENOENT ? fd
                             : problem_set(p, fd, PROBLEM_DENIED, "cannot open %s in %s: %s", name,
                                           source->dir, strerror(-fd));
    if (source->uid != UID_UNKNOWN && source->uid != 0 && st.st_uid != source->uid)
        return problem_set(p, -EACCES, PROBLEM_DENIED, "%s in %s does not belong to the server's user", name,
                           source->dir);
    if (st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec < source->not_before - TIME_SLACK_NS)
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                           "%s in %s was not written: it is older than the request", name, source->dir);
    _cleanup_(freep) char *link = xasprintf("/proc/self/fd/%d", fd);
    int r = read_file(AT_FDCWD, link, PROFILE_FILE_MAX, ret, ret_size);
    return r < 0 ? problem_set(p, r, PROBLEM_UPSTREAM, "cannot read %s in %s: %s", name, source->dir,
                               strerror(-r))
                 : 0;
}

static int profile_read_format(int dir_fd, const struct profile_match *f, size_t format,
                               const struct profile_source *source, struct function_list **ret,
                               char **ret_path, struct problem *p)
{
    _cleanup_(freep) char *name =
        f->is_log ? xstrdup(f->entry) : xasprintf("%s%s", f->server, formats[format].suffix);
    _cleanup_(freep) char *path =
        xasprintf("%s/%s%s%s", source->dir, f->is_log ? "" : f->entry, f->is_log ? "" : "/", name);
    _cleanup_(function_list_freep) struct function_list *l = NULL;
    _cleanup_(freep) char *text = NULL;
    size_t size = 0;
    int r = profile_read_file(dir_fd, name, source, &text, &size, p);

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

int profile_files_read(const struct profile_source *source, struct function_list **ret, char **ret_path,
                       struct problem *p)
{
    _cleanup_(profile_match_done) struct profile_match f = {0};
    _cleanup_(closep) int own_fd = -1;
    DIR *dir = opendir(source->dir);
    int r =
        dir ? profile_match_find(dir, source, &f, p)
            : problem_set(p, -errno, PROBLEM_NOT_FOUND, "cannot list %s: %s", source->dir, strerror(errno));

    if (dir && r == 0) {
        own_fd = openat(dirfd(dir), f.is_log ? "." : f.entry, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = own_fd >= 0 ? -ENOENT
                        : problem_set(p, -errno, PROBLEM_NOT_FOUND, "cannot open %s in %s: %s", f.entry,
                                      source->dir, strerror(errno));
    }
    for (size_t i = f.is_log ? ARRAY_SIZE(formats) - 1 : 0;
         own_fd >= 0 && r == -ENOENT && !(p && p->what) && i < ARRAY_SIZE(formats); i++)
        r = profile_read_format(own_fd, &f, i, source, ret, ret_path, p);
    if (r == -ENOENT)
        problem_set(p, r, PROBLEM_NOT_FOUND, "%s/%s holds neither a .callgrind nor a .log of %s", source->dir,
                    f.entry ? f.entry : "", f.server ? f.server : "the server");
    if (dir)
        closedir(dir);
    return r;
}
