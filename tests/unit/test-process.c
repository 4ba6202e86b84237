/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inspection of real processes: this program starts itself again as a server with whatever command line,
 * environment, user and namespaces a test asks for.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/fleet/process.h"
#include "tests/unit/cmocka-all.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* How a server is told what to be: letters of this variable; it reports on descriptor 3 and lives as long as
 * its end of the pipe on descriptor 4. */
#define ROLE_VARIABLE   "TEST_SERVER"
#define REPORT_FD       3
#define LIFE_FD         4

#define NOBODY          65534
#define CONTAINER_IP    "10.123.45.67"
#define PORTS_MAX       1000
#define CLOCK_TICK_US   30000
#define INSPECT_TIME_NS (5 * NS_PER_S)

struct report {
    pid_t pid; /* of the process that listens */
    uint16_t ports[PORTS_MAX];
};

/* -- the server -- */

static int listen_any(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        _exit(20);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* A second address on the loopback device, as a container has one of its own. */
static void own_network(void)
{
    struct ifreq request = {.ifr_name = "lo:1"};
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (unshare(CLONE_NEWNET) < 0)
        _exit(21);
    close(fd);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, CONTAINER_IP, &address->sin_addr);
    if (ioctl(fd, SIOCSIFADDR, &request) < 0)
        _exit(22);
    close(fd);
}

static void own_root(const char *root, bool own_mounts)
{
    if (own_mounts && (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                       mount("tmpfs", root, "tmpfs", 0, "size=1m") < 0))
        _exit(23);
    if (chroot(root) < 0 || chdir("/") < 0)
        _exit(24);
    if (own_mounts && (mkdir("/traces", 0755) < 0 || symlink("/traces", "/link") < 0 ||
                       creat("/traces/rank0.json", 0644) < 0))
        _exit(25);
}

