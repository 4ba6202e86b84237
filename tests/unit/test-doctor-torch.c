/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor reports about PyTorch processes, and where it reports nothing. */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/doctor_torch.h"
#include "daemon/kineto/internal.h"
#include "tests/unit/cmocka-all.h"

#define DIR "/run/profd/kineto"

/* A table of profd that listens on DIR and the abstract name, or on one of them, with process 7 registered. */
struct torch_bed {
    struct kineto kineto;
    struct listening sockets[2];
    struct kineto_entry entry, *entries[1];
};

static void bed_init(struct torch_bed *b, bool dir, bool abstract)
{
    *b = (struct torch_bed){0};
    if (dir)
        b->sockets[b->kineto.n_sockets++].shown.name = DIR;
    if (abstract)
        b->sockets[b->kineto.n_sockets++].shown.name = KINETO_ABSTRACT;
    b->kineto.listen.n_dirs = dir;
    b->kineto.listen.abstract = abstract;
    b->kineto.sockets = b->sockets;
    b->entry = (struct kineto_entry){.is_known = true, .has_polled = true};
    b->entry.process = (struct kineto_process){.pid = 7, .transport = DIR};
    b->entries[0] = &b->entry;
    b->kineto.entries = b->entries;
    b->kineto.n_entries = 1;
}

/* A process with nothing wrong that is a minute old; its text members are constants. */
static struct torch_process a_process(pid_t pid)
{
    return (struct torch_process){.pid = pid,
                                  .name = (char *)"python3",
                                  .version = (char *)"2.10.0",
                                  .environ_known = true,
                                  .uses_daemon = true,
                                  .socket_dir = (char *)DIR,
                                  .may_enter = 1,
                                  .dir_mode = (char *)"mode 1770, user profd, group profd-kineto",
                                  .same_network = 1,
                                  .age_ns = 60 * NS_PER_S};
}

static void run_checks(const struct torch_bed *b, struct torch_process *items, size_t n, struct checks *ret)
{
    const struct torch_survey s = {.items = items, .n = n};
    torch_check(&s, b ? &b->kineto : NULL, NULL, ret);
}

static const struct doctor_check *check_of(const struct checks *c, const char *part)
{
    for (size_t i = 0; i < c->n; i++)
        if (strstr(c->items[i].text[WORDING_OWN], part))
            return &c->items[i];
    return NULL;
}

static void assert_reported(struct torch_process p, bool dir, bool abstract, enum check_result result,
                            const char *part, const char *remedy)
{
    struct checks c = {0};
    struct torch_bed b;

    bed_init(&b, dir, abstract);
    run_checks(&b, &p, 1, &c);
    const struct doctor_check *check = check_of(&c, part);
    assert_non_null(check);
    assert_int_equal(check->result, result);
    assert_non_null(strstr(check->remedy[WORDING_OWN], remedy));
    assert_int_equal(c.n, b.kineto.n_sockets + 1);
    checks_done(&c);
}

static void assert_silent(struct torch_process p, bool dir, bool abstract)
{
    struct checks c = {0};
    struct torch_bed b;

    bed_init(&b, dir, abstract);
    run_checks(&b, &p, 1, &c);
    assert_int_equal(c.n, b.kineto.n_sockets);
    checks_done(&c);
}

static void test_variable(void **state)
{
    struct torch_process p = a_process(8);

    p.uses_daemon = false;
    assert_reported(p, true, false, CHECK_WARN,
                    "PyTorch process 8 (python3) was started without KINETO_USE_DAEMON",
                    "Start it with KINETO_USE_DAEMON=1 KINETO_IPC_SOCKET_DIR=" DIR " in its environment.");
    assert_reported(p, false, true, CHECK_WARN, "without KINETO_USE_DAEMON",
                    "Start it with KINETO_USE_DAEMON=1 in its environment.");
    p.environ_known = false;
    struct checks c = {0};
    struct torch_bed b;
    bed_init(&b, true, false);
    run_checks(&b, &p, 1, &c);
    assert_null(check_of(&c, "KINETO_USE_DAEMON"));
    assert_non_null(check_of(&c, "1 Python process of other users cannot be inspected"));
    checks_done(&c);
}

static void test_directory(void **state)
{
    struct torch_process p = a_process(8);

    p.socket_dir = (char *)"/run/other";
    assert_reported(p, true, true, CHECK_WARN,
                    "has KINETO_IPC_SOCKET_DIR=/run/other, where profd does not listen", "the same text");
    p.socket_dir = NULL;
    assert_reported(p, true, false, CHECK_WARN, "has no KINETO_IPC_SOCKET_DIR", "KINETO_IPC_SOCKET_DIR=" DIR);
    p.age_ns = 0;
    assert_silent(p, true, true);
    p.socket_dir = (char *)DIR;
    assert_silent(p, true, false);
    p.age_ns = 60 * NS_PER_S;
    p.may_enter = 0;
    assert_reported(p, true, false, CHECK_WARN,
                    "may not write to " DIR " (mode 1770, user profd, group profd-kineto)",
                    "Add its user to the group");
    p.pid = 7; /* which registered */
    assert_silent(p, true, false);
}

