/* SPDX-License-Identifier: Apache-2.0 */
/* The inspection of processes with a network, a root or a user of their own. */
#include "tests/unit/server-fixture.h"
#include <linux/sched.h>
#include <sys/syscall.h>

/* A process with the number of one that ended; -1 where none can be made. It ends with SIGKILL. */
static pid_t start_with_number(pid_t pid)
{
    struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};
    pid_t got = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    if (got == 0) {
        pause();
        _exit(0);
    }
    return got;
}

/* A server answers slowly, and ends meanwhile: who has its number then did not listen. */
static void test_number_of_a_server_that_ended(void **state)
{
    need_root();
    const struct fleet_settings settings = {0};
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-", (const char *const[]){"vllm", NULL}, NULL);
    _cleanup_fleet_ f = fleet_of("127.0.0.1", s.report.ports[0], ENGINE_VLLM, NULL);
    struct inspection *searched = inspection_new(f);
    inspection_search(searched);
    server_stop(&s);
    pid_t other = start_with_number(s.report.pid);
    if (other < 0) {
        inspection_free(searched);
        skip();
    }

    processes_inspect(f, &settings, searched);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    assert_int_equal(other, s.report.pid);
    assert_int_equal(f->workers[0].pid, 0);
    assert_false(f->workers[0].local);
}

/* Whoever starts a program with another user's rights can leave it an open socket. */
static void test_socket_of_a_program_with_more_rights(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "g", (const char *const[]){"vllm", NULL}, NULL);

    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    assert_true(f->workers[0].local);
    assert_int_equal(f->workers[0].pid, 0);
    assert_non_null(strstr(f->workers[0].location.note, "but has another user's rights"));
}

static void test_own_network(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *variable = xasprintf("SGLANG_TORCH_PROFILER_DIR=%s", s.dir);
    start(&s, "n", (const char *const[]){"sglang", NULL}, (const char *const[]){variable, NULL});

    /* By its port alone, as where the kernel forwards a published port. */
    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    assert_int_equal(f->workers[0].pid, s.report.pid);
    assert_string_equal(f->workers[0].location.local_dir, s.dir);
    assert_non_null(strstr(f->workers[0].location.found_by, "in a network namespace of its own"));

    /* By an address that only its namespace has. */
    const struct fleet_settings settings = {0};
    _cleanup_fleet_ g = fleet_of(CONTAINER_IP, s.report.ports[0], ENGINE_SGLANG, NULL);
    processes_inspect(g, &settings, NULL);
    assert_int_equal(g->workers[0].pid, s.report.pid);
    assert_found_by(&g->workers[0], "SGLANG_TORCH_PROFILER_DIR", s.report.pid);
}

/* A published port: what listens on the host only forwards, and says where to. */
static void test_forwarded_port(void **state)
{
    need_root();
    _cleanup_server_ container;
    _cleanup_server_ proxy;
    char port[16];
    server_init(&container);
    server_init(&proxy);
    _cleanup_(freep) char *variable = xasprintf("SGLANG_TORCH_PROFILER_DIR=%s", container.dir);
    start(&container, "n", (const char *const[]){"sglang", NULL}, (const char *const[]){variable, NULL});
    snprintf(port, sizeof(port), "%u", container.report.ports[0]);
    start(&proxy, "p",
          (const char *const[]){"docker-proxy", "-proto", "tcp", "-container-ip", CONTAINER_IP,
                                "-container-port", port, NULL},
          NULL);

    _cleanup_fleet_ f = inspect(&proxy, ENGINE_SGLANG, NULL);
    assert_int_equal(f->workers[0].pid, container.report.pid);
    assert_string_equal(f->workers[0].location.local_dir, container.dir);
    assert_non_null(strstr(f->workers[0].location.found_by, "behind a forwarded port"));
}

