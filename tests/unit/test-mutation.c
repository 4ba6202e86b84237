/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of real traces are changed, one at a time: what is read must be the same, or say that something is
 * wrong.
 *
 * In compressed data every change is found by the checksum, where it changes anything at all (a gzip header's
 * time does not). Text has no checksum: a digit that becomes another one is as good as what it was. So of a
 * changed text one of these is required:
 *   - its columns are those of the original;
 *   - a defect or a state is told that the original does not have;
 *   - it is still well-formed, by the strict rules of RFC 8259 and of UTF-8: then it says something else, and
 *     that is what is read (a number may have zeros in front, and a bracket a comma before it, as some
 *     writers put there);
 *   - the change lies within an array or object that is kept as it is written, and was kept.
 */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-fixture.h"
#include <ctype.h>

/* Bytes of a text, one of them a changed one, that tell that it is there. */
#define NEAR     ((size_t)4)

#define DEFAULTS ((struct read_options){.threads = 1})

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*state >> 33);
}

/* Well-formed JSON. Each function takes one thing from *p on and says whether it was there. */

struct json {
    const unsigned char *p, *end;
};

static void take_space(struct json *j)
{
    while (j->p < j->end && strchr(" \t\r\n", *j->p) && *j->p)
        j->p++;
}

static bool take_byte(struct json *j, char c)
{
    if (j->p == j->end || *j->p != (unsigned char)c)
        return false;
    j->p++;
    return true;
}

static bool take_word(struct json *j, const char *word)
{
    size_t size = strlen(word);

    if ((size_t)(j->end - j->p) < size || memcmp(j->p, word, size) != 0)
        return false;
    j->p += size;
    return true;
}

static bool take_digits(struct json *j)
{
    const unsigned char *begin = j->p;

    while (j->p < j->end && isdigit(*j->p))
        j->p++;
    return j->p > begin;
}

static bool take_number(struct json *j)
{
    take_byte(j, '-');
    if (!take_digits(j) || (take_byte(j, '.') && !take_digits(j)))
        return false;
    if (!take_byte(j, 'e') && !take_byte(j, 'E'))
        return true;
    if (!take_byte(j, '+'))
        take_byte(j, '-');
    return take_digits(j);
}

static bool take_escape(struct json *j)
{
    if (take_byte(j, 'u')) {
        for (int i = 0; i < 4; i++, j->p++)
            if (j->p == j->end || !isxdigit(*j->p))
                return false;
        return true;
    }
    return j->p < j->end && *j->p && strchr("\"\\/bfnrt", *j->p++);
}

static bool take_character(struct json *j)
{
    static const struct {
        unsigned char lead_min, lead_max, next_min, next_max;
        int more;
    } kinds[] = {
        {0x20, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2},
        {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2}, {0xee, 0xef, 0x80, 0xbf, 2},
        {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3},
    };
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (*j->p < kinds[i].lead_min || *j->p > kinds[i].lead_max)
            continue;
        if (j->end - j->p <= kinds[i].more)
            return false;
        for (int k = 1; k <= kinds[i].more; k++)
            if (j->p[k] < (k == 1 ? kinds[i].next_min : 0x80) ||
                j->p[k] > (k == 1 ? kinds[i].next_max : 0xbf))
                return false;
        j->p += 1 + kinds[i].more;
        return true;
    }
    return false;
}

static bool take_string(struct json *j)
{
    if (!take_byte(j, '"'))
        return false;
    while (j->p < j->end) {
        if (take_byte(j, '"'))
            return true;
        if (take_byte(j, '\\') ? !take_escape(j) : !take_character(j))
            return false;
    }
    return false;
}

static bool take_value(struct json *j);

static bool take_member(struct json *j, char close)
{
    take_space(j);
    if (close == '}') {
        if (!take_string(j))
            return false;
        take_space(j);
        if (!take_byte(j, ':'))
            return false;
    }
    return take_value(j);
}

static bool take_members(struct json *j, char close)
{
    take_space(j);
    if (take_byte(j, close))
        return true;
    do {
        take_space(j);
        if (take_byte(j, close))
            return true;
        if (!take_member(j, close))
            return false;
    } while (take_byte(j, ','));
    return take_byte(j, close);
}

static bool take_value(struct json *j)
{
    bool ok;

    take_space(j);
    if (take_byte(j, '{'))
        ok = take_members(j, '}');
    else if (take_byte(j, '['))
        ok = take_members(j, ']');
    else if (j->p < j->end && *j->p == '"')
        ok = take_string(j);
    else
        ok = take_word(j, "true") || take_word(j, "false") || take_word(j, "null") || take_number(j);
    take_space(j);
    return ok;
}

static bool is_well_formed(const char *text, size_t size)
{
    struct json j = {(const unsigned char *)text, (const unsigned char *)text + size};

    return take_value(&j) && j.p == j.end;
}

