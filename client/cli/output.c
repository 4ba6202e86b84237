/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/output.h"

#include "base/alloc.h"
#include "base/gzip_writer.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static int output_failed(const char *path, int err, struct problem *p)
{
    static const struct {
        int err;
        const char *remedy;
    } remedies[] = {
        {ENOENT, "Create the directory first, or write to another one."},
        {ENOTDIR, "Write to a file in a directory."},
        {EACCES, "Write to a directory to which you have write permission."},
        {EROFS, "Write to a directory to which you have write permission."},
        {EISDIR, "Name a file in the directory."},
        {ENOSPC, "Free space on the disk, or write to another one."},
        {EDQUOT, "Free space on the disk, or write to another one."},
    };

    for (size_t i = 0; i < ARRAY_SIZE(remedies); i++)
        if (remedies[i].err == err)
            problem_remedy(p, "%s", remedies[i].remedy);
    return problem_set(p, -err, PROBLEM_STORAGE, "cannot write %s: %s", path ? path : "standard output",
                       strerror(err));
}

static int output_open_part(struct output *o, struct problem *p)
{
    const char *slash = strrchr(o->path, '/');
    int directory = slash ? (int)(slash + 1 - o->path) : 0;

    o->part = xasprintf("%.*s.profctl-XXXXXX", directory, o->path);
    _cleanup_(closep) int fd = mkostemp(o->part, O_CLOEXEC);
    if (fd < 0) {
        int err = errno;
        free(o->part);
        o->part = NULL;
        return output_failed(o->path, err, p);
    }
    o->file = fdopen(fd, "w");
    if (!o->file)
        return output_failed(o->path, errno, p);
    TAKE_FD(fd);
    return 0;
}

char *output_path(const char *option, const char *on_terminal)
{
    return xstrdup(option ? option : isatty(STDOUT_FILENO) ? on_terminal : "-");
}

int output_open_as_is(const char *path, struct output *ret, struct problem *p)
{
    *ret = (struct output){.file = stdout};
    if (streq(path, "-"))
        return 0;
    ret->path = xstrdup(path);
    ret->file = NULL;
    return output_open_part(ret, p);
}

int output_open(const char *path, struct output *ret, struct problem *p)
{
    int r = output_open_as_is(path, ret, p);

    if (r < 0 || !ret->path || !ends_with(path, ".gz"))
        return r;
    ret->raw = ret->file;
    ret->file = gzip_open(ret->raw);
    return ret->file ? 0 : output_failed(path, errno, p);
}

static int output_close(FILE **f)
{
    FILE *taken = TAKE_PTR(*f);
    return taken && fclose(taken) != 0 ? -errno : 0;
}

int output_keep(struct output *o, struct problem *p)
{
    if (!o->path)
        return fflush(stdout) == 0 ? 0 : output_failed(NULL, errno, p);
    int r = o->raw ? output_close(&o->file) : 0;
    FILE **last = o->raw ? &o->raw : &o->file;
    int fd = fileno(*last);
    mode_t mask = umask(0);

    /* The mode that open(2) would have set. */
    umask(mask);
    if (r == 0 && (fflush(*last) != 0 || fchmod(fd, 0666 & ~mask) < 0 || fsync(fd) < 0))
        r = -errno;
    if (output_close(last) < 0 && r == 0)
        r = -EIO;
    if (r == 0 && rename(o->part, o->path) < 0)
        r = -errno;
    if (r < 0)
        return output_failed(o->path, -r, p);
    free(TAKE_PTR(o->part));
    return 0;
}

void output_done(struct output *o)
{
    if (o->path) {
        output_close(&o->file);
        output_close(&o->raw);
    }
    if (o->part)
        unlink(o->part);
    free(o->part);
    free(o->path);
}
