/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/keys.h"

#include "base/clock.h"
#include "base/util.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

void keys_open(struct keys *k)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *k = (struct keys){.fd = -1, .signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    /* Who is in the background may not change the modes, and would be stopped for trying. */
    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &k->before) < 0)
        return;
    struct termios single = k->before;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0)
        k->fd = STDIN_FILENO;
}

void keys_close(struct keys *k)
{
    if (k->fd >= 0)
        tcsetattr(k->fd, TCSANOW, &k->before);
    closep(&k->signal_fd);
    k->fd = -1;
}

int keys_wait(struct keys *k, int64_t deadline_ns)
{
    struct pollfd fds[] = {{k->signal_fd, POLLIN, 0}, {k->fd, POLLIN, 0}};
    struct timeval left = timeval_until(deadline_ns);
    int n = poll(fds, ARRAY_SIZE(fds), (int)(left.tv_sec * 1000 + (left.tv_usec + 999) / 1000));
    unsigned char key;

    if (n <= 0)
        return n < 0 && errno != EINTR ? KEY_END : KEY_NONE;
    if (fds[0].revents)
        return KEY_END;
    return read(k->fd, &key, 1) == 1 ? key : KEY_END;
}
