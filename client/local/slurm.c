/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/slurm.h"

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/host_list.h"
#include "base/spawning.h"
#include "client/local/slurm_text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

/* A slurmctld under load answers late, and the commands try several of them. */
#define COMMAND_PATIENCE_NS (30 * NS_PER_S)
#define OUTPUT_MAX          ((size_t)16 << 20) /* of stdout: 65,536 nodes have about 3 MiB */
#define ERRORS_MAX          ((size_t)4 << 10)
#define NODES_MAX           ((size_t)65536) /* as Slurm's MAX_SLURM_NODES */
/* Of slurm_strerror() for ESLURM_INVALID_JOB_ID: squeue does not know the job. Other errors are those of squeue itself. */
#define UNKNOWN_JOB "Invalid job id"
#define READ_SIZE   ((size_t)64 << 10)

extern char **environ;

/* Of one stream of a command, and what it wrote. */
struct command_stream {
    int fd;
    char *text;
    size_t size, cap, max;
    bool is_message;
};

struct command_result {
    struct command_stream out, err;
    int status; /* of waitpid() */
    bool timed_out;
};

static void command_result_done(struct command_result *r)
{
    closep(&r->out.fd);
    closep(&r->err.fd);
    free(r->out.text);
    free(r->err.text);
}

/* Defaults of a user would change columns, order and selection. The strings are environ's. */
static char **command_environment(void)
{
    static const char *const defaults_of[] = {"SQUEUE_", "SINFO_"};
    size_t n = 0, kept = 0;

    while (environ[n])
        n++;
    char **variables = xcalloc(n + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++)
        if (!starts_with(environ[i], defaults_of[0]) && !starts_with(environ[i], defaults_of[1]))
            variables[kept++] = environ[i];
    return variables;
}

/* Reads the available bytes. Closes the stream at its end; -E2BIG beyond its limit, except for messages, of which the
 * first line is enough. */
static int stream_read(struct command_stream *s)
{
    if (!ARRAY_RESERVE(s->text, s->cap, s->size + READ_SIZE + 1))
        return -ENOMEM;
    ssize_t n = read(s->fd, s->text + s->size, READ_SIZE);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0) {
        close(TAKE_FD(s->fd));
        return 0;
    }
    s->size += (size_t)n;
    s->text[s->size] = '\0';
    if (s->size > s->max && s->is_message)
        s->size = s->max;
    return s->size > s->max ? -E2BIG : 0;
}

/* Until both streams end. */
static int command_read(struct command_result *r, int64_t deadline_ns)
{
    while (r->out.fd >= 0 || r->err.fd >= 0) {
        struct pollfd polled[] = {{.fd = r->out.fd, .events = POLLIN}, {.fd = r->err.fd, .events = POLLIN}};
        struct command_stream *streams[] = {&r->out, &r->err};
        int64_t left_ns = deadline_ns - mono_ns();

        if (left_ns <= 0) {
            r->timed_out = true;
            return -ETIMEDOUT;
        }
        if (poll(polled, 2, (int)(left_ns / NS_PER_MS) + 1) < 0 && errno != EINTR)
            return -errno;
        for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
            int err = polled[i].revents != 0 && streams[i]->fd >= 0 ? stream_read(streams[i]) : 0;
            if (err < 0)
                return err;
        }
    }
    return 0;
}

/* Runs a command of Slurm to its end. -ENOENT where it is not installed. */
static int command_run(char *const argv[], struct command_result *ret)
{
    _cleanup_(freep) char *path = program_in_path(argv[0]);
    _cleanup_(freep) char **environment = command_environment();
    _cleanup_(closep) int out = -1, err = -1, pid_fd = -1;
    int pipes[2][2];
    pid_t pid;

    *ret = (struct command_result){.out = {.fd = -1, .max = OUTPUT_MAX},
                                   .err = {.fd = -1, .max = ERRORS_MAX, .is_message = true}};
    if (!path)
        return -ENOENT;
    if (pipe2(pipes[0], O_CLOEXEC) < 0)
        return -errno;
    ret->out.fd = pipes[0][0];
    out = pipes[0][1];
    if (pipe2(pipes[1], O_CLOEXEC) < 0)
        return -errno;
    ret->err.fd = pipes[1][0];
    err = pipes[1][1];
    int fds[] = {-1, out, err};
    int r = spawn_with(path, fds, (int)ARRAY_SIZE(fds), argv, environment, 0, &pid, &pid_fd);
    /* They may have been moved. */
    out = fds[1];
    err = fds[2];
    if (r < 0)
        return r;
    close(TAKE_FD(out));
    close(TAKE_FD(err));
    r = command_read(ret, mono_ns() + COMMAND_PATIENCE_NS);
    if (r < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &ret->status, 0) < 0 && errno == EINTR)
        ;
    return r;
}

static bool command_succeeded(const struct command_result *r)
{
    return WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0;
}

/* The first line of what it wrote to stderr. */
static char *command_error(const struct command_result *r)
{
    const char *text = r->err.text ? r->err.text : "";
    return *text ? xstrndup(text, strcspn(text, "\n")) : xstrdup("it failed without a message");
}

