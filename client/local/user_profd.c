/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/user_profd.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/runtime_paths.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/old_jobs.h"
#include "client/local/program.h"
#include "client/transport/connection.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* -- Start-up lock ---------------------------------------------------------------------------------------- */

#define LOCK_POLL_US       20000
#define LOCK_NOTE_AFTER_NS NS_PER_S
#define LOCK_WAIT_MAX_NS   (30 * NS_PER_S)

static int startup_lock_wait(struct client *c, int fd)
{
    const int64_t begin_ns = mono_ns();
    bool was_noted = false;

    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        /* A file system without locks: profd refuses it with a better error. */
        if (errno != EWOULDBLOCK)
            return errno == ENOLCK || errno == ENOTSUP ? 0 : -errno;
        if (mono_ns() - begin_ns > LOCK_WAIT_MAX_NS)
            return -ETIMEDOUT;
        if (!was_noted && mono_ns() - begin_ns > LOCK_NOTE_AFTER_NS) {
            client_note(c, "another profctl uses the catalog; waiting");
            was_noted = true;
        }
        usleep(LOCK_POLL_US);
    }
    return 0;
}

/*
 * Makes the directory and locks it; the lock ends with the descriptor. Root's directory is open to others: if
 * it were not, "permission denied" would look like a profd that they may not use. The socket itself is closed
 * to them.
 */
static int startup_lock_take(struct client *c, const char *directory, int *ret_fd, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s/profctl.lock", directory);
    _cleanup_(closep) int fd = -1;
    int r = make_dirs(directory, geteuid() == 0 ? 0755 : 0700);

    if (r >= 0) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = fd < 0 ? -errno : startup_lock_wait(c, fd);
    }
    if (r == 0) {
        *ret_fd = TAKE_FD(fd);
    } else if (r == -ETIMEDOUT) {
        problem_set(p, r, PROBLEM_STORAGE, "another profctl has used the catalog for 30 s");
        problem_remedy(p, "Retry when it has ended, or start profd, which serves many at the same time.");
    } else {
        problem_set(p, r, PROBLEM_STORAGE, "cannot use directory %s: %s", directory, strerror(-r));
        if (geteuid() != 0)
            problem_remedy(p, "The directory follows from $XDG_RUNTIME_DIR, $XDG_STATE_HOME or $HOME: set "
                              "them to a directory that you own, or unset the first.");
    }
    return r;
}

static char *startup_directory(const char *socket)
{
    const char *slash = strrchr(socket, '/');
    return xstrndup(socket, slash ? (size_t)(slash - socket) : 0);
}

/* -- For one call ----------------------------------------------------------------------------------------- */

#define TRANSIENT_READY_S     10
#define TRANSIENT_END_NS      (15 * NS_PER_S)
#define TRANSIENT_END_POLL_US 5000

struct transient {
    char *socket;
    pid_t pid;
    int lock_fd;
    int stdin_fd; /* profd ends when this is closed */
};

static int transient_spawn(struct transient *t, const char *program, struct problem *p)
{
    char *argv[] = {"profd", "--transient", "--socket", t->socket, NULL};
    _cleanup_(closep) int stdin_fd = -1;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot start %s: %s", program, strerror(errno));
    stdin_fd = ends[0];
    t->stdin_fd = ends[1];
    const struct profd_start start = {.program = program,
                                      .purpose = "one for this call",
                                      .argv = argv,
                                      .stdin_fd = stdin_fd,
                                      .timeout_s = TRANSIENT_READY_S};
    return profd_start_wait(&start, &t->pid, p);
}

static void transient_wait_end(pid_t pid)
{
    const int64_t deadline = mono_ns() + TRANSIENT_END_NS;

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (mono_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        usleep(TRANSIENT_END_POLL_US);
    }
}

static struct transient *transient_free(struct transient *t)
{
    if (!t)
        return NULL;
    closep(&t->stdin_fd);
    if (t->pid > 0)
        transient_wait_end(t->pid);
    if (t->socket)
        unlink(t->socket);
    closep(&t->lock_fd);
    free(t->socket);
    free(t);
    return NULL;
}

/* socket: the one that did not answer. -ENOPKG if no program is installed, -EALREADY if a profd answers now. */
static int transient_start(struct client *c, const char *socket, struct problem *p)
{
    _cleanup_(freep) char *program = program_find(&program_profd, p), *directory = startup_directory(socket);

    if (!program)
        return -ENOPKG;
    struct transient *t = xcalloc(1, sizeof(*t));
    t->lock_fd = t->stdin_fd = -1;
    int r = startup_lock_take(c, directory, &t->lock_fd, p);
    /* Whoever held the lock may have started one that stays. */
    if (r == 0 && endpoint_socket_error(socket) == 0)
        r = -EALREADY;
    if (r == 0) {
        t->socket = xasprintf("%s/transient-%d.sock", directory, (int)getpid());
        r = transient_spawn(t, program, p);
    }
    c->transient = r < 0 ? transient_free(t) : t;
    return r;
}

