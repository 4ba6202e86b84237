/* SPDX-License-Identifier: Apache-2.0 */
/* A page of pods or of EndpointSlices of the Kubernetes API, read by the rules of each project and by named ports, and then settled. */
#include "base/alloc.h"
#include "daemon/fleet/kubernetes.h"
#include "daemon/fleet/url.h"

#define WORKERS_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_worker(const struct fleet *f, size_t i)
{
    const struct worker *w = &f->workers[i];
    const char *reason;
    struct url u;

    if (url_parse(w->url, &u, &reason) < 0 || !url_is_http(&u) || u.path[0] || w->terminating)
        abort();
    for (size_t k = 0; k < i && w->identity; k++)
        if (streq(w->identity, f->workers[k].identity) &&
            streq(strrchr(w->url, ':'), strrchr(f->workers[k].url, ':')))
            abort();
}

typedef int page_reader(const struct kubernetes_scope *s, const char *data, size_t size, size_t max,
                        struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX]);

static void read_as(page_reader *reader, const struct kubernetes_scope *s, const uint8_t *data, size_t size)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];
    char *next = NULL;
    int r = reader(s, (const char *)data, size, WORKERS_MAX, f, &next, why);

    free(next);
    if (f->n_workers > WORKERS_MAX)
        abort();
    if (r < 0)
        return;
    kubernetes_settle(f);
    for (size_t i = 0; i < f->n_workers; i++)
        check_worker(f, i);
    json_decref(fleet_to_json(f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct kubernetes_scope scopes[] = {
        {0},
        {.port = "api", .role_label = "tier"},
        {.port = "8000", .node = "gpu-1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
        read_as(kubernetes_read_pods, &scopes[i], data, size);
        read_as(kubernetes_read_slices, &scopes[i], data, size);
    }
    return 0;
}
