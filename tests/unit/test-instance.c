/* SPDX-License-Identifier: Apache-2.0 */
/* Which traces are of one engine instance: each piece of evidence, groups, names. */
#include "tests/unit/cmocka-all.h"
#include "trace/read/instance.h"

/* What a test does not name is unknown. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define CLUES(...)                                                                                           \
    ((struct instance_clues){.rank = INSTANCE_UNKNOWN,                                                       \
                             .world_size = INSTANCE_UNKNOWN,                                                 \
                             .dp = INSTANCE_UNKNOWN,                                                         \
                             .from_ns = INSTANCE_UNKNOWN,                                                    \
                             .to_ns = INSTANCE_UNKNOWN,                                                      \
                             __VA_ARGS__})
#define DISTRIBUTED(text) .distributed = (text), .distributed_size = sizeof(text) - 1
#define S                 INT64_C(1000000000)

static void assert_evidence(struct instance_clues a, struct instance_clues b, const char *name,
                            enum instance_belief belief)
{
    enum instance_belief found;

    for (int turn = 0; turn < 2; turn++) { /* whoever is asked first */
        const char *by = instance_evidence(turn ? &b : &a, turn ? &a : &b, &found);
        assert_string_equal(by ? by : "nothing", name);
        assert_int_equal(found, belief);
    }
}

static void test_each_evidence_decides(void **state)
{
    static const char two[] = "{\"pg_count\": 1, \"pg_config\": [{\"pg_name\": \"0\", \"pg_size\": 4, "
                              "\"ranks\": [0, 1, 2, 3]}, {\"pg_name\": \"1\", \"pg_size\": 2, "
                              "\"ranks\": [0, 1]}]}",
                      four[] = "{\"pg_count\": 1, \"pg_config\": [{\"pg_name\": \"0\", \"pg_size\": 4, "
                               "\"ranks\": [0, 1, 2, 3]}, {\"pg_name\": \"1\", \"pg_size\": 4, "
                               "\"ranks\": [0, 1, 2, 3]}]}";

    assert_evidence(CLUES(), CLUES(), "nothing", INSTANCE_UNDECIDED);
    assert_evidence(CLUES(.recording = "s1", .worker = "http://a"),
                    CLUES(.recording = "s2", .worker = "http://a"), "recording", INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.stage = "prefill", .worker = "http://a"),
                    CLUES(.stage = "decode", .worker = "http://a"), "stage", INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.rank = 0, .world_size = 1, .worker = "http://a"),
                    CLUES(.rank = 0, .world_size = 1, .worker = "http://b"), "rank", INSTANCE_DIFFERENT);
    /* Dense data parallelism: one server, two worlds. */
    assert_evidence(CLUES(.rank = 0, .dp = 0, .worker = "http://a"),
                    CLUES(.rank = 0, .dp = 1, .worker = "http://a"), "rank", INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.rank = 0, .world_size = 2), CLUES(.rank = 1, .world_size = 4), "world",
                    INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.backend = "nccl"), CLUES(.backend = "gloo"), "world", INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.rank = 0, .world_size = 4, DISTRIBUTED(two)),
                    CLUES(.rank = 1, .world_size = 4, DISTRIBUTED(four)), "process groups",
                    INSTANCE_DIFFERENT);
    /* A group that does not have both says nothing of them. */
    assert_evidence(CLUES(.rank = 2, .world_size = 4, DISTRIBUTED(two)),
                    CLUES(.rank = 3, .world_size = 4, DISTRIBUTED(two)), "same world", INSTANCE_SAME);
    assert_evidence(CLUES(.rank = 0, .world_size = 2, .from_ns = 0, .to_ns = 1 * S),
                    CLUES(.rank = 1, .world_size = 2, .from_ns = 62 * S, .to_ns = 63 * S), "time",
                    INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.rank = 0, .worker = "http://a"), CLUES(.rank = 1, .worker = "http://a"), "worker",
                    INSTANCE_SAME);
    assert_evidence(CLUES(.rank = 0, .worker = "http://a", .group = "g"),
                    CLUES(.rank = 1, .worker = "http://b", .group = "g"), "server_info", INSTANCE_SAME);
    assert_evidence(CLUES(.rank = 0, .world_size = 2, .worker = "http://a"),
                    CLUES(.rank = 1, .world_size = 2, .worker = "http://b"), "other worker",
                    INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.path = "d/1700000000.5-TP-0.trace.json.gz"),
                    CLUES(.path = "d/1700000000.5-TP-1.trace.json.gz"), "profile id", INSTANCE_SAME);
    assert_evidence(CLUES(.path = "d/1700000000.5-TP-0.trace.json.gz"),
                    CLUES(.path = "d/1700000099.5-TP-1.trace.json.gz"), "profile id", INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.rank = 0, .world_size = 2, DISTRIBUTED("{\"pg_count\": 7}")),
                    CLUES(.rank = 1, .world_size = 2, DISTRIBUTED("{\"pg_count\": 15}")), "pg_count",
                    INSTANCE_DIFFERENT);
    assert_evidence(CLUES(.path = "d/rank-0.json.gz"), CLUES(.path = "d/rank-1.json.gz"), "file name",
                    INSTANCE_SAME);
    assert_evidence(CLUES(.path = "rank0/trace.json"), CLUES(.path = "rank1/trace.json"), "nothing",
                    INSTANCE_UNDECIDED);
    assert_evidence(CLUES(.path = "tp1.json"), CLUES(.path = "tp2.json"), "nothing", INSTANCE_UNDECIDED);
    assert_evidence(CLUES(.rank = 0, .world_size = 2), CLUES(.rank = 1, .world_size = 2), "same world",
                    INSTANCE_SAME);
    /* Two GPUs that each serve a model. */
    assert_evidence(CLUES(.rank = 0, .world_size = 1, .path = "a.json"),
                    CLUES(.rank = 0, .world_size = 1, .path = "b.json"), "rank", INSTANCE_DIFFERENT);
}