static void test_well_formed(void **state)
{
    static const struct {
        const char *text;
        bool well_formed;
    } cases[] = {
        {"{\"a\": [1, -2.5e+3, true, null, \"\\u00e4\\n\xc3\xa4\"], \"b\": {}}", true},
        {" [ ] ", true},
        {"[1, 2", false},
        {"[1,]", true},
        {"[,]", false},
        {"[1,,2]", false},
        {"[1 2]", false},
        {"{\"a\" 1}", false},
        {"{a: 1}", false},
        {"\"\\x\"", false},
        {"\"\n\"", false},
        {"\"\xc3\"", false},
        {"\"\xed\xa0\x80\"", false},
        {"[1.]", false},
        {"[NaN]", false},
        {"[] []", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(is_well_formed(cases[i].text, strlen(cases[i].text)), cases[i].well_formed);
}

/* Whether a is told to have something wrong with it that b has not. */
static bool tells_more(const struct read_result *a, const struct read_result *b)
{
    if (a->sum.state != b->sum.state)
        return true;
    for (size_t i = 0; i < _DEFECT_MAX; i++)
        if (a->sum.columns.defects[i] != b->sum.columns.defects[i])
            return true;
    return false;
}

static bool has_some_of(struct text t, const char *p, size_t size)
{
    for (size_t i = 0; i + NEAR <= size; i++)
        if (memmem(t.p, t.size, p + i, NEAR))
            return true;
    return false;
}

/* Whether there is a text of JSON that the original does not have, and the changed byte is in it. */
static bool kept_as_written(const struct read_result *original, const struct read_result *r, const char *data,
                            size_t size, size_t at)
{
    _cleanup_(columns_closep) struct columns *old = open_columns(original), *c = open_columns(r);
    size_t begin = at - MIN(at, NEAR - 1), end = MIN(at + NEAR, size);

    for (uint32_t i = 0; i < columns_texts(c); i++) {
        struct text t = columns_text(c, i);
        if (t.size > 0 && strchr("[{", t.p[0]) && columns_find_text(old, t.p, t.size) < 0 &&
            has_some_of(t, data + begin, end - begin))
            return true;
    }
    return false;
}

static void assert_excused(const struct read_result *original, const struct read_result *r, const char *data,
                           size_t size, size_t at, char was)
{
    if (r->result != 0)
        fail_msg("byte %zu, 0x%02x to 0x%02x: error %d", at, (uint8_t)was, (uint8_t)data[at], r->result);
    if (same_columns(original, r) || tells_more(r, original))
        return;
    if (r->sum.stream.coding == STREAM_PLAIN &&
        (is_well_formed(data, size) || kept_as_written(original, r, data, size, at)))
        return;
    size_t begin = at > 40 ? at - 40 : 0;
    fail_msg("byte %zu, 0x%02x to 0x%02x changes the columns and nobody says so:\n%.*s", at, (uint8_t)was,
             (uint8_t)data[at], (int)MIN(size - begin, (size_t)80), data + begin);
}

static void mutate(char *data, size_t size, size_t n, uint64_t seed)
{
    struct read_result original = read_in(data, size, DEFAULTS);

    assert_int_equal(original.result, 0);
    assert_int_equal(original.sum.state, READ_COMPLETE);
    for (size_t i = 0; i < n; i++) {
        size_t at = next_random(&seed) % size;
        char was = data[at];
        /* A bit, or any byte, or one that means something in JSON. */
        switch (i % 3) {
        case 0:
            data[at] ^= (char)(1 << next_random(&seed) % 8);
            break;
        case 1:
            data[at] = (char)next_random(&seed);
            break;
        default:
            data[at] = "\"\\{}[],:0-. \n"[next_random(&seed) % 13];
        }
        struct read_result r = read_in(data, size, DEFAULTS);
        assert_excused(&original, &r, data, size, at, was);
        read_result_free(&r);
        data[at] = was;
    }
    read_result_free(&original);
}

static const char *const names[] = {
    "hta/event_sync_multi_stream.json.gz",
    "hta/triton_example.json.gz",
    "tracelens/vllm_decode_full_graph.json.gz",
    "kineto/chrome_generic_phases.json",
    "hta/amd_mi250_minitoy.json.gz",
    "tracelens/torch_compile_triton.json.gz",
};

static void mutate_all(bool unpacked, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char path[4096];
        size_t size;
        char *data = NULL;
        snprintf(path, sizeof(path), "%s/%s", TRACES_DIR, names[i]);
        assert_int_equal(read_file(AT_FDCWD, path, FIXTURE_FILE_MAX, &data, &size), 0);
        if (unpacked) {
            char *text = unpack(data, size, &size);
            free(data);
            data = text;
        }
        print_message("%s\n", names[i]);
        mutate(data, size, n, i + 1);
        free(data);
    }
}

static void test_compressed(void **state)
{
    mutate_all(false, 60);
}

static void test_text(void **state)
{
    mutate_all(true, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_compressed),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
