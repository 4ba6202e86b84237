/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "client/cli/options.h"
#include "tests/unit/cmocka-all.h"

struct values {
    bool wait;
    const char *router;
    struct option_list workers;
    int64_t count, duration, keep, at, since;
    const char *session;
    double rate;
};

#define AT(member) offsetof(struct values, member)

static const struct option_def defs[] = {
    OPTION_GROUP("Workers"),
    {"wait", 'w', NULL, OPTION_FLAG, AT(wait), "wait", "wait"},
    {"router", 0, "URL", OPTION_TEXT, AT(router), "a router", "router"},
    {"worker", 'W', "URL", OPTION_LIST, AT(workers), "a worker"},
    {"count", 'n', "N", OPTION_COUNT, AT(count), "how many"},
    {"duration", 0, "TIME", OPTION_DURATION, AT(duration), "how long", "duration_ns"},
    {"keep", 0, "SIZE", OPTION_SIZE, AT(keep), "how much"},
    {"start-at", 0, "TIME", OPTION_TIME, AT(at), "when"},
    {"since", 0, "TIME", OPTION_AGO, AT(since), "since when"},
    {"rate", 0, "N", OPTION_REAL, AT(rate), "how often"},
    {"session", 's', "SESSION", OPTION_SESSION, AT(session), "which session", "session"},
};

#define WORDS(...) ((char *[]){(char *)"verb", __VA_ARGS__, NULL})

/* Parses the words of WORDS(); returns what options_parse() returned. */
static int parse(struct values *v, char **words, bool stop_at_word, struct problem *p)
{
    const struct option_set set = {defs, ARRAY_SIZE(defs), v};
    int n = 0;

    *v = (struct values){0};
    while (words[n])
        n++;
    options_init(&set);
    int r = options_parse(&set, 1, n, words, stop_at_word, p);
    options_done(&set);
    return r;
}

static void test_values(void **state)
{
    struct values v;
    int64_t now = wall_ns();
    char **words = WORDS("--wait", "t1", "--router=http://a", "-n", "12", "--duration", "250ms", "--keep",
                         "2G", "--start-at", "+10s", "--since", "1h", "s2");

    assert_int_equal(parse(&v, words, false, NULL), 13);
    assert_true(v.wait);
    assert_string_equal(v.router, "http://a");
    assert_int_equal(v.count, 12);
    assert_int_equal(v.duration, 250 * NS_PER_MS);
    assert_int_equal(v.keep, INT64_C(2) << 30);
    assert_in_range(v.at - now, 10 * NS_PER_S, 15 * NS_PER_S);
    assert_in_range(now - v.since, 3590 * NS_PER_S, 3600 * NS_PER_S);
    assert_string_equal(words[13], "t1");
    assert_string_equal(words[14], "s2");
}

static void test_absent(void **state)
{
    struct values v;

    assert_int_equal(parse(&v, WORDS("x"), false, NULL), 1);
    assert_false(v.wait);
    assert_null(v.router);
    assert_int_equal(v.count, OPTION_ABSENT);
    assert_int_equal(v.since, OPTION_ABSENT);
}

static void test_list(void **state)
{
    struct values v = {0};
    const struct option_set set = {defs, ARRAY_SIZE(defs), &v};

    assert_int_equal(options_parse(&set, 1, 4, WORDS("-Wa", "--worker", "b"), false, NULL), 4);
    assert_int_equal(v.workers.n, 2);
    assert_string_equal(v.workers.items[0], "a");
    assert_string_equal(v.workers.items[1], "b");
    options_done(&set);
}

static void test_reals(void **state)
{
    static const struct {
        const char *text;
        double value; /* 0: none */
    } cases[] = {{"20", 20}, {"0.5", 0.5}, {".5", 0.5}, {"5.", 5},    {"0", 0}, {"-1", 0},
                 {"1e3", 0}, {"inf", 0},   {"0x10", 0}, {"1.2.3", 0}, {".", 0}, {"", 0}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct values v;
        struct problem p = {0};
        int r = parse(&v, WORDS("--rate", (char *)cases[i].text), false, &p);
        assert_int_equal(r >= 0, cases[i].value > 0);
        assert_true(v.rate == cases[i].value);
        problem_done(&p);
    }
}