static void test_network(void **state)
{
    struct torch_process p = a_process(8);

    p.socket_dir = NULL;
    p.same_network = 0;
    assert_reported(p, true, true, CHECK_WARN, "in a network namespace of its own", "KINETO_IPC_SOCKET_DIR");
    p.same_network = -1;
    assert_reported(p, true, true, CHECK_UNKNOWN, "did not register", "does not survive");
    p.pid = 7;
    assert_silent(p, true, true);
}

static void test_versions(void **state)
{
    static const struct {
        const char *version, *part;
    } cases[] = {
        {"1.13.1", NULL},
        {"2.0.1", NULL},
        {"2.1.0", "crash at its import"},
        {"2.2.2", "its import"},
        {"2.3.0", "dynolog#286"},
        {"2.4.1", "dynolog#286"},
        {"2.5.0", "with CUDA"},
        {"2.6.0+cu124", "CUDA"},
        {"2.7.1", "a race"},
        {"2.9.1+cu128", "race"},
        {"2.10.0+cu128", NULL},
        {"2.11.0.dev20260301", NULL},
        {"3.1.0", NULL},
        {"unknown", NULL},
        {NULL, NULL},
        {"2.7.0.dev20250301+cu126", "a race"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct torch_process p = a_process(7);
        p.version = (char *)cases[i].version;
        if (cases[i].part)
            assert_reported(p, true, false, CHECK_WARN, cases[i].part, "PyTorch 2.10 or later");
        else
            assert_silent(p, true, false);
        p.pid = 8;
        if (cases[i].part)
            assert_reported(p, true, false, CHECK_WARN, cases[i].part, "PyTorch 2.10 or later");
        else
            assert_reported(p, true, false, CHECK_UNKNOWN, "did not register", "Start it again");
    }
}

/* Where no socket could be opened, the remedy names the first that will be. */
static void test_nothing_open(void **state)
{
    struct torch_process p = a_process(8);
    struct checks c = {0};
    struct torch_bed b;

    bed_init(&b, true, true);
    b.sockets[0].shown.why = b.sockets[1].shown.why = "in use";
    p.uses_daemon = false;
    run_checks(&b, &p, 1, &c);
    assert_non_null(strstr(check_of(&c, "without KINETO_USE_DAEMON")->remedy[WORDING_OWN],
                           "KINETO_USE_DAEMON=1 KINETO_IPC_SOCKET_DIR=" DIR " in"));
    checks_done(&c);
}

/* A name that another daemon holds, and one that is profd's. */
static void test_listeners(void **state)
{
    struct checks c = {0};
    struct torch_bed b;

    bed_init(&b, true, true);
    b.sockets[1].shown.why = "the abstract name dynolog is in use by dynolog (pid 812, root)";
    b.sockets[1].shown.remedy = "Only one daemon can serve Kineto under a name";
    run_checks(&b, NULL, 0, &c);
    assert_int_equal(c.n, 2);
    assert_int_equal(c.items[0].result, CHECK_OK);
    assert_string_equal(c.items[0].text[0], "PyTorch processes can register on " DIR ": 1 registered");
    assert_int_equal(c.items[1].result, CHECK_FAIL);
    assert_non_null(
        strstr(c.items[1].text[0], "cannot register on abstract: the abstract name dynolog is in use by"));
    assert_non_null(strstr(c.items[1].remedy[0], "Only one daemon"));
    checks_done(&c);
}

static void test_off(void **state)
{
    struct torch_process items[] = {a_process(8), a_process(9), a_process(10)};
    struct checks c = {0};

    items[0].uses_daemon = false;
    run_checks(NULL, items, 1, &c);
    assert_int_equal(c.n, 0);
    run_checks(NULL, items, 3, &c);
    assert_int_equal(c.n, 1);
    assert_non_null(check_of(&c, "2 PyTorch processes could be recorded on demand"));
    assert_non_null(check_of(&c, "such as 9 (python3)"));
    checks_done(&c);
}

/* Eight ranks with the same trouble are one line; processes of workers that speak HTTP are none. */
static void test_together(void **state)
{
    struct torch_process items[8];
    struct checks c = {0};
    struct torch_bed b;

    bed_init(&b, true, false);
    for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
        items[i] = a_process((pid_t)(20 + i));
        items[i].uses_daemon = false;
        items[i].ancestors[0] = 5;
        items[i].n_ancestors = 1;
    }
    run_checks(&b, items, ARRAY_SIZE(items), &c);
    assert_int_equal(c.n, 2);
    assert_non_null(check_of(&c, "PyTorch process 20 (python3), like 7 others, was started"));
    checks_done(&c);

    struct fleet *f = xcalloc(1, sizeof(*f));
    fleet_add_worker(f)->pid = 5;
    const struct torch_survey s = {.items = items, .n = ARRAY_SIZE(items)};
    torch_check(&s, &b.kineto, f, &c);
    assert_int_equal(c.n, 1);
    checks_done(&c);
    fleet_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variable), cmocka_unit_test(test_directory),    cmocka_unit_test(test_network),
        cmocka_unit_test(test_versions), cmocka_unit_test(test_listeners),    cmocka_unit_test(test_off),
        cmocka_unit_test(test_together), cmocka_unit_test(test_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
