/* SPDX-License-Identifier: Apache-2.0 */
/* Which peers are asked about a worker, who wins of two that claim it, and what their answers may change. */
#include "base/address.h"
#include "base/alloc.h"
#include "daemon/peers/owners.h"
#include "daemon/peers/rank_owners.h"
#include "tests/unit/cmocka-all.h"

#define N_PEERS 4

struct bench {
    struct peer peers[N_PEERS];
    struct peer_config config;
    const struct peer *list[N_PEERS];
};

static struct in6_addr ip(const char *text)
{
    struct in6_addr address;
    assert_int_equal(address_parse(text, &address), 0);
    return address;
}

/* gpu0 10.0.0.10 ... gpu3, called by https://gpuN:9460. */
static int setup(void **state)
{
    struct bench *b = xcalloc(1, sizeof(*b));

    for (int i = 0; i < N_PEERS; i++) {
        _cleanup_(freep) char *address = xasprintf("10.0.0.1%d", i);
        b->peers[i] = (struct peer){.url = xasprintf("https://gpu%d:9460", i), .address = ip(address)};
        b->peers[i].hello.host = xasprintf("gpu%d", i);
        b->list[i] = &b->peers[i];
    }
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < N_PEERS; i++) {
        peer_hello_done(&b->peers[i].hello);
        free(b->peers[i].url);
    }
    free(b->config.addresses);
    free(b);
    return 0;
}

/* "13": peers 1 and 3. */
static void asks(struct bench *b, const char *url, const char *node, enum owner_rule rule,
                 const char *expected)
{
    struct worker w = {.url = (char *)url, .node = (char *)node};
    size_t found[N_PEERS], n = 0;
    char text[N_PEERS + 1] = "";

    assert_int_equal(owners_candidates(&w, b->list, N_PEERS, found, &n), rule);
    for (size_t i = 0; i < n; i++)
        snprintf(text + i, 2, "%zu", found[i]);
    assert_string_equal(text, expected);
}

static void hello_has(struct peer *peer, const char *address)
{
    peer->hello.addresses =
        xrealloc(peer->hello.addresses, peer->hello.n_addresses + 1, sizeof(struct in6_addr));
    peer->hello.addresses[peer->hello.n_addresses++] = ip(address);
}

static void test_connection(void **state)
{
    struct bench *b = *state;

    asks(b, "http://10.0.0.12:8000", NULL, OWNER_RULE_CONNECTED, "2");
    asks(b, "http://gpu3:8000", NULL, OWNER_RULE_CONNECTED, "3");
    asks(b, "http://GPU3:8000", NULL, OWNER_RULE_CONNECTED, "3");
    asks(b, "http://10.0.0.77:8000", NULL, OWNER_RULE_ANY, "0123");
    b->config.addresses = xcalloc(1, sizeof(struct in6_addr));
    b->config.addresses[b->config.n_addresses++] = ip("10.0.0.77");
    b->peers[1].config = &b->config;
    asks(b, "http://10.0.0.77:8000", NULL, OWNER_RULE_CONNECTED, "1");
}

/* What a peer says of itself does not win over an address that was connected to. */
static void test_reported(void **state)
{
    struct bench *b = *state;

    hello_has(&b->peers[0], "10.0.0.12");
    asks(b, "http://10.0.0.12:8000", NULL, OWNER_RULE_CONNECTED, "2");
    hello_has(&b->peers[1], "10.9.0.1");
    asks(b, "http://10.9.0.1:8000", NULL, OWNER_RULE_REPORTED, "1");
    hello_has(&b->peers[3], "10.9.0.1");
    asks(b, "http://10.9.0.1:8000", NULL, OWNER_RULE_REPORTED, "13");
}

static void test_pods(void **state)
{
    struct bench *b = *state;

    b->peers[2].hello.node = xstrdup("node-b");
    asks(b, "http://10.244.1.7:8000", "node-b", OWNER_RULE_NODE, "2");
    asks(b, "http://10.244.1.7:8000", "gpu1", OWNER_RULE_NODE, "1");
    asks(b, "http://10.244.1.7:8000", "node-z", OWNER_RULE_ANY, "0123");
    asks(b, "http://10.0.0.11:8000", "node-b", OWNER_RULE_CONNECTED, "1");
}