static void test_own_root(void **state)
{
    need_root();
    static const char *const names[] = {"/traces", "/link", "/traces/../link/."};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_server_ s;
        server_init(&s);
        _cleanup_(freep) char *variable = xasprintf("SGLANG_TORCH_PROFILER_DIR=%s", names[i]);
        start(&s, "m", (const char *const[]){"sglang", NULL}, (const char *const[]){variable, NULL});
        _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
        _cleanup_(freep) char *want = xasprintf("/proc/%d/root/traces", (int)s.report.pid);
        _cleanup_(freep) char *file = xasprintf("%s/rank0.json", want);
        assert_string_equal(f->workers[0].location.local_dir, want);
        assert_int_equal(access(file, R_OK), 0);
    }
}

/* Another root on the same file systems has a name of the host's, which outlives the process. */
static void test_changed_root(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *dir = server_path(&s, "traces");
    _cleanup_(freep) char *later = server_path(&s, "traces/later");
    mkdir(dir, 0755);
    start(&s, "c", (const char *const[]){"sglang", NULL},
          (const char *const[]){"SGLANG_TORCH_PROFILER_DIR=/traces", NULL});
    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    assert_string_equal(f->workers[0].location.local_dir, dir);

    struct problem p = {0};
    _cleanup_(freep) char *got = process_resolve_path(&f->workers[0], NULL, "/traces/later", &p);
    assert_string_equal(got, later);
    problem_done(&p);
}

static void test_map_of_container(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    struct path_map map = {.from = "/traces", .to = s.dir};
    struct fleet_config config = {.maps = &map, .n_maps = 1};
    start(&s, "m", (const char *const[]){"sglang", NULL}, NULL);
    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    _cleanup_(freep) char *got = process_resolve_path(&f->workers[0], &config, "/traces", NULL);
    assert_string_equal(got, s.dir);
}

/* Runs a check as another user and gives its exit status. */
static int as_nobody(int (*check)(const struct server *s), const struct server *s)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
            _exit(99);
        _exit(check(s));
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int check_environment_denied(const struct server *s)
{
    _cleanup_fleet_ f = fleet_of("127.0.0.1", s->report.ports[0], ENGINE_SGLANG, NULL);
    const struct fleet_settings settings = {0};

    processes_inspect(f, &settings, NULL);
    if (!f->workers[0].local || f->workers[0].pid != 0)
        return 1;
    if (!strstr(f->workers[0].location.note, "belongs to root (profd may not see which it is)"))
        return 2;
    return strstr(f->workers[0].location.remedy, "trace_dir=") ? 0 : 3;
}

static void test_other_user_unseen(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-", (const char *const[]){"sglang", NULL}, NULL);
    assert_int_equal(as_nobody(check_environment_denied, &s), 0);
}

static int check_by_argument(const struct server *s)
{
    _cleanup_fleet_ f = fleet_of("127.0.0.1", s->report.ports[0], ENGINE_VLLM, NULL);
    const struct fleet_settings settings = {0};

    processes_inspect(f, &settings, NULL);
    if (f->workers[0].pid != s->report.pid)
        return 1;
    if (!f->workers[0].location.local_dir || !streq(f->workers[0].location.local_dir, s->dir))
        return 2;
    return strstr(f->workers[0].location.found_by, "known by its --port") ? 0 : 3;
}

static int check_environment_of_known(const struct server *s)
{
    _cleanup_fleet_ f = fleet_of("127.0.0.1", s->report.ports[0], ENGINE_SGLANG, NULL);
    const struct fleet_settings settings = {0};

    processes_inspect(f, &settings, NULL);
    if (!strstr(f->workers[0].location.note, "belongs to root (its environment cannot be read)"))
        return 1;
    return strstr(f->workers[0].location.remedy, "CAP_SYS_PTRACE") ? 0 : 2;
}

/* The port must be on the command line, so the socket is handed down, as launchers that bind first do it. */
static void test_other_user_by_argument(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *config =
        xasprintf("{\"profiler\":\"torch\",\"torch_profiler_dir\":\"%s\"}", s.dir);
    char port[16];
    uint16_t wanted = 0;
    int low_fd = listen_port(&wanted), fd = fcntl(low_fd, F_DUPFD, 10); /* out of the pipes' way */
    close(low_fd);
    snprintf(port, sizeof(port), "%u", wanted);
    /* Somebody else's process with the same arguments, and an older one, is not taken for it. */
    _cleanup_server_ other;
    server_init(&other);
    start(&other, "u", (const char *const[]){"vllm", "--port", port, NULL}, NULL);
    start(&s, "h", (const char *const[]){"vllm", "--port", port, "--profiler-config", config, NULL}, NULL);
    close(fd);
    s.report.ports[0] = wanted;
    assert_int_equal(as_nobody(check_by_argument, &s), 0);
    assert_int_equal(as_nobody(check_environment_of_known, &s), 0);
}

