/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets=: Prometheus' lists of targets, [{"targets": ["host:port"], "labels": {"role": "prefill"}}], in a file
 * (file_sd, JSON or YAML) or at a URL (http_sd), prometheus/prometheus docs/http_sd.md and
 * discovery/file/file.go. An empty list means that there are no workers; after an error the last list stays.
 *
 * Labels: role= (or role_label=), __scheme__, model.
 */
#include "base/alloc.h"
#include "base/target_files.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/source.h"
#include <errno.h>

#define SCHEME_LABEL "__scheme__"
#define MODEL_LABEL  "model"
#define MODEL_MAX    256
#define ROLE_DEFAULT "role"

static bool value_is_content(const char *value)
{
    return value[0] == '[';
}

static int targets_check(const struct source_config *c, const char **reason)
{
    if (source_is_url(c->value))
        return source_url_check(c->value, reason);
    if (c->asked) {
        *reason = "a URL, or a list of {\"targets\", \"labels\"}: profd opens no file that a client names; "
                  "profctl --targets FILE sends its content";
        return value_is_content(c->value) ? 0 : -EINVAL;
    }
    *reason = "an absolute path or a URL";
    return c->value[0] == '/' ? 0 : -EINVAL;
}

static int targets_request(const struct source_config *c, const char *next, struct source_request *ret,
                           char why[static SOURCE_WHY_MAX])
{
    if (!source_is_url(c->value))
        return -EOPNOTSUPP;
    *ret = (struct source_request){.url = xstrdup(c->value),
                                   .token_file = c->targets_token_file,
                                   .ca_file = c->targets_ca_file,
                                   .keys = "targets_"};
    return 0;
}

static void targets_take_labels(const struct source_config *c, const json_t *labels, struct worker *w)
{
    const char *role = json_get_str(labels, c->role_label ? c->role_label : ROLE_DEFAULT);
    const char *model = json_get_str(labels, MODEL_LABEL);

    if (role)
        source_take_role(w, role);
    if (model && *model && strlen(model) <= MODEL_MAX)
        replace_str(&w->model, model);
}

/* The targets of one entry. */
static int targets_add_entry(const struct source_config *c, const json_t *entry, size_t max, struct fleet *f)
{
    const json_t *targets = json_object_get(entry, "targets"), *labels = json_object_get(entry, "labels");
    const char *scheme = json_get_str(labels, SCHEME_LABEL);
    json_t *target;
    struct worker *w;
    size_t i;

    if (!json_is_array(targets) || (scheme && !streq(scheme, "http") && !streq(scheme, "https")))
        return -EPROTO;
    json_array_foreach((json_t *)targets, i, target) {
        if (!json_is_string(target))
            return -EPROTO;
        int r = source_add_worker(f, max, scheme, json_string_value(target), &w);
        if (r < 0)
            return r;
        if (w)
            targets_take_labels(c, labels, w);
    }
    return 0;
}

static int targets_add(const struct source_config *c, const json_t *list, size_t max, struct fleet *f,
                       char why[static SOURCE_WHY_MAX])
{
    json_t *entry;
    size_t i;

    if (!json_is_array(list)) {
        snprintf(why, SOURCE_WHY_MAX, "JSON that is not a list of targets");
        return -EPROTO;
    }
    json_array_foreach((json_t *)list, i, entry) {
        int r = targets_add_entry(c, entry, max, f);
        if (r == -EPROTO)
            snprintf(why, SOURCE_WHY_MAX,
                     "entry %zu is not {\"targets\": [\"HOST:PORT\"], \"labels\": {}} with __scheme__ http "
                     "or https",
                     i + 1);
        if (r < 0)
            return r;
    }
    return 0;
}

static int targets_parse(const struct source_config *c, const char *data, size_t size, size_t max,
                         struct fleet *f, char **ret_next, char why[static SOURCE_WHY_MAX])
{
    char error[200];
    _cleanup_json_ list = json_parse(data, size, error);

    if (list)
        return targets_add(c, list, max, f, why);
    snprintf(why, SOURCE_WHY_MAX, "the answer is %s", answer_kind(data, size));
    return -EPROTO;
}

static int targets_look(const struct source_config *c, size_t max, struct fleet *f,
                        char why[static SOURCE_WHY_MAX])
{
    _cleanup_json_ list = NULL;
    char *next = NULL;

    if (value_is_content(c->value))
        return targets_parse(c, c->value, strlen(c->value), max, f, &next, why);
    int r = target_files_read(c->value, &list, why);
    return r < 0 ? r : targets_add(c, list, max, f, why);
}

static const char *targets_remedy(const struct source_config *c, int err, int status)
{
    if (status == 401 || status == 403)
        return "Set targets_token_file= in the [fleet NAME] section whose targets= is this URL.";
    if (err == -ENOENT && status == 0)
        return "Correct the path, or create the file.";
    if (err == -EPROTO)
        return "Write a list of {\"targets\": [\"HOST:PORT\"], \"labels\": {\"role\": \"prefill\"}}.";
    return err == -ENOENT ? "Add a target to the list." : NULL;
}

const struct fleet_source source_targets = {
    .key = "targets",
    .check = targets_check,
    .request = targets_request,
    .parse = targets_parse,
    .look = targets_look,
    .remedy = targets_remedy,
    .keeps_last = true,
};