static void test_damaged_heads_decide_nothing(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"pg_config\":",
                                        "{\"pg_config\":[{\"pg_name\"",
                                        "{\"pg_config\":[1,{}]}",
                                        "{\"pg_count\":"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
            struct instance_clues a = CLUES(.rank = 0, .distributed = texts[i],
                                            .distributed_size = strlen(texts[i])),
                                  b = CLUES(.rank = 1, .distributed = texts[k],
                                            .distributed_size = strlen(texts[k]));
            enum instance_belief belief;
            instance_evidence(&a, &b, &belief);
            assert_int_not_equal(belief, INSTANCE_SAME);
        }
}

/* Two jobs of two ranks, recorded at the same time under names that tell nothing. */
static enum instance_belief by_job(void *arg, size_t one, size_t other)
{
    const size_t *jobs = arg;

    return jobs[one] == jobs[other] ? INSTANCE_SAME : INSTANCE_UNDECIDED;
}

static void test_collectives_distinguish_jobs(void **state)
{
    struct instance_clues clues[] = {
        CLUES(.rank = 0, .world_size = 2, .path = "a"), CLUES(.rank = 0, .world_size = 2, .path = "b"),
        CLUES(.rank = 1, .world_size = 2, .path = "c"), CLUES(.rank = 1, .world_size = 2, .path = "d")};
    size_t crossed[] = {0, 1, 1, 0}, straight[] = {0, 1, 0, 1}, found[4];

    assert_int_equal(instances_find(clues, 4, by_job, crossed, found), 2);
    assert_memory_equal(found, crossed, sizeof(found));
    assert_int_equal(instances_find(clues, 4, by_job, straight, found), 2);
    assert_memory_equal(found, straight, sizeof(found));
    /* Nobody can look: still never two of one rank. */
    assert_int_equal(instances_find(clues, 4, NULL, NULL, found), 2);
    assert_int_not_equal(found[0], found[1]);
    assert_int_not_equal(found[2], found[3]);
}

