/* SPDX-License-Identifier: Apache-2.0 */
/* The inspection of real processes: who they are, what they have open, where they write their traces. */
#include "tests/unit/patience.h"
#include "tests/unit/server-fixture.h"

static void test_vllm_json(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *dir = server_path(&s, "traces");
    _cleanup_(freep) char *config = xasprintf("{\"profiler\":\"torch\",\"torch_profiler_dir\":\"%s\"}", dir);
    mkdir(dir, 0755);
    start(&s, "-", (const char *const[]){"vllm", "serve", "m", "--profiler-config", config, NULL},
          (const char *const[]){"TMPDIR=/var/tmp", NULL});

    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    struct worker *w = &f->workers[0];
    assert_true(w->local);
    assert_int_equal(w->pid, s.report.pid);
    assert_int_equal(w->uid, getuid());
    assert_string_equal(w->location.dir, dir);
    assert_string_equal(w->location.local_dir, dir);
    assert_string_equal(w->location.temp_dir, "/var/tmp");
    assert_null(w->location.note);
    assert_found_by(w, "--profiler-config", s.report.pid);
    assert_string_equal(w->setup.kind, "torch");
    assert_int_equal(w->setup.with_stack, 1);
}

static void test_relative_and_missing(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-",
          (const char *const[]){"vllm", "--profiler-config.profiler=torch",
                                "--profiler-config.torch_profiler_dir=./a/../b", NULL},
          NULL);
    _cleanup_(freep) char *dir = server_path(&s, "b");

    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    assert_string_equal(f->workers[0].location.dir, dir);
    assert_string_equal(f->workers[0].location.local_dir, dir);
    assert_non_null(strstr(f->workers[0].location.note, "not there yet"));
}

static void test_config_file(void **state)
{
    static const char yaml[] = "model: m\nprofiler-config:\n  profiler: torch\n  torch_profiler_dir: sub\n";
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *file = server_path(&s, "c.yaml");
    _cleanup_(freep) char *dir = server_path(&s, "sub");
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_int_equal(write_all(fd, yaml, strlen(yaml)), 0);
    close(fd);
    start(&s, "-", (const char *const[]){"vllm", "serve", "--config", "c.yaml", NULL}, NULL);

    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    assert_string_equal(f->workers[0].location.dir, dir);
    assert_found_by(&f->workers[0], "--profiler-config in the --config file", s.report.pid);
}

