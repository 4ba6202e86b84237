/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before profd (LD_PRELOAD): its wall clock is off by what a file says, and that file hears how much
 * of SQLite's log an fsync has made safe. CHAOS_CONTROL names the file, which the test made and maps as well.
 *
 * Why not libfaketime: it also moves the times of files and, unless told otherwise, the monotonic clock; here
 * exactly CLOCK_REALTIME jumps, at any moment, as when an admin sets the clock; for tests of deadlines the
 * monotonic clocks go on, too, as if that time had passed. A host whose clock was always wrong has files with
 * times as wrong: `files` moves these too, also by statx(), which libfaketime does not know.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S       INT64_C(1000000000)
#define WAL_HEADER     32 /* https://www.sqlite.org/fileformat2.html#walformat */
#define WAL_FRAME      24
#define WAL_SALT       16 /* where it is in the log's header */
#define WAL_FRAME_SALT 8
#define SALT           8
#define WAL_PAGE_SIZE  8

struct control {
    _Atomic int64_t offset_ns; /* of the wall clock */
    unsigned char salt[SALT];  /* of the log when it was synced last */
    int64_t synced_frames;
    int64_t files;             /* 1: times of files are off as well */
    _Atomic int64_t passed_ns; /* more than has passed, by the monotonic clocks */
};

static struct control nothing, *control = &nothing;
static int (*real_clock)(clockid_t id, struct timespec *ts);
static int (*real_fsync)(int fd);
static int (*real_fstatat)(int fd, const char *path, struct stat *st, int flags);
static int (*real_statx)(int fd, const char *path, int flags, unsigned mask, struct statx *stx);
static int (*real_fdatasync)(int fd);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_CONTROL");
    *(void **)&real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    *(void **)&real_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    *(void **)&real_fstatat = dlsym(RTLD_NEXT, "fstatat64");
    *(void **)&real_statx = dlsym(RTLD_NEXT, "statx");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        control = map;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    bool is_monotonic = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME;
    int r = real_clock(id, ts);
    if (r < 0 || (id != CLOCK_REALTIME && !is_monotonic))
        return r;
    int64_t more = atomic_load(is_monotonic ? &control->passed_ns : &control->offset_ns);
    int64_t ns = ts->tv_sec * NS_PER_S + ts->tv_nsec + more;
    *ts = (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}

int gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

static void move_time(int64_t *seconds, uint32_t *nanoseconds)
{
    int64_t ns = *seconds * NS_PER_S + *nanoseconds + atomic_load(&control->offset_ns);
    *seconds = ns / NS_PER_S;
    *nanoseconds = (uint32_t)(ns % NS_PER_S);
}

static int move_stat(int r, struct stat *st)
{
    struct timespec *times[] = {&st->st_atim, &st->st_mtim, &st->st_ctim};
    if (r < 0 || !control->files)
        return r;
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        int64_t seconds = times[i]->tv_sec;
        uint32_t nanoseconds = (uint32_t)times[i]->tv_nsec;
        move_time(&seconds, &nanoseconds);
        *times[i] = (struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds};
    }
    return r;
}

int fstat(int fd, struct stat *st)
{
    return move_stat(real_fstatat(fd, "", st, AT_EMPTY_PATH), st);
}

int stat(const char *path, struct stat *st)
{
    return move_stat(real_fstatat(AT_FDCWD, path, st, 0), st);
}

int lstat(const char *path, struct stat *st)
{
    return move_stat(real_fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW), st);
}

int fstatat(int fd, const char *path, struct stat *st, int flags)
{
    return move_stat(real_fstatat(fd, path, st, flags), st);
}

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *stx)
{
    int r = real_statx(fd, path, flags, mask, stx);
    struct statx_timestamp *times[] = {&stx->stx_atime, &stx->stx_mtime, &stx->stx_ctime};
    if (r < 0 || !control->files)
        return r;
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        int64_t seconds = times[i]->tv_sec;
        move_time(&seconds, &times[i]->tv_nsec);
        times[i]->tv_sec = seconds;
    }
    return r;
}

static int is_log(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    return n > 4 && memcmp(path + n - 4, "-wal", 4) == 0;
}

/* Frames of an earlier round of the log have another salt. */
static void note_log(int fd)
{
    unsigned char head[WAL_HEADER], frame[WAL_FRAME];
    int64_t n = 0;

    if (pread(fd, head, sizeof(head), 0) != sizeof(head))
        return;
    int64_t size = WAL_FRAME + ((int64_t)head[WAL_PAGE_SIZE] << 24 | head[WAL_PAGE_SIZE + 1] << 16 |
                                head[WAL_PAGE_SIZE + 2] << 8 | head[WAL_PAGE_SIZE + 3]);
    while (pread(fd, frame, sizeof(frame), WAL_HEADER + n * size) == sizeof(frame) &&
           memcmp(frame + WAL_FRAME_SALT, head + WAL_SALT, SALT) == 0)
        n++;
    memcpy(control->salt, head + WAL_SALT, SALT);
    control->synced_frames = n;
}

static int sync_with(int (*sync)(int fd), int fd)
{
    int r = sync(fd), e = errno;
    if (r == 0 && is_log(fd))
        note_log(fd);
    errno = e;
    return r;
}

int fsync(int fd)
{
    return sync_with(real_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_with(real_fdatasync, fd);
}
