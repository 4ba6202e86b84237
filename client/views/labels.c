/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/labels.h"

#include "base/alloc.h"
#include <errno.h>

int labels_to_json(const struct option_list *list, json_t *request, struct problem *p)
{
    if (list->n == 0)
        return 0;
    json_t *labels = json_object();

    json_object_set_new(request, "labels", labels);
    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i])
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--label: '%s' is not KEY=VALUE",
                               list->items[i]);
        _cleanup_(freep) char *key = xstrndup(list->items[i], (size_t)(equals - list->items[i]));
        json_put_str(labels, key, equals + 1);
    }
    return 0;
}

char *labels_text(const json_t *labels)
{
    const char *key;
    json_t *value;
    char *text = xstrdup(NULL);

    json_object_foreach((json_t *)labels, key, value) {
        const char *word = json_string_value(value);
        char *longer = xasprintf("%s%s%s=%s", text ? text : "", text ? " " : "", key, word ? word : "");
        free(text);
        text = longer;
    }
    return text;
}