static void put_config(const struct server *s, const char *name, mode_t mode)
{
    static const char yaml[] = "profiler-config:\n  profiler: torch\n  torch_profiler_dir: sub\n";
    _cleanup_(freep) char *file = server_path(s, name);
    _cleanup_(closep) int fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    assert_int_equal(write_all(fd, yaml, strlen(yaml)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

static void put_dir(const struct server *s, const char *name, mode_t mode)
{
    _cleanup_(freep) char *dir = server_path(s, name);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, mode), 0);
}

static void put_link(const struct server *s, const char *name, const char *target)
{
    _cleanup_(freep) char *link = server_path(s, name);
    assert_int_equal(symlink(target, link), 0);
}

/* What --config names is read (NULL), or the reason why it is not. */
static void check_config_of(struct server *s, const char *role, const char *config, const char *refusal)
{
    _cleanup_(freep) char *dir = server_path(s, "sub");
    start(s, role, (const char *const[]){"vllm", "serve", "--config", config, NULL}, NULL);
    _cleanup_fleet_ f = inspect(s, ENGINE_VLLM, "0.19.1");
    const struct trace_location *location = &f->workers[0].location;

    if (!refusal) {
        assert_string_equal(location->dir, dir);
        return;
    }
    assert_null(location->dir);
    if (!location->note || !strstr(location->note, "--config file") || !strstr(location->note, refusal))
        fail_msg("%s: %s", config, location->note);
}

static void test_config_file_that_others_may_replace(void **state)
{
    static const struct {
        const char *config, *refusal;
    } cases[] = {
        {"mine/c.yaml", NULL},
        {"sticky/c.yaml", NULL},
        {"link", NULL},
        {"mine/up", NULL},
        {"open/c.yaml", "everybody may replace what is in"},
        {"open/mine/c.yaml", "everybody may replace what is in"},
        {"open/link", "everybody may replace what is in"},
        {"to-open/../mine/c.yaml", NULL}, /* as the engine makes it absolute, before it looks */
        {"to-open/c.yaml", "everybody may replace what is in"},
        {"chain", "everybody may replace what is in"},
        {"mine/open.yaml", "everybody may write to it"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_server_ s;
        server_init(&s);
        put_dir(&s, "mine", 0755);
        put_dir(&s, "sticky", 01777);
        put_dir(&s, "open", 0777);
        put_dir(&s, "open/mine", 0755);
        put_config(&s, "mine/c.yaml", 0644);
        put_config(&s, "mine/open.yaml", 0666);
        put_config(&s, "sticky/c.yaml", 0644);
        put_config(&s, "open/c.yaml", 0644);
        put_config(&s, "open/mine/c.yaml", 0644);
        put_link(&s, "link", "mine/c.yaml");
        put_link(&s, "mine/up", "../sticky/./c.yaml");
        put_link(&s, "open/link", "../mine/c.yaml");
        put_link(&s, "to-open", "open");
        put_link(&s, "chain", "open/link");
        check_config_of(&s, "-", cases[i].config, cases[i].refusal);
    }
}

static void test_config_file_of_others(void **state)
{
    static const struct {
        const char *config, *refusal;
    } cases[] = {
        {"c.yaml", NULL},
        {"closed/c.yaml", "its user may not search"},
        {"secret.yaml", "its user may not read it"},
        {"sticky/roots.yaml", NULL},
        {"sticky/others.yaml", "belongs to uid 12345, in a directory that everybody may write to"},
        {"/proc/1/maps", "its content depends on who reads it"}, /* mode 0444 */
    };

    need_root();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_server_ s;
        server_init(&s);
        put_dir(&s, "closed", 0700);
        put_dir(&s, "sticky", 01777);
        put_config(&s, "c.yaml", 0644);
        put_config(&s, "secret.yaml", 0600);
        put_config(&s, "closed/c.yaml", 0644);
        put_config(&s, "sticky/roots.yaml", 0644);
        put_config(&s, "sticky/others.yaml", 0644);
        _cleanup_(freep) char *others = server_path(&s, "sticky/others.yaml");
        assert_int_equal(chown(others, 12345, 12345), 0);
        check_config_of(&s, "u", cases[i].config, cases[i].refusal);
    }
}

static void test_variables(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *vllm = xasprintf("VLLM_TORCH_PROFILER_DIR=%s", s.dir);
    _cleanup_(freep) char *sglang = xasprintf("SGLANG_TORCH_PROFILER_DIR=%s", s.dir);
    start(&s, "-", (const char *const[]){"python3", NULL}, (const char *const[]){vllm, sglang, NULL});

    _cleanup_fleet_ old = inspect(&s, ENGINE_VLLM, "0.15.1");
    assert_string_equal(old->workers[0].location.local_dir, s.dir);
    assert_found_by(&old->workers[0], "VLLM_TORCH_PROFILER_DIR", s.report.pid);

    _cleanup_fleet_ recent = inspect(&s, ENGINE_VLLM, "0.16.0");
    assert_null(recent->workers[0].location.dir);
    assert_non_null(strstr(recent->workers[0].location.note, "neither command line nor environment"));
    assert_non_null(strstr(recent->workers[0].location.remedy, "trace_dir="));

    _cleanup_fleet_ other = inspect(&s, ENGINE_SGLANG, "0.5.1");
    assert_string_equal(other->workers[0].location.local_dir, s.dir);
    assert_found_by(&other->workers[0], "SGLANG_TORCH_PROFILER_DIR", s.report.pid);
}

static void test_sglang_defaults(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-", (const char *const[]){"python3", NULL}, NULL);

    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    assert_string_equal(f->workers[0].location.dir, "/tmp");
    assert_string_equal(f->workers[0].location.found_by, "SGLang's default");

    _cleanup_fleet_ g = fleet_of("127.0.0.1", s.report.ports[0], ENGINE_SGLANG, NULL);
    struct worker_config own = {.url = g->workers[0].url, .output_dir = s.dir};
    const struct fleet_settings settings = {.workers = &own, .n_workers = 1};
    processes_inspect(g, &settings, NULL);
    assert_string_equal(g->workers[0].location.dir, s.dir);
    assert_string_equal(g->workers[0].location.found_by, "output_dir in profd.conf");
}

static void test_given_dir(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-",
          (const char *const[]){"vllm", "--profiler-config",
                                "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/elsewhere\"}", NULL},
          NULL);
    _cleanup_fleet_ f = fleet_of("127.0.0.1", s.report.ports[0], ENGINE_VLLM, NULL);
    struct worker_config own = {.url = f->workers[0].url, .trace_dir = s.dir};
    const struct fleet_settings settings = {.workers = &own, .n_workers = 1};

    processes_inspect(f, &settings, NULL);
    assert_string_equal(f->workers[0].location.local_dir, s.dir);
    assert_string_equal(f->workers[0].location.found_by, "trace_dir in profd.conf");
    assert_int_equal(f->workers[0].pid, s.report.pid);
    assert_string_equal(f->workers[0].setup.kind, "torch");
}

