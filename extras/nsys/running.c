/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nsys/running.h"

#include "base/alloc.h"
#include "client/local/program.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* How long a profiler may take for its report once it was interrupted. */
#define STOP_TIMEOUT_US (30 * 60 * 1000000ull)
/* A signal of the bus may be lost with its sender. */
#define LOOK_MS        1000
#define EXIT_OF_SIGNAL 128

extern char **environ;

/*
 * Variables that a worker gets without being asked: how programs and libraries are found, and what engines
 * and their libraries are set up with. All of a unit's environment can be read by everybody, so nothing that
 * is called a secret is among them.
 */
static const char *const passed_names[] = {
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "HOME", "USER", "LANG", "TMPDIR"};
static const char *const passed_prefixes[] = {"CUDA_", "NCCL_", "NVIDIA_", "TORCH", "VLLM_", "SGLANG_",
                                              "SGL_",  "TLLM_", "TRTLLM_", "HF_",   "CONDA_"};
static const char *const secret_parts[] = {"TOKEN", "KEY", "SECRET", "PASSWORD"};

static bool is_secret(const char *variable)
{
    _cleanup_(freep) char *name = xstrndup(variable, strcspn(variable, "="));

    for (size_t i = 0; i < ARRAY_SIZE(secret_parts); i++)
        if (strstr(name, secret_parts[i]))
            return true;
    return false;
}

static bool is_passed(const char *variable)
{
    for (size_t i = 0; i < ARRAY_SIZE(passed_names); i++)
        if (starts_with(variable, passed_names[i]) && variable[strlen(passed_names[i])] == '=')
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(passed_prefixes); i++)
        if (starts_with(variable, passed_prefixes[i]))
            return !is_secret(variable);
    return false;
}

static int append_variables(sd_bus_message *m, const struct option_list *asked)
{
    int r = 0;

    for (char **e = environ; *e && r >= 0; e++)
        r = is_passed(*e) ? sd_bus_message_append(m, "s", *e) : 0;
    for (size_t i = 0; i < asked->n && r >= 0; i++) {
        const char *item = asked->items[i], *value = strchr(item, '=') ? "" : getenv(item);
        _cleanup_(freep) char *own = value && *value ? xasprintf("%s=%s", item, value) : NULL;
        r = value ? sd_bus_message_append(m, "s", own ? own : item) : 0;
    }
    return r;
}

static int append_environment(sd_bus_message *m, const struct option_list *asked)
{
    int r = sd_bus_message_open_container(m, 'r', "sv");

    if (r >= 0)
        r = sd_bus_message_append(m, "s", "Environment");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'v', "as");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'a', "s");
    if (r >= 0)
        r = append_variables(m, asked);
    for (int i = 0; i < 3 && r >= 0; i++)
        r = sd_bus_message_close_container(m);
    return r;
}

/* Words with a dollar are the command's, not systemd's to expand. */
static int append_command(sd_bus_message *m, char **argv)
{
    int r = sd_bus_message_open_container(m, 'r', "sv");

    if (r >= 0)
        r = sd_bus_message_append(m, "s", "ExecStartEx");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'v', "a(sasas)");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'a', "(sasas)");
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'r', "sasas");
    if (r >= 0)
        r = sd_bus_message_append(m, "s", argv[0]);
    if (r >= 0)
        r = sd_bus_message_append_strv(m, argv);
    if (r >= 0)
        r = sd_bus_message_append(m, "as", 1, "no-env-expand");
    for (int i = 0; i < 4 && r >= 0; i++)
        r = sd_bus_message_close_container(m);
    return r;
}

/* The first process alone is interrupted, and has time: a profiler writes its report then. */
static int append_properties(sd_bus_message *m, const struct run_order *o)
{
    _cleanup_(freep) char *cwd = getcwd(NULL, 0);
    int r = sd_bus_message_append(
        m, "(sv)(sv)(sv)(sv)(sv)(sv)(sv)", "Description", "s", "Worker under profctl launch", "CollectMode",
        "s", "inactive-or-failed", "AddRef", "b", 1, "KillMode", "s", "mixed", "KillSignal", "i", SIGINT,
        "TimeoutStopUSec", "t", STOP_TIMEOUT_US, "WorkingDirectory", "s", cwd ? cwd : "/");

    if (r >= 0)
        r = sd_bus_message_append(m, "(sv)(sv)", "StandardOutputFileDescriptor", "h", STDOUT_FILENO,
                                  "StandardErrorFileDescriptor", "h", STDERR_FILENO);
    if (r >= 0)
        r = append_environment(m, o->environment);
    return r < 0 ? r : append_command(m, o->argv);
}

static int start_unit(struct systemd *systemd, const struct run_order *o, struct problem *p)
{
    _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *call = NULL;
    _cleanup_(freep) char *doing = xasprintf("start %s", o->unit);
    int r = sd_bus_message_new_method_call(systemd->bus, &call, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE,
                                           "StartTransientUnit");

    if (r >= 0)
        r = sd_bus_message_append(call, "ss", o->unit, "fail");
    if (r >= 0)
        r = sd_bus_message_open_container(call, 'a', "(sv)");
    if (r >= 0)
        r = append_properties(call, o);
    if (r >= 0)
        r = sd_bus_message_close_container(call);
    if (r >= 0)
        r = sd_bus_message_append(call, "a(sa(sv))", 0);
    if (r >= 0)
        r = sd_bus_call(systemd->bus, call, 0, &e, NULL);
    return r < 0 ? systemd_problem(r, &e, doing, p) : 0;
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool take_signal(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == sizeof(info);
}

static void say_interrupted(struct client *c, const char *name, unsigned n)
{
    client_note(c, n == 1 ? "interrupted: %s has time for its report; Ctrl-C again kills it" : "killing %s",
                name);
}

/* How a unit stands. */
struct unit_state {
    bool is_over;
    int32_t code, status; /* as waitid(2) gives them; code 0: it never ran */
};

/* Whether a job of the unit waits for its turn. */
static int read_job(const struct systemd *systemd, const char *path, bool *ret, sd_bus_error *e)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    uint32_t job = 0;
    int r = sd_bus_get_property(systemd->bus, SYSTEMD_NAME, path, UNIT_INTERFACE, "Job", e, &reply, "(uo)");

    if (r >= 0)
        r = sd_bus_message_read(reply, "(uo)", &job, NULL);
    *ret = job > 0;
    return r;
}

