/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profd makes of the answers of each engine and version in tests/fleet/answers, whose README.md describes the
 * format. Each folder is a test.
 */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include "tests/unit/cmocka-all.h"
#include <dirent.h>
#include <sys/stat.h>

#define PROFILE_ID   "s1-w0"
#define ANSWER_BYTES (2 << 20) /* as profd takes them */
#define FOLDERS_MIN  20        /* fewer means that they were not found */
#define ROUNDS_MAX   4         /* of questions, until there are no more */

struct folder_test {
    const char *name; /* of the folder */
    json_t *manifest;
    struct worker worker;
    struct answers answers;
    json_t *asked; /* "METHOD /path" of everything after the first questions */
};

static char *folder_read(const char *folder, const char *file, size_t *ret_size)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s/%s", ANSWERS_DIR, folder, file);
    FILE *f = fopen(path, "re");

    if (!f)
        fail_msg("%s cannot be read", path);
    char *data = xcalloc(1, ANSWER_BYTES + 1);
    *ret_size = fread(data, 1, ANSWER_BYTES, f);
    fclose(f);
    return data;
}

static json_t *folder_json(const char *folder, const char *file)
{
    size_t size;
    char error[200];
    _cleanup_(freep) char *data = folder_read(folder, file, &size);
    json_t *json = json_parse(data, size, error);

    if (!json)
        fail_msg("%s/%s: %s", folder, file, error);
    return json;
}

/* The status and body of an answer of the manifest: a file's name, a status, or an object. */
static int folder_answer(const struct folder_test *t, const json_t *answer, char **ret_body, size_t *ret_size)
{
    const char *file = json_is_string(answer) ? json_string_value(answer) : json_get_str(answer, "file");
    const json_t *json = json_object_get(answer, "json");
    const char *text = json_get_str(answer, "text");
    int status =
        json_is_integer(answer) ? (int)json_integer_value(answer) : (int)json_get_int(answer, "status", 200);

    if (json_is_integer(answer)) {
        folder_answer(t, json_object_get(t->manifest, "otherwise"), ret_body, ret_size);
        return status;
    }
    *ret_body = file   ? folder_read(t->name, file, ret_size)
                : json ? json_dumps(json, JSON_ENCODE_ANY)
                       : xstrdup(text ? text : "");
    if (!file)
        *ret_size = strlen(*ret_body);
    return status;
}

static char *folder_question(enum question q)
{
    const char *path = question_path(q);
    return xasprintf("%s %.*s", question_method(q), (int)strcspn(path, "?"), path);
}

static void folder_ask(struct folder_test *t, unsigned questions)
{
    for (int q = 0; q < _QUESTION_MAX; q++) {
        if (!(questions & QUESTION_BIT(q)))
            continue;
        _cleanup_(freep) char *name = folder_question((enum question)q), *body = NULL, *text = NULL;
        const json_t *answer = json_object_get(json_object_get(t->manifest, "answers"), name);
        size_t size;
        int status =
            folder_answer(t, answer ? answer : json_object_get(t->manifest, "otherwise"), &body, &size);
        text = xasprintf("%d", status);
        answers_set(&t->answers, (enum question)q, 0, status, text, body, size);
        if (!(QUESTIONS_FIRST & QUESTION_BIT(q)))
            json_array_append_new(t->asked, json_string(name));
        if (strstr(name, "profile") &&
            (strcmp(name, "HEAD /start_profile") != 0 || t->worker.engine != ENGINE_VLLM))
            fail_msg("%s is asked of %s", name, engine_name(t->worker.engine));
    }
    worker_identify(&t->worker, &t->answers);
}

/* Everything that is expected is there; null: absent. */
static bool json_has(const json_t *have, const json_t *want)
{
    const char *key;
    json_t *value;

    if (json_is_null(want))
        return !have || json_is_null(have);
    if (!json_is_object(want))
        return json_equal(have, want);
    json_object_foreach((json_t *)want, key, value)
        if (!json_has(json_object_get(have, key), value))
            return false;
    return json_is_object(have);
}

