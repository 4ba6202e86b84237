/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's socket and its messages, byte for byte, as libkineto's src/IpcFabricConfigClient.cpp and, below
 * third_party/dynolog_headers/dynolog/src/ipcfabric/, FabricManager.h, Endpoint.h and Utils.h have them: native
 * layout, one datagram a message, no version.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "tests/fleet/kineto-client.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define DAEMON_NAME      "dynolog"
#define TYPE_SIZE        32
#define PIDS_MAX         11 /* the process and ten ancestors */
#define LOOK_INTERVAL_US 10000
#define SEND_TRIES       10
#define SEND_PAUSE_US    10000
#define ANSWER_MAX       (64 << 20) /* where operator new would have failed */
#define STAT_MAX         4096

struct fabric_metadata {
    uint64_t size;
    char type[TYPE_SIZE];
};

struct fabric_request {
    int32_t type, n;
    int64_t job_id;
    int32_t pids[PIDS_MAX];
};

struct fabric {
    int fd;          /* -1: the socket could not be made, and never will be */
    const char *dir; /* of the environment; NULL: abstract */
    int32_t pids[PIDS_MAX];
    int n_pids;
    int64_t job_id;
};

/* std::terminate() in a noexcept function: the process ends with SIGABRT, 134 to a shell. */
static void terminate(const char *why, const char *name)
{
    client_log("terminate: %s%s", why, name);
    abort();
}

static socklen_t set_address(const struct fabric *f, const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (f->dir) {
        int n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", f->dir, name);
        /* The source writes past the end of a longer one. */
        return n < (int)sizeof(ret->sun_path)
                   ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1)
                   : 0;
    }
    snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 2);
}

static void make_uuid(char *ret, size_t size)
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        abort();
    snprintf(ret, size, "%02x%02x%02x%02x-%02x%02x-4%x%02x-%x%x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6] & 15, b[7], 8 + (b[8] & 3), b[8] >> 4, b[9], b[10], b[11], b[12],
             b[13], b[14], b[15]);
}

/* src/ThreadUtil.cpp, pidCommandPairsOfAncestors(): ends before pid 1, unless that is the process itself. */
static void read_ancestors(struct fabric *f, int own_pid)
{
    int32_t pid = own_pid;

    for (int i = 0; i < PIDS_MAX && (i == 0 || pid > 1); i++) {
        _cleanup_(freep) char *path = xasprintf("/proc/%d/stat", pid), *text = NULL;
        size_t size;
        int parent = 0;
        f->pids[f->n_pids++] = pid;
        if (read_file(AT_FDCWD, path, STAT_MAX, &text, &size) == 0) {
            const char *after = strrchr(text, ')');
            if (after)
                sscanf(after, ") %*c %d", &parent);
        }
        pid = parent;
    }
}

static int open_socket(struct fabric *f)
{
    struct sockaddr_un address;
    char name[64], uuid[40];

    make_uuid(uuid, sizeof(uuid));
    snprintf(name, sizeof(name), "dynoconfigclient%s", uuid);
    socklen_t size = set_address(f, name, &address);
    f->fd = size ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (f->fd >= 0 && address.sun_path[0])
        unlink(address.sun_path);
    if (f->fd >= 0 && bind(f->fd, (struct sockaddr *)&address, size) < 0) {
        client_log("Error when initializing FabricManager: %s", strerror(errno));
        close(f->fd);
        f->fd = -1;
    }
    if (f->fd >= 0 && address.sun_path[0])
        chmod(address.sun_path, 0666);
    client_log("Setting up IPC Fabric at endpoint: %s status = %s", name,
               f->fd >= 0 ? "initialized" : "failed (null)");
    return f->fd;
}

struct fabric *fabric_new(void)
{
    const char *dir = getenv("KINETO_IPC_SOCKET_DIR"), *job = getenv("SLURM_JOB_ID");
    struct fabric *f = xcalloc(1, sizeof(*f));

    *f = (struct fabric){
        .fd = -1, .dir = dir && *dir ? dir : NULL, .job_id = job ? strtoll(job, NULL, 10) : 0};
    open_socket(f);
    return f;
}

