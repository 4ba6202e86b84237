/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/rows.h"

#include "base/clock.h"

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
