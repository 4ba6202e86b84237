/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/startup_lock.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define LOOK_US      20000
#define SAY_AFTER_NS NS_PER_S
#define WAIT_MAX_NS  (30 * NS_PER_S)

static int wait_for_lock(struct client *c, int fd)
{
    const int64_t begin_ns = mono_ns();
    bool said = false;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        /* On a file system without locks profd will not have its state either, and says so better. */
        if (errno != EWOULDBLOCK)
            return errno == ENOLCK || errno == ENOTSUP ? 0 : -errno;
        if (mono_ns() - begin_ns > WAIT_MAX_NS)
            return -ETIMEDOUT;
        if (!said && mono_ns() - begin_ns > SAY_AFTER_NS) {
            client_say(c, "another profctl uses the catalog; waiting");
            said = true;
        }
        usleep(LOOK_US);
    }
    return 0;
}

static int take(struct client *c, const char *directory, int *ret_fd)
{
    _cleanup_(freep) char *path = xasprintf("%s/profctl.lock", directory);
    _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : wait_for_lock(c, fd);

    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

/* Others may look into root's: a directory that is closed to them would look like a profd that they may not
 * use. The socket itself is closed to them. */
int turn_take(struct client *c, const char *directory, int *ret_fd, struct problem *p)
{
    int r = make_dirs(directory, geteuid() == 0 ? 0755 : 0700);

    if (r >= 0)
        r = take(c, directory, ret_fd);
    if (r == -ETIMEDOUT) {
        problem_set(p, r, PROBLEM_STORAGE, "another profctl has used the catalog for 30 s");
        problem_remedy(p, "Run it again once that one has ended, or start profd, which serves many at once.");
    } else if (r < 0) {
        problem_set(p, r, PROBLEM_STORAGE, "cannot use directory %s: %s", directory, strerror(-r));
        if (geteuid() != 0)
            problem_remedy(
                p, "It is where $XDG_RUNTIME_DIR, $XDG_STATE_HOME or $HOME say that your own profd belongs: "
                   "name a directory of yours, or unset the first.");
    }
    return r;
}

char *turn_directory(const char *socket)
{
    const char *slash = strrchr(socket, '/');
    return xstrndup(socket, slash ? (size_t)(slash - socket) : 0);
}
