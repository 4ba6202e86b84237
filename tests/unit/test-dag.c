/* SPDX-License-Identifier: Apache-2.0 */
/* The longest path, beside one that tries all. */
#include "cmocka-all.h"
#include "trace/reports/path_graph.h"

#include <errno.h>

#define NODES  9
#define ROUNDS 2000

static int64_t try_all(const struct dag *g, uint32_t node)
{
    int64_t longest = 0;

    for (size_t i = 0; i < g->n_edges; i++)
        if (g->edges[i].from == node)
            longest = MAX(longest, g->edges[i].weight + try_all(g, g->edges[i].to));
    return longest;
}

static void test_longest_of_all(void **state)
{
    srandom(7);
    for (int round = 0; round < ROUNDS; round++) {
        struct dag g = {.n_nodes = NODES};
        uint32_t *path, order[NODES];
        int64_t longest = 0, length = 0;
        size_t n;

        /* Edges lead forward in an order of the nodes that is not theirs. */
        for (uint32_t i = 0; i < NODES; i++)
            order[i] = i;
        for (uint32_t i = NODES - 1; i > 0; i--) {
            uint32_t k = (uint32_t)random() % (i + 1), kept = order[i];
            order[i] = order[k];
            order[k] = kept;
        }
        for (int i = 0; i < 14; i++) {
            uint32_t from = (uint32_t)random() % (NODES - 1),
                     to = from + 1 + (uint32_t)random() % (NODES - 1 - from);
            assert_int_equal(dag_add(&g, order[from], order[to], random() % 20 - 3, 0), 0);
        }
        assert_int_equal(dag_longest_path(&g, &path, &n), 0);
        for (size_t i = 0; i < n; i++) {
            length += g.edges[path[i]].weight;
            if (i > 0)
                assert_int_equal(g.edges[path[i]].from, g.edges[path[i - 1]].to);
        }
        for (uint32_t node = 0; node < NODES; node++)
            longest = MAX(longest, try_all(&g, node));
        assert_int_equal(length, longest);
        free(path);
        dag_done(&g);
    }
}

static void test_circles_and_nothing(void **state)
{
    struct dag g = {.n_nodes = 3};
    uint32_t *path;
    size_t n;

    assert_int_equal(dag_longest_path(&g, &path, &n), 0);
    assert_int_equal(n, 0);
    free(path);
    dag_add(&g, 0, 1, 5, 0);
    dag_add(&g, 1, 2, 5, 0);
    dag_add(&g, 2, 1, 5, 0);
    assert_int_equal(dag_longest_path(&g, &path, &n), -ELOOP);
    dag_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_of_all),
        cmocka_unit_test(test_circles_and_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