static void test_not_a_directory_of_a_host(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-",
          (const char *const[]){"vllm", "--profiler-config",
                                "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"s3://bucket/t\"}", NULL},
          NULL);
    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    assert_string_equal(f->workers[0].location.dir, "s3://bucket/t");
    assert_null(f->workers[0].location.local_dir);
    assert_non_null(strstr(f->workers[0].location.note, "cannot be collected: s3://bucket/t"));
}

/* The listener is a front end whose command line is a title; its parent has the options. */
static void test_front_end(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *config =
        xasprintf("{\"profiler\":\"torch\",\"torch_profiler_dir\":\"%s\"}", s.dir);
    start(&s, "ft", (const char *const[]){"vllm", "serve", "--profiler-config", config, NULL}, NULL);

    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    assert_int_not_equal(s.report.pid, s.child);
    assert_int_equal(f->workers[0].pid, s.report.pid);
    assert_string_equal(f->workers[0].location.local_dir, s.dir);
    assert_found_by(&f->workers[0], "--profiler-config", s.child);
}

static void test_inherited_socket(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "i", (const char *const[]){"vllm", NULL}, NULL);
    _cleanup_fleet_ f = inspect(&s, ENGINE_VLLM, "0.19.1");
    assert_int_equal(f->workers[0].pid, s.report.pid);
}

static bool has_open(const pid_t *pids, size_t n, const struct stat *st)
{
    struct open_file files[64];
    size_t n_files = process_open_files(pids, n, files, ARRAY_SIZE(files));

    for (size_t i = 0; i < n_files; i++)
        if (files[i].device == st->st_dev && files[i].inode == st->st_ino)
            return true;
    return false;
}

static void test_tree_and_open_files(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *file = server_path(&s, "r0.json");
    _cleanup_(freep) char *variable = xasprintf("TEST_OPEN=%s", file);
    struct stat st, other;
    pid_t tree[8];
    int reader = open(file, O_CREAT | O_RDONLY | O_CLOEXEC, 0644);

    assert_int_equal(fstat(reader, &st), 0);
    assert_int_equal(stat("/proc/self/exe", &other), 0);
    start(&s, "fw", (const char *const[]){"vllm", NULL}, (const char *const[]){variable, NULL});

    assert_int_equal(process_tree(s.child, tree, ARRAY_SIZE(tree)), 2);
    assert_int_equal(tree[0], s.child);
    assert_int_equal(tree[1], s.report.pid);
    assert_int_equal(process_tree(s.child, tree, 1), 1);
    assert_true(has_open(tree, 2, &st));
    assert_true(has_open(&s.report.pid, 1, &st));
    assert_false(has_open(&s.child, 1, &st));
    assert_false(has_open(&s.report.pid, 1, &other));
    /* Open here too, but only for reading. */
    assert_false(has_open((const pid_t[]){getpid()}, 1, &st));
    assert_int_equal(process_inner_pid(s.child), s.child);
    assert_int_equal(process_tree(INT_MAX, tree, 1), 0);
    close(reader);
}

static void test_elsewhere(void **state)
{
    struct path_map map = {.from = "/container/", .to = "/proc/self"};
    struct fleet_config config = {.name = "far", .maps = &map, .n_maps = 1};
    const struct fleet_settings settings = {.fleets = &config, .n_fleets = 1};

    _cleanup_fleet_ f = fleet_of("192.0.2.7", 8000, ENGINE_VLLM, NULL);
    f->workers[0].location.dir = xstrdup("/var/tmp");
    f->workers[0].location.found_by = xstrdup("/server_info");
    f->name = xstrdup("far");
    processes_inspect(f, &settings, NULL);
    assert_false(f->workers[0].local);
    assert_int_equal(f->workers[0].pid, 0);
    /* A directory of that name exists here, but is it the same? */
    assert_null(f->workers[0].location.local_dir);
    assert_string_equal(f->workers[0].location.note, "traces are on 192.0.2.7, not on this host");
    assert_non_null(strstr(f->workers[0].location.remedy, "[worker http://192.0.2.7:8000] trace_dir="));

    replace_str(&f->workers[0].location.dir, "/container/fd");
    replace_str(&f->workers[0].location.note, NULL);
    processes_inspect(f, &settings, NULL);
    assert_string_equal(f->workers[0].location.local_dir, "/proc/self/fd");
    assert_null(f->workers[0].location.note);
}

