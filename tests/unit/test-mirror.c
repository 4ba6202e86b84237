/* SPDX-License-Identifier: Apache-2.0 */
/* What the mirror decides without a server: hosts of an address, sizes of batches, meanings of errors. */
#include "cmocka-all.h"

#include "base/clock.h"
#include "daemon/mirror/mirror_internal.h"
#include "daemon/mirror/pq.h"
#include "daemon/mirror/pq_hosts.h"
#include <errno.h>
#include <stdlib.h>

static void hosts_belong_together_by_position(void **state)
{
    struct pq_host h[PQ_HOSTS_MAX];
    const char *reason;
    size_t n;

    assert_int_equal(pq_hosts_parse("a,b", NULL, "1,2", h, &n, &reason), 0);
    assert_int_equal(n, 2);
    assert_string_equal(h[1].name, "b");
    assert_string_equal(h[1].port, "2");
    assert_int_equal(pq_hosts_parse("a,b", ",10.0.0.1", "7", h, &n, &reason), 0);
    assert_string_equal(h[0].address, "");
    assert_string_equal(h[1].address, "10.0.0.1");
    assert_string_equal(h[1].port, "7");
    assert_int_equal(pq_hosts_parse(NULL, NULL, NULL, h, &n, &reason), 0);
    assert_int_equal(n, 1);
    assert_string_equal(h[0].port, PQ_PORT_DEFAULT);
    assert_true(pq_host_is_socket(&h[0]));
    assert_int_equal(pq_hosts_parse("/run/pg", NULL, NULL, h, &n, &reason), 0);
    assert_true(pq_host_is_socket(&h[0]));
    assert_int_equal(pq_hosts_parse(NULL, "::1", NULL, h, &n, &reason), 0);
    assert_false(pq_host_is_socket(&h[0]));
}

static void hosts_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *hosts, *addresses, *ports, *reason;
    } bad[] = {
        {"a,b", "10.0.0.1", NULL, "different numbers"},
        {"a,b,c", NULL, "1,2", "number of ports"},
        {"a", NULL, "0", "a port"},
        {"a", NULL, "65536", "a port"},
        {"a", NULL, "1x", "a port"},
        {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", NULL, NULL, "16 hosts"},
    };
    struct pq_host h[PQ_HOSTS_MAX];
    const char *reason;
    size_t n;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(pq_hosts_parse(bad[i].hosts, bad[i].addresses, bad[i].ports, h, &n, &reason),
                         -EINVAL);
        assert_non_null(strstr(reason, bad[i].reason));
        assert_int_equal(n, 0);
    }
}

static void addresses_are_shown_without_passwords(void **state)
{
    char *text = pq_format("postgresql://u:secret@a,b:7/d?sslmode=require");

    assert_string_equal(text, "postgresql://u@a:5432,b:7/d");
    free(text);
    assert_true(pq_has_password("postgresql://u:secret@a/d"));
    assert_true(pq_has_password("host=a password=x"));
    assert_false(pq_has_password("postgresql://u@a/d"));
    assert_null(pq_format("http://a/d"));
    struct problem p = {0};
    assert_int_equal(pq_check("postgresql://u:secr%zzet@a/d", &p), -EINVAL);
    assert_null(strstr(p.what, "secr"));
    problem_done(&p);
}

static void a_refused_row_is_found_by_halving(void **state)
{
    struct mirror_window w;

    mirror_window_init(&w, 500);
    unsigned n = 0;
    while (!mirror_window_refused(&w))
        n++;
    assert_int_equal(w.rows, 1);
    assert_int_equal(n, 8);
    for (unsigned i = 0; i < 20; i++)
        mirror_window_taken(&w);
    assert_int_equal(w.rows, 500);
}

static void errors_of_rows_are_told_from_others(void **state)
{
    assert_true(mirror_error_is_of_row("22P02"));
    assert_true(mirror_error_is_of_row("23505"));
    assert_true(mirror_error_is_of_row("54000"));
    assert_false(mirror_error_is_of_row("42883"));
    assert_false(mirror_error_is_of_row("53300"));
    assert_false(mirror_error_is_of_row(""));
    assert_non_null(strstr(mirror_error_remedy("42883", ""), "mirror init"));
    assert_non_null(strstr(mirror_error_remedy("", "fe_sendauth: no password supplied"), "passfile="));
    assert_null(mirror_error_remedy("57P03", "the database system is starting up"));
}

static void answers_are_numbers(void **state)
{
    int64_t n = -1;

    assert_int_equal(mirror_parse_applied("0", &n), 0);
    assert_int_equal(mirror_parse_applied("9223372036854775807", &n), 0);
    assert_true(n == INT64_MAX);
    assert_int_equal(mirror_parse_applied("9223372036854775808", &n), -EPROTO);
    assert_int_equal(mirror_parse_applied("-1", &n), -EPROTO);
    assert_int_equal(mirror_parse_applied("", &n), -EPROTO);
    assert_int_equal(mirror_parse_applied(" 1", &n), -EPROTO);
    assert_int_equal(mirror_parse_applied("1x", &n), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_belong_together_by_position),
        cmocka_unit_test(hosts_that_do_not_fit_are_refused),
        cmocka_unit_test(addresses_are_shown_without_passwords),
        cmocka_unit_test(a_refused_row_is_found_by_halving),
        cmocka_unit_test(errors_of_rows_are_told_from_others),
        cmocka_unit_test(answers_are_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
