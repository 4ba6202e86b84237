/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include <errno.h>

/* errno of the call that failed: SQLite keeps some with the connection, and those of writes with the log's
 * file. */
static int sqlite_system_errno(sqlite3 *db, int fallback)
{
    sqlite3_file *log = NULL;
    int e = db ? sqlite3_system_errno(db) : 0;
    if (e == 0 && db && sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
        log && log->pMethods)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &e);
    return e > 0 ? -e : fallback;
}

int sqlite_errno(sqlite3 *db, int rc)
{
    int e;

    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_IOERR:
        e = sqlite_system_errno(db, -EIO);
        /* A limit on the file's size or a quota is a full disk to an administrator. */
        return e == -EFBIG || e == -EDQUOT ? -ENOSPC : e;
    case SQLITE_CANTOPEN:
        e = sqlite_system_errno(db, -EIO);
        return e == -ENOENT ? -EACCES : e;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CORRUPT:
        return -EUCLEAN;
    case SQLITE_NOTADB:
        return -EMEDIUMTYPE;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY ||
                       rc == SQLITE_CONSTRAINT_ROWID
                   ? -EEXIST
                   : -EINVAL;
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
    case SQLITE_ERROR:
        return -EINVAL;
    case SQLITE_TOOBIG:
        return -E2BIG;
    default:
        return -EIO;
    }
}

bool sqlite_refused_value(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
    case SQLITE_TOOBIG:
        return true;
    default:
        return false;
    }
}

#define ELSEWHERE "or choose another directory with --state-dir."
#define OWNERSHIP "Make profd's user the owner of the directory of %s and of its files (chown), " ELSEWHERE
#define NO_COPY   "profd then creates an empty catalog and recovers the traces of the store."

/* %s in a remedy is the catalog's path. The last line is for all other errors. */
static const struct explanation {
    int err;
    const char *what, *remedy;
} explanations[] = {
    {ENOSPC, "the file system is full", "Free space on the file system of %s (df shows it)."},
    {EDQUOT, "the disk quota is used up", "Free space, or raise the quota of profd's user, for %s."},
    {EROFS, "it cannot be written",
     "Make the file system of %s writable and profd's user the owner of the file, " ELSEWHERE},
    {EACCES, "permission denied", OWNERSHIP},
    {EPERM, "permission denied", OWNERSHIP},
    {EBUSY, "another program holds it locked",
     "End the program that has %s open for writing (fuser shows it)."},
    {ESTALE, "its files were deleted, replaced or cut short",
     "Restore a copy of %1$s (profd(8), FILES). Without a copy, move away what is left of it with -wal and "
     "-shm; " NO_COPY},
    {EUCLEAN, "the file is damaged",
     "Restore a copy of %1$s, or save its readable rows: sqlite3 %1$s .recover | sqlite3 rescued.db. Without "
     "either, move it away with its -wal and -shm; " NO_COPY},
    {EMEDIUMTYPE, "the file is not an SQLite database",
     "Move %s away (profd creates an empty catalog), " ELSEWHERE},
    {EISDIR, "it is a directory", "Move %s away, " ELSEWHERE},
    {ENOTDIR, "a part of the path is not a directory", "Correct the path of %s (--state-dir, state_dir=)."},
    {0, NULL, "Check the file system of %s, " ELSEWHERE},
};

static const struct explanation *explanation_of(int err)
{
    const struct explanation *e = explanations;

    while (e->err && e->err != -err)
        e++;
    return e;
}

char *storage_remedy(int err, const char *path)
{
    return xasprintf(explanation_of(err)->remedy, path);
}

static int storage_explain(int err, const char *path, const char *detail, struct problem *p)
{
    const char *what = explanation_of(err)->what;
    _cleanup_(freep) char *remedy = storage_remedy(err, path);

    if (what && detail)
        problem_set(p, err, PROBLEM_STORAGE, "cannot use the catalog %s: %s (%s)", path, what, detail);
    else
        problem_set(p, err, PROBLEM_STORAGE, "cannot use the catalog %s: %s", path,
                    what     ? what
                    : detail ? detail
                             : strerror(-err));
    problem_remedy(p, "%s", remedy);
    return err;
}

int sqlite_problem(sqlite3 *db, int err, const char *path, struct problem *p)
{
    return storage_explain(err, path, db ? sqlite3_errmsg(db) : NULL, p);
}

int storage_problem(int err, const char *path, struct problem *p)
{
    return storage_explain(err, path, NULL, p);
}