static void test_stops_at_word(void **state)
{
    struct values v;

    assert_int_equal(parse(&v, WORDS("--wait", "start", "--bogus"), true, NULL), 2);
    assert_true(v.wait);
    assert_int_equal(parse(&v, WORDS("--", "--bogus"), false, NULL), 2);
}

static void assert_refused(char **words, const char *what)
{
    struct values v;
    struct problem p = {0};

    assert_int_equal(parse(&v, words, false, &p), -EINVAL);
    assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
    assert_string_equal(p.what, what);
    problem_done(&p);
}

static void test_refused(void **state)
{
    assert_refused(WORDS("--bogus"), "unknown option --bogus");
    assert_refused(WORDS("--bo\033gus=1"), "unknown option --bo?gus");
    assert_refused(WORDS("-x"), "unknown option -x");
    assert_refused(WORDS("--w"), "ambiguous option --w");
    assert_refused(WORDS("--router"), "--router needs a value: URL");
    assert_refused(WORDS("-n"), "--count needs a value: N");
    assert_refused(WORDS("--wait=yes"), "--wait takes no value");
    assert_refused(WORDS("-n", "0"), "--count: '0' is not a number of at least 1");
    assert_refused(WORDS("-n", "-3"), "--count: '-3' is not a number of at least 1");
    assert_refused(WORDS("--duration", "fast"),
                   "--duration: 'fast' is not a duration such as 5s, 250ms or 1h30min");
    assert_refused(WORDS("--keep", "20X"), "--keep: '20X' is not a size such as 20G, 512M or bytes");
}

/* Options with a member that were given, and no others. */
static void test_members(void **state)
{
    const struct {
        char **words;
        const char *json;
    } cases[] = {
        {WORDS("--count", "3"), "{}"},
        {WORDS("--wait", "--router", "http://a", "-n", "2"), "{\"router\":\"http://a\",\"wait\":true}"},
        {WORDS("--duration", "2us", "-s", "7"), "{\"duration_ns\":2000,\"session\":\"s7\"}"},
        {WORDS("-s", "s12"), "{\"session\":\"s12\"}"},
        {WORDS("-s", "6b1f0000-00"), "{\"session\":\"6b1f0000-00\"}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct values v;
        _cleanup_json_ request = json_object();
        assert_true(parse(&v, cases[i].words, false, NULL) > 0);
        options_to_json(OPTION_SET(defs, &v), request);
        _cleanup_(freep) char *json = json_dumps(request, JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(json, cases[i].json);
    }
    struct values v;
    assert_int_equal(parse(&v, WORDS("-s", "t12"), false, NULL), -EINVAL);
}

static void test_help(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    static const struct option_def more[] = {
        {"plain", 0, NULL, OPTION_FLAG, AT(wait), "plain"},
        OPTION_GROUP("Workers"),
        {"one-that-is-much-longer", 0, "URL", OPTION_TEXT, AT(router), "a worker"},
    };

    options_help(out, (struct option_set[]){{defs, 4, NULL}, {more, ARRAY_SIZE(more), NULL}}, 2);
    fclose(out);
    assert_string_equal(text, "\nWorkers:\n"
                              "  -w, --wait                wait\n"
                              "      --router URL          a router\n"
                              "  -W, --worker URL          a worker\n"
                              "      --one-that-is-much-longer URL\n"
                              "                            a worker\n"
                              "\nOptions:\n"
                              "      --plain               plain\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_absent),        cmocka_unit_test(test_list),
        cmocka_unit_test(test_reals),   cmocka_unit_test(test_stops_at_word), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_members), cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