static void test_claims(void **state)
{
    struct owner_claimant c[] = {
        {"boot-a", true},  {"boot-a", false}, {"boot-b", true}, {"", true},        {"", false},
        {"boot-a", false}, {"boot-a", true},  {"boot-a", true}, {"boot-a", false},
    };

    /* That was connected to: the last two are of unknown addresses. */
    for (int i = 0; i < 6; i++)
        c[i].address = ip("10.0.0.1");
    c[6].address = ip("10.0.0.2");
    assert_int_equal(owner_decide(c, 1, OWNER_NONE), 1);
    assert_int_equal(owner_decide(c, 0, 1), 0); /* the service of one machine before a user's profd there */
    assert_int_equal(owner_decide(c, 1, 0), 0);
    assert_int_equal(owner_decide(c, 0, 2), OWNER_CONFLICT);
    assert_int_equal(owner_decide(c, 1, 2), OWNER_CONFLICT); /* of other machines the kind does not matter */
    assert_int_equal(owner_decide(c, 1, 5), OWNER_CONFLICT);
    assert_int_equal(owner_decide(c, 3, 4), OWNER_CONFLICT); /* no boot id is no machine */
    /* Who copies the boot id of another host answers at another address. */
    assert_int_equal(owner_decide(c, 6, 1), OWNER_CONFLICT);
    assert_int_equal(owner_decide(c, 1, 6), OWNER_CONFLICT);
    assert_int_equal(owner_decide(c, 7, 8), OWNER_CONFLICT);
}

static struct fleet *parse(const char *text, int expected)
{
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    struct fleet *f = xcalloc(1, sizeof(*f));

    assert_non_null(j);
    assert_int_equal(owners_parse(j, f), expected);
    json_decref(j);
    return f;
}

#define WORKER(url, more)                                                                                    \
    "{\"url\":\"" url "\",\"engine\":\"vllm\",\"role\":\"decode\",\"health\":\"healthy\"" more "}"

static void test_answers(void **state)
{
    fleet_free(parse("[]", -EPROTO));
    fleet_free(parse("{\"workers\":{}}", -EPROTO));
    struct fleet *f = parse(
        "{\"workers\":[1,{}," WORKER("http://a:1", "") "," WORKER("http://a:2", ",\"local\":true") "]}", 0);
    assert_int_equal(f->n_workers, 1);
    assert_string_equal(f->workers[0].url, "http://a:2");
    fleet_free(f);
}

static void test_what_an_owner_may_set(void **state)
{
    struct fleet *theirs = parse(
        "{\"workers\":[" WORKER(
            "http://a:1", ",\"local\":true,\"profilable\":true,\"name\":\"evil\",\"identity\":\"evil\","
                          "\"host_uuid\":\"evil\",\"held_by\":"
                          "\"nobody\",\"pid\":77,\"uid\":5,\"version\":\"9\",\"group\":\"10.0.0.1:5\","
                          "\"sizes\":{\"tp\":4},\"note\":\"seen\","
                          "\"holder\":{\"session\":\"s-uuid\",\"host\":\"gpu9\"},"
                          "\"traces\":{\"dir\":\"/t\",\"local_dir\":\"/host/t\",\"blocked\":true}") "]}",
        0);
    struct worker w;

    worker_init(&w);
    w.url = xstrdup("http://a:1");
    w.role = ROLE_PREFILL;
    w.engine = ENGINE_SGLANG;
    w.version = xstrdup("0.5");
    w.profilable = true;
    owner_apply(&w, &theirs->workers[0]);
    assert_string_equal(w.location.local_dir, "/host/t");
    assert_true(w.location.blocked_here);
    assert_string_equal(w.held_by, "session s-uuid of gpu9");
    assert_string_equal(w.group, "10.0.0.1:5");
    assert_string_equal(w.note, "seen");
    assert_int_equal(w.pid, 77);
    assert_int_equal(w.sizes.tp, 4);
    assert_false(w.local);
    /* What it is was asked from here, and a name or role is not its host's to give. */
    assert_int_equal(w.engine, ENGINE_SGLANG);
    assert_string_equal(w.version, "0.5");
    assert_int_equal(w.role, ROLE_PREFILL);
    assert_null(w.name);
    assert_null(w.identity);
    assert_null(w.host_uuid);
    worker_done(&w);
    fleet_free(theirs);
}

