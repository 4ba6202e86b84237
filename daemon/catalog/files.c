/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process_info.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* https://www.sqlite.org/walformat.html: a lock is a byte of the shared memory; a log is a head and frames.
 */
#define WRITE_LOCK_BYTE  120
#define LOG_HEAD_BYTES   32
#define FRAME_HEAD_BYTES 24
/* How often the index may change while the sizes are being read. */
#define INDEX_READS_MAX 8
/* Where there is no inotify. */
#define POLL_NS NS_PER_S

#define WATCHED_CHANGES                                                                                      \
    (IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |       \
     IN_UNMOUNT)

static const char *const suffixes[CATALOG_FILES] = {
    [CATALOG_FILE_DATABASE] = "",
    [CATALOG_FILE_LOG] = "-wal",
    [CATALOG_FILE_SHARED_MEMORY] = "-shm",
};

/* -- The index of the log ------------------------------------------------------------------------------- */

/* The beginning of the shared memory, in the host's byte order. The head is there twice: where both differ,
 * it is being written. */
struct index_head {
    uint32_t version, unused, changes;
    uint8_t is_initialized, is_big_endian;
    uint16_t page_size; /* 1: 64 KiB */
    uint32_t frames;    /* of the log that are valid */
    uint32_t pages;     /* of the database, with what is in the log; 0: not known */
    uint32_t frames_checksum[2], salt[2], head_checksum[2];
};

struct index_start {
    struct index_head head[2];
    uint32_t frames_written_back;
};

struct sizes {
    struct index_start index;
    int64_t database, log;
};

static int files_stat(const struct catalog *c, enum catalog_file file, struct stat *ret)
{
    _cleanup_(freep) char *path = xasprintf("%s%s", c->path, suffixes[file]);
    return stat(path, ret) < 0 ? -errno : 0;
}

static bool files_read_index(const struct catalog *c, struct index_start *ret)
{
    return pread(c->shm_fd, ret, sizeof(*ret), 0) == sizeof(*ret) &&
           memcmp(&ret->head[0], &ret->head[1], sizeof(ret->head[0])) == 0;
}

/* Sizes that belong to one state of the index; false where it changes all the time, or cannot be read. */
static bool files_read_sizes(const struct catalog *c, struct sizes *ret)
{
    struct index_start after;
    struct stat database, log;

    for (int i = 0; i < INDEX_READS_MAX; i++) {
        if (!files_read_index(c, &ret->index) || files_stat(c, CATALOG_FILE_DATABASE, &database) < 0 ||
            files_stat(c, CATALOG_FILE_LOG, &log) < 0 || !files_read_index(c, &after) ||
            memcmp(&ret->index, &after, sizeof(after)) != 0)
            continue;
        ret->database = database.st_size;
        ret->log = log.st_size;
        return true;
    }
    return false;
}

static int64_t index_page_bytes(const struct index_head *h)
{
    return h->page_size == 1 ? 65536 : h->page_size;
}

/* Frames that the index knows are in the log. SQLite takes them out of the index before it truncates
 * the log. */
static int64_t files_log_bytes_needed(const struct sizes *s)
{
    const struct index_head *h = &s->index.head[0];
    return h->frames == 0 ? 0
                          : LOG_HEAD_BYTES + (int64_t)h->frames * (FRAME_HEAD_BYTES + index_page_bytes(h));
}

/*
 * Once the log is written back the database has all its pages. Before that some may be in the log alone, but
 * what was there stays there until the next writing back, unless the database itself became smaller (VACUUM).
 */
static int64_t files_database_bytes_needed(const struct sizes *s, const struct sizes *before)
{
    const struct index_head *h = &s->index.head[0], *h_before = &before->index.head[0];
    int64_t all = h->pages ? (int64_t)h->pages * index_page_bytes(h) : INT64_MAX;

    if (s->index.frames_written_back == h->frames && h->pages)
        return all;
    bool is_unchanged = s->index.frames_written_back == before->index.frames_written_back &&
                        memcmp(h->salt, h_before->salt, sizeof(h->salt)) == 0;
    return is_unchanged ? MIN(all, before->database) : 0;
}

/* -- Losing them ---------------------------------------------------------------------------------------- */

static void files_on_announce_lost(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct catalog *c = arg;
    if (c->lost_fn)
        c->lost_fn(c->lost_arg);
}

static _printf_(2, 3) int files_lose(struct catalog *c, const char *format, ...)
{
    _cleanup_(problem_done) struct problem p = {0};
    va_list ap;

    va_start(ap, format);
    c->lost = xvasprintf(format, ap);
    va_end(ap);
    batch_set_broken(c, -ESTALE);
    catalog_problem(c, -ESTALE, &p, "the catalog is lost");
    log_error("%s", p.what);
    log_error("  %s", p.remedy);
    event_active(c->announce_lost, EV_TIMEOUT, 0);
    return -ESTALE;
}

static int files_check_identity(struct catalog *c, enum catalog_file file)
{
    const struct catalog_file_id *id = &c->file_ids[file];
    struct stat st;

    int r = files_stat(c, file, &st);
    if (r == -ENOENT || r == -ENOTDIR)
        return files_lose(c, "%s%s was deleted", c->path, suffixes[file]);
    if (r == 0 && (st.st_dev != id->device || st.st_ino != id->inode))
        return files_lose(c, "%s%s was replaced by another file", c->path, suffixes[file]);
    return 0;
}

