/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/ingest_child.h"

#include "base/alloc.h"
#include "base/spawning.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define BACKGROUND_NICENESS 19
#define NUMBER_MAX          24 /* characters of an int64_t */

static void close_fd(int *fd)
{
    closep(fd);
    *fd = -1;
}

void ingest_child_init(struct ingest_child *c)
{
    *c = (struct ingest_child){.fds = {[0 ... INGEST_FD_GROUP] = -1},
                               .columns_room = INT64_MAX,
                               .pid_fd = -1,
                               .answer_fd = -1,
                               .progress_fd = -1};
}

static int open_pipe(int *ret_read, int *ret_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return fcntl(*ret_read, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int spawn_child(struct ingest_child *c, const char *program)
{
    const int64_t numbers[] = {c->size_max, c->cpu_s,   c->memory_max, MAX(c->columns_room, INT64_C(1)),
                               c->part[0],  c->part[1], c->part[2]};
    /* Each argument needs those before it. */
    size_t n = c->part[0] > 0 ? ARRAY_SIZE(numbers) : c->memory_max > 0 ? 4 : 2;
    char texts[ARRAY_SIZE(numbers)][NUMBER_MAX];
    char *argv[ARRAY_SIZE(numbers) + 2] = {"profd-ingest"}, *environment[] = {"LC_ALL=C", NULL};
    pid_t pid;

    for (size_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%" PRId64, numbers[i]);
        argv[i + 1] = texts[i];
    }
    int r = spawn_with(program, c->fds, (int)ARRAY_SIZE(c->fds), argv, environment,
                       c->own_group ? POSIX_SPAWN_SETPGROUP : 0, &pid, &c->pid_fd);
    if (r == 0 && c->background)
        setpriority(PRIO_PROCESS, (id_t)pid, BACKGROUND_NICENESS);
    return r;
}

int ingest_child_start(struct ingest_child *c, const char *program)
{
    int r = open_pipe(&c->answer_fd, &c->fds[INGEST_FD_RESULT]);
    if (r >= 0 && c->with_progress)
        r = open_pipe(&c->progress_fd, &c->fds[INGEST_FD_PROGRESS]);
    if (r >= 0)
        r = spawn_child(c, program);
    for (int i = 0; i < (int)ARRAY_SIZE(c->fds); i++)
        if (i != INGEST_FD_SOURCE && i != INGEST_FD_DEST)
            close_fd(&c->fds[i]);
    if (r >= 0)
        c->answer = xcalloc(INGEST_RESULT_MAX, 1);
    return r;
}

bool ingest_child_take_answer(struct ingest_child *c)
{
    while (!c->answered) {
        ssize_t n = read(c->answer_fd, c->answer + c->answer_size, INGEST_RESULT_MAX - c->answer_size);
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0 && errno == EINTR)
            continue;
        c->answer_size += (size_t)MAX(n, 0);
        c->answered = n <= 0 || c->answer_size == INGEST_RESULT_MAX;
    }
    return true;
}

void ingest_child_kill(const struct ingest_child *c)
{
    if (c->pid_fd >= 0)
        pidfd_send_signal(c->pid_fd, SIGKILL, NULL, 0);
}

siginfo_t ingest_child_reap(struct ingest_child *c)
{
    siginfo_t end = {0};

    while (waitid(P_PIDFD, (id_t)c->pid_fd, &end, WEXITED) < 0 && errno == EINTR)
        continue;
    ingest_child_take_answer(c);
    return end;
}

void ingest_child_clear(struct ingest_child *c)
{
    close_fd(&c->pid_fd);
    close_fd(&c->answer_fd);
    close_fd(&c->progress_fd);
    free(TAKE_PTR(c->answer));
    c->answer_size = 0;
    c->answered = false;
}

void ingest_child_done(struct ingest_child *c)
{
    ingest_child_clear(c);
    for (size_t i = 0; i < ARRAY_SIZE(c->fds); i++)
        close_fd(&c->fds[i]);
}

char *ingest_child_failure(const siginfo_t *end)
{
    if (end->si_code == CLD_EXITED)
        return end->si_status == 0 ? NULL : xasprintf("profd-ingest ended with status %d", end->si_status);
    const char *name = sigabbrev_np(end->si_status);
    return end->si_status == SIGXCPU ? xstrdup("profd-ingest used up its processor time")
                                     : xasprintf("profd-ingest was killed by SIG%s", name ? name : "?");
}

bool ingest_child_hit_limit(const siginfo_t *end)
{
    return end->si_code != CLD_EXITED && (end->si_status == SIGXCPU || end->si_status == SIGKILL);
}

json_t *ingest_child_parse(const struct ingest_child *c, char **ret_reason)
{
    char error[200];
    json_t *facts = json_parse(c->answer, c->answer_size, error);

    if (json_is_object(facts))
        return facts;
    *ret_reason = xasprintf("profd-ingest answered no JSON object: %s", facts ? "another value" : error);
    json_decref(facts);
    return NULL;
}
