/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nsys/nsys.h"

#include "base/alloc.h"
#include "client/local/program.h"
#include "client/local/systemd.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Time that a profiler may take for its report after an interrupt. */
#define STOP_TIMEOUT_US (30 * 60 * 1000000ull)
/* A signal of the bus may be lost with its sender. */
#define CHECK_INTERVAL_MS 1000
#define EXIT_OF_SIGNAL    128

extern char **environ;

/*
 * Variables that a worker inherits: search paths of programs and libraries, and the settings of engines and their
 * libraries. Every user can read the environment of a unit, so variables that are named like secrets are left out.
 */
static const char *const passed_names[] = {
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "HOME", "USER", "LANG", "TMPDIR"};
static const char *const passed_prefixes[] = {"CUDA_", "NCCL_", "NVIDIA_", "TORCH", "VLLM_", "SGLANG_",
                                              "SGL_",  "TLLM_", "TRTLLM_", "HF_",   "CONDA_"};
static const char *const secret_parts[] = {"TOKEN", "KEY", "SECRET", "PASSWORD"};

static bool unit_inherits(const char *variable)
{
    _cleanup_(freep) char *name = xstrndup(variable, strcspn(variable, "="));
    bool inherits = false;

    for (size_t i = 0; i < ARRAY_SIZE(passed_names); i++)
        if (streq(name, passed_names[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(passed_prefixes); i++)
        inherits |= starts_with(name, passed_prefixes[i]);
    for (size_t i = 0; i < ARRAY_SIZE(secret_parts); i++)
        inherits &= !strstr(name, secret_parts[i]);
    return inherits;
}

/* Opens a property of that type, an array, whose values are appended next. */
static int unit_open_property(sd_bus_message *m, const char *name, const char *type)
{
    int r = sd_bus_message_open_container(m, 'r', "sv");

    if (r >= 0)
        r = sd_bus_message_append(m, "s", name);
    if (r >= 0)
        r = sd_bus_message_open_container(m, 'v', type);
    return r < 0 ? r : sd_bus_message_open_container(m, 'a', type + 1);
}

static int unit_close(sd_bus_message *m, int n_containers)
{
    int r = 0;

    for (int i = 0; i < n_containers && r >= 0; i++)
        r = sd_bus_message_close_container(m);
    return r;
}

static int unit_append_environment(sd_bus_message *m, const struct option_list *asked)
{
    int r = unit_open_property(m, "Environment", "as");

    for (char **e = environ; *e && r >= 0; e++)
        r = unit_inherits(*e) ? sd_bus_message_append(m, "s", *e) : 0;
    for (size_t i = 0; i < asked->n && r >= 0; i++) {
        const char *item = asked->items[i], *value = strchr(item, '=') ? "" : getenv(item);
        _cleanup_(freep) char *own = value && *value ? xasprintf("%s=%s", item, value) : NULL;
        r = value ? sd_bus_message_append(m, "s", own ? own : item) : 0;
    }
    return r < 0 ? r : unit_close(m, 3);
}

/* systemd does not expand a dollar in the words: they are the command's. */
static int unit_append_command(sd_bus_message *m, char **argv)
{
    int r = unit_open_property(m, "ExecStartEx", "a(sasas)");

    if (r >= 0)
        r = sd_bus_message_open_container(m, 'r', "sasas");
    if (r >= 0)
        r = sd_bus_message_append(m, "s", argv[0]);
    if (r >= 0)
        r = sd_bus_message_append_strv(m, argv);
    if (r >= 0)
        r = sd_bus_message_append(m, "as", 1, "no-env-expand");
    return r < 0 ? r : unit_close(m, 4);
}

/* The first process alone is interrupted, and has time: a profiler writes its report then. */
static int unit_append_properties(sd_bus_message *m, const struct run_order *o)
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
        r = unit_append_environment(m, o->environment);
    return r < 0 ? r : unit_append_command(m, o->argv);
}

static int unit_start(struct systemd *systemd, const struct run_order *o, struct problem *p)
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
        r = unit_append_properties(call, o);
    if (r >= 0)
        r = sd_bus_message_close_container(call);
    if (r >= 0)
        r = sd_bus_message_append(call, "a(sa(sv))", 0);
    if (r >= 0)
        r = sd_bus_call(systemd->bus, call, 0, &e, NULL);
    return r < 0 ? systemd_problem(r, &e, doing, p) : 0;
}

