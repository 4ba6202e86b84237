/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/reference.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/collect/place.h"
#include <errno.h>
#include <fcntl.h>

void reference_of(const struct trace_record *t, struct reference *ret)
{
    *ret = (struct reference){.path = xstrdup(t->path),
                              .own = t->stored,
                              .owner_uid = t->owner_uid,
                              .process_started = t->process_started,
                              .device = t->device,
                              .inode = t->inode,
                              .size = t->size,
                              .recorded_at = t->recorded_at};
}

void reference_of_own(const char *path, struct reference *ret)
{
    *ret = (struct reference){.path = xstrdup(path), .own = true, .process_started = RECORD_NONE};
}

void reference_done(struct reference *r)
{
    free(r->path);
    *r = (struct reference){0};
}

/* Whichever process was asked for at both times had the number in between. */
int reference_open_new(const char *path, struct stat *ret_st, int64_t *ret_process_started)
{
    int64_t before, after;

    int r = place_process_started(path, &before);
    _cleanup_(closep) int fd = r < 0 ? r : open_regular(AT_FDCWD, path, ret_st);
    if (fd < 0)
        return fd;
    r = place_process_started(path, &after);
    if (r < 0 || before != after)
        return r < 0 ? r : -ESTALE;
    *ret_process_started = before;
    return TAKE_FD(fd);
}

static bool is_the_same(const struct reference *r, const struct stat *st, int64_t process_started)
{
    if (r->own)
        return true;
    if (r->owner_uid != (int64_t)st->st_uid)
        return false;
    if (process_started == RECORD_NONE)
        return true;
    return r->process_started == process_started && r->device == (int64_t)st->st_dev &&
           r->inode == (int64_t)st->st_ino && r->size == st->st_size &&
           r->recorded_at == st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

int reference_open(const struct reference *r, struct stat *ret_st)
{
    int64_t process_started;

    _cleanup_(closep) int fd = reference_open_new(r->path, ret_st, &process_started);
    if (fd < 0)
        return fd;
    return is_the_same(r, ret_st, process_started) ? TAKE_FD(fd) : -ESTALE;
}
