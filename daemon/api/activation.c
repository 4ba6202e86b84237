/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/activation.h"

#include "base/alloc.h"
#include <errno.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

/* FileDescriptorName= as profd ships it, and what systemd says where nobody gave a name. */
static const char *const names[] = {"http", "profd.socket", "unknown"};

static bool is_known(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(names[i], name))
            return true;
    return false;
}

/* Why it cannot be served; NULL where it can. */
static const char *find_fault(int fd, const char *name, struct activated *ret)
{
    ret->local = sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0;
    if (!is_known(name))
        return "FileDescriptorName= must be http";
    if (ret->local)
        return NULL;
    if (sd_is_socket(fd, AF_INET, SOCK_STREAM, 1) <= 0 && sd_is_socket(fd, AF_INET6, SOCK_STREAM, 1) <= 0)
        return "it is no listening stream socket, as ListenStream= makes it";
    return listen_address_of(fd, &ret->address) < 0 ? "it has no address" : NULL;
}

static void names_done(char **list, int n)
{
    for (int i = 0; list && i < n; i++)
        free(list[i]);
    free(list);
}

int activation_take(struct activation *ret, struct problem *p)
{
    struct activation a = {0};
    char **list = NULL;
    int n = sd_listen_fds_with_names(1, &list), r = MIN(n, 0);

    for (int i = 0; i < n; i++) {
        int fd = SD_LISTEN_FDS_START + i;
        struct activated socket = {.fd = fd};
        const char *fault = i < ACTIVATION_MAX ? find_fault(fd, list[i], &socket) : "profd takes 8 at most";
        if (fault && r == 0) {
            r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "cannot listen on the socket %s of systemd: %s",
                            list[i], fault);
            problem_remedy(p, "Correct the socket unit (systemctl edit profd.socket), or disable it.");
        }
        if (fault) {
            close(fd);
            continue;
        }
        a.sockets[a.n++] = socket;
        a.n_local += socket.local;
    }
    names_done(list, n);
    if (r < 0)
        activation_done(&a);
    else
        *ret = a;
    return r;
}

void activation_done(struct activation *a)
{
    for (size_t i = 0; i < a->n; i++)
        closep(&a->sockets[i].fd);
    *a = (struct activation){0};
}
