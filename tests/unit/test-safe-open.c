/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/network_fs.h"
#include "daemon/collect/safe_open.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define WORKER 54321
#define VICTIM 54322

/* A directory of the test's own, which is the working directory meanwhile. */
static int setup(void **state)
{
    char template[] = "/tmp/test-safe-open-XXXXXX";
    assert_non_null(mkdtemp(template));
    assert_int_equal(chdir(template), 0);
    *state = xstrdup(template);
    assert_int_equal(mkdir("dir", 0755), 0);
    assert_int_equal(mkdir("dir/sub", 0755), 0);
    return 0;
}

static int teardown(void **state)
{
    _cleanup_(freep) char *command = xasprintf("rm -rf %s", (char *)*state);
    free(*state);
    return chdir("/") < 0 || system(command) != 0;
}

struct opened {
    int r;
    char *refusal;
    bool same; /* as `expected` */
};

/* What comes of opening base/path, and whether that is what is truly at `expected`. */
static struct opened open_at(const char *base, const char *path, struct dir_location *at,
                             const char *expected)
{
    _cleanup_(freep) char *full = xasprintf("%s/%s", base, path);
    struct opened o = {0};
    struct stat a, b;

    int fd = safe_open_dir(full, at, &o.refusal);
    o.r = MIN(fd, 0);
    o.same = fd >= 0 && fstat(fd, &a) == 0 && stat(expected, &b) == 0 && a.st_ino == b.st_ino;
    closep(&fd);
    assert_true((o.refusal != NULL) <= (o.r == -ELOOP));
    return o;
}

static void check(const char *base, const char *path, const char *expected)
{
    _cleanup_(location_done) struct dir_location at = {0};
    struct opened o = open_at(base, path, &at, expected);
    if (o.r < 0 || !o.same)
        fail_msg("%s/%s: %d %s", base, path, o.r, o.refusal ? o.refusal : "");
    if (strstr(at.real, "/./") || strstr(at.real, "/../") || strstr(at.real, "//"))
        fail_msg("%s/%s is at %s", base, path, at.real);
}

static void check_error(const char *base, const char *path, int error)
{
    _cleanup_(location_done) struct dir_location at = {0};
    struct opened o = open_at(base, path, &at, "/");
    assert_int_equal(o.r, error);
    free(o.refusal);
}

/* What another host named must not lead to a disk of this one. */
static void test_network_only(void **state)
{
    const char *base = *state;
    _cleanup_(location_done) struct dir_location at = {.on_network = true};
    _cleanup_(location_done) struct dir_location copy = {0}, below = {0};
    struct statfs fs;

    assert_int_equal(statfs(base, &fs), 0);
    if (fs.f_type == FUSE_SUPER_MAGIC || network_fs_name((unsigned int)fs.f_type))
        skip();
    struct opened o = open_at(base, "dir", &at, "dir");
    assert_int_equal(o.r, -ELOOP);
    assert_non_null(strstr(o.refusal, "is on a disk of this host"));
    free(o.refusal);
    location_copy(&at, &copy);
    location_below(&at, "rank_0", &below);
    assert_true(copy.on_network && below.on_network);
}

