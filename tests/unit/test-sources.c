/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sources without a router, their values and settings, and lists of targets. */
#include "base/alloc.h"
#include "base/target_files.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/last_list.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/source.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <sys/stat.h>

#define WORKERS_MAX 100

static struct source_config config_of(const char *key, const char *value)
{
    return (struct source_config){.source = source_find(key), .value = xstrdup(value)};
}

/* -- The table ------------------------------------------------------------------------------------------- */

#define SOURCE_KEY(key, value, help, arg) #key,

static void test_table(void **state)
{
    static const char *const keys[] = {FLEET_SOURCES(SOURCE_KEY, )};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct fleet_source *s = source_at(i);
        assert_string_equal(s->key, keys[i]);
        assert_ptr_equal(source_find(keys[i]), s);
        assert_non_null(s->check);
        assert_true(s->look || s->request);
        assert_true(!s->request == !s->parse);
        /* A list of addresses may only outlive its answer where they stay with their owner. */
        assert_true(!s->keeps_last || streq(s->key, "targets"));
    }
    assert_null(source_at(ARRAY_SIZE(keys)));
    assert_null(source_find("telepathy"));
    assert_null(source_find(NULL));
}

static void test_one_source(void **state)
{
    struct source_config c = config_of("targets", "/a");
    const struct fleet_source other = {.key = "other"};
    char *reason = NULL;

    assert_int_equal(source_config_set(&c, source_find("targets"), "/b", &reason), 0);
    assert_string_equal(c.value, "/b");
    assert_int_equal(source_config_set(&c, &other, "x", &reason), -EINVAL);
    assert_string_equal(reason, "targets and other exclude each other");
    assert_string_equal(c.value, "/b");
    free(reason);
    source_config_done(&c);
}

