/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a peer, which may be anybody who stole a certificate: its hello, its clock, its workers. */
#include "base/alloc.h"
#include "base/json.h"
#include "daemon/peers/owners.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_hello(const json_t *j)
{
    struct peer_hello h = {0};
    char *reason = NULL;

    if (peer_hello_parse(j, &h, &reason) < 0 ? !reason : reason || !uuid_is(h.catalog))
        abort();
    free(reason);
    peer_hello_done(&h);
}

static void read_clock(const json_t *j)
{
    struct clock_sample s = {.t0 = 5, .t3 = 500000000};
    struct clock_estimate e = {0};

    if (peer_clock_parse(j, &s, &e) == 0 && clock_estimate(&s, 1, &e) == 0 &&
        (e.error_ns < 0 || e.rtt_ns < 0))
        abort();
}

static void read_workers(const json_t *j)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    struct worker w;

    if (owners_parse(j, f) < 0 && f->n_workers > 0)
        abort();
    for (size_t i = 0; i < f->n_workers; i++) {
        worker_init(&w);
        w.url = xstrdup("http://10.0.0.1:8000");
        owner_apply(&w, &f->workers[i]);
        json_decref(worker_to_json(&w));
        worker_done(&w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[200];
    json_t *j = json_parse((const char *)data, size, error);

    read_hello(j);
    read_clock(j);
    read_workers(j);
    json_decref(j);
    return 0;
}
