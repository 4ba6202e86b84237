/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawning.h"

#include "base/alloc.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

int spawn_clean(const char *program, const posix_spawn_file_actions_t *actions, char *const argv[],
                char *const environment[], short flags, pid_t *ret_pid)
{
    posix_spawnattr_t attributes;
    sigset_t all, none;

    posix_spawnattr_init(&attributes);
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | flags));
    int r = posix_spawn(ret_pid, program, actions, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    return -r;
}

/* Out of the way of the numbers that the child's get. */
static int spawn_move_aside(int *fd, int first)
{
    if (*fd < 0 || *fd >= first)
        return 0;
    int aside = fcntl(*fd, F_DUPFD_CLOEXEC, first);
    if (aside < 0)
        return -errno;
    close(*fd);
    *fd = aside;
    return 0;
}

static void spawn_add_descriptors(posix_spawn_file_actions_t *actions, const int *fds, int n_fds)
{
    for (int i = 0; i < n_fds; i++)
        if (fds[i] >= 0)
            posix_spawn_file_actions_adddup2(actions, fds[i], i);
        else if (i == STDIN_FILENO)
            posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDONLY, 0);
        else if (i != STDERR_FILENO)
            posix_spawn_file_actions_addclose(actions, i);
    posix_spawn_file_actions_addclosefrom_np(actions, n_fds);
}

int spawn_with(const char *program, int *fds, int n_fds, char *const argv[], char *const environment[],
               short flags, pid_t *ret_pid, int *ret_pid_fd)
{
    posix_spawn_file_actions_t actions;
    int r = 0;

    for (int i = 0; i < n_fds && r >= 0; i++)
        r = spawn_move_aside(&fds[i], n_fds);
    if (r < 0)
        return r;
    posix_spawn_file_actions_init(&actions);
    spawn_add_descriptors(&actions, fds, n_fds);
    r = spawn_clean(program, &actions, argv, environment, flags, ret_pid);
    posix_spawn_file_actions_destroy(&actions);
    if (r < 0)
        return r;
    *ret_pid_fd = pidfd_open(*ret_pid, 0);
    if (*ret_pid_fd >= 0)
        return 0;
    r = -errno;
    kill(*ret_pid, SIGKILL);
    waitpid(*ret_pid, NULL, 0);
    return r;
}

static bool spawn_is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *program_in_path(const char *name)
{
    const char *path = getenv("PATH");

    if (strchr(name, '/')) {
        _cleanup_(freep) char *absolute = realpath(name, NULL);
        return absolute && spawn_is_program(absolute) ? TAKE_PTR(absolute) : NULL;
    }
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; p;) {
        size_t n = strcspn(p, ":");
        _cleanup_(freep) char *candidate = xasprintf("%.*s/%s", (int)n, p, name);
        if (n > 0 && *p == '/' && spawn_is_program(candidate))
            return TAKE_PTR(candidate);
        p = p[n] ? p + n + 1 : NULL;
    }
    return NULL;
}