static void test_can_write(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "u", (const char *const[]){"sglang", NULL}, NULL);
    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    struct worker *w = &f->workers[0];
    _cleanup_(freep) char *missing = server_path(&s, "a/b");
    _cleanup_(freep) char *closed = server_path(&s, "closed");
    _cleanup_(freep) char *below = server_path(&s, "closed/open");

    assert_int_equal(w->uid, NOBODY);
    assert_int_equal(process_can_write(w, s.dir), 0);
    assert_int_equal(process_can_write(w, missing), 0);
    assert_int_equal(chmod(s.dir, 0777), 0);
    assert_int_equal(process_can_write(w, s.dir), 1);
    assert_int_equal(process_can_write(w, missing), 1);
    assert_int_equal(chown(s.dir, 0, NOBODY), 0);
    assert_int_equal(chmod(s.dir, 0707), 0); /* the group's bits count for its members, not everybody's */
    assert_int_equal(process_can_write(w, s.dir), 0);
    assert_int_equal(chmod(s.dir, 0777), 0);
    assert_int_equal(mkdir(closed, 0700), 0);
    assert_int_equal(mkdir(below, 0777), 0);
    assert_int_equal(chmod(below, 0777), 0);
    assert_int_equal(process_can_write(w, below), 0);
    w->pid = 0;
    assert_int_equal(process_can_write(w, s.dir), -1);
}

static void test_root_can_write(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-", (const char *const[]){"sglang", NULL}, NULL);
    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    assert_int_equal(chown(s.dir, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(s.dir, 0700), 0);
    assert_int_equal(process_can_write(&f->workers[0], s.dir), 1);
}

/* What a worker says of itself opens no directory to it that its user may not write to. */
static void test_foreign_directory(void **state)
{
    need_root();
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *traces = server_path(&s, "closed/traces");
    _cleanup_(freep) char *closed = server_path(&s, "closed");
    _cleanup_(freep) char *config =
        xasprintf("{\"profiler\":\"torch\",\"torch_profiler_dir\":\"%s\"}", traces);
    const struct {
        mode_t closed, traces;
        bool is_taken;
    } cases[] = {{0755, 0777, true}, {0755, 0755, false}, {0700, 0777, false}, {0755, 0700, false}};

    assert_int_equal(mkdir(closed, 0755), 0);
    assert_int_equal(mkdir(traces, 0755), 0);
    start(&s, "u", (const char *const[]){"vllm", "--profiler-config", config, NULL}, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(chmod(closed, cases[i].closed), 0);
        assert_int_equal(chmod(traces, cases[i].traces), 0);
        _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, NULL);
        const struct trace_location *location = &f->workers[0].location;
        assert_string_equal(location->dir, traces);
        assert_int_equal(location->local_dir != NULL, cases[i].is_taken);
        if (!cases[i].is_taken) {
            assert_non_null(strstr(location->note, "may not write there"));
            assert_non_null(strstr(location->remedy, "trace_dir="));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_of_a_server_that_ended),
        cmocka_unit_test(test_socket_of_a_program_with_more_rights),
        cmocka_unit_test(test_own_network),
        cmocka_unit_test(test_forwarded_port),
        cmocka_unit_test(test_own_root),
        cmocka_unit_test(test_changed_root),
        cmocka_unit_test(test_map_of_container),
        cmocka_unit_test(test_other_user_unseen),
        cmocka_unit_test(test_other_user_by_argument),
        cmocka_unit_test(test_can_write),
        cmocka_unit_test(test_root_can_write),
        cmocka_unit_test(test_foreign_directory),
    };
    const char *role = getenv(ROLE_VARIABLE);
    if (role)
        serve(role);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