static int signals_open(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool signals_take(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == sizeof(info);
}

static void note_interrupted(struct client *c, const char *name, unsigned n)
{
    client_note(c, n == 1 ? "interrupted: %s has time for its report; Ctrl-C again kills it" : "killing %s",
                name);
}

struct unit_state {
    bool is_over;
    int32_t code, status; /* as waitid(2) gives them; code 0: it never ran */
};

/* Whether a job of the unit is queued. */
static int unit_read_job(const struct systemd *systemd, const char *path, bool *ret, sd_bus_error *e)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
    uint32_t job = 0;
    int r = sd_bus_get_property(systemd->bus, SYSTEMD_NAME, path, UNIT_INTERFACE, "Job", e, &reply, "(uo)");

    if (r >= 0)
        r = sd_bus_message_read(reply, "(uo)", &job, NULL);
    *ret = job > 0;
    return r;
}

/* A unit is inactive until its queued start runs, too. The job is read first: a unit that is inactive without one
 * was started. */
static int unit_read_state(const struct systemd *systemd, const char *path, struct unit_state *ret,
                           struct problem *p)
{
    _cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
    _cleanup_(freep) char *active = NULL;
    bool has_job = false;
    int r = unit_read_job(systemd, path, &has_job, &e);

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
    return r < 0 ? systemd_problem(r, &e, "read the state of the unit", p) : 0;
}

/* The first time in order, then by force. The unit may have ended already. */
static void unit_interrupt(struct systemd *systemd, const char *unit, unsigned n)
{
    if (n == 1)
        sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "StopUnit", NULL,
                           NULL, "ss", unit, "replace");
    else
        sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "KillUnit", NULL,
                           NULL, "ssi", unit, "all", SIGKILL);
}

/* Until a message, a signal, or the end of the interval. */
static void unit_wait_bus(struct systemd *systemd, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = sd_bus_get_fd(systemd->bus), .events = (short)MAX(sd_bus_get_events(systemd->bus), 0)},
        {.fd = signal_fd, .events = POLLIN}};

    if (sd_bus_process(systemd->bus, NULL) == 0)
        poll(fds, ARRAY_SIZE(fds), CHECK_INTERVAL_MS);
    while (sd_bus_process(systemd->bus, NULL) > 0)
        ;
}

static int unit_wait(struct client *c, struct systemd *systemd, const char *unit, const char *path,
                     int *ret_status, struct problem *p)
{
    _cleanup_(closep) int signal_fd = signals_open();
    struct unit_state state = {0};
    unsigned n_signals = 0;
    int r;

    while ((r = unit_read_state(systemd, path, &state, p)) >= 0 && !state.is_over) {
        if (signals_take(signal_fd)) {
            note_interrupted(c, unit, ++n_signals);
            unit_interrupt(systemd, unit, n_signals);
        }
        unit_wait_bus(systemd, signal_fd);
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

    /* Changes are only sent to subscribers; without the right to subscribe the state is read every second. */
    sd_bus_call_method(systemd->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE, "Subscribe", NULL, NULL,
                       "");
    if (r >= 0)
        r = sd_bus_match_signal(systemd->bus, NULL, SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties",
                                "PropertiesChanged", NULL, NULL);
    if (r < 0)
        return systemd_problem(r, NULL, "listen to systemd", p);
    r = unit_start(systemd, o, p);
    return r < 0 ? r : unit_wait(c, systemd, o->unit, path, ret_status, p);
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
    _cleanup_(closep) int signal_fd = signals_open();
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
        poll(fds, ARRAY_SIZE(fds), CHECK_INTERVAL_MS);
        if (!signals_take(signal_fd))
            continue;
        note_interrupted(c, o->argv[0], ++n_signals);
        kill(n_signals == 1 ? pid : -pid, n_signals == 1 ? SIGINT : SIGKILL);
    }
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_OF_SIGNAL + WTERMSIG(status);
    return 0;
}
