/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as D-Bus dictionaries and back, and the words of errors. */
#include "base/bus_json.h"
#include "proto/bus_methods.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <math.h>
#include <sys/socket.h>

#define PLENTY (1 << 20)

/* A connection is needed to make messages; its peer says nothing. */
static int peer = -1;

static int make_connection(void **state)
{
    int fds[2];
    sd_bus *bus;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    peer = fds[1];
    assert_true(sd_bus_new(&bus) >= 0);
    assert_true(sd_bus_set_fd(bus, fds[0], fds[0]) >= 0);
    assert_true(sd_bus_start(bus) >= 0);
    *state = bus;
    return 0;
}

static int drop_connection(void **state)
{
    sd_bus_close_unref(*state);
    close(peer);
    return 0;
}

static sd_bus_message *new_message(void **state)
{
    sd_bus_message *m;
    assert_true(sd_bus_message_new_signal(*state, &m, "/a", "a.b", "C") >= 0);
    return m;
}

static void rewind_message(sd_bus_message *m)
{
    assert_true(sd_bus_message_seal(m, 1, 0) >= 0);
    assert_true(sd_bus_message_rewind(m, true) >= 0);
}

static json_t *parse(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    return j;
}

/* What comes out of sending `in`. */
static void check_trip(void **state, const char *in, const char *out)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = new_message(state);
    _cleanup_json_ sent = parse(in);
    _cleanup_json_ expected = parse(out);
    _cleanup_json_ got = NULL;

    assert_int_equal(bus_append_object(m, sent, PLENTY), 0);
    rewind_message(m);
    assert_true(sd_bus_message_has_signature(m, "a{sv}"));
    assert_int_equal(bus_read_object(m, PLENTY, &got), 0);
    assert_true(json_equal(got, expected));
}

static void test_round_trip(void **state)
{
    static const char same[] = "{\"text\": \"z\\u00e4h\", \"empty\": \"\", \"n\": -9007199254740993, "
                               "\"real\": 0.5, \"yes\": true, \"no\": false,"
                               " \"words\": [\"a\", \"b\"], \"objects\": [{\"k\": 1}, {}], \"mixed\": [1, "
                               "\"a\", [2, [true]], {\"x\": []}],"
                               " \"none\": [], \"deep\": {\"er\": {\"still\": {\"down\": \"here\"}}}}";

    check_trip(state, same, same);
    check_trip(state, "{}", "{}");
    check_trip(state, "{\"a\": null, \"b\": [1, null, 2]}", "{\"b\": [1, 2]}");
}

/* A worker's file name may hold what sd-bus refuses, and must not spoil the list that it is in. */
static void test_noncharacters_are_replaced(void **state)
{
    check_trip(state, "{\"a\": \"x\\uffffy\\ufffez\", \"\\ufdd0\": \"\\udbff\\udfff!\\ud83f\\udffe\"}",
               "{\"a\": \"x\\ufffdy\\ufffdz\", \"\\ufffd\": \"\\ufffd!\\ufffd\"}");
    check_trip(state, "{\"a\": \"\\uffef\\ufdcf\\ufdf0\\ud83d\\ude00\\ud83f\\udffd\"}",
               "{\"a\": \"\\uffef\\ufdcf\\ufdf0\\ud83d\\ude00\\ud83f\\udffd\"}");
}

static void test_limits_of_what_goes_out(void **state)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *deep = new_message(state), *large = new_message(state);
    _cleanup_json_ nested = json_object();
    _cleanup_json_ long_list = json_object();

    for (int i = 0; i < BUS_JSON_DEPTH_MAX + 1; i++)
        nested = json_pack("{so}", "in", nested);
    assert_int_equal(bus_append_object(deep, nested, PLENTY), -E2BIG);
    json_t *list = json_array();
    for (int i = 0; i < 100; i++)
        json_array_append_new(list, json_integer(i));
    json_object_set_new(long_list, "list", list);
    assert_int_equal(bus_append_object(large, long_list, 100 * BUS_JSON_VALUE_BYTES), -E2BIG);
}

