/* SPDX-License-Identifier: Apache-2.0 */
#include "base/request_json.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/estimate.h"

#include <math.h>

bool row_has_outcome(const json_t *row, const char *outcome)
{
    return streq(json_get_str(row, "outcome"), outcome);
}

/* Truth is 1 in the catalog. */
bool row_is_warm(const json_t *row)
{
    return row_has_outcome(row, "success") && !json_get_bool(row, "cold", false) &&
           json_get_int(row, "cold", 0) == 0;
}

double row_seconds(const json_t *row, const char *member)
{
    return json_get_number(row, member, NAN) / NS_PER_S;
}

json_t *row_gaps(const json_t *row)
{
    json_t *gaps = json_object_get(row, "gaps_us");
    const char *text = json_string_value(gaps);
    char error[200];

    if (json_is_array(gaps))
        return json_incref(gaps);
    json_t *parsed = text ? json_parse(text, strlen(text), error) : NULL;
    if (json_is_array(parsed))
        return parsed;
    json_decref(parsed);
    return NULL;
}

double figure_at(const json_t *object, const char *path)
{
    while (object && *path) {
        size_t n = strcspn(path, "/");
        _cleanup_(freep) char *key = xstrndup(path, n);
        object = json_object_get(object, key);
        path += n + (path[n] == '/');
    }
    return json_is_number(object) ? json_number_value(object) : NAN;
}

double run_metric_figure(const json_t *metric, const char *name)
{
    double value = json_get_number(metric, name, NAN);
    int64_t count = json_get_int(metric, "count", -1);
    bool is_percentile = name[0] == 'p' && name[1] >= '0' && name[1] <= '9';

    if (is_percentile && count >= 0 && !percentile_is_supported(strtod(name + 1, NULL) / 100, (size_t)count))
        return NAN;
    return value;
}

double run_supported_figure(const json_t *run, const char *path)
{
    const char *name = strrchr(path, '/');
    _cleanup_(freep) char *above = name ? xstrndup(path, (size_t)(name - path)) : NULL;
    const json_t *object = run;

    for (char *rest = above, *part; object && (part = strsep(&rest, "/"));)
        object = json_object_get(object, part);
    return run_metric_figure(object, name ? name + 1 : path);
}
