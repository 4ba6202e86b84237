/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told, and where the state may lie. */
#include "base/network_fs.h"
#include "daemon/health.h"
#include "daemon/state_dir.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <linux/magic.h>

static void test_health(void **state)
{
    static const struct {
        struct pulse pulse;
        const char *says; /* NULL: well */
    } cases[] = {
        {{0}, NULL},
        {{.lag_ns = LOOP_LAG_MAX,
          .catalog_waited_ns = CATALOG_PATIENCE,
          .threads_waited_ns = THREADS_PATIENCE},
         NULL},
        {{.lag_ns = LOOP_LAG_MAX + 1}, "loop"},
        {{.catalog_waited_ns = CATALOG_PATIENCE + 1}, "catalog"},
        {{.threads_waited_ns = THREADS_PATIENCE + 1}, "threads"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *trouble = health_trouble(&cases[i].pulse);
        assert_int_equal(!trouble, !cases[i].says);
        if (trouble)
            assert_non_null(strstr(trouble, cases[i].says));
    }
}

static void check_line(const struct status *s, const char *expected)
{
    _cleanup_(freep) char *line = status_line(s);
    assert_string_equal(line, expected);
}

static void test_status(void **state)
{
    check_line(&(struct status){0}, "0 fleets, 0 workers, 0 sessions running");
    check_line(&(struct status){.fleets = 2,
                                .workers = 12,
                                .sessions = 1,
                                .used = INT64_C(40) << 30,
                                .budget = INT64_C(200) << 30},
               "2 fleets, 12 workers, 1 session running, 40.0 GiB of 200 GiB");
    check_line(&(struct status){.fleets = 1, .workers = 1, .broken = "disk full", .remark = "and more"},
               "1 fleet, 1 worker, 0 sessions running; the catalog cannot be written: disk full; and more");
}

static void test_network_file_systems(void **state)
{
    assert_string_equal(network_fs_name(NFS_SUPER_MAGIC), "NFS");
    assert_string_equal(network_fs_name(0x0bd00bd0), "Lustre");
    assert_string_equal(network_fs_name(0xff534d42), "CIFS");
    assert_null(network_fs_name(EXT4_SUPER_MAGIC));
    assert_null(network_fs_name(XFS_SUPER_MAGIC));
    assert_null(network_fs_name(TMPFS_MAGIC));
    assert_null(network_fs_name(OVERLAYFS_SUPER_MAGIC));
    assert_string_equal(network_fuse_name("fuse.sshfs"), "SSHFS");
    assert_null(network_fuse_name("fuseblk"));
    assert_null(network_fuse_name("fuse.mergerfs"));
}

static void test_mountinfo(void **state)
{
    static const char text[] = "36 35 98:0 / / rw,noatime shared:1 - ext3 /dev/root rw\n"
                               "nonsense\n"
                               "37 36 0:45 / /home rw - fuse.sshfs host:/home rw\n"
                               "38 36 0:46 / /x rw master:1 shared:2 - tmpfs";
    char type[16];

    assert_true(mountinfo_type(text, 98, 0, type, sizeof(type)));
    assert_string_equal(type, "ext3");
    assert_true(mountinfo_type(text, 0, 45, type, sizeof(type)));
    assert_string_equal(type, "fuse.sshfs");
    assert_true(mountinfo_type(text, 0, 46, type, sizeof(type)));
    assert_string_equal(type, "tmpfs");
    assert_false(mountinfo_type(text, 0, 47, type, sizeof(type)));
    assert_false(mountinfo_type("", 0, 0, type, sizeof(type)));
}

static void test_local_state_is_fine(void **state)
{
    _cleanup_(problem_done) struct problem p = {0};

    assert_int_equal(state_dir_check("/tmp", &p), 0);
    assert_int_equal(state_dir_check("/tmp/not/there/yet", &p), 0);
    assert_null(p.what);
}

static void test_root_leaves_the_state_of_others_alone(void **state)
{
    char path[] = "/tmp/profd-state-XXXXXX";
    _cleanup_(problem_done) struct problem p = {0};

    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(path));
    assert_int_equal(state_dir_check(path, &p), 0);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(state_dir_check(path, &p), -EPERM);
    assert_non_null(strstr(p.what, "belongs to uid 65534"));
    assert_non_null(strstr(p.remedy, "systemctl start profd"));
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_network_file_systems),
        cmocka_unit_test(test_mountinfo),
        cmocka_unit_test(test_local_state_is_fine),
        cmocka_unit_test(test_root_leaves_the_state_of_others_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
