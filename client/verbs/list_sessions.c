/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"
#include "client/views/labels.h"
#include "client/views/listing.h"
#include "client/views/session.h"

struct options {
    int64_t limit;
    const char *state;
};

static const struct option_def options[] = {
    {"limit", 'n', "N", OPTION_COUNT, offsetof(struct options, limit),
     "Maximum number of sessions, newest first (default: 50)"},
    {"state", 0, "STATE", OPTION_TEXT, offsetof(struct options, state),
     "only those in a state; \"active\" is all that are not over"},
};

enum {
    CELL_SESSION,
    CELL_STATE,
    CELL_REQUESTED,
    CELL_BY,
    CELL_ROUTER,
    CELL_WORKERS,
    CELL_TRACES,
    CELL_SIZE,
    CELL_LABELS,
    CELL_NAME,
    _CELL_MAX
};

static const struct table_column columns[_CELL_MAX] = {
    [CELL_SESSION] = {"SESSION", 0, IMPORTANCE_KEY},
    [CELL_STATE] = {"STATE", 0, IMPORTANCE_HIGH},
    [CELL_REQUESTED] = {"REQUESTED", 0, IMPORTANCE_HIGH, "requested_at"},
    [CELL_BY] = {"BY", COLUMN_SHORTEN, IMPORTANCE_EXTRA, "requested_by"},
    [CELL_ROUTER] = {"ROUTER", COLUMN_URL},
    [CELL_WORKERS] = {"WORKERS", COLUMN_RIGHT},
    [CELL_TRACES] = {"TRACES", COLUMN_RIGHT},
    [CELL_SIZE] = {"SIZE", COLUMN_RIGHT, IMPORTANCE_NORMAL, "bytes"},
    [CELL_LABELS] = {"LABELS", COLUMN_SHORTEN},
    [CELL_NAME] = {"NAME", COLUMN_SHORTEN | COLUMN_OPTIONAL, IMPORTANCE_NORMAL, .least = 16},
};

/* "8", or of one that is over "7 of 8": how many of those that were asked for were recorded completely. */
static char *workers_text(const json_t *session, const json_t *counts)
{
    int64_t n = json_get_int(counts, "targets", 0), complete = json_get_int(counts, "complete", -1);
    int64_t n_skipped = json_get_int(counts, "skipped", 0);

    if (n + n_skipped == 0)
        return NULL;
    if (!session_is_over(session) && n_skipped > 0)
        return xasprintf("%lld of %lld", (long long)n, (long long)(n + n_skipped));
    n += n_skipped;
    if (session_is_over(session) && complete >= 0)
        return xasprintf("%lld of %lld", (long long)complete, (long long)n);
    return xasprintf("%lld", (long long)n);
}

/* "anna" of "uid 1000 (anna)". */
static char *asker_text(const char *requested_by)
{
    size_t n = requested_by ? strlen(requested_by) : 0;
    const char *name = n > 0 && requested_by[n - 1] == ')' ? strchr(requested_by, '(') : NULL;

    return name ? xstrndup(name + 1, strlen(name + 1) - 1) : xstrdup(requested_by);
}

static enum colour colour_of(int state)
{
    return state == STATE_FAILED ? COLOUR_BAD : state == STATE_PARTIAL ? COLOUR_WARN : COLOUR_NONE;
}

static void add_session(struct table *table, const json_t *session)
{
    char requested[UNIT_TEXT_MAX], size[UNIT_TEXT_MAX], traces[32];
    const json_t *counts = json_object_get(session, "counts");
    const char *router = json_get_str(session, "router"), *fleet = json_get_str(session, "fleet");
    int64_t at = json_get_int(session, "requested_at", 0);
    _cleanup_(freep) char *labels = labels_text(json_object_get(session, "labels"));
    _cleanup_(freep) char *workers = workers_text(session, counts);
    _cleanup_(freep) char *by = asker_text(json_get_str(session, "requested_by"));
    int state = session_state(session);

    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_SESSION] = json_get_str(session, "session"),
                         [CELL_NAME] = json_get_str(session, "name"),
                         [CELL_STATE] = json_get_str(session, "state"),
                         [CELL_REQUESTED] = at ? format_time(requested, at) : NULL,
                         [CELL_BY] = by,
                         [CELL_ROUTER] = router ? router : fleet,
                         [CELL_WORKERS] = workers,
                         [CELL_TRACES] = text_number(traces, json_get_int(counts, "traces", 0)),
                         [CELL_SIZE] = format_size(size, json_get_int(counts, "bytes", 0)),
                         [CELL_LABELS] = labels,
                     });
    if (at)
        table_set_int(table, CELL_REQUESTED, at);
    table_set_int(table, CELL_TRACES, json_get_int(counts, "traces", 0));
    table_set_int(table, CELL_SIZE, json_get_int(counts, "bytes", 0));
    table_colour(table, CELL_STATE, colour_of(state));
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(freep) char *path = xstrdup("/v1/sessions");
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ answer = NULL;
    size_t i;
    json_t *session;

    if (o->limit != OPTION_ABSENT)
        url_add_int(&path, "limit", o->limit);
    url_add(&path, "state", o->state);
    int status = listing_table(c, columns, _CELL_MAX, &table);
    if (status == EXIT_DONE)
        status = client_get(c, path, "listing sessions", &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    json_array_foreach(json_object_get(answer, "sessions"), i, session)
        add_session(table, session);
    listing_print(c, table);
    if (json_array_size(json_object_get(answer, "sessions")) == 0)
        client_note(c, o->state ? "No session is in that state."
                                : "Nothing was recorded yet: profctl start --router URL --wait");
    return EXIT_DONE;
}

const struct verb verb_list_sessions = {
    .name = "list-sessions",
    .words = "",
    .summary = "List sessions, newest first",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = run,
};