/* FabricManager::sync_send(): a full queue and a dead socket are tried again with doubling pauses. */
static bool fabric_send(const struct fabric *f, const void *data, size_t size)
{
    struct sockaddr_un address;
    socklen_t address_size = set_address(f, DAEMON_NAME, &address);
    useconds_t pause_us = SEND_PAUSE_US;

    for (int i = 0;; i++) {
        if (sendto(f->fd, data, size, MSG_DONTWAIT, (struct sockaddr *)&address, address_size) > 0)
            return i < SEND_TRIES;
        if (errno != EAGAIN && errno != ECONNREFUSED) {
            client_log("Error when sync_send(): %s", strerror(errno));
            return false;
        }
        if (i >= SEND_TRIES)
            return false;
        usleep(pause_us);
        pause_us *= 2;
    }
}

/* Endpoint.h, getName(). */
static void check_sender(const struct fabric *f, const struct sockaddr_un *address, socklen_t size)
{
    bool bound = size > offsetof(struct sockaddr_un, sun_path);
    const char *path = bound ? address->sun_path : "";

    if (f->dir) {
        size_t n = strlen(f->dir);
        if (strncmp(f->dir, path, n) != 0 || path[n] != '/')
            terminate("Unexpected socket name: ", path);
    } else if (!bound || path[0] != '\0') {
        terminate("Expected abstract socket, got ", path);
    }
}

/* FabricManager::recv(): looks at the metadata, and then takes as many bytes as they announce. */
static char *fabric_receive(const struct fabric *f, size_t *ret_size)
{
    struct fabric_metadata metadata = {0};
    struct sockaddr_un sender = {0};
    struct iovec iov[2] = {{&metadata, sizeof(metadata)}};
    struct msghdr m = {.msg_name = &sender, .msg_namelen = sizeof(sender), .msg_iov = iov, .msg_iovlen = 1};

    ssize_t n = recvmsg(f->fd, &m, MSG_DONTWAIT | MSG_PEEK);
    if (n < 0 && errno != EAGAIN)
        terminate("tryPeekMsg() got ", strerror(errno));
    if (n <= 0)
        return NULL;
    if (metadata.size > ANSWER_MAX) {
        client_log("Error in recv(): std::bad_alloc");
        return NULL; /* and so for ever: it stays in the queue */
    }
    check_sender(f, &sender, m.msg_namelen);
    char *text = xcalloc(metadata.size + 1, 1);
    iov[1] = (struct iovec){text, metadata.size};
    m = (struct msghdr){.msg_name = &sender, .msg_namelen = sizeof(sender), .msg_iov = iov, .msg_iovlen = 2};
    if (recvmsg(f->fd, &m, MSG_DONTWAIT) <= 0)
        terminate("tryRcvMsg() got ", strerror(errno));
    *ret_size = metadata.size;
    return text;
}

char *fabric_poll(struct fabric *f, int type, const struct client_options *o, size_t *ret_size)
{
    struct {
        struct fabric_metadata metadata;
        struct fabric_request request;
    } message = {.metadata = {.type = "req"}};

    if (f->fd < 0) {
        client_log("FabricManager not initialized.");
        return NULL;
    }
    if (f->n_pids == 0)
        read_ancestors(f, o->pid);
    const size_t payload = offsetof(struct fabric_request, pids) + (size_t)f->n_pids * sizeof(int32_t);
    message.metadata.size = payload;
    message.request.type = type;
    message.request.n = f->n_pids;
    message.request.job_id = f->job_id;
    memcpy(message.request.pids, f->pids, sizeof(f->pids));
    if (!fabric_send(f, &message, sizeof(message.metadata) + payload)) {
        client_log("Failed to send config type=%d to dyno: IPC sync_send fail", type);
        return NULL;
    }
    for (int i = 0; i < o->release->looks; i++) {
        char *text = fabric_receive(f, ret_size);
        if (text)
            return text;
        usleep(LOOK_INTERVAL_US);
    }
    client_log("no answer");
    return NULL;
}