static void test_nobody_listens(void **state)
{
    uint16_t port = 0;
    const struct fleet_settings settings = {0};
    close(listen_port(&port));
    _cleanup_fleet_ f = fleet_of("localhost", port, ENGINE_VLLM, NULL);
    processes_inspect(f, &settings, NULL);
    assert_false(f->workers[0].local);
    assert_non_null(strstr(f->workers[0].location.note, "no process of this host is seen to listen"));
}

/* The fleet is searched, then something changes, then the worker has answered. */
static void test_search_that_is_still_true(void **state)
{
    const struct fleet_settings settings = {0};
    uint16_t port = 0;
    _cleanup_(closep) int fd = listen_port(&port);
    _cleanup_fleet_ f = fleet_of("127.0.0.1", port, ENGINE_VLLM, NULL);
    struct inspection *in = inspection_new(f);

    assert_true(fd >= 0);
    inspection_search(in);
    fleet_add_worker(f)->url =
        xstrdup("http://127.0.0.1:1"); /* registered meanwhile, and was not searched for */
    processes_inspect(f, &settings, in);
    assert_int_equal(f->workers[0].pid, getpid());
    assert_false(f->workers[1].local);
}

static void test_server_that_began_after_the_search(void **state)
{
    const struct fleet_settings settings = {0};
    uint16_t port = 0;
    _cleanup_(closep) int fd = bind_port(&port);
    _cleanup_fleet_ f = fleet_of("127.0.0.1", port, ENGINE_VLLM, NULL);
    struct inspection *in = inspection_new(f);

    inspection_search(in);
    assert_int_equal(listen(fd, 1), 0);
    processes_inspect(f, &settings, in);
    assert_int_equal(f->workers[0].pid, getpid());
}

static void test_server_that_ended_after_the_search(void **state)
{
    const struct fleet_settings settings = {0};
    struct server s;
    server_init(&s);
    start(&s, "-", (const char *const[]){"vllm", NULL}, NULL);
    uint16_t port = s.report.ports[0];
    _cleanup_fleet_ f = fleet_of("127.0.0.1", port, ENGINE_VLLM, NULL);
    struct inspection *in = inspection_new(f);

    inspection_search(in);
    server_done(&s);
    _cleanup_(closep) int fd = listen_port(&port);
    assert_true(fd >= 0);
    processes_inspect(f, &settings, in);
    assert_int_equal(f->workers[0].pid, getpid());
}

static void test_thousand_ports(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *config =
        xasprintf("{\"profiler\":\"torch\",\"torch_profiler_dir\":\"%s\"}", s.dir);
    const struct fleet_settings settings = {0};
    start(&s, "k", (const char *const[]){"fault-worker", "--profiler-config", config, NULL}, NULL);

    _cleanup_fleet_ f = fleet_of("127.0.0.1", s.report.ports[0], ENGINE_VLLM, NULL);
    for (size_t i = 1; i < PORTS_MAX; i++) {
        struct worker *w = fleet_add_worker(f);
        w->url = xasprintf("http://127.0.0.1:%u", s.report.ports[i]);
        w->engine = ENGINE_VLLM;
    }
    int64_t began = mono_ns();
    processes_inspect(f, &settings, NULL);
    int64_t took = mono_ns() - began;
    for (size_t i = 0; i < PORTS_MAX; i++) {
        assert_int_equal(f->workers[i].pid, s.report.pid);
        assert_string_equal(f->workers[i].location.local_dir, s.dir);
    }
    print_message("1000 ports of one process: %.1f ms\n", (double)took / NS_PER_MS);
    assert_true(took < patience_ns(INSPECT_TIME_NS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm_json),
        cmocka_unit_test(test_relative_and_missing),
        cmocka_unit_test(test_config_file),
        cmocka_unit_test(test_config_file_that_others_may_replace),
        cmocka_unit_test(test_config_file_of_others),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_sglang_defaults),
        cmocka_unit_test(test_given_dir),
        cmocka_unit_test(test_not_a_directory_of_a_host),
        cmocka_unit_test(test_front_end),
        cmocka_unit_test(test_inherited_socket),
        cmocka_unit_test(test_tree_and_open_files),
        cmocka_unit_test(test_elsewhere),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_search_that_is_still_true),
        cmocka_unit_test(test_server_that_began_after_the_search),
        cmocka_unit_test(test_server_that_ended_after_the_search),
        cmocka_unit_test(test_thousand_ports),
    };
    const char *role = getenv(ROLE_VARIABLE);
    if (role)
        serve(role);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
