/* SPDX-License-Identifier: Apache-2.0 */
#include "client/door/old_jobs.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/own_place.h"
#include "base/process_info.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>

#define AGE_NS       (INT64_C(24) * 3600 * OLD_JOB_DAYS * NS_PER_S)
#define REMOVING     ".removing" /* behind the name of one whose removal was begun */
#define DESCRIPTORS  16
#define CATALOG_LOCK "catalog.db.lock"
#define CATALOG_MODE 0640

/* Of all that a profd or profctl writes at least one of these tells the time. */
static const char *const written[] = {".",          "catalog.db", "catalog.db-wal",
                                      CATALOG_LOCK, "profd.log",  "traces"};

static int64_t last_used_at(int dir_fd)
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
        struct strings env = {0};
        /* Another's processes are not of this user's job, and cannot be read. */
        if (process_read(pids[i], "environ", PROCESS_ENVIRON_MAX, &data, &env.size) < 0)
            continue;
        env.data = data;
        if (streq(env_value(&env, "SLURM_JOB_ID"), job))
            return true;
    }
    return false;
}

/* Held until the catalog is gone: no profd begins with it meanwhile. -1 where one has it. */
static int take_catalog(int dir_fd)
{
    _cleanup_(closep) int fd =
        openat(dir_fd, CATALOG_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, CATALOG_MODE);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    return TAKE_FD(fd);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static bool remove_tree(const char *path)
{
    return nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0;
}

static bool is_old(int dir_fd, const char *job)
{
    struct stat st;

    return fstat(dir_fd, &st) == 0 && st.st_uid == geteuid() && wall_ns() - last_used_at(dir_fd) > AGE_NS &&
           !job_runs_here(job);
}

/* Under its own name there is all of it or nothing: job ids come again. */
static void consider(struct client *c, const char *parent, const char *name)
{
    const char *job = name + strlen(JOB_DIR_PREFIX);
    _cleanup_(freep) char *path = xasprintf("%s/%s", parent, name), *going = xasprintf("%s" REMOVING, path);
    _cleanup_(closep) int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (dir_fd < 0 || !is_old(dir_fd, job))
        return;
    _cleanup_(closep) int lock_fd = take_catalog(dir_fd);
    if (lock_fd < 0)
        return;
    if (rename(path, going) == 0 && remove_tree(going))
        client_say(c, "removed what your profd of job %s left in %s: nobody used it for %d days", job, path,
                   OLD_JOB_DAYS);
}

/* "job-41"; or "job-41.removing", which another one did not come to the end with. */
static bool is_of_job(const char *name, bool *ret_going)
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
    _cleanup_(freep) char *parent = own_jobs_dir();
    DIR *dir = parent ? opendir(parent) : NULL;
    struct dirent *entry;
    bool is_going;

    while (dir && (entry = readdir(dir))) {
        if (!is_of_job(entry->d_name, &is_going) ||
            streq(entry->d_name + strlen(JOB_DIR_PREFIX), slurm_job()))
            continue;
        _cleanup_(freep) char *path = xasprintf("%s/%s", parent, entry->d_name);
        if (is_going)
            remove_tree(path);
        else
            consider(c, parent, entry->d_name);
    }
    if (dir)
        closedir(dir);
}