static void test_ways(void **state)
{
    const char *base = *state;
    _cleanup_(freep) char *absolute = xasprintf("%s/dir", base);

    assert_int_equal(symlink("dir", "relative"), 0);
    assert_int_equal(symlink(absolute, "absolute"), 0);
    assert_int_equal(symlink("../dir/../absolute/sub", "dir/winding"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink("/", "root"), 0);
    check(base, "dir", "dir");
    check(base, "dir/", "dir");
    check(base, "./dir//sub/../sub/.", "dir/sub");
    check(base, "relative/sub", "dir/sub");
    check(base, "absolute", "dir");
    check(base, "absolute/winding/", "dir/sub");
    check(base, "root", "/");
    check("/..", "../tmp", "/tmp");
    check_error(base, "loop/sub", -ELOOP);
    check_error(base, "missing", -ENOENT);
    check_error(base, "dir/missing/deeper", -ENOENT);
    fclose(fopen("file", "w"));
    check_error(base, "file", -ENOTDIR);
}

/* Links of another process's view start at its root. */
static void test_anchor(void **state)
{
    _cleanup_(freep) char *root = xasprintf("/proc/%d/root", (int)getpid());
    _cleanup_(freep) char *base = xasprintf("%s%s", root, (char *)*state);
    _cleanup_(freep) char *absolute = xasprintf("%s/dir", (char *)*state);
    _cleanup_(location_done) struct dir_location at = {0};

    assert_int_equal(symlink(absolute, "absolute"), 0);
    check(base, "dir/sub", "dir/sub");
    check(root, "../../../tmp", "/tmp");
    check(root, "", "/");
    struct opened o = open_at(base, "absolute", &at, "dir");
    assert_true(o.same);
    assert_true(starts_with(at.real, root));
}

/* Its number is another process's by now. */
static void test_a_process_that_is_another_one(void **state)
{
    _cleanup_(freep) char *base = xasprintf("/proc/%d/root%s", (int)getpid(), (char *)*state);
    _cleanup_(location_done) struct dir_location at = {0};
    int64_t started;

    assert_true(open_at(base, "dir", &at, "dir").same);
    assert_int_equal(path_process_started(base, &started), 0);
    assert_int_not_equal(started, RECORD_NONE);
    assert_int_equal(at.process_started, started);
    at.process_started--;
    struct opened o = open_at(base, "dir", &at, "dir");
    assert_int_equal(o.r, -ELOOP);
    assert_non_null(strstr(o.refusal, "the process that it belonged to has ended"));
    free(o.refusal);
    assert_int_equal(path_process_started(*state, &started), 0);
    assert_int_equal(started, RECORD_NONE);
    assert_true(path_process_started("/proc/999999999/root/tmp", &started) < 0);
}

static void test_a_directory_that_is_swapped(void **state)
{
    const char *base = *state;
    _cleanup_(location_done) struct dir_location at = {0};
    _cleanup_(location_done) struct dir_location of_missing = {0};

    assert_int_equal(mkdir("other", 0755), 0);
    assert_true(open_at(base, "dir", &at, "dir").same);
    assert_int_equal(open_at(base, "later", &of_missing, "/").r, -ENOENT);
    assert_int_equal(rename("dir", "aside"), 0);
    assert_int_equal(symlink("other", "dir"), 0);
    assert_int_equal(symlink("other", "later"), 0);
    struct opened o = open_at(base, "dir", &at, "other");
    assert_int_equal(o.r, -ELOOP);
    assert_non_null(strstr(o.refusal, "/dir was swapped: by a symbolic link it leads to "));
    free(o.refusal);
    o = open_at(base, "later", &of_missing, "other");
    assert_int_equal(o.r, -ELOOP);
    free(o.refusal);
    assert_int_equal(unlink("dir"), 0);
    assert_int_equal(mkdir("dir", 0755), 0);
    assert_true(open_at(base, "dir", &at, "dir").same);
}

static void test_links_of_others(void **state)
{
    const char *base = *state;
    _cleanup_(location_done) struct dir_location at = {0};

    if (geteuid() != 0)
        skip();
    assert_int_equal(symlink("dir", "link"), 0);
    assert_int_equal(lchown("link", WORKER, WORKER), 0);
    struct opened o = open_at(base, "link", &at, "dir");
    assert_int_equal(o.r, -ELOOP);
    assert_non_null(strstr(o.refusal, "by a symbolic link of uid 54321, and belongs to uid 0"));
    free(o.refusal);
    assert_int_equal(chown("dir", WORKER, WORKER), 0);
    check(base, "link", "dir");
    /* Two of them, of whom one owns the directory. */
    assert_int_equal(symlink("link", "through"), 0);
    check(base, "through", "dir");
    assert_int_equal(lchown("through", VICTIM, VICTIM), 0);
    check_error(base, "through", -ELOOP);
}

static void check_no_file(int dir, const char *name, int error, const char *kind)
{
    const char *what = NULL;
    struct stat st;

    assert_int_equal(safe_open_file(dir, name, &st, &what), error);
    if (!streq(what, kind))
        fail_msg("%s is %s", name, what ? what : "not told");
}

static void test_files(void **state)
{
    _cleanup_(closep) int dir = open("dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *what = NULL;
    struct stat st;

    FILE *f = fopen("dir/file", "w");
    fputs("hello", f);
    fclose(f);
    _cleanup_(closep) int fd = safe_open_file(dir, "file", &st, &what);
    assert_true(fd >= 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(symlink("file", "dir/link"), 0);
    assert_int_equal(mkfifo("dir/fifo", 0600), 0);
    check_no_file(dir, "link", -ELOOP, "a symbolic link");
    check_no_file(dir, "fifo", -EINVAL, "a named pipe");
    check_no_file(dir, "sub", -EINVAL, "a directory");
    check_no_file(dir, "..", -EXDEV, NULL);
    check_no_file(dir, "../dir/file", -EINVAL, NULL);
    check_no_file(dir, "sub/../file", -EINVAL, NULL);
    check_no_file(dir, "/etc/passwd", -EINVAL, NULL);
    check_no_file(dir, "missing", -ENOENT, NULL);
    check_no_file(dir, "", -ENOENT, NULL);
}

/* As a kernel before Linux 5.6, and some containers. */
static void take_openat2_away(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0), 0);
    assert_int_equal(seccomp_load(filter), 0);
    seccomp_release(filter);
    assert_int_equal(syscall(SYS_openat2, AT_FDCWD, "/", NULL, (size_t)0), -1);
    assert_int_equal(errno, ENOSYS);
}

/* Of a file in which every second block is written from its beginning on. */
static int64_t count_holes(int64_t size, int64_t written)
{
    _cleanup_(closep) int fd = memfd_create("holes", MFD_CLOEXEC);
    char block[4096] = "x";
    struct stat st;

    assert_int_equal(ftruncate(fd, size), 0);
    for (int64_t at = 0; at < written; at += (int64_t)sizeof(block))
        assert_int_equal(pwrite(fd, block, sizeof(block), 2 * at), sizeof(block));
    assert_int_equal(fstat(fd, &st), 0);
    int64_t holes = file_holes(fd, &st);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    return holes;
}

static void test_holes(void **state)
{
    enum { MIB = 1 << 20 };

    assert_int_equal(count_holes(0, 0), 0);
    assert_int_equal(count_holes(FILE_HOLES_MAX, 0), FILE_HOLES_MAX);
    assert_true(count_holes(FILE_HOLES_MAX + 1, 0) > FILE_HOLES_MAX);
    assert_true(count_holes(INT64_C(60) << 30, 0) > FILE_HOLES_MAX);
    /* Many small holes: as many bytes in all. */
    assert_int_equal(count_holes(2 * MIB, MIB), MIB);
    assert_int_equal(count_holes(FILE_HOLES_MAX, 4 * MIB), FILE_HOLES_MAX - 4 * MIB);
    assert_true(count_holes(FILE_HOLES_MAX + 5 * MIB, 4 * MIB) > FILE_HOLES_MAX);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_network_only),
        TEST(test_ways),
        TEST(test_anchor),
        TEST(test_a_process_that_is_another_one),
        TEST(test_a_directory_that_is_swapped),
        TEST(test_links_of_others),
        TEST(test_files),
        TEST(test_holes),
    };
    int n_failed = cmocka_run_group_tests_name("with openat2", tests, NULL, NULL);
    take_openat2_away();
    return n_failed + cmocka_run_group_tests_name("without openat2", tests, NULL, NULL);
}
