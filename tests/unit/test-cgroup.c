/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup of profd-ingest, in a directory that has the files of a cgroup. */
#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/ingest/cgroup.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <fcntl.h>

static void check_parse(const char *text, int expected, const char *path)
{
    char *found = NULL;

    assert_int_equal(cgroup_parse(text, strlen(text), &found), expected);
    assert_true(streq(found, path));
    free(found);
}

static void test_parse(void **state)
{
    check_parse("0::/system.slice/profd.service\n", 0, "/system.slice/profd.service");
    check_parse("0::/", 0, "/");
    check_parse("9:name=systemd:/x\n4:memory:/y\n0::/a:b/c..d\n", 0, "/a:b/c..d");
    check_parse("4:memory:/y\n", -ENOENT, NULL);
    check_parse("", -ENOENT, NULL);
    check_parse("0::\n", -ENOENT, NULL);
    check_parse("10::/x\n", -ENOENT, NULL);
    check_parse("0::x\n", -EINVAL, NULL);
    check_parse("0::/../x\n", -EINVAL, NULL);
    check_parse("0::/x/..\n", -EINVAL, NULL);
    char *found = NULL;
    assert_int_equal(cgroup_parse("0::/a\0b\n", 8, &found), -EINVAL);
}

static const struct ingest_limits limits = {.memory = 1000, .tasks = 66};

struct fake {
    char directory[32];
};

static char *path_of(const struct fake *f, const char *name)
{
    return xasprintf("%s/%s", f->directory, name);
}

static void put(const struct fake *f, const char *name, const char *text)
{
    _cleanup_(freep) char *path = path_of(f, name);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void check_file(const struct fake *f, const char *name, const char *expected)
{
    _cleanup_(freep) char *path = path_of(f, name), *text = NULL;
    size_t size;
    assert_int_equal(read_file(AT_FDCWD, path, 4096, &text, &size), 0);
    assert_string_equal(text, expected);
}

/* As systemd gives it, with this process in it; the files of groups that will be made are there before them.
 */
static void make_fake(struct fake *f)
{
    char pid[16];

    strcpy(f->directory, "/tmp/cgroup-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    put(f, "cgroup.controllers", "cpu memory pids\n");
    put(f, "cgroup.procs", pid);
    put(f, "cgroup.subtree_control", "");
    _cleanup_(freep) char *main_group = path_of(f, "main"), *ingest = path_of(f, "ingest");
    assert_int_equal(mkdir(main_group, 0700), 0);
    assert_int_equal(mkdir(ingest, 0700), 0);
    put(f, "main/cgroup.procs", "");
    put(f, "ingest/cgroup.procs", "");
    put(f, "ingest/memory.max", "");
    put(f, "ingest/memory.swap.max", "");
    put(f, "ingest/pids.max", "");
}

static void fake_done(struct fake *f)
{
    _cleanup_(freep) char *command = xasprintf("rm -r %s", f->directory);
    assert_int_equal(system(command), 0);
}

static void test_divided(void **state)
{
    _cleanup_(fake_done) struct fake f;
    _cleanup_(ingest_group_freep) struct ingest_group *g = NULL;
    const char *reason = NULL;
    const struct ingest_limits more = {.memory = INT64_MAX, .tasks = 99};
    char pid[16];

    make_fake(&f);
    assert_int_equal(ingest_group_new(f.directory, &limits, &g, &reason), 0);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    check_file(&f, "main/cgroup.procs", pid);
    check_file(&f, "cgroup.subtree_control", "+memory +pids");
    check_file(&f, "ingest/pids.max", "66");
    check_file(&f, "ingest/memory.max", "1000");
    check_file(&f, "ingest/memory.swap.max", "0");
    assert_int_equal(ingest_group_set_limits(g, &more), 0);
    check_file(&f, "ingest/memory.max", "9223372036854775807");
    check_file(&f, "ingest/pids.max", "99");
    _cleanup_(closep) int fd = ingest_group_open(g);
    assert_int_equal(write(fd, "0", 1), 1);
    check_file(&f, "ingest/cgroup.procs", "0");
}

static void test_without_pids(void **state)
{
    _cleanup_(fake_done) struct fake f;
    _cleanup_(ingest_group_freep) struct ingest_group *g = NULL;
    const char *reason = NULL;

    make_fake(&f);
    put(&f, "cgroup.controllers", "cpu memory\n");
    assert_int_equal(ingest_group_new(f.directory, &limits, &g, &reason), 0);
    check_file(&f, "cgroup.subtree_control", "+memory");
    check_file(&f, "ingest/memory.max", "1000");
    check_file(&f, "ingest/pids.max", "");
}

static void check_refused(const struct fake *f, const char *why)
{
    struct ingest_group *g = NULL;
    const char *reason = NULL;

    assert_true(ingest_group_new(f->directory, &limits, &g, &reason) < 0);
    assert_null(g);
    assert_non_null(strstr(reason, why));
    check_file(f, "main/cgroup.procs", "");
}

/* What is not profd's alone is left as it is. */
static void test_not_delegated(void **state)
{
    _cleanup_(fake_done) struct fake f;

    make_fake(&f);
    put(&f, "cgroup.procs", "1\n2\n");
    check_refused(&f, "not alone");
    put(&f, "cgroup.controllers", "cpu memoryless pids\n");
    check_refused(&f, "memory controller");
    _cleanup_(freep) char *controllers = path_of(&f, "cgroup.controllers");
    unlink(controllers);
    check_refused(&f, "memory controller");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_without_pids),
        cmocka_unit_test(test_not_delegated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
