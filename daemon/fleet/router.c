/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/router.h"

#include "base/alloc.h"
#include "daemon/fleet/excerpt.h"
#include "daemon/fleet/router_table.h"
#include "daemon/fleet/workers_json.h"
#include <errno.h>

/* The most telling first; those that share a path stand together, so that it is asked once. */
static const struct router_dialect *const dialects[] = {
    &router_smg,  &router_sglang, &router_vllm,     &router_generic,
    &router_list, &router_dynamo, &router_lmdeploy, &router_nemo_gym,
};

const struct router_dialect *router_dialect_at(size_t i)
{
    return i < ARRAY_SIZE(dialects) ? dialects[i] : NULL;
}

const struct router_dialect *router_dialect_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(dialects); i++)
        if (streq(dialects[i]->name, name))
            return dialects[i];
    return NULL;
}

char *router_dialect_names(void)
{
    char *names = xstrdup("auto");
    for (size_t i = 0; i < ARRAY_SIZE(dialects); i++) {
        char *longer = xasprintf("%s, %s", names, dialects[i]->name);
        free(names);
        names = longer;
    }
    return names;
}

const json_t *router_workers_array(const json_t *root)
{
    const json_t *workers = json_object_get(root, "workers");
    return json_is_array(workers) ? workers : NULL;
}

static const struct router_dialect *recognise(const json_t *root, const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(dialects); i++)
        if (streq(dialects[i]->path, path) && dialects[i]->recognise(root))
            return dialects[i];
    return NULL;
}

static void cut_suffixes(struct fleet *f, const char *suffix)
{
    for (size_t i = 0; i < f->n_workers && suffix; i++) {
        char *url = f->workers[i].url;
        if (ends_with(url, suffix))
            url[strlen(url) - strlen(suffix)] = '\0';
    }
}

int router_parse(const struct router_dialect *d, const char *path, const char *data, size_t size, size_t max,
                 struct fleet *f, char why[static ROUTER_WHY_MAX])
{
    char error[200];
    _cleanup_json_ root = json_parse(data, size, error);

    if (!root) {
        snprintf(why, ROUTER_WHY_MAX,
                 looks_like_html(data, size) ? "HTML instead of JSON"
                 : size == 0                 ? "nothing"
                                             : "something that is not JSON");
        return -EPROTO;
    }
    if (!d)
        d = recognise(root, path);
    const json_t *entries = d ? d->entries(root) : NULL;
    if (!entries) {
        snprintf(why, ROUTER_WHY_MAX, "JSON that is not a list of workers");
        return -EPROTO;
    }
    int r = workers_from_json(f, entries, max);
    if (r < 0)
        return r;
    cut_suffixes(f, d->url_suffix);
    replace_str(&f->dialect, d->name);
    return 0;
}
