/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/pager.h"

#include "base/spawning.h"
#include "client/local/program.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define DEFAULT_PAGER "less"
/* As git sets it: end where it fits on one screen, keep colours, leave the screen as it is. */
#define LESS_OPTIONS "FRX"
/* Exit statuses of a shell that has not found the command, or may not execute it. */
#define STATUS_NOT_RUN 126

extern char **environ;

static const char *pager_command(void)
{
    static const char *const variables[] = {"PROFCTL_PAGER", "PAGER"};

    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        const char *command = getenv(variables[i]);
        if (command)
            return *command && !streq(command, "cat") ? command : NULL;
    }
    return DEFAULT_PAGER;
}

/* A command with arguments, or with anything else that is a shell's, is run by one. */
static int spawn(const char *command, int fd, pid_t *ret)
{
    bool is_plain = !strpbrk(command, " \t\n|&;<>()$`\\\"'*?[#~=%");
    _cleanup_(freep) char *path = program_in_path(is_plain ? command : "sh");
    char *plain[] = {(char *)command, NULL}, *shell[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    posix_spawn_file_actions_t actions;

    if (!path)
        return -ENOENT;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    int r = spawn_clean(path, &actions, is_plain ? plain : shell, environ, 0, ret);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

void pager_start(struct pager *p, struct screen *s)
{
    const char *command = pager_command();
    int fds[2];

    if (p->pid > 0 || !s->is_terminal || !command)
        return;
    unsigned width = screen_width(s), height = screen_height(s);
    fflush(s->file);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    setenv("LESS", LESS_OPTIONS, 0);
    if (spawn(command, fds[0], &p->pid) == 0 && dup2(fds[1], fileno(s->file)) >= 0) {
        s->paged_width = width;
        s->paged_height = height;
        signal(SIGINT, SIG_IGN);
        signal(SIGQUIT, SIG_IGN);
    }
    close(fds[0]);
    close(fds[1]);
}

int pager_wait(struct pager *p)
{
    int status = 0;

    if (p->pid <= 0)
        return 0;
    fclose(stdout);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) >= STATUS_NOT_RUN ? WEXITSTATUS(status) : 0;
}
