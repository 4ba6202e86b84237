/* SPDX-License-Identifier: Apache-2.0 */
#include "base/routerlog.h"
#include "base/util.h"
#include "tests/unit/cmocka-all.h"
#include <sys/stat.h>

static void expect(const char *text, const char *url)
{
    _cleanup_(freep) char *found = routerlog_find(text, strlen(text));
    if (url)
        assert_string_equal(found, url);
    else
        assert_null(found);
}

static void test_lines(void **state)
{
    expect("Router launched at 10.0.0.1:3521, Prometheus port: 4000\n", "http://10.0.0.1:3521");
    expect("(Ray pid=7) \x1b[36mRouter launched at node-3:3999\x1b[0m\n", "http://node-3:3999");
    expect("Router launched at 10.0.0.1:3521", "http://10.0.0.1:3521");
    expect("Router launched at 10.0.0.1:3521.\n", "http://10.0.0.1:3521");
    expect("Router launched at https://gate:443\n", "https://gate:443");
    expect("Router launched at 0.0.0.0:3521\n", "http://127.0.0.1:3521");
    expect("Router launched at [::]:3521\n", "http://[::1]:3521");
    expect("Router launched at [2001:db8::7]:3521,\n", "http://[2001:db8::7]:3521");
    expect("Router launched at 2001:db8::7:3521,\n", "http://[2001:db8::7]:3521");
}

static void test_newest_counts(void **state)
{
    expect("Router launched at a:1\nRouter launched at b:2\n...\n", "http://b:2");
    /* The newest one is still being written. */
    expect("Router launched at a:1\nRouter launched at 10.0.", "http://a:1");
    expect("Router launched at a:1\nRouter launched at Router launched at ", "http://a:1");
}

static void test_no_address(void **state)
{
    static const char *const lines[] = {
        "",
        "Router launched at ",
        "Router launched at nowhere\n",
        "Router launched at a:\n",
        "Router launched at a:0\n",
        "Router launched at a:65536\n",
        "Router launched at a:12x\n",
        "Router launched at :3000\n",
        "Router launched at a:b:3000\n",
        "Router launched at [a]:3000\n",
        "router launched at a:3000\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        expect(lines[i], NULL);
}

/* A log in which the line stands at a certain distance from the end. */
static char *make_log(size_t before, size_t after)
{
    char *path = strdup("/tmp/routerlog-XXXXXX");
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");

    assert_non_null(f);
    for (size_t i = 0; i < before; i++)
        fputc(i % 80 == 79 ? '\n' : 'x', f);
    fputs("Router launched at 10.9.8.7:3210, Prometheus port: 1\n", f);
    for (size_t i = 0; i < after; i++)
        fputc(i % 80 == 79 ? '\n' : 'R', f);
    fclose(f);
    return path;
}

static void test_files(void **state)
{
    /* Around the borders of the blocks that a file is read in. */
    static const size_t tails[] = {0,           262144 - 60, 262144 - 53,    262144 - 40,
                                   262144 - 20, 262144,      262144 * 2 - 30};

    for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
        struct problem p = {0};
        _cleanup_(freep) char *path = make_log(100000, tails[i]), *url = NULL;
        assert_int_equal(routerlog_read(path, &url, &p), 0);
        assert_string_equal(url, "http://10.9.8.7:3210");
        unlink(path);
    }
}

static void test_bad_files(void **state)
{
    struct problem p = {0};
    char *url = NULL;
    char path[] = "/tmp/routerlog-XXXXXX";
    int fd = mkstemp(path);

    assert_int_equal(routerlog_read(path, &url, &p), -ENOENT);
    assert_int_equal(p.kind, PROBLEM_NOT_FOUND);
    assert_non_null(strstr(p.what, path));
    assert_non_null(p.remedy);
    problem_done(&p);
    close(fd);
    unlink(path);

    assert_int_equal(routerlog_read(path, &url, &p), -ENOENT);
    assert_non_null(strstr(p.what, "No such file"));
    problem_done(&p);
    assert_int_equal(routerlog_read("/", &url, &p), -EISDIR);
    problem_done(&p);
    /* A pipe that nobody writes to must not block. */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(routerlog_read(path, &url, &p), -EINVAL);
    problem_done(&p);
    unlink(path);
    assert_null(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines), cmocka_unit_test(test_newest_counts), cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_files), cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
