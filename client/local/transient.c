/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/transient.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/local/profd_child.h"
#include "client/local/program.h"
#include "client/local/startup_lock.h"
#include "client/transport/endpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define READY_S     10
#define END_NS      (15 * NS_PER_S)
#define END_LOOK_US 5000

struct transient {
    char *socket;
    pid_t pid;
    int turn_fd;  /* locked while it is our turn */
    int stdin_fd; /* its end is profd's */
};

static int spawn(struct transient *t, const char *program, struct problem *p)
{
    char *argv[] = {"profd", "--transient", "--socket", t->socket, NULL};
    _cleanup_(closep) int stdin_fd = -1;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(errno));
    stdin_fd = ends[0];
    t->stdin_fd = ends[1];
    const struct profd_order order = {.program = program,
                                      .purpose = "one for this call",
                                      .argv = argv,
                                      .stdin_fd = stdin_fd,
                                      .patience = READY_S};
    return profd_child_start(&order, &t->pid, p);
}

static int start(struct client *c, struct transient *t, const char *program, const char *beside,
                 struct problem *p)
{
    _cleanup_(freep) char *directory = turn_directory(beside);
    int r = turn_take(c, directory, &t->turn_fd, p);

    if (r < 0)
        return r;
    /* Whose turn it was may have started one that stays. */
    if (place_socket_error(beside) == 0)
        return -EALREADY;
    t->socket = xasprintf("%s/transient-%d.sock", directory, (int)getpid());
    return spawn(t, program, p);
}

int transient_start(struct client *c, const char *socket, struct transient **ret, struct problem *p)
{
    _cleanup_(freep) char *program = program_find(PROGRAM_PROFD, p);

    if (!program)
        return -ENOPKG;
    struct transient *t = xcalloc(1, sizeof(*t));
    t->turn_fd = t->stdin_fd = -1;
    int r = start(c, t, program, socket, p);
    if (r < 0)
        transient_free(t);
    else
        *ret = t;
    return r;
}

static void wait_end(pid_t pid)
{
    const int64_t deadline = mono_ns() + END_NS;

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (mono_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        usleep(END_LOOK_US);
    }
}

struct transient *transient_free(struct transient *t)
{
    if (!t)
        return NULL;
    closep(&t->stdin_fd);
    if (t->pid > 0)
        wait_end(t->pid);
    if (t->socket)
        unlink(t->socket);
    closep(&t->turn_fd);
    free(t->socket);
    free(t);
    return NULL;
}

const char *transient_socket(const struct transient *t)
{
    return t->socket;
}
