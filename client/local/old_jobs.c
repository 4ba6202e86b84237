/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/old_jobs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/process_info.h"
#include "base/runtime_paths.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#define AGE_NS       (INT64_C(24) * 3600 * OLD_JOB_DAYS * NS_PER_S)
#define REMOVING     ".removing" /* suffix of a directory whose deletion has begun */
#define DEPTH_MAX    16
#define CATALOG_LOCK "catalog.db.lock"
#define CATALOG_MODE 0640

/* Every use of the directory by profd or profctl writes at least one of these. */
static const char *const written[] = {".",          "catalog.db", "catalog.db-wal",
                                      CATALOG_LOCK, "profd.log",  "traces"};

static int64_t job_last_used_at(int dir_fd)
{
    struct stat st;
    int64_t last = 0;

    for (size_t i = 0; i < ARRAY_SIZE(written); i++)
        if (fstatat(dir_fd, written[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            last = MAX(last, st.st_mtim.tv_sec * NS_PER_S);
    return last;
}

static bool job_runs_here(const char *job)
{
    _cleanup_(freep) pid_t *pids = NULL;
    size_t n = process_list(&pids);

    for (size_t i = 0; i < n; i++) {
        _cleanup_(freep) char *data = NULL;
        struct string_list env = {0};
        /* Processes of other users cannot be read, and do not belong to the job. */
        if (process_read(pids[i], "environ", PROCESS_ENVIRON_MAX, &data, &env.size) < 0)
            continue;
        env.data = data;
        if (streq(env_value(&env, "SLURM_JOB_ID"), job))
            return true;
    }
    return false;
}

/* -- Removing ------------------------------------------------------------------------------------------- */

static int job_open_directory(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static bool job_empty_directory(int dir_fd, dev_t device, unsigned depth);

/* Always relative to an open directory: one that is replaced by a link leads nowhere. */
static bool job_remove_at(int parent_fd, const char *name, dev_t device, unsigned depth)
{
    struct stat st;

    if (unlinkat(parent_fd, name, 0) == 0)
        return true;
    _cleanup_(closep) int fd = depth < DEPTH_MAX ? job_open_directory(parent_fd, name) : -1;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == device &&
           job_empty_directory(fd, device, depth + 1) && unlinkat(parent_fd, name, AT_REMOVEDIR) == 0;
}

static bool job_empty_directory(int dir_fd, dev_t device, unsigned depth)
{
    int fd = job_open_directory(dir_fd, ".");
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    bool all = dir != NULL;

    while (all && (entry = readdir(dir)))
        all = streq(entry->d_name, ".") || streq(entry->d_name, "..") ||
              job_remove_at(fd, entry->d_name, device, depth);
    if (dir)
        closedir(dir);
    else
        closep(&fd);
    return all;
}

static bool job_is_own(int dir_fd, struct stat *ret)
{
    return fstat(dir_fd, ret) == 0 && ret->st_uid == geteuid();
}

/* The directory is renamed first. */
static bool job_remove_own(int parent_fd, const char *going)
{
    _cleanup_(closep) int fd = job_open_directory(parent_fd, going);
    struct stat st;

    return fd >= 0 && job_is_own(fd, &st) && job_remove_at(parent_fd, going, st.st_dev, 0);
}

/* -- Selection --------------------------------------------------------------------------------------------- */

/* Renamed before it is deleted: job ids are reused, and must not find half a directory. */
static void job_remove_if_old(struct client *c, int parent_fd, const char *parent, const char *name)
{
    const char *job = name + strlen(JOB_DIR_PREFIX);
    _cleanup_(freep) char *going = xasprintf("%s" REMOVING, name);
    _cleanup_(closep) int dir_fd = job_open_directory(parent_fd, name);
    struct stat st;

    if (dir_fd < 0 || !job_is_own(dir_fd, &st) || wall_ns() - job_last_used_at(dir_fd) <= AGE_NS ||
        job_runs_here(job))
        return;
    /* Held until the catalog is deleted, so that no profd opens it. */
    _cleanup_(closep) int lock_fd =
        openat(dir_fd, CATALOG_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, CATALOG_MODE);
    if (lock_fd < 0 || flock(lock_fd, LOCK_EX | LOCK_NB) < 0)
        return;
    if (renameat(parent_fd, name, parent_fd, going) == 0 && job_remove_own(parent_fd, going))
        client_note(c, "deleted the unused state of your profd of job %s: %s/%s (not used for %d days)", job,
                    parent, name, OLD_JOB_DAYS);
}

/* "job-41"; or "job-41.removing", whose deletion was interrupted. */
static bool job_parse_name(const char *name, bool *ret_going)
{
    if (!starts_with(name, JOB_DIR_PREFIX))
        return false;
    name += strlen(JOB_DIR_PREFIX);
    size_t digits = strspn(name, "0123456789");
    *ret_going = streq(name + digits, REMOVING);
    return digits > 0 && (name[digits] == '\0' || *ret_going);
}

void old_jobs_remove(struct client *c)
{
    _cleanup_(freep) char *parent = user_jobs_dir();
    DIR *dir = parent ? opendir(parent) : NULL;
    struct dirent *entry;
    bool is_going;

    while (dir && (entry = readdir(dir))) {
        if (!job_parse_name(entry->d_name, &is_going) ||
            streq(entry->d_name + strlen(JOB_DIR_PREFIX), slurm_job()))
            continue;
        if (is_going)
            job_remove_own(dirfd(dir), entry->d_name);
        else
            job_remove_if_old(c, dirfd(dir), parent, entry->d_name);
    }
    if (dir)
        closedir(dir);
}
