/* SPDX-License-Identifier: Apache-2.0 */
/* list-hosts: the profds of the fleet, what they hold, and how far their clocks are apart. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"
#include "client/views/json_table.h"
#include "client/views/listing.h"
#include "client/views/reasons.h"

static enum colour host_state_colour(const json_t *host)
{
    const char *state = json_get_str(host, "state");
    return streq(state, "ok") || streq(state, "self") ? COLOUR_GOOD : COLOUR_BAD;
}

static char *host_workers_text(const json_t *host)
{
    return json_get_int(host, "workers", -1) >= 0 ? json_cell_text(JSON_CELL_COUNT, host, "workers") : NULL;
}

static char *host_sessions_text(const json_t *host)
{
    return json_get_int(host, "sessions", -1) >= 0 ? json_cell_text(JSON_CELL_COUNT, host, "sessions") : NULL;
}

/* "3.1 GiB of 200 GiB" */
static char *host_store_text(const json_t *host)
{
    const json_t *store = json_object_get(host, "store");
    int64_t bytes = json_get_int(store, "bytes", -1), max_use = json_get_int(store, "max_use", -1);
    char used[UNIT_TEXT_MAX], budget[UNIT_TEXT_MAX];

    if (bytes < 0)
        return NULL;
    format_size(used, bytes);
    return max_use < 0 ? xstrdup(used) : xasprintf("%s of %s", used, format_size(budget, max_use));
}

/* "+1.2 ms ±0.4 ms" */
static char *host_clock_text(const json_t *host)
{
    int64_t offset = json_get_int(host, "clock_offset_ns", INT64_MIN),
            error = json_get_int(host, "clock_error_ns", -1);
    char text[UNIT_TEXT_MAX], around[UNIT_TEXT_MAX];

    if (streq(json_get_str(host, "state"), "self") || offset == INT64_MIN || error < 0)
        return NULL;
    return xasprintf("%s%s ±%s", offset < 0 ? "-" : "+", format_duration(text, offset < 0 ? -offset : offset),
                     format_duration(around, error));
}

/* When a host that does not answer did so last. */
static char *host_seen_text(const json_t *host)
{
    const char *state = json_get_str(host, "state");

    if (json_get_int(host, "seen_at", 0) == 0 || streq(state, "ok") || streq(state, "self"))
        return NULL;
    return json_cell_text(JSON_CELL_TIME, host, "seen_at");
}

static enum colour host_clock_colour(const json_t *host)
{
    int64_t offset = json_get_int(host, "clock_offset_ns", 0);
    bool wrong = offset > CLOCK_WARN_NS || offset < -CLOCK_WARN_NS;
    return wrong || json_get_bool(host, "clock_unsync", false) ? COLOUR_WARN : COLOUR_NONE;
}

/* What waits at the host: "12 files, 3min". word is one of the things that `member` counts. */
static char *host_lag_text(const json_t *waits, const char *member, const char *word)
{
    int64_t n = json_get_int(waits, member, -1), lag = json_get_int(waits, "lag_ns", -1);
    char text[UNIT_TEXT_MAX];

    if (!json_is_object(waits))
        return NULL;
    if (n == 0 || (n < 0 && lag <= 0))
        return xstrdup("none");
    format_duration(text, lag > 0 ? lag : 0);
    _cleanup_(freep) char *count = n < 0 ? NULL : text_count(n, word);
    return n < 0 ? xstrdup(text) : xasprintf("%s, %s", count, text);
}

static char *host_upload_text(const json_t *host)
{
    return host_lag_text(json_object_get(host, "upload"), "files", "file");
}

static char *host_mirror_text(const json_t *host)
{
    return host_lag_text(json_object_get(host, "mirror"), "rows", "row");
}

/* clang-format off */
static const struct json_column list_hosts_columns[] = {
    {{"HOST", COLUMN_SHORTEN, IMPORTANCE_KEY}, JSON_CELL_TEXT, "host"},
    {{"STATE", 0, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "state", .colour = host_state_colour},
    {{"SEEN", COLUMN_OPTIONAL, IMPORTANCE_HIGH, "seen_at"}, JSON_CELL_TIME, "seen_at", .text = host_seen_text},
    {{"VERSION", 0, IMPORTANCE_LOW}, JSON_CELL_TEXT, "version"},
    {{"WORKERS", COLUMN_RIGHT, IMPORTANCE_HIGH}, JSON_CELL_COUNT, "workers", .text = host_workers_text},
    {{"SESSIONS", COLUMN_RIGHT}, JSON_CELL_COUNT, "sessions", .text = host_sessions_text},
    {{"STORE", 0}, JSON_CELL_SIZE, "store/bytes", .text = host_store_text},
    {{"CLOCK", COLUMN_RIGHT, IMPORTANCE_HIGH, "clock_offset_ns"}, JSON_CELL_SPAN, "clock_offset_ns", .text = host_clock_text, .colour = host_clock_colour},
    {{"UPLOAD", COLUMN_OPTIONAL, .key = "upload"}, .text = host_upload_text},
    {{"MIRROR", COLUMN_OPTIONAL, .key = "mirror"}, .text = host_mirror_text},
    {{"URL", COLUMN_URL, IMPORTANCE_LOW}, JSON_CELL_TEXT, "url"},
    {{"CATALOG", 0, IMPORTANCE_EXTRA}, JSON_CELL_TEXT, "catalog"},
};
/* clang-format on */

static void list_hosts_print_problems(struct client *c, const json_t *hosts)
{
    _cleanup_(reasons_freep) struct reasons *reasons = reasons_new();
    json_t *host;
    size_t i;

    json_array_foreach(hosts, i, host) {
        const char *name = json_get_str(host, "host"), *problem = json_get_str(host, "problem");
        bool names_host = problem && name && strstr(problem, name);
        reasons_add(reasons, names_host ? NULL : name, problem, json_get_str(host, "remedy"));
    }
    reasons_print(reasons, &c->out, 0);
}

static int list_hosts_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ answer = NULL;
    json_t *host;
    size_t i;
    int status = json_table_new(c, list_hosts_columns, ARRAY_SIZE(list_hosts_columns), &table);

    if (status == EXIT_DONE)
        status = client_get(c, "/v1/hosts", "asking all hosts", &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    const json_t *hosts = json_object_get(answer, "hosts");
    json_array_foreach(hosts, i, host)
        json_table_add(table, list_hosts_columns, host);
    listing_print(c, table);
    if (listing_has_legend(c)) {
        list_hosts_print_problems(c, hosts);
        if (json_array_size(hosts) == 1)
            client_note(
                c, "This profd has no peers: profctl peer join HOST prints how two hosts are connected.");
    }
    return EXIT_DONE;
}

const struct verb verb_list_hosts = {
    .name = "list-hosts",
    .words = "",
    .summary = "List the profds of all hosts, their stores and clocks",
    .details =
        "Asks this profd and its peers, the profds of other hosts. CLOCK is the wall clock of a host minus "
        "that "
        "of this one, with the most by which it can be wrong. UPLOAD and MIRROR are what a host has not yet "
        "archived and mirrored. A host that does not answer is listed with the reason and the remedy. SEEN "
        "is "
        "the time of its last answer to anything; its figures are as old or older.",
    .has_listing = true,
    .needs_only_catalog = true,
    .run = list_hosts_run,
};