static int explain_command(const char *command, int err, struct problem *p)
{
    if (err == -ENOENT) {
        problem_set(p, err, PROBLEM_BAD_REQUEST,
                    "cannot ask Slurm: %s is not installed here, or not in $PATH", command);
        problem_remedy(
            p, "Run profctl on a node of the cluster, or name the job's nodes, as squeue prints them:\n"
               "  --slurm 'node[1-4]:8000'");
    } else if (err == -ETIMEDOUT) {
        problem_set(p, err, PROBLEM_UPSTREAM, "%s has not answered within 30 s", command);
        problem_remedy(p, "Check Slurm's controller: scontrol ping");
    } else if (err == -E2BIG) {
        problem_set(p, err, PROBLEM_UPSTREAM, "%s prints more than 16 MiB, which are not the nodes of a job",
                    command);
    } else {
        problem_set(p, err, PROBLEM_UPSTREAM, "cannot read the output of %s: %s", command, strerror(-err));
    }
    return err;
}

/* The nodes of a job, a list of hosts to be freed. */
static int job_find_nodes(const char *job, char **ret, struct problem *p)
{
    _cleanup_(freep) char *jobs = xasprintf("--jobs=%s", job), *state = NULL;
    char *const argv[] = {"squeue", "--noheader", jobs, SLURM_JOB_FORMAT, NULL};
    _cleanup_(command_result_done) struct command_result r;

    int err = command_run(argv, &r);
    if (err < 0)
        return explain_command(argv[0], err, p);
    if (!command_succeeded(&r)) {
        _cleanup_(freep) char *text = command_error(&r);
        if (strstr(text, UNKNOWN_JOB)) {
            problem_remedy(p, "squeue --me lists your jobs.");
            return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "cannot find Slurm's job %s: %s", job, text);
        }
        problem_remedy(
            p, "squeue must work where profctl runs: run profctl on a node of the cluster, or name the job's "
               "nodes, as squeue prints them:\n"
               "  --slurm 'node[1-4]:8000'");
        return problem_set(p, -EIO, PROBLEM_UPSTREAM, "cannot ask Slurm for job %s: %s", job, text);
    }
    err = slurm_parse_job(r.out.text ? r.out.text : "", r.out.size, ret, &state);
    if (err == -EPROTO)
        return problem_set(p, err, PROBLEM_UPSTREAM, "squeue prints something other than the nodes of a job");
    if (err == 0)
        return 0;
    if (state)
        problem_remedy(p, "squeue --jobs %s --start prints when it begins.", job);
    else
        problem_remedy(p, "squeue --me lists your jobs.");
    return state ? problem_set(p, err, PROBLEM_NO_WORKERS, "nothing of Slurm's job %s is running: it is %s",
                               job, state)
                 : problem_set(p, err, PROBLEM_NOT_FOUND, "Slurm's job %s has ended", job);
}

/* The addresses of the nodes that sinfo knows, a list to be freed, and their number. NULL where sinfo cannot say it, or
 * where the addresses are the names. */
static char *nodes_find_addresses(const char *nodes, size_t *ret_n)
{
    _cleanup_(freep) char *option = xasprintf("--nodes=%s", nodes);
    char *const argv[] = {"sinfo", "--noheader", "--Node", "--all", option, SLURM_NODE_FORMAT, NULL};
    _cleanup_(command_result_done) struct command_result r;
    char *addresses = NULL;

    if (command_run(argv, &r) == 0 && command_succeeded(&r))
        slurm_parse_addresses(r.out.text ? r.out.text : "", r.out.size, &addresses, ret_n);
    return addresses;
}

/* As many addresses as the list has names, or none: what sinfo does not know is never left out. */
static char *nodes_resolve(const char *nodes)
{
    struct host_list names = {0};
    const char *reason;
    size_t n = 0;

    int r = host_list_expand(nodes, strlen(nodes), NODES_MAX, &names, &reason);
    _cleanup_(freep) char *addresses = r == 0 ? nodes_find_addresses(nodes, &n) : NULL;
    bool complete = addresses && n == names.n;
    host_list_done(&names);
    return complete ? TAKE_PTR(addresses) : xstrdup(nodes);
}

/* The nodes of the job in which profctl runs. In a step $SLURM_JOB_NODELIST may have only the nodes of that step, so it
 * is the answer only where Slurm cannot be asked: in a container, or while its controller is away. */
static int own_job_find_nodes(char **ret, struct problem *p)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST"), *job = getenv("SLURM_JOB_ID");
    bool has_job = job && slurm_is_job_id(job, strlen(job)), has_nodes = nodes && *nodes;
    struct problem ignored = {0};

    if (!has_job && !has_nodes) {
        problem_remedy(p, "Name a job (squeue --me lists yours), or its nodes:\n"
                          "  --slurm 4711:8000\n"
                          "  --slurm 'node[1-4]:8000'");
        return problem_set(
            p, -EINVAL, PROBLEM_BAD_REQUEST,
            "--slurm without a job or nodes means the job that profctl runs in, and it runs in none");
    }
    int r = has_job ? job_find_nodes(job, ret, has_nodes ? &ignored : p) : -ENOENT;
    problem_done(&ignored);
    if (r < 0 && has_nodes) {
        *ret = xstrdup(nodes);
        return 0;
    }
    return r;
}

int slurm_resolve(const char *value, char **ret, struct problem *p)
{
    const char *colon = strrchr(value, ':');
    size_t size = colon ? (size_t)(colon - value) : strlen(value);
    _cleanup_(freep) char *word = xstrndup(value, size), *nodes = NULL;
    int r = 0;

    if (size == 0)
        r = own_job_find_nodes(&nodes, p);
    else if (slurm_is_job_id(word, size))
        r = job_find_nodes(word, &nodes, p);
    else
        nodes = xstrdup(word);
    if (!nodes)
        return r;
    _cleanup_(freep) char *addresses = nodes_resolve(nodes);
    *ret = xasprintf("%s%s", addresses, colon ? colon : "");
    return 0;
}