static void test_values(void **state)
{
    static const struct {
        const char *value;
        bool asked;
        const char *reason; /* NULL: right */
    } cases[] = {
        {"/etc/profd/targets.json", false, NULL},
        {"/etc/profd/*.yml", false, NULL},
        {"http://10.0.0.1/targets?a=b", false, NULL},
        {"https://user:secret@10.0.0.1/", false, "user name"},
        {"http://10.0.0.1/a b", false, "character"},
        {"http://[fe80::1%25lo]/", true, "targets=http://[fe80::1%25lo]/: its IPv6 address is malformed"},
        {"targets.json", false, "an absolute path or a URL"},
        {"[]", false, "an absolute path or a URL"},
        {"[]", true, NULL},
        {"http://10.0.0.1/", true, NULL},
        /* Who asks over the API has no file opened. */
        {"/etc/profd/targets.json", true, "profd opens no file that a client names"},
        {"file:///etc/shadow", true, "profd opens no file that a client names"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct source_config c = config_of("targets", cases[i].value);
        char *reason = NULL;
        c.asked = cases[i].asked;
        assert_int_equal(source_config_check(&c, &reason), cases[i].reason ? -EINVAL : 0);
        assert_true(!cases[i].reason || strstr(reason, cases[i].reason));
        free(reason);
        source_config_done(&c);
    }
}

static void test_settings(void **state)
{
    struct source_config c = config_of("targets", "/a");
    char *reason = NULL;

    c.role_label = xstrdup("llm-d.ai/role");
    assert_int_equal(source_config_check(&c, &reason), 0);
    replace_str(&c.role_label, "a b");
    assert_int_equal(source_config_check(&c, &reason), -EINVAL);
    assert_string_equal(reason, "role_label must be the name of a label");
    free(TAKE_PTR(reason));
    replace_str(&c.role_label, NULL);
    c.port = xstrdup("8000");
    assert_int_equal(source_config_check(&c, &reason), -EINVAL);
    assert_non_null(strstr(reason, "port is for "));
    assert_non_null(strstr(reason, ", not for targets"));
    free(reason);
    source_config_done(&c);
}

/* What is wrong is said of the port, the label, or the value, whichever it is. */
static void test_ports(void **state)
{
    static const struct {
        const char *key, *value, *port, *reason; /* NULL: right */
    } cases[] = {
        {"slurm", "n1:8000", "8001", "slurm=n1:8000 has a port, and port is set, too"},
        {"slurm", "n1", "8000-8001,8010", NULL},
        {"slurm", "n1", "http", "port is not a port, as 8000, or ports"},
        {"slurm", "n1:http", NULL, "slurm=n1:http is not a port"},
        {"ray", "http://head:8265", "http", "port must be the number of a port"},
        {"ray", "head:8265", "8000", "ray=head:8265 must be the URL of a Ray dashboard"},
        {"kubernetes", "prod/vllm", "http", NULL},
        {"kubernetes", "prod/vllm", "8000,8001", "port must be the number or the name of a port"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct source_config c = config_of(cases[i].key, cases[i].value);
        _cleanup_(freep) char *reason = NULL;
        c.port = xstrdup(cases[i].port);
        assert_int_equal(source_config_check(&c, &reason), cases[i].reason ? -EINVAL : 0);
        if (cases[i].reason && !starts_with(reason, cases[i].reason))
            fail_msg("%s", reason);
        source_config_done(&c);
    }
}

/* The credentials of a source are no part of what a request can be equal in. */
static void test_equal(void **state)
{
    struct source_config a = config_of("targets", "http://a/"), b = config_of("targets", "http://a/"), copy;

    a.targets_token_file = xstrdup("/token");
    assert_true(source_config_equal(&a, &b));
    b.port = xstrdup("99");
    assert_false(source_config_equal(&a, &b));
    replace_str(&b.port, NULL);
    replace_str(&b.value, "http://a/x");
    assert_false(source_config_equal(&a, &b));
    source_config_copy(&a, &copy);
    assert_string_equal(copy.targets_token_file, "/token");
    assert_true(source_config_equal(&a, &copy));
    source_config_done(&a);
    source_config_done(&b);
    source_config_done(&copy);
    assert_false(source_config_equal(&a, &b));
}

/* Which cluster a request is about, and the credentials for it, profd.conf says; where it has several, nobody guesses. */
static void test_lent_cluster(void **state)
{
    struct fleet_config fleets[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    const struct fleet_settings s = {.fleets = fleets, .n_fleets = ARRAY_SIZE(fleets)};
    struct source_config by = config_of("kubernetes", "prod/vllm"), other = config_of("targets", "http://a/");
    struct problem p = {0};

    fleets[0].by = config_of("targets", "http://a/");
    fleets[0].by.targets_token_file = "/token-of-targets";
    fleets[1].by = config_of("kubernetes", "prod/sglang");
    assert_int_equal(settings_lend_cluster(&s, &by, &p), 0);
    assert_null(by.kubernetes_url);
    fleets[1].by.kubernetes_url = "https://10.0.0.1:6443";
    fleets[1].by.kubernetes_token_file = "/token";
    fleets[2].by = config_of("pods", "prod/app=vllm");
    fleets[2].by.kubernetes_url = "https://10.0.0.1:6443";
    assert_int_equal(settings_lend_cluster(&s, &by, &p), 0);
    assert_string_equal(by.kubernetes_url, "https://10.0.0.1:6443");
    assert_string_equal(by.kubernetes_token_file, "/token");
    assert_null(by.targets_token_file);
    /* The URL of this one is the requester's. */
    assert_int_equal(settings_lend_cluster(&s, &other, &p), 0);
    assert_null(other.targets_token_file);
    fleets[2].by.kubernetes_url = "https://10.0.0.2:6443";
    assert_int_equal(settings_lend_cluster(&s, &by, &p), -EINVAL);
    assert_non_null(strstr(p.what, "several kubernetes_url="));
    problem_done(&p);
    for (size_t i = 0; i < ARRAY_SIZE(fleets); i++)
        free(fleets[i].by.value);
    source_config_done(&by);
    source_config_done(&other);
}

/* -- Targets --------------------------------------------------------------------------------------------- */

static int parse(const char *text, size_t max, const char *label, struct fleet *f, char *why)
{
    struct source_config c = config_of("targets", "http://a/");
    char *next = NULL;

    c.role_label = xstrdup(label);
    int r = c.source->parse(&c, text, strlen(text), max, f, &next, why);
    assert_null(next);
    source_config_done(&c);
    return r;
}

static void test_targets(void **state)
{
    static const char text[] =
        "[{\"targets\": [\"10.0.0.11:8000\", \"[FD00::1]:8000\", \"node7\"], \"labels\": {\"role\": "
        "\"prefill\"}},"
        " {\"targets\": [\"10.0.0.12:8443\"], \"labels\": {\"__scheme__\": \"https\", \"role\": "
        "\"prefill-decode\","
        " \"model\": \"m\", \"rank\": 3}},"
        " {\"targets\": [\"10.0.0.13:1\"]},"
        " {\"targets\": [\"a b\", \"x:0\", \"u@h:1\", \"\", \"ftp://a\"], \"labels\": null}]";
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX] = "";

    assert_int_equal(parse(text, WORKERS_MAX, NULL, f, why), 0);
    assert_int_equal(f->n_workers, 5);
    assert_string_equal(f->workers[0].url, "http://10.0.0.11:8000");
    assert_string_equal(f->workers[1].url, "http://[fd00::1]:8000");
    assert_string_equal(f->workers[2].url, "http://node7:80");
    assert_int_equal(f->workers[2].role, ROLE_PREFILL);
    assert_string_equal(f->workers[3].url, "https://10.0.0.12:8443");
    assert_int_equal(f->workers[3].role, ROLE_REGULAR);
    assert_string_equal(f->workers[3].model, "m");
    assert_int_equal(f->workers[4].role, ROLE_UNKNOWN);
    /* What cannot be called is named, up to a number. */
    assert_int_equal(f->n_notes, 4);
    assert_string_equal(
        f->notes[0].text,
        "the target \"a b\" is ignored: it has a space, control or non-ASCII character in it");
}

static void test_role_label(void **state)
{
    static const char text[] =
        "[{\"targets\": [\"a:1\"], \"labels\": {\"role\": \"prefill\", \"llm-d.ai/role\": "
        "\"decode\"}}, {\"targets\": [\"b:1\"], \"labels\": {\"llm-d.ai/role\": \"chief\"}}]";
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX] = "";

    assert_int_equal(parse(text, WORKERS_MAX, "llm-d.ai/role", f, why), 0);
    assert_int_equal(f->workers[0].role, ROLE_DECODE);
    assert_int_equal(f->workers[1].role, ROLE_UNKNOWN);
}

static void test_wrong_targets(void **state)
{
    static const struct {
        const char *text;
        int err;
        const char *why;
    } cases[] = {
        {"[]", 0, ""},
        {"[{\"targets\": []}]", 0, ""},
        {"", -EPROTO, "the answer is empty"},
        {"<!DOCTYPE html>", -EPROTO, "the answer is HTML instead of JSON"},
        {"[", -EPROTO, "the answer is not JSON"},
        {"{}", -EPROTO, "JSON that is not a list of targets"},
        {"[{\"targets\": [\"a:1\"]}, {\"targets\": \"a:1\"}]", -EPROTO, "entry 2 is not "},
        {"[\"a:1\"]", -EPROTO, "entry 1 is not "},
        {"[{\"targets\": [1]}]", -EPROTO, "entry 1 is not "},
        {"[{\"targets\": [\"a:1\"], \"labels\": {\"__scheme__\": \"gopher\"}}]", -EPROTO, "entry 1 is not "},
        {"[{\"targets\": [\"a:1\", \"b:1\", \"c:1\"]}]", -E2BIG, ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char why[SOURCE_WHY_MAX] = "";
        assert_int_equal(parse(cases[i].text, 2, NULL, f, why), cases[i].err);
        assert_ptr_equal(strstr(why, cases[i].why), why);
    }
}

static void write_text(const char *path, const char *text)
{
    _cleanup_(fclosep) FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
}

static void test_target_files(void **state)
{
    char dir[] = "/tmp/profd-targets-XXXXXX", path[64], error[300];
    json_t *list = NULL;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a.json", dir);
    write_text(path, "[{\"targets\": [\"a:1\"]}]");
    snprintf(path, sizeof(path), "%s/b.yml", dir);
    write_text(path, "- targets: [b:1]\n- targets: ['c:1']\n");
    assert_int_equal(target_files_read(path, &list, error), 0);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
    snprintf(path, sizeof(path), "%s/[ab].*", dir);
    assert_int_equal(target_files_read(path, &list, error), 0);
    assert_int_equal(json_array_size(list), 3);
    json_decref(list);
    snprintf(path, sizeof(path), "%s/*.toml", dir);
    assert_int_equal(target_files_read(path, &list, error), -ENOENT);
    /* A FIFO that nobody writes is no file, and does not hold the thread. */
    snprintf(path, sizeof(path), "%s/c.json", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(target_files_read(path, &list, error), -EINVAL);
    assert_non_null(strstr(error, "not a regular file"));
    assert_int_equal(unlink(path), 0);
    /* The words do not quote the file: it may be one that only profd can read. */
    write_text(path, "root:$6$secret:19000:0:99999:7:::\n");
    assert_int_equal(target_files_read(path, &list, error), -EPROTO);
    assert_null(strstr(error, "secret"));
    snprintf(path, sizeof(path), "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

/* -- The last list --------------------------------------------------------------------------------------- */

static void test_last_list(void **state)
{
    struct last_lists last = {0};
    struct source_config by = config_of("targets", "/a"), other = config_of("targets", "/b");
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    _cleanup_(problem_done) struct problem p = {0};
    char why[SOURCE_WHY_MAX] = "", name[32];

    problem_set(&p, -EPROTO, PROBLEM_UPSTREAM, "it is broken");
    assert_null(last_lists_get(&last, "east", &by, &p));
    parse("[{\"targets\": [\"a:1\"], \"labels\": {\"role\": \"decode\", \"model\": \"m\"}}]", 9, NULL, f,
          why);
    last_lists_store(&last, "east", &by, f);
    assert_null(last_lists_get(&last, "west", &by, &p));
    assert_null(last_lists_get(&last, "east", &other, &p));
    struct fleet *again = last_lists_get(&last, "east", &by, &p);
    assert_int_equal(again->n_workers, 1);
    assert_string_equal(again->workers[0].url, "http://a:1");
    assert_string_equal(again->workers[0].model, "m");
    assert_int_equal(again->workers[0].role, ROLE_DECODE);
    assert_string_equal(again->dialect, "targets");
    assert_non_null(strstr(again->notes[0].text, " old: it is broken"));
    fleet_free(again);
    for (int i = 0; i < LAST_LISTS_MAX; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        last_lists_store(&last, name, &by, f);
    }
    assert_null(last_lists_get(&last, "east", &by, &p));
    last_lists_done(&last);
    source_config_done(&by);
    source_config_done(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),        cmocka_unit_test(test_one_source),
        cmocka_unit_test(test_values),       cmocka_unit_test(test_settings),
        cmocka_unit_test(test_ports),        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_lent_cluster), cmocka_unit_test(test_targets),
        cmocka_unit_test(test_role_label),   cmocka_unit_test(test_wrong_targets),
        cmocka_unit_test(test_target_files), cmocka_unit_test(test_last_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