/* A unit is inactive too until its start had its turn. The job is asked for first: what is inactive without
 * one then has been started. */
static int read_state(const struct systemd *systemd, const char *path, struct unit_state *ret,
                      struct problem *p)
{
    _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    _cleanup_(freep) char *active = NULL;
    bool has_job = false;
    int r = read_job(systemd, path, &has_job, &e);

    if (r >= 0)
        r = sd_bus_get_property_string(systemd->bus, SYSTEMD_NAME, path, UNIT_INTERFACE, "ActiveState", &e,
                                       &active);
    if (r >= 0)
        r = sd_bus_get_property_trivial(systemd->bus, SYSTEMD_NAME, path, SERVICE_INTERFACE, "ExecMainCode",
                                        &e, 'i', &ret->code);
    if (r >= 0)
        r = sd_bus_get_property_trivial(systemd->bus, SYSTEMD_NAME, path, SERVICE_INTERFACE, "ExecMainStatus",
                                        &e, 'i', &ret->status);
    ret->is_over = (streq(active, "inactive") && !has_job) || streq(active, "failed");
    return r < 0 ? systemd_problem(r, &e, "look after the unit", p) : 0;
}

/* The first time in order, then by force. It may be over already. */
static void interrupt_unit(struct systemd *systemd, const char *unit, unsigned n)
{
    if (n == 1)
        sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "StopUnit", NULL,
                           NULL, "ss", unit, "replace");
    else
        sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "KillUnit", NULL,
                           NULL, "ssi", unit, "all", SIGKILL);
}

/* Until something is to be looked at: a message, a signal, or a second has passed. */
static void wait_bus(struct systemd *systemd, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = sd_bus_get_fd(systemd->bus), .events = (short)MAX(sd_bus_get_events(systemd->bus), 0)},
        {.fd = signal_fd, .events = POLLIN}};

    if (sd_bus_process(systemd->bus, NULL) == 0)
        poll(fds, ARRAY_SIZE(fds), LOOK_MS);
    while (sd_bus_process(systemd->bus, NULL) > 0)
        ;
}

static int wait_unit(struct client *c, struct systemd *systemd, const char *unit, const char *path,
                     int *ret_status, struct problem *p)
{
    _cleanup_(closep) int signal_fd = open_signals();
    struct unit_state state = {0};
    unsigned n_signals = 0;
    int r;

    while ((r = read_state(systemd, path, &state, p)) >= 0 && !state.is_over) {
        if (take_signal(signal_fd)) {
            say_interrupted(c, unit, ++n_signals);
            interrupt_unit(systemd, unit, n_signals);
        }
        wait_bus(systemd, signal_fd);
    }
    if (r >= 0)
        *ret_status = state.code == CLD_EXITED ? state.status : EXIT_OF_SIGNAL + state.status;
    return r;
}

int run_in_unit(struct client *c, struct systemd *systemd, const struct run_order *o, int *ret_status,
                struct problem *p)
{
    _cleanup_(freep) char *path = NULL;
    int r = sd_bus_path_encode("/org/freedesktop/systemd1/unit", o->unit, &path);

    /* What changes is only told to those who subscribed; who may not looks again every second. */
    sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "Subscribe", NULL, NULL,
                       "");
    if (r >= 0)
        r = sd_bus_match_signal(systemd->bus, NULL, SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties",
                                "PropertiesChanged", NULL, NULL);
    if (r < 0)
        return systemd_problem(r, NULL, "listen to systemd", p);
    r = start_unit(systemd, o, p);
    return r < 0 ? r : wait_unit(c, systemd, o->unit, path, ret_status, p);
}

static int spawn_child(const struct run_order *o, pid_t *ret)
{
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int r = program_spawn(o->argv[0], &actions, o->argv, environ, ret);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

int run_as_child(struct client *c, const struct run_order *o, int *ret_status, struct problem *p)
{
    _cleanup_(closep) int signal_fd = open_signals();
    unsigned n_signals = 0;
    pid_t pid;
    int status, r;

    for (size_t i = 0; i < o->environment->n; i++)
        if (strchr(o->environment->items[i], '='))
            putenv((char *)o->environment->items[i]);
    r = spawn_child(o, &pid);
    if (r < 0)
        return problem_set(p, r, PROBLEM_INTERNAL, "cannot start %s: %s", o->argv[0], strerror(-r));
    _cleanup_(closep) int child_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct pollfd fds[] = {{.fd = child_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
        poll(fds, ARRAY_SIZE(fds), LOOK_MS);
        if (!take_signal(signal_fd))
            continue;
        say_interrupted(c, o->argv[0], ++n_signals);
        kill(n_signals == 1 ? pid : -pid, n_signals == 1 ? SIGINT : SIGKILL);
    }
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_OF_SIGNAL + WTERMSIG(status);
    return 0;
}
