/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/screen.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include <inttypes.h>

/* Sessions that are read, and the largest of them that people are shown. */
#define SESSIONS_LOOKED "/v1/sessions?limit=1000"
#define SESSIONS_SHOWN  10
/* Users who hold most, likewise. */
#define USERS_SHOWN 5

enum { CELL_SESSION, CELL_SIZE, CELL_TRACES, CELL_REQUESTED, CELL_PINNED, _CELL_MAX };

static const struct table_column columns[_CELL_MAX] = {
    [CELL_SESSION] = {"SESSION", 0, IMPORTANCE_KEY},
    [CELL_SIZE] = {"SIZE", COLUMN_RIGHT, IMPORTANCE_HIGH, "bytes"},
    [CELL_TRACES] = {"TRACES", COLUMN_RIGHT},
    [CELL_REQUESTED] = {"REQUESTED", 0, IMPORTANCE_LOW, "requested_at"},
    [CELL_PINNED] = {"PINNED", 0},
};

static int64_t bytes_of(const json_t *session)
{
    return json_get_int(json_object_get(session, "counts"), "bytes", 0);
}

static int larger_first(const void *a, const void *b)
{
    int64_t x = bytes_of(*(const json_t *const *)a), y = bytes_of(*(const json_t *const *)b);
    return (x < y) - (x > y);
}

static void add_session(struct table *table, const json_t *session)
{
    char size[UNIT_TEXT_MAX], requested[UNIT_TEXT_MAX], traces[32];

    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_SESSION] = json_get_str(session, "session"),
                         [CELL_SIZE] = format_size(size, bytes_of(session)),
                         [CELL_TRACES] = text_number(
                             traces, json_get_int(json_object_get(session, "counts"), "traces", 0)),
                         [CELL_REQUESTED] = format_time(requested, json_get_int(session, "requested_at", 0)),
                         [CELL_PINNED] = json_get_bool(session, "pinned", false) ? "yes" : "no",
                     });
    table_set_int(table, CELL_SIZE, bytes_of(session));
    table_set_int(table, CELL_TRACES, json_get_int(json_object_get(session, "counts"), "traces", 0));
    table_set_int(table, CELL_REQUESTED, json_get_int(session, "requested_at", 0));
}

static void print_largest(struct client *c, struct table *table, const json_t *sessions)
{
    size_t n = json_array_size(sessions), n_shown = 0, i;
    _cleanup_(freep) const json_t **sorted = xcalloc(n + 1, sizeof(*sorted));
    json_t *session;

    json_array_foreach(sessions, i, session)
        sorted[i] = session;
    qsort(sorted, n, sizeof(*sorted), larger_first);
    for (i = 0; i < (listing_is_text(c) ? MIN(n, (size_t)SESSIONS_SHOWN) : n) && bytes_of(sorted[i]) > 0;
         i++, n_shown++)
        add_session(table, sorted[i]);
    if (n_shown == 0 && listing_is_text(c))
        return;
    if (listing_is_text(c))
        fputc('\n', c->out.file);
    listing_print(c, table);
}

/* Where there is more than one, or a share that is less than all of the store. */
static void print_users(struct client *c, const json_t *usage)
{
    int64_t n = json_get_int(usage, "n_users", 0), share = json_get_int(usage, "share", 0);
    char text[UNIT_TEXT_MAX];
    const json_t *user;
    size_t i;

    if (n < 2 && (share <= 0 || share >= json_get_int(usage, "max_use", 0)))
        return;
    if (n < 2)
        field_printf(&c->out, "Share:", "%s for each user (per_user)", format_size(text, share));
    else
        field_printf(&c->out, "Share:", "%s for each of %" PRId64 " users (per_user)",
                     format_size(text, share), n);
    json_array_foreach(json_object_get(usage, "users"), i, user) {
        _cleanup_(freep) char *traces = text_count(json_get_int(user, "traces", 0), "trace");
        if (i < USERS_SHOWN)
            field_printf(&c->out, i == 0 ? "Users:" : "", "%s: %s, %s", json_get_str(user, "user"), traces,
                         format_size(text, json_get_int(user, "bytes", 0)));
    }
    if (n > USERS_SHOWN)
        field_printf(&c->out, "", "and %" PRId64 " more", n - USERS_SHOWN);
}

static void print_usage(struct client *c, const json_t *usage)
{
    char text[UNIT_TEXT_MAX];
    int64_t max_use = json_get_int(usage, "max_use", 0), keep_free = json_get_int(usage, "keep_free", 0);
    _cleanup_(freep) char *traces = text_count(json_get_int(usage, "traces", 0), "trace");

    client_page(c);
    field_print(&c->out, "Store:", json_get_str(usage, "store"));
    field_printf(&c->out, "Holds:", "%s, %s", traces, format_size(text, json_get_int(usage, "bytes", 0)));
    if (max_use > 0 && max_use < INT64_MAX)
        field_printf(&c->out, "Budget:", "%s (max_use)", format_size(text, max_use));
    field_print(&c->out, "Free:", format_size(text, json_get_int(usage, "free", 0)));
    if (keep_free > 0)
        field_printf(&c->out, "Kept free:", "%s (keep_free)", format_size(text, keep_free));
    print_users(c, usage);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ usage = NULL;
    _cleanup_json_ sessions = NULL;
    int status = listing_table(c, columns, _CELL_MAX, &table);

    if (status == EXIT_DONE)
        status = client_get(c, "/v1/usage", NULL, &usage);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, usage);
    status = client_get(c, SESSIONS_LOOKED, NULL, &sessions);
    if (status != EXIT_DONE)
        return status;
    if (listing_is_text(c))
        print_usage(c, usage);
    print_largest(c, table, json_object_get(sessions, "sessions"));
    return EXIT_DONE;
}

const struct verb verb_du = {
    .name = "du",
    .words = "",
    .summary = "Show what the store holds, its budget, its largest sessions",
    .has_listing = true,
    .needs_only_catalog = true,
    .run = run,
};