static bool texts_have(const json_t *texts, const char *text)
{
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)texts, i, item)
        if (streq(json_string_value(item), text))
            return true;
    return false;
}

static void expect_text(const json_t *expect, const char *key, const char *text)
{
    const json_t *want = json_object_get(expect, key);

    if (json_is_null(want) && text)
        fail_msg("%s: %s", key, text);
    if (json_is_string(want) && (!text || !strstr(text, json_string_value(want))))
        fail_msg("%s is not in the %s: %s", json_string_value(want), key, text ? text : "there is none");
}

static void expect_keys(const json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value) {
        bool is_known = false;
        for (size_t i = 0; known[i]; i++)
            is_known = is_known || strcmp(known[i], key) == 0;
        if (!is_known)
            fail_msg("the manifest has an unknown member: %s", key);
    }
}

static void expect_worker(const struct folder_test *t)
{
    static const char *const known[] = {"worker", "reason", "remedy", "note", "asked", NULL};
    const json_t *expect = json_object_get(t->manifest, "expect"), *asked = json_object_get(expect, "asked");
    const json_t *want = json_object_get(expect, "worker");
    _cleanup_json_ worker = worker_to_json(&t->worker);
    size_t i;
    json_t *item;

    expect_keys(expect, known);
    assert_true(json_get_str(want, "engine"));
    if (!json_has(worker, want)) {
        _cleanup_(freep) char *text = json_dumps(worker, JSON_INDENT(2));
        fail_msg("the worker is %s", text);
    }
    expect_text(expect, "reason", t->worker.reason);
    expect_text(expect, "remedy", t->worker.remedy);
    expect_text(expect, "note", t->worker.note);
    assert_true(t->worker.profilable || (t->worker.reason && t->worker.remedy));
    if (!asked)
        return;
    _cleanup_(freep) char *text = json_dumps(t->asked, 0);
    if (json_array_size(asked) != json_array_size(t->asked))
        fail_msg("asked: %s", text);
    json_array_foreach((json_t *)asked, i, item)
        if (!texts_have(t->asked, json_string_value(item)))
            fail_msg("asked: %s", text);
}

static unsigned folder_activities(const json_t *names)
{
    static const char *const words[] = {"cpu", "cuda", "mem", "cuda_profiler"};
    unsigned bits = 0;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (texts_have(names, words[i]))
            bits |= 1u << i;
    return bits;
}

static bool review_has(const struct review *r, const char *text, bool option)
{
    for (size_t i = 0; i < r->n; i++)
        if (option
                ? r->items[i].refuses && streq(r->items[i].option, text)
                : strstr(r->items[i].text, text) || (r->items[i].remedy && strstr(r->items[i].remedy, text)))
            return true;
    return false;
}

static void expect_remarks(const json_t *texts, const struct review *r, bool option, bool there)
{
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)texts, i, item) {
        if (review_has(r, json_string_value(item), option) == there)
            continue;
        for (size_t k = 0; k < r->n; k++)
            print_message("remark: %s %s\n", r->items[k].option ? r->items[k].option : "", r->items[k].text);
        fail_msg("\"%s\" is %s", json_string_value(item), there ? "missing" : "there");
    }
}

