/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/catalog.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/catalog/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/file.h>

/* Group profd reads; new files of the directory belong to that group. */
#define DIRECTORY_MODE 02750
#define FILE_MODE      0640

/* -- Opening, in steps -- */

static int open_make_directory(struct catalog *c, struct problem *p)
{
    struct stat st;
    if (stat(c->directory, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : storage_problem(-ENOTDIR, c->path, p);
    int r = make_dirs(c->directory, DIRECTORY_MODE & 0777);
    /* mkdir() takes neither the bit that hands the group on nor what the umask keeps back. */
    if (r == 0 && chmod(c->directory, DIRECTORY_MODE) < 0)
        r = -errno;
    return r < 0 ? storage_problem(r, c->path, p) : 0;
}

static int open_fail_in_use(struct catalog *c, struct problem *p)
{
    char holder[16] = "";
    ssize_t n = pread(c->lock_fd, holder, sizeof(holder) - 1, 0);
    size_t digits = n > 0 ? strspn(holder, "0123456789") : 0;
    holder[digits] = '\0';
    problem_set(p, -EBUSY, PROBLEM_BUSY, "the catalog %s is in use by %s%s", c->path,
                digits ? "process " : "another process", holder);
    problem_remedy(
        p, "Stop that profd (systemctl stop profd%s%s), or choose another directory with --state-dir.",
        digits ? ", or kill " : "", holder);
    return -EBUSY;
}

static int open_take_lock(struct catalog *c, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s.lock", c->path);
    char pid[16];
    int n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());

    c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (c->lock_fd < 0)
        return storage_problem(-errno, c->path, p);
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? open_fail_in_use(c, p) : storage_problem(-errno, c->path, p);
    /* The lock decides; the number in it only names its holder, and may be missing on a full disk. */
    if (ftruncate(c->lock_fd, 0) < 0 || pwrite(c->lock_fd, pid, (size_t)n, 0) < 0)
        return errno == ENOSPC || errno == EDQUOT ? 0 : storage_problem(-errno, c->path, p);
    return 0;
}

/* The database of a log was never empty: SQLite would remove the log without a word, and begin anew. */
static bool has_log(const struct catalog *c)
{
    _cleanup_(freep) char *log = xasprintf("%s-wal", c->path);
    struct stat st;
    return stat(log, &st) == 0 && st.st_size > 0;
}

/* SQLite would make the file with other rights; its log takes over those of the file. */
static int open_make_file(struct catalog *c, struct problem *p)
{
    if (access(c->path, F_OK) < 0 && errno == ENOENT && has_log(c))
        return sqlite_problem(NULL, -ESTALE, c->path, p);
    _cleanup_(closep) int fd = open(c->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return errno == EEXIST ? 0 : storage_problem(-errno, c->path, p);
    if (fchmod(fd, FILE_MODE) < 0)
        return storage_problem(-errno, c->path, p);
    int r = fsync_path(c->directory);
    return r < 0 ? storage_problem(r, c->path, p) : 0;
}

static int open_fail(struct catalog *c, struct problem *p)
{
    return sqlite_problem(c->db, sqlite_errno(c->db, sqlite3_extended_errcode(c->db)), c->path, p);
}

/* The loop waits for a lock once only. */
static int open_on_busy(void *arg, int tries)
{
    const struct catalog *c = arg;

    if (c->locked || tries >= (c->patient ? CATALOG_BUSY_TIMEOUT_MS : CATALOG_LOOP_WAIT_MS))
        return 0;
    usleep(1000);
    return 1;
}

static int open_database(struct catalog *c, struct problem *p)
{
    struct stat st;
    if (stat(c->path, &st) == 0 && S_ISDIR(st.st_mode))
        return storage_problem(-EISDIR, c->path, p);
    if (access(c->path, R_OK | W_OK) < 0)
        return storage_problem(-errno, c->path, p);
    if (lstat(c->path, &st) == 0 && st.st_size == 0 && has_log(c))
        return sqlite_problem(NULL, -EUCLEAN, c->path, p);
    int rc = sqlite3_open_v2(c->path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return open_fail(c, p);
    sqlite3_extended_result_codes(c->db, 1);
    sqlite3_busy_handler(c->db, open_on_busy, c);
    return 0;
}

static int open_check_identity(struct catalog *c, struct problem *p)
{
    int version;
    return migrate_check(c->db, c->path, CATALOG_VERSION, &version, p);
}

void catalog_metrics(const struct catalog *c, struct catalog_metrics *ret)
{
    *ret = c->metrics;
    ret->wal_bytes = (int64_t)c->wal_pages * CATALOG_PAGE_BYTES;
}

/* The hook runs inside the commit, so it only notes that a checkpoint is due. */
static int open_on_wal_grown(void *arg, sqlite3 *db _unused_, const char *schema _unused_, int pages)
{
    struct catalog *c = arg;
    if (pages < c->wal_pages)
        c->checkpoint_at_pages = CATALOG_CHECKPOINT_PAGES;
    c->wal_pages = pages;
    if (pages >= c->checkpoint_at_pages)
        c->checkpoint_due = true;
    return SQLITE_OK;
}

static int open_set_up(struct catalog *c, struct problem *p)
{
    int keep = 1;
    /* Without it the last close would remove the log, and readers that may not write could not open the file.
     */
    if (sqlite3_file_control(c->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep) != SQLITE_OK)
        return open_fail(c, p);
    sqlite3_stmt *s = NULL;
    sqlite3_prepare_v2(c->db, "pragma journal_mode = wal", -1, &s, NULL);
    bool stepped = s && sqlite3_step(s) == SQLITE_ROW;
    bool wal = stepped && streq((const char *)sqlite3_column_text(s, 0), "wal");
    int r = stepped ? 0 : open_fail(c, p);
    sqlite3_finalize(s);
    if (r == 0 && !wal) {
        problem_remedy(p, "Choose a directory on a local file system with --state-dir.");
        r = problem_set(
            p, -EOPNOTSUPP, PROBLEM_STORAGE,
            "the file system of the catalog %s cannot share memory between processes, which its log needs",
            c->path);
    }
    if (r < 0)
        return r;
    _cleanup_(freep) char *sql = xasprintf("pragma synchronous = normal; pragma journal_size_limit = %d; "
                                           "pragma cache_size = -1024; pragma temp_store = memory; "
                                           "pragma secure_delete = off;",
                                           CATALOG_WAL_KEPT_BYTES);
    if (sqlite3_exec(c->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return open_fail(c, p);
    /* This hook takes the place of SQLite's own, which would checkpoint on the loop. */
    sqlite3_wal_hook(c->db, open_on_wal_grown, c);
    return 0;
}

static int64_t open_ask_number(struct catalog *c, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t number = 0;

    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return number;
}

/*
 * A file that was cut short is otherwise found out only when a query meets the missing part. Until the log
 * is written back, a file may rightly be short: then writing back made it as long as it should be, and
 * whether what it was lengthened by was in the log is shown by reading everything.
 */
static int open_check_length(struct catalog *c, struct problem *p)
{
    struct stat st;
    int in_log = 0, written_back = 0;
    int64_t found = stat(c->path, &st) == 0 ? st.st_size : 0;
    int rc = sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &written_back);

    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
        return open_fail(c, p);
    if (rc != SQLITE_OK || in_log != written_back || stat(c->path, &st) < 0)
        return 0;
    int64_t bytes =
        open_ask_number(c, "select page_count * page_size from pragma_page_count, pragma_page_size");
    if (bytes <= found ||
        (bytes <= st.st_size && open_ask_number(c, "select quick_check = 'ok' from pragma_quick_check(1)")))
        return 0;
    return sqlite_problem(NULL, -EUCLEAN, c->path, p);
}

static int open_migrate(struct catalog *c, struct problem *p)
{
    int version;
    int r = migrate_check(c->db, c->path, CATALOG_VERSION, &version, p);
    if (r == 0)
        r = migrate(c->db, c->path, version, catalog_upgrades, CATALOG_VERSION, p);
    if (r == 0 && sqlite3_exec(c->db, "pragma foreign_keys = on", NULL, NULL, NULL) != SQLITE_OK)
        r = open_fail(c, p);
    return r;
}

static int open_check_schema(struct catalog *c, struct problem *p)
{
    int rc = statements_check(c->db);
    if (rc == SQLITE_OK)
        return 0;
    if ((rc & 0xff) != SQLITE_ERROR)
        return open_fail(c, p);
    problem_set(p, -EUCLEAN, PROBLEM_STORAGE,
                "the catalog %s has version %d and does not match its schema: %s", c->path, CATALOG_VERSION,
                sqlite3_errmsg(c->db));
    problem_remedy(p, "Restore a copy of it, or move it away to start with an empty catalog.");
    return -EUCLEAN;
}

static int (*const opening_steps[])(struct catalog *c, struct problem *p) = {
    open_make_directory, open_take_lock, open_make_file,    open_database, open_check_identity, open_set_up,
    open_check_length,   open_migrate,   open_check_schema, hosts_open,    files_open,
};

int catalog_open(const char *path, struct event_base *base, struct offload *offload, struct catalog **ret,
                 struct problem *p)
{
    _cleanup_(catalog_closep) struct catalog *c = xcalloc(1, sizeof(*c));
    *c = (struct catalog){
        .path = xstrdup(path),
        .base = base,
        .offload = offload,
        .lock_fd = -1,
        .shm_fd = -1,
        .inotify_fd = -1,
        .patient = true,
        .checkpoint_at_pages = CATALOG_CHECKPOINT_PAGES,
    };
    _cleanup_(freep) char *copy = xstrdup(path);
    c->directory = xstrdup(dirname(copy));
    batch_init(c);
    for (size_t i = 0; i < ARRAY_SIZE(opening_steps); i++) {
        int r = opening_steps[i](c, p);
        if (r < 0)
            return r;
    }
    c->patient = false;
    *ret = TAKE_PTR(c);
    return 0;
}

/* -- The rest -- */

struct catalog *catalog_close(struct catalog *c)
{
    if (!c)
        return NULL;
    batch_done(c);
    upkeep_stop(c);
    statements_finalize(c->statements);
    if (c->db) {
        /* What is left of files that were cut is not touched. A log whose database is gone is written back
         * into that: it would spoil another one in its place. */
        if (c->is_cut)
            sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        else
            sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        sqlite3_close(c->db);
    }
    files_close(c);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    for (size_t i = 0; i < ARRAY_SIZE(c->kept_counts); i++)
        json_decref(c->kept_counts[i].counts);
    free(c->listeners);
    free(c->uuid);
    free(c->host);
    free(c->directory);
    free(c->path);
    free(c);
    return NULL;
}

const char *catalog_path(const struct catalog *c)
{
    return c->path;
}
