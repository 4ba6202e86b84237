/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that Kineto's polls come to: the abstract name, or the file "dynolog" in a directory. Knows addresses and
 * credentials, no processes.
 *
 * Kineto ends its process if an answer does not come from the name that it sent its poll to, so answers leave through
 * the socket that the poll came to, which is bound by the very text of the configuration. Nothing here waits, except
 * kineto_socket_open() and kineto_socket_sweep(), which look at a directory.
 */
#pragma once

#include "base/problem.h"
#include "daemon/kineto/message.h"
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* The names that Kineto compiles in: kDynoIpcName, and of its own sockets. */
#define KINETO_SOCKET_NAME   "dynolog"
#define KINETO_CLIENT_PREFIX "dynoconfigclient"

struct kineto_socket {
    int fd;       /* -1: closed */
    char *dir;    /* NULL: abstract */
    int dir_fd;   /* O_PATH */
    dev_t device; /* of the socket's file */
    ino_t inode;
};
#define KINETO_SOCKET_CLOSED ((struct kineto_socket){.fd = -1, .dir_fd = -1})

/* One datagram with what the kernel knows of it. */
struct kineto_datagram {
    unsigned char data[KINETO_MESSAGE_MAX];
    size_t size;
    struct ucred sender; /* pid 0: in a pid namespace that profd does not see */
    struct sockaddr_un from;
    socklen_t from_size;
    int64_t received_at; /* wall time */
};

/* dir NULL: the abstract name. -EADDRINUSE with the holder, -EPERM for a directory in which others could replace the
 * socket; the problem has the remedy. A missing directory is created with mode 0700, its parents are not. */
int kineto_socket_open(const char *dir, struct kineto_socket *ret, struct problem *p);
/* Whether that file is still the socket in the directory: another daemon that starts later removes it without a
 * question, and a cleaner of directories may. May block. */
bool kineto_socket_is_in(const char *dir, dev_t device, ino_t inode);
/* Removes the file of the socket, if it is still its own. */
void kineto_socket_close(struct kineto_socket *s);

/* -EAGAIN: none is left. -EBADMSG: one that was too long, or without credentials or time; it is gone. */
int kineto_socket_receive(const struct kineto_socket *s, struct kineto_datagram *ret);
/* Whether an answer could reach the sender: it has a name, in a directory one directly in it. */
bool kineto_socket_can_answer(const struct kineto_socket *s, const struct kineto_datagram *d);
/* Sends at once or not at all. -ECONNREFUSED, -ENOENT: the sender is gone. -EAGAIN: its queue is full. */
int kineto_socket_answer(const struct kineto_socket *s, const struct kineto_datagram *d,
                         enum kineto_message_type type, const void *payload, size_t size);

/* Removes sockets of clients that nobody listens on any more, as Kineto leaves them. Only in a directory that is this
 * user's. Returns how many. */
unsigned kineto_socket_sweep(const char *dir);

/* Why a directory must not have the socket; NULL: it may. The caller frees it. Pure but for ret_remedy's text. */
char *kineto_dir_refusal(const char *dir, const struct stat *st, uid_t own_uid, char **ret_remedy);