static void serve(const char *role)
{
    struct report report = {0};
    char byte;

    /* First, since descriptors stay open across it. */
    if (strchr(role, 'f') && fork() > 0) {
        /* The launcher stays as the parent of the front end that listens. */
        close(REPORT_FD);
        (void)!read(LIFE_FD, &byte, 1);
        _exit(0);
    }
    if (strchr(role, 't')) {
        static const char title[] = "VLLM::APIServer_0";
        prctl(PR_SET_NAME, title);
        execve("/proc/self/exe", (char *const[]){(char *)title, NULL},
               (char *const[]){ROLE_VARIABLE "=-", NULL});
    }
    if (strchr(role, 'n'))
        own_network();
    if (strchr(role, 'm') || strchr(role, 'c'))
        own_root(getenv("TEST_ROOT"), strchr(role, 'm'));
    if (strchr(role, 'w') && open(getenv("TEST_OPEN"), O_WRONLY) < 0)
        _exit(26);
    if (strchr(role, 'u') && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
        _exit(27);
    if (strchr(role, 'p'))
        prctl(PR_SET_NAME, "docker-proxy");
    size_t n = strchr(role, 'k') ? PORTS_MAX : strchr(role, 'h') ? 0 : 1;
    for (size_t i = 0; i < n; i++)
        listen_any(&report.ports[i]);
    report.pid = getpid();
    /* A child that inherits the socket, as a forking server's have it; younger by more than a clock tick. */
    if (strchr(role, 'i') && usleep(CLOCK_TICK_US) == 0 && fork() == 0) {
        (void)!read(LIFE_FD, &byte, 1);
        _exit(0);
    }
    if (write(REPORT_FD, &report, sizeof(report)) != sizeof(report))
        _exit(28);
    (void)!read(LIFE_FD, &byte, 1);
    _exit(0);
}

/* -- the tests' side of it -- */

struct server {
    pid_t child;
    int life;
    struct report report;
    char dir[PATH_MAX]; /* empty, its working directory */
};

static void start(struct server *s, const char *role, const char *const argv[], const char *const variables[])
{
    int report[2], life[2];
    char *env[16];
    size_t n = 0;

    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    assert_int_equal(pipe2(life, O_CLOEXEC), 0);
    env[n++] = xasprintf(ROLE_VARIABLE "=%s", role);
    env[n++] = xasprintf("TEST_ROOT=%s", s->dir);
    for (size_t i = 0; variables && variables[i]; i++)
        env[n++] = xstrdup(variables[i]);
    env[n] = NULL;
    s->child = fork();
    if (s->child == 0) {
        /* The pipes may have gotten these very numbers. */
        int report_fd = fcntl(report[1], F_DUPFD, 10), life_fd = fcntl(life[0], F_DUPFD, 10);
        if (dup2(report_fd, REPORT_FD) < 0 || dup2(life_fd, LIFE_FD) < 0 || chdir(s->dir) < 0)
            _exit(29);
        close(report_fd);
        close(life_fd);
        execve("/proc/self/exe", (char *const *)argv, env);
        _exit(30);
    }
    close(report[1]);
    close(life[0]);
    s->life = life[1];
    ssize_t got = read(report[0], &s->report, sizeof(s->report));
    close(report[0]);
    for (size_t i = 0; i < n; i++)
        free(env[i]);
    assert_int_equal(got, sizeof(s->report));
}

static void server_init(struct server *s)
{
    *s = (struct server){.life = -1};
    strcpy(s->dir, "/tmp/profd-test-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    assert_int_equal(chmod(s->dir, 0755), 0);
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
            continue;
        _cleanup_(freep) char *inner = xasprintf("%s/%s", path, entry->d_name);
        if (unlink(inner) < 0)
            remove_tree(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static void server_done(struct server *s)
{
    if (s->life >= 0)
        close(s->life);
    if (s->child > 0)
        waitpid(s->child, NULL, 0);
    remove_tree(s->dir);
}

static char *server_path(const struct server *s, const char *name)
{
    return xasprintf("%s/%s", s->dir, name);
}

static struct fleet *fleet_of(const char *host, uint16_t port, enum engine engine, const char *version)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    struct worker *w = fleet_add_worker(f);
    w->url = xasprintf("http://%s:%u", host, port);
    w->engine = engine;
    w->version = xstrdup(version);
    return f;
}

static struct fleet *inspect(const struct server *s, enum engine engine, const char *version)
{
    const struct fleet_settings settings = {0};
    struct fleet *f = fleet_of("127.0.0.1", s->report.ports[0], engine, version);
    processes_inspect(f, &settings);
    return f;
}

#define _cleanup_fleet_  _cleanup_(fleet_freep) struct fleet *
#define _cleanup_server_ _cleanup_(server_done) struct server

static void assert_found_by(const struct worker *w, const char *what, pid_t pid)
{
    _cleanup_(freep) char *want = xasprintf("%s of process %d", what, (int)pid);
    assert_non_null(w->place.found_by);
    assert_string_equal(w->place.found_by, want);
}

static void need_root(void)
{
    if (geteuid() == 0)
        return;
    print_message("skipped: other users and namespaces need root\n");
    skip();
}

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
    assert_string_equal(w->place.dir, dir);
    assert_string_equal(w->place.local_dir, dir);
    assert_string_equal(w->place.temp_dir, "/var/tmp");
    assert_null(w->place.note);
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
    assert_string_equal(f->workers[0].place.dir, dir);
    assert_string_equal(f->workers[0].place.local_dir, dir);
    assert_non_null(strstr(f->workers[0].place.note, "not there yet"));
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
    assert_string_equal(f->workers[0].place.dir, dir);
    assert_found_by(&f->workers[0], "--profiler-config in the --config file", s.report.pid);
}

static void test_variables(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    _cleanup_(freep) char *vllm = xasprintf("VLLM_TORCH_PROFILER_DIR=%s", s.dir);
    _cleanup_(freep) char *sglang = xasprintf("SGLANG_TORCH_PROFILER_DIR=%s", s.dir);
    start(&s, "-", (const char *const[]){"python3", NULL}, (const char *const[]){vllm, sglang, NULL});

    _cleanup_fleet_ old = inspect(&s, ENGINE_VLLM, "0.15.1");
    assert_string_equal(old->workers[0].place.local_dir, s.dir);
    assert_found_by(&old->workers[0], "VLLM_TORCH_PROFILER_DIR", s.report.pid);

    _cleanup_fleet_ recent = inspect(&s, ENGINE_VLLM, "0.16.0");
    assert_null(recent->workers[0].place.dir);
    assert_non_null(strstr(recent->workers[0].place.note, "neither command line nor environment"));
    assert_non_null(strstr(recent->workers[0].place.remedy, "trace_dir="));

    _cleanup_fleet_ other = inspect(&s, ENGINE_SGLANG, "0.5.1");
    assert_string_equal(other->workers[0].place.local_dir, s.dir);
    assert_found_by(&other->workers[0], "SGLANG_TORCH_PROFILER_DIR", s.report.pid);
}

static void test_sglang_defaults(void **state)
{
    _cleanup_server_ s;
    server_init(&s);
    start(&s, "-", (const char *const[]){"python3", NULL}, NULL);

    _cleanup_fleet_ f = inspect(&s, ENGINE_SGLANG, NULL);
    assert_string_equal(f->workers[0].place.dir, "/tmp");
    assert_string_equal(f->workers[0].place.found_by, "SGLang's default");

    _cleanup_fleet_ g = fleet_of("127.0.0.1", s.report.ports[0], ENGINE_SGLANG, NULL);
    struct worker_config own = {.url = g->workers[0].url, .output_dir = s.dir};
    const struct fleet_settings settings = {.workers = &own, .n_workers = 1};
    processes_inspect(g, &settings);
    assert_string_equal(g->workers[0].place.dir, s.dir);
    assert_string_equal(g->workers[0].place.found_by, "output_dir in profd.conf");
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

    processes_inspect(f, &settings);
    assert_string_equal(f->workers[0].place.local_dir, s.dir);
    assert_string_equal(f->workers[0].place.found_by, "trace_dir in profd.conf");
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
    assert_string_equal(f->workers[0].place.dir, "s3://bucket/t");
    assert_null(f->workers[0].place.local_dir);
    assert_non_null(strstr(f->workers[0].place.note, "cannot be collected: s3://bucket/t"));
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
    assert_string_equal(f->workers[0].place.local_dir, s.dir);
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
    f->workers[0].place.dir = xstrdup("/var/tmp");
    f->workers[0].place.found_by = xstrdup("/server_info");
    f->name = xstrdup("far");
    processes_inspect(f, &settings);
    assert_false(f->workers[0].local);
    assert_int_equal(f->workers[0].pid, 0);
    /* A directory of that name exists here, but is it the same? */
    assert_null(f->workers[0].place.local_dir);
    assert_string_equal(f->workers[0].place.note, "traces are on 192.0.2.7, not on this host");
    assert_non_null(strstr(f->workers[0].place.remedy, "[worker http://192.0.2.7:8000] trace_dir="));

    replace_str(&f->workers[0].place.dir, "/container/fd");
    replace_str(&f->workers[0].place.note, NULL);
    processes_inspect(f, &settings);
    assert_string_equal(f->workers[0].place.local_dir, "/proc/self/fd");
    assert_null(f->workers[0].place.note);
}

static void test_nobody_listens(void **state)
{
    uint16_t port;
    const struct fleet_settings settings = {0};
    close(listen_any(&port));
    _cleanup_fleet_ f = fleet_of("localhost", port, ENGINE_VLLM, NULL);
    processes_inspect(f, &settings);
    assert_false(f->workers[0].local);
    assert_non_null(strstr(f->workers[0].place.note, "no process of this host is seen to listen"));
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
    assert_string_equal(f->workers[0].place.local_dir, s.dir);
    assert_non_null(strstr(f->workers[0].place.found_by, "in a network namespace of its own"));

    /* By an address that only its namespace has. */
    const struct fleet_settings settings = {0};
    _cleanup_fleet_ g = fleet_of(CONTAINER_IP, s.report.ports[0], ENGINE_SGLANG, NULL);
    processes_inspect(g, &settings);
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
    assert_string_equal(f->workers[0].place.local_dir, container.dir);
    assert_non_null(strstr(f->workers[0].place.found_by, "behind a forwarded port"));
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
        assert_string_equal(f->workers[0].place.local_dir, want);
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
    assert_string_equal(f->workers[0].place.local_dir, dir);

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

    processes_inspect(f, &settings);
    if (!f->workers[0].local || f->workers[0].pid != 0)
        return 1;
    if (!strstr(f->workers[0].place.note, "belongs to root (profd may not see which it is)"))
        return 2;
    return strstr(f->workers[0].place.remedy, "trace_dir=") ? 0 : 3;
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

    processes_inspect(f, &settings);
    if (f->workers[0].pid != s->report.pid)
        return 1;
    if (!f->workers[0].place.local_dir || !streq(f->workers[0].place.local_dir, s->dir))
        return 2;
    return strstr(f->workers[0].place.found_by, "known by its --port") ? 0 : 3;
}

static int check_environment_of_known(const struct server *s)
{
    _cleanup_fleet_ f = fleet_of("127.0.0.1", s->report.ports[0], ENGINE_SGLANG, NULL);
    const struct fleet_settings settings = {0};

    processes_inspect(f, &settings);
    if (!strstr(f->workers[0].place.note, "belongs to root (its environment cannot be read)"))
        return 1;
    return strstr(f->workers[0].place.remedy, "CAP_SYS_PTRACE") ? 0 : 2;
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
    uint16_t wanted;
    int low_fd = listen_any(&wanted), fd = fcntl(low_fd, F_DUPFD, 10); /* out of the pipes' way */
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
        const struct trace_place *place = &f->workers[0].place;
        assert_string_equal(place->dir, traces);
        assert_int_equal(place->local_dir != NULL, cases[i].is_taken);
        if (!cases[i].is_taken) {
            assert_non_null(strstr(place->note, "may not write there"));
            assert_non_null(strstr(place->remedy, "trace_dir="));
        }
    }
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
    processes_inspect(f, &settings);
    int64_t took = mono_ns() - began;
    for (size_t i = 0; i < PORTS_MAX; i++) {
        assert_int_equal(f->workers[i].pid, s.report.pid);
        assert_string_equal(f->workers[i].place.local_dir, s.dir);
    }
    print_message("1000 ports of one process: %.1f ms\n", (double)took / NS_PER_MS);
    assert_true(took < INSPECT_TIME_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm_json),
        cmocka_unit_test(test_relative_and_missing),
        cmocka_unit_test(test_config_file),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_sglang_defaults),
        cmocka_unit_test(test_given_dir),
        cmocka_unit_test(test_not_a_directory_of_a_host),
        cmocka_unit_test(test_front_end),
        cmocka_unit_test(test_inherited_socket),
        cmocka_unit_test(test_tree_and_open_files),
        cmocka_unit_test(test_elsewhere),
        cmocka_unit_test(test_nobody_listens),
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
        cmocka_unit_test(test_thousand_ports),
    };
    const char *role = getenv(ROLE_VARIABLE);
    if (role)
        serve(role);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
