/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/interruption.h"

#include "base/alloc.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

struct interruption {
    sqlite3 *db;
    pthread_t thread;
    int signal_fd, end_fd;
    _Atomic int number;
};

/* A statement that has not begun when it is interrupted is not: hence again and again until the end. */
#define AGAIN_MS 50

/* A function of SQLite that is at work looks at no interruption: who asks twice does not want to wait. */
static void end_at_once(int number)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}

static void *watch(void *arg)
{
    struct interruption *i = arg;
    struct signalfd_siginfo info;

    for (;;) {
        struct pollfd fds[] = {{.fd = i->end_fd, .events = POLLIN}, {.fd = i->signal_fd, .events = POLLIN}};
        poll(fds, ARRAY_SIZE(fds), i->number ? AGAIN_MS : -1);
        if (fds[1].revents && read(i->signal_fd, &info, sizeof(info)) == sizeof(info)) {
            if (i->number)
                end_at_once((int)info.ssi_signo);
            i->number = (int)info.ssi_signo;
        }
        if (fds[0].revents)
            return NULL;
        if (i->number)
            sqlite3_interrupt(i->db);
    }
}

static void interruption_free(struct interruption *i)
{
    closep(&i->signal_fd);
    closep(&i->end_fd);
    free(i);
}

struct interruption *interruption_watch(sqlite3 *db)
{
    struct interruption *i = xcalloc(1, sizeof(*i));
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    i->db = db;
    i->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    i->end_fd = eventfd(0, EFD_CLOEXEC);
    if (i->signal_fd >= 0 && i->end_fd >= 0 && pthread_create(&i->thread, NULL, watch, i) == 0)
        return i;
    interruption_free(i);
    return NULL;
}

int interruption_signal(const struct interruption *i)
{
    return i ? i->number : 0;
}

int interruption_end(struct interruption *i)
{
    if (!i)
        return 0;
    eventfd_write(i->end_fd, 1);
    pthread_join(i->thread, NULL);
    int number = i->number;

    interruption_free(i);
    return number;
}
