/* SPDX-License-Identifier: Apache-2.0 */
/* What directories that several hosts may have in common are called, by a mount table. */
#include "base/alloc.h"
#include "base/network_fs.h"
#include "daemon/fleet/shared_fs.h"
#include "tests/unit/cmocka-all.h"

static const char table[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                            "23 22 0:40 / /run/merged rw - overlay overlay rw\n"
                            "24 22 0:41 / /tmp rw - tmpfs tmpfs rw\n"
                            "25 22 0:49 / /mnt/home rw shared:7 - nfs4 filer:/export rw,vers=4.2\n"
                            "26 22 0:50 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw\n"
                            "27 22 0:51 / /gpfs rw - gpfs gpfs0 rw\n"
                            "28 22 0:52 / /jfs rw - fuse.juicefs JuiceFS:data rw\n"
                            "29 22 0:53 / /ssh rw - fuse.sshfs user@filer:/data\\040sets rw\n"
                            "30 22 0:54 / /mirror rw - fuse.sshfs /srv/data rw\n"
                            "31 22 0:55 / /bucket rw - fuse.s3fs s3fs rw\n"
                            "32 22 0:56 / /vm rw - 9p hostshare rw\n"
                            "33 22 0:57 / /bind rw - fuse /dev/fuse rw\n"
                            "34 22 0:58 /jobs /win rw - cifs //filer/share rw\n"
                            "35 25 8:2 / /mnt/home/local rw - xfs /dev/sdb rw\n"
                            "36 22 0:60 / /home/ana rw - nfs filer:/export/ana/ rw,vers=3\n"
                            "37 22 0:61 / /other rw - nfs4 filer2:/export rw\n";

static void check_name(const char *path, const char *source, const char *root)
{
    struct shared_dir d;

    assert_int_equal(shared_dir_find(table, strlen(table), path, &d), source != NULL);
    assert_true(streq(d.source, source));
    assert_true(streq(d.root, root));
    shared_dir_done(&d);
}

static void test_names(void **state)
{
    check_name("/mnt/home/ana/traces", "filer:", "/export/ana/traces");
    check_name("/mnt/home", "filer:", "/export");
    check_name("/scratch/x", "10.0.0.1@tcp:", "/scratch/x");
    check_name("/gpfs/x", "gpfs0", "/x");
    check_name("/jfs/x", "JuiceFS:data", "/x");
    check_name("/ssh/x", "user@filer:", "/data sets/x");
    check_name("/win/x", "//filer/share", "/jobs/x");
}

static void test_disks_have_none(void **state)
{
    static const char *const paths[] = {
        "/",     "/var/traces", "/run/merged/x",     "/tmp/x",    "/mirror/x", "/bucket/x",
        "/vm/x", "/bind/x",     "/mnt/home/local/x", "/mnt/homes"};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        check_name(paths[i], NULL, NULL);
}

static void check_same(const char *one, const char *other, bool expected)
{
    _cleanup_(shared_dir_done) struct shared_dir a = {0}, b = {0};

    shared_dir_find(table, strlen(table), one, &a);
    shared_dir_find(table, strlen(table), other, &b);
    assert_int_equal(shared_dir_is_same(&a, &b), expected);
}

/* Hosts mount a file system at other places, from another directory, by another version of its protocol. */
static void test_equality(void **state)
{
    check_same("/mnt/home/ana/traces", "/home/ana/traces", true);
    check_same("/mnt/home/ana", "/home/ana", true);
    check_same("/mnt/home/anabel", "/home/ana", false);
    check_same("/mnt/home/x", "/other/x", false);
    check_same("/mnt/home/x", "/mnt/home/y", false);
    check_same("/tmp/x", "/tmp/x", false); /* of two hosts: no name */
}

static void test_reading(void **state)
{
    struct shared_dir d;

    /* Of this machine: whatever it is, a directory that is not there is judged by the one that it would be in. */
    assert_false(shared_dir_read("relative", 0, NULL, &d));
    assert_false(shared_dir_read("/proc/self/root/x", 0, "/x", &d));
    assert_false(shared_dir_read("/proc", 0, NULL, &d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_disks_have_none),
        cmocka_unit_test(test_equality),
        cmocka_unit_test(test_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