void client_release_profd(struct client *c)
{
    c->transient = transient_free(c->transient);
}

/* -- The per-user instance -------------------------------------------------------------------------------- */

#define USER_PROFD_IDLE_TIME "30min"
/* A large catalog may be migrated, and an instance that ends waited for, before profd is ready. */
#define USER_PROFD_READY_S 60

/* Root's own instance and the system's have the same socket, so for root only what `systemctl enable` makes
 * proves a service. systemd is the host's manager where it has made this directory (sd_booted(3)). */
static bool system_has_service(void)
{
    static const char *const proofs[] = {
        "/etc/systemd/system/sockets.target.wants/profd.socket",
        "/etc/systemd/system/multi-user.target.wants/profd.service",
        SYSTEM_SOCKET,
    };
    size_t n = geteuid() != 0 ? ARRAY_SIZE(proofs) : ARRAY_SIZE(proofs) - 1;
    bool has = false;

    for (size_t i = 0; i < n && access("/run/systemd/system", F_OK) == 0; i++)
        has |= faccessat(AT_FDCWD, proofs[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return has;
}

static int refuse_next_to_service(struct problem *p)
{
    problem_remedy(p,
                   "Start it: systemctl start profd; journalctl -u profd shows why it ended.%s\n"
                   "Or run an instance of your own: profd --socket PATH, and profctl --socket PATH.",
                   geteuid() == 0 ? ""
                                  : " Members of group profd may use it: sudo usermod -aG profd \"$USER\".");
    return problem_set(p, -EEXIST, PROBLEM_CONFLICT, "profd is a service of this host, and is not running");
}

static void user_profd_note(struct client *c, pid_t pid, const char *socket)
{
    const char *job = slurm_job(), *step = slurm_step();
    _cleanup_(freep) char *end = step  ? xasprintf("with step %s.%s, ", job, step)
                                 : job ? xasprintf("with job %s, ", job)
                                       : xstrdup("");

    client_note(c,
                "started your own profd: process %d, socket %s; it ends %safter %s without work, or by kill "
                "%d",
                (int)pid, socket, end, USER_PROFD_IDLE_TIME, (int)pid);
}

/* Where it listens for processes; NULL: nowhere. It always does: one that runs already cannot begin to. The caller frees
 * it. */
static char *user_profd_kineto_dir(void)
{
    _cleanup_(freep) char *state = user_state_dir();
    _cleanup_(freep) char *dir = state ? user_kineto_dir(state) : NULL;

    return dir && strlen(dir) <= KINETO_DIR_MAX ? TAKE_PTR(dir) : NULL;
}

static int user_profd_spawn(struct client *c, const char *program, const char *socket, struct problem *p)
{
    _cleanup_(freep) char *kineto_dir = user_profd_kineto_dir();
    char *argv[] = {"profd",
                    "--background",
                    "--exit-when-idle",
                    USER_PROFD_IDLE_TIME,
                    "--socket",
                    (char *)socket,
                    kineto_dir ? "--kineto-listen" : NULL,
                    kineto_dir,
                    NULL};
    _cleanup_(closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct profd_start start = {.program = program,
                                      .purpose = "your own one",
                                      .argv = argv,
                                      .stdin_fd = null,
                                      .is_to_stay = true,
                                      .timeout_s = USER_PROFD_READY_S};
    pid_t pid = 0;

    if (null < 0)
        return problem_set(p, -errno, PROBLEM_INTERNAL, "cannot open /dev/null: %s", strerror(errno));
    int r = profd_start_wait(&start, &pid, p);
    if (r == -ETIMEDOUT)
        kill(pid, SIGTERM);
    else if (r < 0 && pid > 0)
        waitpid(pid, NULL, 0);
    else if (r == 0)
        user_profd_note(c, pid, socket);
    return r;
}

/* 0 also if somebody else was first; -ENOPKG if the program is not installed. */
static int user_profd_start(struct client *c, const char *socket, struct problem *p)
{
    _cleanup_(freep) char *program = NULL, *directory = startup_directory(socket);
    _cleanup_(closep) int lock_fd = -1;

    if (system_has_service())
        return refuse_next_to_service(p);
    program = program_find(&program_profd, p);
    if (!program)
        return -ENOPKG;
    int r = startup_lock_take(c, directory, &lock_fd, p);
    if (r < 0 || endpoint_socket_error(socket) == 0)
        return r;
    old_jobs_remove(c);
    r = user_profd_spawn(c, program, socket, p);
    /* One that was started by hand meanwhile. */
    return r < 0 && endpoint_socket_error(socket) == 0 ? 0 : r;
}

/* -- What verbs need -------------------------------------------------------------------------------------- */

/* Whether to start a profd: none answers, and none was named. */
static bool profd_is_missing(const struct client *c)
{
    int error =
        c->may_start_profd && !c->transient ? endpoint_socket_error(connection_name(c->connection)) : 0;
    return error == ENOENT || error == ECONNREFUSED;
}

static int user_profd_check_home(struct problem *p)
{
    if (endpoint_has_home())
        return 0;
    problem_remedy(p, "Set HOME, or set XDG_STATE_HOME to a directory that you own.");
    return problem_set(p, -ENXIO, PROBLEM_STORAGE, "no directory for a catalog: $HOME is not set");
}

static int client_reconnect(struct client *c, const char *socket)
{
    _cleanup_(problem_done) struct problem p = {0};

    c->connection = connection_free(c->connection);
    return connection_new(socket, NULL, NULL, c->quiet ? NULL : &c->err, &c->connection, &p) < 0
               ? client_fail(c, &p)
               : EXIT_DONE;
}

int client_need_profd(struct client *c)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (!profd_is_missing(c))
        return EXIT_DONE;
    int r = user_profd_check_home(&p);
    if (r == 0)
        r = transient_start(c, connection_name(c->connection), &p);
    if (r == -ENOPKG || r == -EALREADY)
        return EXIT_DONE;
    return r < 0 ? client_fail(c, &p) : client_reconnect(c, c->transient->socket);
}

int client_need_user_profd(struct client *c)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (c->transient) {
        client_release_profd(c);
        int status = client_reconnect(c, NULL);
        if (status != EXIT_DONE)
            return status;
    }
    if (!profd_is_missing(c))
        return EXIT_DONE;
    int r = user_profd_check_home(&p);
    if (r == 0)
        r = user_profd_start(c, connection_name(c->connection), &p);
    return r < 0 && r != -ENOPKG ? client_fail(c, &p) : EXIT_DONE;
}

int client_need_kineto_profd(struct client *c)
{
    bool starts = profd_is_missing(c);
    int status = client_need_user_profd(c);
    _cleanup_(freep) char *dir = user_profd_kineto_dir();

    if (status != EXIT_DONE || !starts)
        return status;
    if (!dir)
        return client_error(c, PROBLEM_UNSUPPORTED,
                            "Set XDG_RUNTIME_DIR to a directory with a short name, or start profd with "
                            "--kineto-listen DIR.",
                            "the directory for the sockets of processes would have more than %d bytes",
                            KINETO_DIR_MAX);
    client_note(c,
                "processes register with it when they are started with KINETO_USE_DAEMON=1 "
                "KINETO_IPC_SOCKET_DIR=%s in "
                "their environment",
                dir);
    return EXIT_DONE;
}

int client_newest_session(struct client *c, bool with_traces, char *ret)
{
    _cleanup_json_ answer = NULL;
    const json_t *session;
    size_t i;
    int status = client_need_profd(c);

    if (status == EXIT_DONE)
        status = client_get(c, "/v1/sessions", NULL, &answer);
    if (status != EXIT_DONE)
        return status;
    json_array_foreach(json_object_get(answer, "sessions"), i, session) {
        int64_t id, n = json_get_int(json_object_get(session, "counts"), "traces", 0);
        char at[UNIT_TEXT_MAX];
        if ((with_traces && n == 0) || parse_ref(json_get_str(session, "session"), 's', &id) != 's')
            continue;
        /* "Using s7, the newest session (complete, 4 traces, 2026-11-20 14:02:11)" */
        _cleanup_(freep) char *traces = text_count(n, "trace");
        client_note(c, "Using s%lld, the newest session%s (%s, %s, %s)", (long long)id,
                    i == 0 ? "" : " with traces", json_get_str(session, "state"), traces,
                    format_time(at, json_get_int(session, "requested_at", 0)));
        snprintf(ret, REF_TEXT_MAX, "s%lld", (long long)id);
        return EXIT_DONE;
    }
    return client_error(
        c, PROBLEM_NOT_FOUND,
        "profctl start --router URL --wait records one; profctl list-traces shows the traces that "
        "belong to no session.",
        with_traces ? "no session has traces" : "there is no session");
}

int client_words_or_newest(struct client *c, int *n_words, char ***words, char **ret_newest)
{
    if (*n_words > 0)
        return EXIT_DONE;
    *ret_newest = xcalloc(REF_TEXT_MAX, 1);
    *words = ret_newest;
    *n_words = 1;
    return client_newest_session(c, true, *ret_newest);
}