static void test_every_type_that_comes_in(void **state)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = new_message(state);
    _cleanup_json_ expected =
        parse("{\"y\": 1, \"n\": -2, \"q\": 3, \"i\": -4, \"u\": 5, \"x\": -6, \"t\": 7, \"o\": "
              "\"/a\", \"g\": \"as\", \"v\": 8, \"r\": [9, \"z\"], \"d\": {\"k\": \"w\"}}");
    _cleanup_json_ got = NULL;

    assert_true(sd_bus_message_append(m, "a{sv}", 12, "y", "y", 1, "n", "n", -2, "q", "q", 3, "i", "i", -4,
                                      "u", "u", 5, "x", "x", INT64_C(-6), "t", "t", UINT64_C(7), "o", "o",
                                      "/a", "g", "g", "as", "v", "v", "i", 8, "r", "(is)", 9, "z", "d",
                                      "a{ss}", 1, "k", "w") >= 0);
    rewind_message(m);
    assert_int_equal(bus_read_object(m, PLENTY, &got), 0);
    assert_true(json_equal(got, expected));
}

static void check_refused(void **state, int error, const char *types, ...)
{
    _cleanup_(sd_bus_message_unrefp) sd_bus_message *m = new_message(state);
    json_t *got = NULL;
    va_list ap;

    va_start(ap, types);
    assert_true(sd_bus_message_appendv(m, types, ap) >= 0);
    va_end(ap);
    rewind_message(m);
    assert_int_equal(bus_read_object(m, 1000, &got), error);
    assert_null(got);
}

static void test_what_json_cannot_say(void **state)
{
    char text[2000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    check_refused(state, -EINVAL, "a{sv}", 1, "t", "t", UINT64_MAX);
    check_refused(state, -EINVAL, "a{sv}", 1, "d", "d", (double)INFINITY);
    check_refused(state, -EINVAL, "a{sv}", 1, "h", "h", STDIN_FILENO);
    check_refused(state, -EINVAL, "a{us}", 1, 7, "a");
    check_refused(state, -E2BIG, "a{sv}", 1, "s", "s", text);
    check_refused(state, -E2BIG, "a{sv}", 1, "l", "au", 70, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6,
                  7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6,
                  7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}

static void test_words_of_errors(void **state)
{
    static const char *const pairs[][2] = {{"bad-request", "BadRequest"},
                                           {"denied", "Denied"},
                                           {"too-many", "TooMany"},
                                           {"no-workers", "NoWorkers"}};
    char word[BUS_ERROR_WORD_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        bus_error_of_code(pairs[i][0], word);
        assert_string_equal(word, pairs[i][1]);
        bus_code_of_error(pairs[i][1], word);
        assert_string_equal(word, pairs[i][0]);
    }
    bus_code_of_error("AnErrorOfAnotherProgramThatIsVeryLongIndeed", word);
    assert_true(strlen(word) < sizeof(word));
}

/* sd-bus does not look at names beyond the arguments, and profctl relies on in and out as they are. */
static void test_methods_have_a_name_for_each_argument(void **state)
{
    const struct bus_method *m;

    for (size_t i = 0; (m = bus_method_at(i)); i++) {
        size_t n_names = 0, n_arguments = 0;
        for (const char *name = m->names; *name; name += strlen(name) + 1)
            n_names++;
        for (size_t k = 0; k < 2; k++)
            for (const char *s = k ? m->out : m->in; *s; s += starts_with(s, BUS_DICTIONARY) ? 5 : 1)
                n_arguments++;
        assert_int_equal(n_names, n_arguments);
        assert_ptr_equal(bus_method_find(m->interface, m->name), m);
        assert_int_equal(strchr(m->pattern, '{') != NULL,
                         m->in[0] == 's' || streq(m->interface, BUS_SESSION));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_noncharacters_are_replaced),
        cmocka_unit_test(test_limits_of_what_goes_out),
        cmocka_unit_test(test_every_type_that_comes_in),
        cmocka_unit_test(test_what_json_cannot_say),
        cmocka_unit_test(test_words_of_errors),
        cmocka_unit_test(test_methods_have_a_name_for_each_argument),
    };
    return cmocka_run_group_tests(tests, make_connection, drop_connection);
}