/* One model on two hosts, each of which the router lists. */
static void test_collectives_join_workers(void **state)
{
    struct instance_clues clues[] = {
        CLUES(.rank = 0, .world_size = 4, .worker = "http://a"),
        CLUES(.rank = 1, .world_size = 4, .worker = "http://a"),
        CLUES(.rank = 2, .world_size = 4, .worker = "http://b"),
        CLUES(.rank = 3, .world_size = 4, .worker = "http://b"),
    };
    size_t one_job[] = {0, 0, 0, 0}, apart[] = {0, 1, 2, 3}, expected[] = {0, 0, 1, 1}, found[4];

    assert_int_equal(instances_find(clues, 4, by_job, one_job, found), 1);
    assert_int_equal(instances_find(clues, 4, by_job, apart, found), 2);
    assert_memory_equal(found, expected, sizeof(found));
}

/* What joins two groups must not join two that are different. */
static void test_a_bond_never_joins_opposites(void **state)
{
    struct instance_clues clues[] = {
        CLUES(.rank = 0, .world_size = 3, .worker = "http://a"),
        CLUES(.rank = 1, .world_size = 3, .worker = "http://a"),
        CLUES(.rank = 1, .world_size = 3, .worker = "http://b"),
        CLUES(.rank = 2, .world_size = 3, .worker = "http://b"),
    };
    size_t jobs[] = {0, 1, 2, 0}, expected[] = {0, 0, 1, 1}, found[4];

    assert_int_equal(instances_find(clues, 4, by_job, jobs, found), 2);
    assert_memory_equal(found, expected, sizeof(found));
    assert_int_equal(instances_find(clues, 0, NULL, NULL, found), 0);
    assert_int_equal(instances_find(clues, 1, NULL, NULL, found), 1);
}

static void test_names(void **state)
{
    struct instance_clues workers[] = {
        CLUES(.worker = "http://10.0.0.1:30000", .dp = 0), CLUES(.worker = "http://10.0.0.1:30000", .dp = 1),
        CLUES(.worker = "http://10.0.0.2:30000"), CLUES(.worker = "http://10.0.0.3:30000")};
    size_t of_workers[] = {0, 1, 2, 2};
    struct instance_clues files[] = {
        CLUES(.path = "d/sst4-rank0.json.gz"),      CLUES(.path = "d/sst4-rank1.json.gz"),
        CLUES(.path = "d/sst5-rank0.json.gz"),      CLUES(.path = "d/sst5-rank1.json.gz"),
        CLUES(.path = "d/single.pt.trace.json.gz"), CLUES(.path = "d/job/rank0.json"),
        CLUES(.path = "d/job/rank1.json")};
    size_t of_files[] = {0, 0, 1, 1, 2, 3, 3};
    struct instance_clues same[] = {CLUES(.path = "x/1_1.json"), CLUES(.path = "x/1_2.json"),
                                    CLUES(.path = "x/1_3.json"), CLUES(.path = "x/1_4.json")};
    size_t of_same[] = {0, 0, 1, 1};
    struct instance_clues numbered[] = {CLUES(.path = "x/1_1.json"), CLUES(.path = "y/#1.json"),
                                        CLUES(.path = "/")};
    size_t of_numbered[] = {0, 1, 2};
    char names[7][INSTANCE_NAME_MAX];

    instances_name(workers, 4, of_workers, 3, names);
    assert_string_equal(names[0], "10.0.0.1:30000 dp0");
    assert_string_equal(names[1], "10.0.0.1:30000 dp1");
    assert_string_equal(names[2], "10.0.0.2:30000+1");
    instances_name(files, 7, of_files, 4, names);
    assert_string_equal(names[0], "sst4");
    assert_string_equal(names[1], "sst5");
    assert_string_equal(names[2], "single");
    assert_string_equal(names[3], "job");
    instances_name(same, 4, of_same, 2, names);
    assert_string_equal(names[0], "x #1");
    assert_string_equal(names[1], "x #2");
    instances_name(numbered, 3, of_numbered, 3, names);
    for (size_t i = 0; i < 3; i++)
        assert_string_not_equal(names[i], names[(i + 1) % 3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_evidence_decides),
        cmocka_unit_test(test_damaged_heads_decide_nothing),
        cmocka_unit_test(test_collectives_distinguish_jobs),
        cmocka_unit_test(test_collectives_join_workers),
        cmocka_unit_test(test_a_bond_never_joins_opposites),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
