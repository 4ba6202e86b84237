/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of engines over several nodes, by their command lines. */
#include "base/alloc.h"
#include "daemon/fleet/process_ranks.h"
#include "tests/unit/cmocka-all.h"

/* The words of a command line, as /proc has them. The caller frees data. */
static struct string_list words(const char *line)
{
    char *data = xstrdup(line);
    size_t size = strlen(data) + 1;

    for (char *c = data; *c; c++)
        *c = *c == ' ' ? '\0' : *c;
    return (struct string_list){data, size - 1};
}

static void check(const char *line, const char *group, int node, int ranks, int first)
{
    struct string_list args = words(line);
    struct rank_launch l;

    assert_int_equal(rank_launch_read(&args, &l), group != NULL);
    if (group) {
        assert_string_equal(l.group, group);
        assert_int_equal(l.node, node);
        assert_int_equal(l.ranks, ranks);
        assert_int_equal(l.first_rank, first);
        rank_launch_done(&l);
    }
    free((char *)args.data);
}

static void test_launches(void **state)
{
    static const char meet[] = "10.0.0.1:5000";

    check("python3 -m sglang.launch_server --model-path m --tp 16 --dist-init-addr 10.0.0.1:5000 --nnodes 2 "
          "--node-rank 1",
          meet, 1, 8, 8);
    check("/venv/bin/python -m sglang.launch_server --tp-size=8 --pp-size 2 --nccl-init-addr 10.0.0.1:5000 "
          "--nnodes=4 --node_rank=3",
          meet, 3, 4, 12);
    check("python3 -m sglang.launch_server --tp 16 --dist-init-addr 10.0.0.1:5000 --nnodes 2 --node-rank 0",
          meet, 0, 8, 0);
    check("/usr/bin/python3 /usr/local/bin/vllm serve m -tp 8 -pp 2 --nnodes 2 -r 1 --master-addr 10.0.0.1 "
          "--headless",
          "10.0.0.1:29501", 1, 8, 8);
    check("vllm serve m --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 5000", meet, 0, 0, 0);
}

static void test_others(void **state)
{
    static const char *const lines[] = {
        "",
        "python3",
        "python3 -m sglang.launch_server --tp 8",
        "python3 -m sglang.launch_server --dist-init-addr 10.0.0.1:5000 --nnodes 1 --node-rank 0",
        "python3 -m sglang.launch_server --dist-init-addr 10.0.0.1:5000 --nnodes 2 --node-rank 2",
        "python3 -m sglang.launch_server --dist-init-addr 127.0.0.1:5000 --nnodes 2 --node-rank 1",
        "python3 -m sglang.launch_server --dist-init-addr 10.0.0.1/x:5000 --nnodes 2 --node-rank 1",
        "python3 -m sglang.launch_server --nnodes 2 --node-rank 1",
        /* A node with a server of its own. */
        "vllm serve m --nnodes 2 --node-rank 1 --master-addr 10.0.0.1",
        /* No launch of an engine. */
        "bash -c echo a b c d sglang.launch_server --dist-init-addr 10.0.0.1:5000 --nnodes 2 --node-rank 1",
        "torchrun --nnodes 2 --node-rank 1 --master-addr 10.0.0.1 train.py",
    };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        check(lines[i], NULL, 0, 0, 0);
}

static void test_urls(void **state)
{
    _cleanup_(freep) char *url = ranks_url("10.0.0.1:5000", 1);
    static const char *const bad[] = {"ranks://",           "ranks:///1",     "http://10.0.0.1:5000/1",
                                      "ranks://a:1/",       "ranks://a:1/x",  "ranks://a:1/1/2",
                                      "ranks://a:1/123456", "ranks://a b:1/1"};
    char *group;
    int node;

    assert_string_equal(url, "ranks://10.0.0.1:5000/1");
    assert_true(ranks_url_parse(url, &group, &node));
    assert_string_equal(group, "10.0.0.1:5000");
    assert_int_equal(node, 1);
    free(group);
    assert_true(ranks_url_parse("ranks://[::1]:5000", &group, &node));
    assert_int_equal(node, -1);
    free(group);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_false(ranks_url_parse(bad[i], &group, &node));
        assert_null(group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