/* Where the network of pods ends at their node, their host knows what they are. */
static void test_unreachable_worker(void **state)
{
    struct fleet *theirs = parse(
        "{\"workers\":[" WORKER("http://a:1", ",\"local\":true,\"profilable\":true,\"version\":\"0.9\"") "]}",
        0);
    struct worker w;

    worker_init(&w);
    w.url = xstrdup("http://a:1");
    w.reason = xstrdup("does not answer");
    owner_apply(&w, &theirs->workers[0]);
    assert_int_equal(w.engine, ENGINE_VLLM);
    assert_string_equal(w.version, "0.9");
    assert_true(w.profilable);
    assert_null(w.reason);
    worker_done(&w);
    fleet_free(theirs);
}

/* Ranks without a server, as a host that is not to be believed answers them. */
static struct worker *take_ranks(const char *sizes, const struct worker *server)
{
    _cleanup_(freep) char *text = xasprintf(
        "{\"workers\":[{\"url\":\"ranks://10.0.0.1:5000/1\",\"engine\":\"vllm\",\"role\":\"decode\","
        "\"health\":\"unhealthy\",\"local\":true,\"profilable\":false,\"model\":\"evil\",\"version\":\"9\","
        "\"group\":\"evil:1\",\"ranks_of\":\"http://evil\",\"name\":\"evil\",\"pid\":77,\"uid\":5,"
        "\"traces\":{\"dir\":\"/t\",\"local_dir\":\"/host/t\"},"
        "\"holder\":{\"session\":\"s-uuid\",\"host\":\"gpu9\"},\"sizes\":%s}]}",
        sizes);
    struct fleet *theirs = parse(text, 0);
    struct worker *w = xcalloc(1, sizeof(*w));

    assert_int_equal(theirs->n_workers, 1);
    worker_init(w);
    ranks_take(w, &theirs->workers[0], server);
    fleet_free(theirs); /* what was taken stays */
    return w;
}

static void check_ranks(const char *sizes, const struct worker *server, int ranks, int first_rank)
{
    struct worker *w = take_ranks(sizes, server);

    assert_int_equal(w->sizes.ranks, ranks);
    assert_int_equal(w->sizes.first_rank, first_rank);
    worker_done(w);
    free(w);
}

static void test_ranks_of_a_host(void **state)
{
    const struct worker server = {.url = (char *)"http://a:1",
                                  .engine = ENGINE_SGLANG,
                                  .role = ROLE_PREFILL,
                                  .health = HEALTH_HEALTHY,
                                  .model = (char *)"llama",
                                  .version = (char *)"0.5",
                                  .group = (char *)"10.0.0.1:5000",
                                  .sizes = {.tp = 16, .nodes = 2}};
    struct worker *w = take_ranks("{\"tp\":999,\"nodes\":999,\"ranks\":8,\"first_rank\":8}", &server);

    /* Of the host: where the launch is and writes, and who has it. */
    assert_string_equal(w->url, "ranks://10.0.0.1:5000/1");
    assert_string_equal(w->location.local_dir, "/host/t");
    assert_string_equal(w->held_by, "session s-uuid of gpu9");
    assert_int_equal(w->pid, 77);
    assert_int_equal(w->uid, 5);
    assert_int_equal(w->sizes.ranks, 8);
    assert_int_equal(w->sizes.first_rank, 8);
    /* Of the server, which starts and stops it: what it is. */
    assert_string_equal(w->ranks_of, "http://a:1");
    assert_string_equal(w->model, "llama");
    assert_string_equal(w->version, "0.5");
    assert_string_equal(w->group, "10.0.0.1:5000");
    assert_int_equal(w->engine, ENGINE_SGLANG);
    assert_int_equal(w->role, ROLE_PREFILL);
    assert_int_equal(w->health, HEALTH_HEALTHY);
    assert_int_equal(w->sizes.nodes, 2);
    assert_true(w->profilable);
    assert_false(w->local);
    assert_null(w->name);
    worker_done(w);
    free(w);

    /* Numbers that no launch of this server has are not known. */
    check_ranks("{\"ranks\":16,\"first_rank\":15}", &server, 16, 15);
    check_ranks("{\"ranks\":17,\"first_rank\":16}", &server, 0, 0);
    check_ranks("{\"ranks\":-1,\"first_rank\":-1}", &server, 0, 0);
    check_ranks("{\"ranks\":2147483647,\"first_rank\":2147483647}", &server, 0, 0);
    check_ranks("{}", &server, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pods, setup, teardown),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_what_an_owner_may_set),
        cmocka_unit_test(test_unreachable_worker),
        cmocka_unit_test(test_ranks_of_a_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