static void expect_recording(const struct folder_test *t, const json_t *want)
{
    static const char *const known[] = {"options", "body", "remarks", "refused", "silent", NULL};
    static const char *const known_options[] = {"steps",         "start_step", "duration_ns", "activities",
                                                "with_stack",    "by_stage",   "output_dir",  "prompt",
                                                "record_shapes", NULL};
    const struct engine_ops *ops = worker_ops(&t->worker);
    const json_t *options = json_object_get(want, "options"), *body = json_object_get(want, "body");
    const struct recording rec = {
        .steps = json_get_int(options, "steps", 0),
        .start_step = json_get_int(options, "start_step", 0),
        .duration_ns = json_get_int(options, "duration_ns", 0),
        .activities = folder_activities(json_object_get(options, "activities")),
        .with_stack = json_get_bool(options, "with_stack", false),
        .record_shapes = json_get_bool(options, "record_shapes", false),
        .by_stage = json_get_bool(options, "by_stage", false),
        .output_dir = json_get_str(options, "output_dir"),
        .prompt = json_get_str(options, "prompt"),
        .profile_id = PROFILE_ID,
    };
    struct review review = {0};

    expect_keys(want, known);
    expect_keys(options, known_options);
    assert_non_null(ops);
    ops->review(&rec, &t->worker, &review);
    expect_remarks(json_object_get(want, "remarks"), &review, false, true);
    expect_remarks(json_object_get(want, "refused"), &review, true, true);
    expect_remarks(json_object_get(want, "silent"), &review, false, false);
    review_done(&review);
    _cleanup_json_ have = ops->start_body ? ops->start_body(&rec, &t->worker) : NULL;
    _cleanup_(freep) char *text = have ? json_dumps(have, JSON_SORT_KEYS) : xstrdup("none");
    if (body && (json_is_null(body) ? have != NULL : !json_equal(have, body)))
        fail_msg("the body is %s", text);
}

static void expect_failed_start(const struct folder_test *t, const json_t *want)
{
    _cleanup_(freep) char *body = NULL;
    struct problem p = {0};
    size_t size;
    int status = folder_answer(t, want, &body, &size);

    engine_explain_start(worker_ops(&t->worker), &t->worker, status, body, &p);
    expect_text(want, "what", p.what);
    expect_text(want, "remedy", p.remedy);
    problem_done(&p);
}

static void test_folder(void **state)
{
    static const char *const known[] = {"title",  "source",     "answers",       "otherwise",
                                        "expect", "recordings", "failed_starts", NULL};
    struct folder_test t = {.name = *state, .asked = json_array()};
    unsigned more = QUESTIONS_FIRST;
    size_t i;
    json_t *item;

    t.manifest = folder_json(t.name, "manifest.json");
    expect_keys(t.manifest, known);
    const json_t *source = json_object_get(t.manifest, "source");
    assert_non_null(json_get_str(source, "repository"));
    assert_non_null(json_get_str(source, "commit"));
    worker_init(&t.worker);
    t.worker.url = xstrdup("http://w:1");
    for (int round = 0; more; round++) {
        assert_true(round < ROUNDS_MAX);
        folder_ask(&t, more);
        more = worker_more_questions(&t.worker, &t.answers);
    }
    expect_worker(&t);
    json_array_foreach(json_object_get(t.manifest, "recordings"), i, item)
        expect_recording(&t, item);
    json_array_foreach(json_object_get(t.manifest, "failed_starts"), i, item)
        expect_failed_start(&t, item);
    worker_done(&t.worker);
    answers_done(&t.answers);
    json_decref(t.manifest);
    json_decref(t.asked);
}

static int is_folder(const struct dirent *entry)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s", ANSWERS_DIR, entry->d_name);
    struct stat st;

    return entry->d_name[0] != '.' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int main(void)
{
    struct dirent **folders;
    int n = scandir(ANSWERS_DIR, &folders, is_folder, alphasort);

    if (n < FOLDERS_MIN) {
        fprintf(stderr, "%s has %d folders\n", ANSWERS_DIR, n);
        return 1;
    }
    struct CMUnitTest *tests = xcalloc((size_t)n, sizeof(*tests));
    for (int i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){
            .name = folders[i]->d_name, .test_func = test_folder, .initial_state = folders[i]->d_name};
    int failed = _cmocka_run_group_tests("engine answers", tests, (size_t)n, NULL, NULL);
    for (int i = 0; i < n; i++)
        free(folders[i]);
    free(folders);
    free(tests);
    return failed;
}
