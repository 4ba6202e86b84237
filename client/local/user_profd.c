/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/user_profd.h"

#include "base/alloc.h"
#include "base/own_place.h"
#include "client/local/old_jobs.h"
#include "client/local/profd_child.h"
#include "client/local/program.h"
#include "client/local/startup_lock.h"
#include "client/transport/endpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#define IDLE_TIME "30min"
/* A large catalog may be migrated, and one that ends waited for, before profd is ready. */
#define READY_S 60

/* What `systemctl enable` makes. */
static const char *const enablements[] = {
    "/etc/systemd/system/sockets.target.wants/profd.socket",
    "/etc/systemd/system/multi-user.target.wants/profd.service",
};

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool is_enabled(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(enablements); i++)
        if (is_there(enablements[i]))
            return true;
    return false;
}

/* Root's own profd and the system's have one place: a socket there says nothing of which it was. */
static bool system_has_one(void)
{
    return sd_booted() > 0 && (is_enabled() || (geteuid() != 0 && is_there(SYSTEM_SOCKET)));
}

static int refuse_beside_system(struct problem *p)
{
    problem_set(p, -EEXIST, PROBLEM_CONFLICT, "profd is a service of this host, and does not run");
    problem_remedy(p,
                   "Start it: systemctl start profd; journalctl -u profd says why it ended.%s\n"
                   "One of your own, at a place of yours: profd --socket PATH, and profctl --socket PATH.",
                   geteuid() == 0 ? ""
                                  : " Members of group profd may use it: sudo usermod -aG profd \"$USER\".");
    return -EEXIST;
}

/* "with job 41, " */
static char *end_of_cgroup(void)
{
    const char *job = slurm_job(), *step = slurm_step();

    return step  ? xasprintf("with step %s.%s, ", job, step)
           : job ? xasprintf("with job %s, ", job)
                 : xstrdup("");
}

static void say_started(struct client *c, pid_t pid, const char *socket)
{
    _cleanup_(freep) char *sooner = end_of_cgroup();

    client_say(
        c, "started your own profd: process %d, socket %s; it ends %safter %s without work, or by kill %d",
        (int)pid, socket, sooner, IDLE_TIME, (int)pid);
}

static int spawn(struct client *c, const char *program, const char *socket, struct problem *p)
{
    char *argv[] = {"profd", "--background", "--exit-when-idle", IDLE_TIME, "--socket", (char *)socket, NULL};
    _cleanup_(closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct profd_order order = {.program = program,
                                      .purpose = "one of your own",
                                      .argv = argv,
                                      .stdin_fd = null,
                                      .is_to_stay = true,
                                      .patience = READY_S};
    pid_t pid = 0;

    if (null < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot open /dev/null: %s", strerror(errno));
    int r = profd_child_start(&order, &pid, p);
    if (r == -ETIMEDOUT)
        kill(pid, SIGTERM);
    else if (r < 0 && pid > 0)
        waitpid(pid, NULL, 0);
    else if (r == 0)
        say_started(c, pid, socket);
    return r;
}

int own_profd_start(struct client *c, const char *socket, struct problem *p)
{
    _cleanup_(freep) char *program = NULL, *directory = turn_directory(socket);
    _cleanup_(closep) int turn_fd = -1;

    if (system_has_one())
        return refuse_beside_system(p);
    program = program_find(PROGRAM_PROFD, p);
    if (!program)
        return -ENOPKG;
    int r = turn_take(c, directory, &turn_fd, p);
    if (r < 0 || place_socket_error(socket) == 0)
        return r;
    old_jobs_remove(c);
    r = spawn(c, program, socket, p);
    /* One that was started by hand meanwhile. */
    return r < 0 && place_socket_error(socket) == 0 ? 0 : r;
}
