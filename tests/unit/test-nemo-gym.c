/* SPDX-License-Identifier: Apache-2.0 */
/* NeMo Gym on the side of profd: its router, its engine, its launch, and its functions in the catalog. */
#include "tests/unit/cmocka-all.h"

#include "daemon/fleet/profiler_config.h"
#include "extras/nemo_gym/engine.h"
#include "extras/nemo_gym/function_list.h"
#include "tests/unit/catalog-fixture.h"

/* Strings with their NULs; the literal's own NUL ends the last one. */
#define STRINGS(text) ((struct string_list){(text), sizeof(text)})

static void test_router(void **state)
{
    static const char text[] =
        "[{\"config_path\":\"math\",\"process_name\":\"math\",\"server_type\":\"resources_servers\","
        "\"name\":\"example\",\"host\":\"h\",\"port\":1,\"url\":\"http://h:1\",\"status\":null}]";
    char why[ROUTER_WHY_MAX] = "";
    struct fleet *f = xcalloc(1, sizeof(*f));

    assert_int_equal(router_parse(NULL, "/server_instances", text, strlen(text),
                                  &(struct router_bounds){.workers_max = 10}, f, why),
                     0);
    assert_string_equal(f->dialect, "nemo-gym");
    assert_int_equal(f->n_workers, 1);
    assert_string_equal(f->workers[0].url, "http://h:1");
    assert_string_equal(f->workers[0].model, "math");
    fleet_free(f);
}

/* What a server is that only has these paths. */
static void identify(struct worker *w, const char *openapi)
{
    struct answers answers = {0};

    worker_init(w);
    w->url = xstrdup("http://w:1");
    for (int q = 0; q <= QUESTION_MODELS; q++)
        answers_set(&answers, (enum question)q, 0, 404, "404", "", 0);
    answers_set(&answers, QUESTION_OPENAPI, 0, 200, "200 OK", openapi, strlen(openapi));
    worker_identify(w, &answers);
    answers_done(&answers);
    assert_int_equal(w->engine, ENGINE_NEMO_GYM);
    assert_string_equal(engine_name(w->engine), "nemo-gym");
    assert_int_equal(engine_from_name("nemo-gym"), ENGINE_NEMO_GYM);
}

static void test_engine(void **state)
{
    const struct recording timed = {.duration_ns = 1}, stepped = {.steps = 5};
    struct review review = {0};
    struct worker w;

    identify(&w, "{\"paths\":{\"/seed_session\":{},\"/verify\":{},\"/stats\":{}}}");
    assert_true(w.profilable);
    const struct engine_ops *ops = engine_ops(w.engine);
    assert_string_equal(engine_method(ops), "GET");
    ops->review(&timed, &w, &review);
    assert_int_equal(review.n, 1);
    assert_false(review.items[0].refuses);
    assert_non_null(strstr(review.items[0].text, "CPU time"));
    ops->review(&stepped, &w, &review);
    assert_true(review.items[1].refuses);
    review_done(&review);
    worker_done(&w);
}

static void test_engine_without_profiling(void **state)
{
    struct worker w;

    identify(&w, "{\"paths\":{\"/v1/responses\":{},\"/run\":{},\"/aggregate_metrics\":{}}}");
    assert_false(w.profilable);
    assert_non_null(strstr(w.remedy, "+profiling_enabled=true"));
    worker_done(&w);
}

static void test_launch(void **state)
{
    const struct worker_launch
        launch = {.env =
                      STRINGS("NEMO_GYM_CONFIG_PATH=math\0NEMO_GYM_CONFIG_DICT=profiling_enabled: true\n"
                              "profiling_results_dirpath: results/profiling\nmath: {a: {b: {port: 1}}}\n")},
        disabled = {.env = STRINGS("NEMO_GYM_CONFIG_DICT=profiling_results_dirpath: /r\n")},
        broken = {.env = STRINGS("NEMO_GYM_CONFIG_DICT=a: [\n")};
    struct profiler_launch got;

    profiler_launch_read(ENGINE_NEMO_GYM, NULL, &launch, &got);
    assert_string_equal(got.dir, "results/profiling");
    assert_string_equal(got.source, "profiling_results_dirpath");
    assert_string_equal(got.server, "math");
    profiler_launch_done(&got);
    profiler_launch_read(ENGINE_NEMO_GYM, NULL, &disabled, &got);
    assert_null(got.dir);
    assert_null(got.source);
    assert_null(got.setup.kind);
    assert_int_equal(got.setup.with_stack, -1);
    profiler_launch_done(&got);
    profiler_launch_read(ENGINE_NEMO_GYM, NULL, &broken, &got);
    assert_non_null(strstr(got.error, "NEMO_GYM_CONFIG_DICT"));
    profiler_launch_done(&got);
}

/* The names of a session's functions, in order. */
static void check_names(struct catalog_fixture *fixture, int64_t session_id, const char *worker,
                        const char *names)
{
    _cleanup_json_ list = NULL;

    assert_int_equal(catalog_functions_json(fixture->catalog, session_id, worker, &list), 0);
    assert_int_equal(json_array_size(list), strlen(names));
    for (size_t i = 0; i < strlen(names); i++)
        assert_int_equal(json_get_str(json_array_get(list, i), "name")[0], names[i]);
}

static void test_functions(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t session_id = add_session(fixture, STATE_RECORDING),
            other_id = add_session(fixture, STATE_RECORDING);

    for (int i = 0; i < 4; i++) {
        const struct function f = {.name = (char *[]){"a", "b", "c", "d"}[i],
                                   .file = i ? "/f.py" : "",
                                   .line = i ? 7 : 0,
                                   .calls = 2,
                                   .ttot_ns = 10 + i};
        assert_int_equal(catalog_add_function(fixture->catalog, i == 3 ? other_id : session_id,
                                              i ? "http://w:1" : "http://w:2", &f),
                         0);
    }
    check_names(fixture, session_id, NULL, "cba");
    check_names(fixture, session_id, "http://w:1", "cb");
    check_names(fixture, other_id, NULL, "d");
    _cleanup_json_ list = NULL;
    assert_int_equal(catalog_functions_json(fixture->catalog, session_id, NULL, &list), 0);
    const json_t *c = json_array_get(list, 0), *a = json_array_get(list, 2);
    assert_string_equal(json_get_str(c, "session"), "s1");
    assert_string_equal(json_get_str(c, "worker"), "http://w:1");
    assert_string_equal(json_get_str(c, "moment"), "difference");
    assert_string_equal(json_get_str(c, "file"), "/f.py");
    assert_int_equal(json_get_int(c, "line", 0), 7);
    assert_int_equal(json_get_int(c, "calls", 0), 2);
    assert_int_equal(json_get_int(c, "ttot_ns", 0), 12);
    assert_int_equal(json_get_int(c, "tavg_ns", 0), 6);
    assert_null(json_object_get(a, "file"));
    assert_null(json_object_get(a, "line"));
    assert_int_equal(catalog_remove_session(fixture->catalog, session_id), 0);
    run_turn(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from functions"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_router),
        cmocka_unit_test(test_engine),
        cmocka_unit_test(test_engine_without_profiling),
        cmocka_unit_test(test_launch),
        cmocka_unit_test_setup_teardown(test_functions, fixture_begin_open, fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
