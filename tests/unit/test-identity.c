/* SPDX-License-Identifier: Apache-2.0 */
/* Which catalog may answer at which URL: what was bound stays, and nobody takes the UUID of another host. */
#include "base/alloc.h"
#include "daemon/peers/identity.h"
#include "tests/unit/cmocka-all.h"

#define SELF  "00000000-0000-4000-8000-000000000000"
#define GPU1  "00000000-0000-4000-8000-000000000001"
#define GPU2  "00000000-0000-4000-8000-000000000002"
#define OTHER "00000000-0000-4000-8000-000000000009"

/* Two peers with a section and two of a source. */
enum { ONE, TWO, POD, NEW_POD, N_PEERS };

struct identity_bench {
    struct peer_config configs[2];
    struct peer peers[N_PEERS];
    struct peer_list list;
};

static int bench_setup(void **state)
{
    static const char *const names[N_PEERS] = {"gpu1", "gpu2", "10.0.0.3:9460", "10.0.0.4:9460"};
    struct identity_bench *b = xcalloc(1, sizeof(*b));

    for (int i = N_PEERS - 1; i >= 0; i--) {
        b->peers[i] = (struct peer){.name = (char *)names[i],
                                    .url = xasprintf("https://%s", names[i]),
                                    .config = i <= TWO ? &b->configs[i] : NULL,
                                    .wanted_mono_ns = 1};
        LIST_INSERT_HEAD(&b->list, &b->peers[i], link);
    }
    *state = b;
    return 0;
}

static int bench_teardown(void **state)
{
    struct identity_bench *b = *state;

    for (int i = 0; i < N_PEERS; i++)
        free(b->peers[i].url);
    free(b);
    return 0;
}

/* It answered as that, and is in the state now. */
static void peer_has(struct peer *peer, const char *uuid, enum peer_state state)
{
    peer->state = state;
    peer->host_uuid = (char *)uuid;
    peer->bound_uuid = peer->config ? (char *)uuid : NULL;
}

static enum identity decide(struct identity_bench *b, int peer, const char *uuid)
{
    struct peer *other;
    return identity_decide(&b->list, &b->peers[peer], uuid, SELF, &other);
}

static void what_is_bound_stays(void **state)
{
    struct identity_bench *b = *state;

    assert_int_equal(decide(b, ONE, GPU1), IDENTITY_EXPECTED);
    peer_has(&b->peers[ONE], GPU1, PEER_OK);
    assert_int_equal(decide(b, ONE, GPU1), IDENTITY_EXPECTED);
    assert_int_equal(decide(b, ONE, OTHER), IDENTITY_CHANGED);
    assert_int_equal(decide(b, ONE, SELF), IDENTITY_CHANGED);
    /* After a restart only the catalog knows. */
    peer_has(&b->peers[ONE], GPU1, PEER_UNKNOWN);
    b->peers[ONE].host_uuid = NULL;
    assert_int_equal(decide(b, ONE, OTHER), IDENTITY_CHANGED);
}

static void the_operator_confirms(void **state)
{
    struct identity_bench *b = *state;

    peer_has(&b->peers[ONE], GPU1, PEER_OK);
    b->configs[ONE].host_uuid = (char *)OTHER;
    assert_int_equal(decide(b, ONE, OTHER), IDENTITY_EXPECTED);
    assert_int_equal(decide(b, ONE, GPU1), IDENTITY_CHANGED);
    b->configs[ONE].host_uuid = (char *)PEER_UUID_ANY;
    assert_int_equal(decide(b, ONE, OTHER), IDENTITY_EXPECTED);
}

static void nobody_takes_the_uuid_of_a_host_that_is_away(void **state)
{
    struct identity_bench *b = *state;

    peer_has(&b->peers[TWO], GPU2, PEER_OK);
    assert_int_equal(decide(b, ONE, GPU2), IDENTITY_DUPLICATE);
    assert_int_equal(decide(b, POD, GPU2), IDENTITY_DUPLICATE);
    static const enum peer_state away[] = {PEER_UNKNOWN, PEER_UNREACHABLE, PEER_REFUSED, PEER_INVALID};
    for (size_t i = 0; i < ARRAY_SIZE(away); i++) {
        peer_has(&b->peers[TWO], GPU2, away[i]);
        assert_int_equal(decide(b, ONE, GPU2), IDENTITY_CLAIMED);
        assert_int_equal(decide(b, POD, GPU2), IDENTITY_CLAIMED);
    }
    /* It has the UUID although another profd answered at its URL. */
    b->peers[TWO].host_uuid = NULL;
    assert_int_equal(decide(b, POD, GPU2), IDENTITY_CLAIMED);
}

static void addresses_of_sources_change_hands(void **state)
{
    struct identity_bench *b = *state;

    peer_has(&b->peers[POD], OTHER, PEER_OK);
    assert_int_equal(decide(b, POD, GPU1), IDENTITY_EXPECTED); /* another pod has its address */
    assert_int_equal(decide(b, NEW_POD, OTHER), IDENTITY_DUPLICATE);
    peer_has(&b->peers[POD], OTHER, PEER_UNREACHABLE);
    assert_int_equal(decide(b, NEW_POD, OTHER), IDENTITY_CLAIMED);
    b->peers[POD].wanted_mono_ns = 0;
    assert_int_equal(decide(b, NEW_POD, OTHER), IDENTITY_EXPECTED);
    /* A section stands before a source. */
    b->peers[POD].wanted_mono_ns = 1;
    assert_int_equal(decide(b, ONE, OTHER), IDENTITY_EXPECTED);
    assert_int_equal(decide(b, POD, SELF), IDENTITY_SELF);
}

static void refusals_name_their_remedy(void **state)
{
    struct identity_bench *b = *state;
    struct problem p = {0};

    peer_has(&b->peers[ONE], GPU1, PEER_OK);
    identity_explain(IDENTITY_CHANGED, &b->peers[ONE], OTHER, NULL, &p);
    assert_non_null(strstr(p.what, GPU1));
    assert_non_null(strstr(p.remedy, "host_uuid=" OTHER " in [peer gpu1]"));
    problem_done(&p);
    identity_explain(IDENTITY_CLAIMED, &b->peers[POD], GPU1, &b->peers[ONE], &p);
    assert_non_null(strstr(p.what, "reports the catalog of gpu1 (https://gpu1)"));
    assert_non_null(strstr(p.remedy, "[peer gpu1]"));
    problem_done(&p);
    identity_explain(IDENTITY_CLAIMED, &b->peers[NEW_POD], OTHER, &b->peers[POD], &p);
    assert_non_null(strstr(p.remedy, "[hosts] peers="));
    problem_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_bound_stays, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(the_operator_confirms, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(nobody_takes_the_uuid_of_a_host_that_is_away, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(addresses_of_sources_change_hands, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(refusals_name_their_remedy, bench_setup, bench_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