/* SQLite never truncates the shared memory while it is open. A mapped page would kill a process that reads it beyond
 * the file's end; out of zeros SQLite makes it again. */
static int files_check_shared_memory(struct catalog *c)
{
    struct stat st;

    if (fstat(c->shm_fd, &st) < 0)
        return 0;
    if (st.st_size >= c->shm_bytes) {
        c->shm_bytes = st.st_size;
        return 0;
    }
    c->is_cut = true;
    if (ftruncate(c->shm_fd, c->shm_bytes) < 0)
        log_error("cannot extend %s%s again: %s", c->path, suffixes[CATALOG_FILE_SHARED_MEMORY],
                  strerror(errno));
    return files_lose(c, "%s%s was cut to %" PRId64 " bytes, and has to have %" PRId64, c->path,
                      suffixes[CATALOG_FILE_SHARED_MEMORY], (int64_t)st.st_size, c->shm_bytes);
}

static int files_check_sizes(struct catalog *c)
{
    struct sizes s;

    if (!files_read_sizes(c, &s))
        return 0;
    int64_t database = c->sizes ? files_database_bytes_needed(&s, c->sizes) : 0,
            log = files_log_bytes_needed(&s);
    bool database_is_cut = s.database < database;
    if (database_is_cut || s.log < log) {
        c->is_cut = true;
        return files_lose(c, "%s%s was cut to %" PRId64 " bytes, and has to have %" PRId64, c->path,
                          suffixes[database_is_cut ? CATALOG_FILE_DATABASE : CATALOG_FILE_LOG],
                          database_is_cut ? s.database : s.log, database_is_cut ? database : log);
    }
    if (!c->sizes)
        c->sizes = xcalloc(1, sizeof(*c->sizes));
    *c->sizes = s;
    return 0;
}

int files_check(struct catalog *c)
{
    if (c->lost)
        return -ESTALE;
    for (enum catalog_file file = 0; file < CATALOG_FILES; file++)
        if (files_check_identity(c, file) < 0)
            return -ESTALE;
    return files_check_shared_memory(c) < 0 ? -ESTALE : files_check_sizes(c);
}

/* -- Watching ------------------------------------------------------------------------------------------- */

/* What happened does not matter, only that something did. */
static void files_on_changed(evutil_socket_t fd, short what _unused_, void *arg)
{
    char events[4096];

    while (read(fd, events, sizeof(events)) > 0)
        continue;
    files_check(arg);
}

static void files_on_poll(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    files_check(arg);
}

static void files_begin_watching(struct catalog *c)
{
    struct timeval interval = timeval_of(POLL_NS);

    c->announce_lost = event_new(c->base, -1, 0, files_on_announce_lost, c);
    c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (c->inotify_fd >= 0 && inotify_add_watch(c->inotify_fd, c->directory, WATCHED_CHANGES) >= 0) {
        c->watch = event_new(c->base, c->inotify_fd, EV_READ | EV_PERSIST, files_on_changed, c);
        event_add(c->watch, NULL);
        return;
    }
    log_debug("no inotify for %s (%s): its files are looked at once a second", c->directory, strerror(errno));
    c->watch = event_new(c->base, -1, EV_PERSIST, files_on_poll, c);
    event_add(c->watch, &interval);
}

int files_open(struct catalog *c, struct problem *p)
{
    _cleanup_(freep) char *shm = xasprintf("%s%s", c->path, suffixes[CATALOG_FILE_SHARED_MEMORY]);
    struct stat st;

    c->shm_fd = open(shm, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (c->shm_fd < 0)
        return storage_problem(-errno, c->path, p);
    for (enum catalog_file file = 0; file < CATALOG_FILES; file++) {
        int r = files_stat(c, file, &st);
        if (r < 0)
            return storage_problem(r, c->path, p);
        c->file_ids[file] = (struct catalog_file_id){st.st_dev, st.st_ino};
    }
    files_check_shared_memory(c);
    files_begin_watching(c);
    return 0;
}

void files_close(struct catalog *c)
{
    if (c->watch)
        event_free(c->watch);
    if (c->announce_lost)
        event_free(c->announce_lost);
    if (c->inotify_fd >= 0)
        close(c->inotify_fd);
    if (c->shm_fd >= 0)
        close(c->shm_fd);
    free(c->sizes);
    free(c->lost);
}

void catalog_on_lost(struct catalog *c, void (*fn)(void *arg), void *arg)
{
    c->lost_fn = fn;
    c->lost_arg = arg;
}

/* -- The write lock ------------------------------------------------------------------------------------- */

void files_name_holder(const struct catalog *c, char **ret_holder, char **ret_remedy)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = WRITE_LOCK_BYTE, .l_len = 1};
    char name[PROCESS_NAME_MAX];

    /* Locks of this process are not reported: its own upkeep writes with a connection of its own. */
    bool is_held = fcntl(c->shm_fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (is_held && lock.l_pid > 0) {
        *ret_holder =
            xasprintf("another program: process %d (%s)", (int)lock.l_pid, process_name(lock.l_pid, name));
        *ret_remedy =
            xasprintf("Wait until process %d has written to %s, or end it.", (int)lock.l_pid, c->path);
    } else if (!is_held && c->upkeep) {
        *ret_holder = xstrdup("profd's own upkeep");
        *ret_remedy = xstrdup("Try again in a moment.");
    } else {
        *ret_holder = xstrdup("another program");
        *ret_remedy =
            xasprintf("Wait until it has written to %s, or end it (fuser shows who has it open).", c->path);
    }
}
