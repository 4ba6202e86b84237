/* SPDX-License-Identifier: Apache-2.0 */
/* du, rm, pin, unpin and vacuum: what the store contains, and what is deleted from it. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/screen.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"
#include "client/views/json_table.h"
#include "client/views/listing.h"
#include <inttypes.h>

/* -- du ----------------------------------------------------------------------------------------------- */

/* Sessions that are queried, and the largest of them that are printed as text. */
#define SESSIONS_QUERY "/v1/sessions?limit=1000"
#define SESSIONS_SHOWN 10
/* Users with the highest usage that are printed. */
#define USERS_SHOWN 5

static char *du_pinned_text(const json_t *session)
{
    return xstrdup(json_get_bool(session, "pinned", false) ? "yes" : "no");
}

/* Of files that other hosts keep; NULL: none. */
static char *du_remote_text(const json_t *session)
{
    int64_t bytes = json_get_int(json_object_get(session, "counts"), "remote_bytes", 0);
    char text[UNIT_TEXT_MAX];

    return bytes > 0 ? xstrdup(format_size(text, bytes)) : NULL;
}

static const struct json_column du_columns[] = {
    {{"SESSION", 0, IMPORTANCE_KEY}, JSON_CELL_TEXT, "session"},
    {{"SIZE", COLUMN_RIGHT, IMPORTANCE_HIGH, "bytes"}, JSON_CELL_SIZE, "counts/disk_bytes"},
    {{"TRACES", COLUMN_RIGHT}, JSON_CELL_COUNT, "counts/traces"},
    {{"OTHER HOSTS", COLUMN_RIGHT | COLUMN_OPTIONAL, IMPORTANCE_NORMAL, "remote_bytes"},
     .text = du_remote_text},
    {{"REQUESTED", 0, IMPORTANCE_LOW, "requested_at"}, JSON_CELL_TIME, "requested_at"},
    {{"PINNED", 0}, .text = du_pinned_text},
};

static int64_t session_bytes(const json_t *session)
{
    return json_get_int(json_object_get(session, "counts"), "disk_bytes", 0);
}

static int du_compare_sizes(const void *a, const void *b)
{
    int64_t x = session_bytes(*(const json_t *const *)a), y = session_bytes(*(const json_t *const *)b);
    return (x < y) - (x > y);
}

static void du_print_largest(struct client *c, struct table *table, const json_t *sessions)
{
    size_t n = json_array_size(sessions), n_shown = 0, i;
    _cleanup_(freep) const json_t **sorted = xcalloc(n + 1, sizeof(*sorted));
    json_t *session;

    json_array_foreach(sessions, i, session)
        sorted[i] = session;
    qsort(sorted, n, sizeof(*sorted), du_compare_sizes);
    for (i = 0; i < (listing_is_text(c) ? MIN(n, (size_t)SESSIONS_SHOWN) : n) && session_bytes(sorted[i]) > 0;
         i++, n_shown++)
        json_table_add(table, du_columns, sorted[i]);
    if (n_shown == 0 && listing_is_text(c))
        return;
    if (listing_is_text(c))
        fputc('\n', c->out.file);
    listing_print(c, table);
}

char *usage_text(const json_t *usage)
{
    char bytes[UNIT_TEXT_MAX], budget[UNIT_TEXT_MAX];
    int64_t max_use = json_get_int(usage, "max_use", 0);
    _cleanup_(freep) char *traces = text_count(json_get_int(usage, "traces", 0), "trace");
    char *text = xasprintf("%s, %s", traces, format_size(bytes, json_get_int(usage, "bytes", 0)));

    if (max_use > 0 && max_use < INT64_MAX)
        append_str(&text, " of %s", format_size(budget, max_use));
    return text;
}

/* If there are several users, or a share is less than the store. */
static void du_print_users(struct client *c, const json_t *usage)
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

static void du_print_archive(struct client *c, const json_t *usage)
{
    const json_t *archive = json_object_get(usage, "archive");
    int64_t n = json_get_int(archive, "waiting_files", 0);
    char bytes[UNIT_TEXT_MAX], age[UNIT_TEXT_MAX];

    if (!archive)
        return;
    _cleanup_(freep) char *traces = text_count(n, "trace");
    field_print(&c->out, "Archive:", json_get_str(archive, "url"));
    if (n > 0)
        field_printf(&c->out, "Waiting:", "%s, %s, the oldest for %s", traces,
                     format_size(bytes, json_get_int(archive, "waiting_bytes", 0)),
                     format_duration(age, json_get_int(archive, "lag_ns", 0)));
    if (json_get_str(archive, "error"))
        field_print(&c->out, "Error:", json_get_str(archive, "error"));
}

static void du_print_usage(struct client *c, const json_t *usage)
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
    du_print_archive(c, usage);
    du_print_users(c, usage);
}

static int du_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ usage = NULL, *sessions = NULL;
    int status = json_table_new(c, du_columns, ARRAY_SIZE(du_columns), &table);

    if (status == EXIT_DONE)
        status = client_get(c, "/v1/usage", NULL, &usage);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, usage);
    status = client_get(c, SESSIONS_QUERY, NULL, &sessions);
    if (status != EXIT_DONE)
        return status;
    if (listing_is_text(c))
        du_print_usage(c, usage);
    du_print_largest(c, table, json_object_get(sessions, "sessions"));
    return EXIT_DONE;
}

const struct verb verb_du = {
    .name = "du",
    .summary = "Show disk usage of the store and its largest sessions",
    .details =
        "Prints the budget, the free space, what waits for the archive and, with several users, the usage "
        "of each. SIZE is disk space of this host; OTHER HOSTS is the size of the files of a session that "
        "other hosts keep.",
    .words = "",
    .has_listing = true,
    .needs_only_catalog = true,
    .run = du_run,
};

/* -- rm ----------------------------------------------------------------------------------------------- */

struct rm_options {
    bool yes;
};

static const struct option_def rm_options[] = {
    {"yes", 'y', NULL, OPTION_FLAG, offsetof(struct rm_options, yes), "Do not ask for confirmation"},
};

/* Traces of a session that other hosts keep: what is done to the session here leaves them as they are. */
static int64_t session_count_remote(const json_t *session)
{
    const json_t *target;
    int64_t n = 0;
    size_t i;

    json_array_foreach(json_object_get(session, "targets"), i, target)
        if (json_get_str(target, "host_uuid"))
            n += (int64_t)json_array_size(json_object_get(target, "traces"));
    return n;
}

/* A session may have many traces: on a terminal this needs confirmation. NULL: it does not exist, and its deletion fails. */
static bool rm_is_confirmed(struct client *c, const char *ref, const json_t *session)
{
    int64_t n_remote = session_count_remote(session);
    _cleanup_(freep) char *traces =
        text_count(json_get_int(json_object_get(session, "counts"), "traces", 0) - n_remote, "trace");

    return !session || client_confirm(c, "Delete session %s and its %s%s?", ref, traces,
                                      n_remote > 0 ? " on this host" : "");
}

/* What rm, pin and unpin do to each id. */
struct storage_change {
    const char *kinds, *method, *below; /* kinds of ids, and the request to a path below theirs */
    const char *doing, *done;
    bool asks;
};

/* Objects of the archive that the deletion left. */
static void storage_note_objects(struct client *c, const json_t *answer)
{
    const char *object = json_get_str(answer, "object"), *reason = json_get_str(answer, "object_reason");
    int64_t n_left = json_get_int(answer, "objects_left", 0);
    _cleanup_(freep) char *left = text_count(n_left, "object");

    if (streq(object, "remains"))
        client_note(c, "the object %s remains in the archive: %s", json_get_str(answer, "archive_key"),
                    reason ? reason : "it could not be deleted");
    else if (streq(object, "shared"))
        client_note(c, "the object %s remains in the archive: %s", json_get_str(answer, "archive_key"),
                    reason ? reason : "another trace has the same content");
    if (n_left > 0)
        client_note(c, "%s remain%s in the archive: %s", left, n_left == 1 ? "s" : "",
                    reason ? reason : "see the log of profd");
}

static int storage_apply(struct client *c, const struct storage_change *change, int n_words, char **words)
{
    int worst = EXIT_DONE;

    for (int i = 0; i < n_words; i++) {
        char ref[REF_TEXT_MAX];
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_json_ answer = NULL;
        if (client_parse_ref(c, words[i], 't', change->kinds, ref) < 0)
            return EXIT_USAGE;
        _cleanup_(freep) char *of_ref = ref_path(ref), *path = xasprintf("%s%s", of_ref, change->below);
        _cleanup_(problem_done) struct problem ignored = {0};
        _cleanup_json_ session = NULL;
        if (ref[0] == 's' && !c->json)
            connection_call(c->connection, "GET", of_ref, NULL, NULL, &session, &ignored);
        if (change->asks && ref[0] == 's' && client_can_ask(c) && !rm_is_confirmed(c, ref, session)) {
            client_note(c, "kept %s", ref);
            continue;
        }
        if (connection_call(c->connection, change->method, path, NULL, change->doing, &answer, &p) < 0)
            worst = client_fail(c, &p);
        else if (c->json)
            client_print_json(c, answer);
        else {
            int64_t n_remote = session_count_remote(session);
            _cleanup_(freep) char *remote = text_count(n_remote, "trace");
            client_note(c, "%s %s", change->done, ref);
            if (n_remote > 0)
                client_note(c, "%s of it on other hosts stay%s as before: use profctl there", remote,
                            n_remote == 1 ? "s" : "");
            storage_note_objects(c, answer);
        }
    }
    return worst;
}

static int rm_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct rm_options *o = values;

    return storage_apply(
        c, &(struct storage_change){"str", "DELETE", "", "deleting files", "deleted", .asks = !o->yes},
        n_words, words);
}

const struct verb verb_rm = {
    .name = "rm",
    .words = "TRACE|SESSION|RUN...",
    .summary = "Delete traces, sessions or benchmark runs",
    .details =
        "A session is deleted with its traces on this host; on a terminal this needs confirmation. Files of "
        "workers stay; profd does not collect them again. Objects in the archive are deleted only if profd "
        "has a credential for it; otherwise they remain, which is reported.",
    .default_kind = 't',
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(rm_options, struct rm_options),
    .needs_only_catalog = true,
    .run = rm_run,
};

/* -- pin ---------------------------------------------------------------------------------------------- */

static int pin_run(struct client *c, const void *values, int n_words, char **words)
{
    return storage_apply(c, &(struct storage_change){"st", "PUT", "/pin", NULL, "pinned"}, n_words, words);
}

static int unpin_run(struct client *c, const void *values, int n_words, char **words)
{
    return storage_apply(c, &(struct storage_change){"st", "DELETE", "/pin", NULL, "unpinned"}, n_words,
                         words);
}

const struct verb verb_pin = {
    .name = "pin",
    .words = "TRACE|SESSION...",
    .summary = "Exempt traces from automatic removal",
    .details = "Pinning a session pins all its traces on this host.",
    .default_kind = 't',
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    .needs_only_catalog = true,
    .run = pin_run,
};

const struct verb verb_unpin = {
    .name = "unpin",
    .words = "TRACE|SESSION...",
    .summary = "Allow automatic removal again",
    .default_kind = 't',
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    .needs_only_catalog = true,
    .run = unpin_run,
};

/* -- vacuum ------------------------------------------------------------------------------------------- */

/* Rows that are printed; the others are counted. */
#define ROWS_MAX 40
/* Kept traces that are named. */
#define KEPT_NAMED_MAX 12

struct vacuum_options {
    int64_t keep, older_than;
    bool dry_run, yes;
};

#define AT(member) offsetof(struct vacuum_options, member)

static const struct option_def vacuum_options[] = {
    {"keep", 0, "SIZE", OPTION_SIZE, AT(keep), "Size that the store may keep: 20G, 500M, 0", "keep"},
    {"older-than", 0, "DURATION", OPTION_DURATION, AT(older_than),
     "Delete only traces collected longer ago: 7d, 12h"},
    {"dry-run", 0, NULL, OPTION_FLAG, AT(dry_run), "Only list what would be deleted"},
    {"yes", 'y', NULL, OPTION_FLAG, AT(yes), "Do not ask for confirmation"},
};

static char *vacuum_name_text(const json_t *trace)
{
    const char *name = json_get_str(trace, "name");
    return xasprintf("%s%s", name ? name : "-",
                     json_get_bool(trace, "columns_only", false) ? " (columns only)" : "");
}

static const struct json_column vacuum_columns[] = {
    {{"TRACE", 0}, JSON_CELL_TEXT, "trace"},
    {{"SESSION", 0}, JSON_CELL_TEXT, "session"},
    {{"COLLECTED", 0}, JSON_CELL_TIME, "collected_at"},
    {{"SIZE", COLUMN_RIGHT}, JSON_CELL_SIZE, "size"},
    {{"NAME", COLUMN_SHORTEN}, .text = vacuum_name_text},
};

static void vacuum_print_traces(struct client *c, const json_t *answer)
{
    const json_t *traces = json_object_get(answer, "traces");
    _cleanup_(table_freep) struct table *table = NULL;
    size_t n = json_array_size(traces);
    int64_t n_removed = MAX(json_get_int(answer, "removed", 0), (int64_t)n);

    if (n == 0 || json_table_new(c, vacuum_columns, ARRAY_SIZE(vacuum_columns), &table) != EXIT_DONE)
        return;
    for (size_t i = 0; i < MIN(n, (size_t)ROWS_MAX); i++)
        json_table_add(table, vacuum_columns, json_array_get(traces, i));
    table_print(table, &c->out);
    if (n_removed > ROWS_MAX)
        fprintf(c->out.file, "and %" PRId64 " more\n", n_removed - ROWS_MAX);
}

/* "kept (pinned, 1.2 GiB): t3, t9" */
static void vacuum_print_kept(struct client *c, const json_t *answer)
{
    static const struct {
        const char *reason, *text;
    } reasons[] = {{"pinned", "pinned"},
                   {"session-pinned", "session is pinned"},
                   {"session-running", "session is running"},
                   {"not-archived", "not archived yet"}};
    const json_t *t;
    size_t i;

    for (size_t k = 0; k < ARRAY_SIZE(reasons); k++) {
        _cleanup_(freep) char *list = NULL;
        char freed[UNIT_TEXT_MAX];
        int64_t bytes = 0;
        size_t n = 0;
        json_array_foreach(json_object_get(answer, "kept"), i, t) {
            const char *trace = json_get_str(t, "trace"), *session = json_get_str(t, "session");
            if (!streq(json_get_str(t, "reason"), reasons[k].reason))
                continue;
            bytes += json_get_int(t, "size", 0);
            if (n++ < KEPT_NAMED_MAX)
                append_str(&list, "%s%s%s%s", n > 1 ? ", " : "", trace ? trace : "?", session ? " of " : "",
                           session ? session : "");
        }
        if (n > KEPT_NAMED_MAX)
            append_str(&list, " and %zu more", n - KEPT_NAMED_MAX);
        if (n > 0)
            client_note(c, "kept (%s, %s): %s", reasons[k].text, format_size(freed, bytes), list);
    }
}

static int vacuum_call(struct client *c, const json_t *request, bool dry_run, json_t **ret)
{
    _cleanup_json_ body = json_copy((json_t *)request);

    if (dry_run)
        json_put_bool(body, "dry_run", true);
    return client_call(c, "POST", "/v1/vacuum", body,
                       dry_run ? "listing the oldest traces" : "deleting the oldest traces", ret);
}

static void vacuum_print_outcome(struct client *c, const char *what, const json_t *answer)
{
    char freed[UNIT_TEXT_MAX];
    int64_t n_archived = json_get_int(answer, "archived", 0);
    _cleanup_(freep) char *traces = text_count(json_get_int(answer, "removed", 0), "trace"),
                          *archived = text_count(n_archived, "trace");

    if (json_get_int(answer, "freed", 0) == 0)
        fputs("nothing to delete\n", c->out.file);
    else
        fprintf(c->out.file, "%s %s%s, %s\n", what, n_archived > 0 ? "the files of " : "", traces,
                format_size(freed, json_get_int(answer, "freed", 0)));
    if (n_archived > 0)
        fprintf(c->out.file, "%s %s in the archive and %s listed\n", archived,
                n_archived == 1 ? "remains" : "remain", n_archived == 1 ? "stays" : "stay");
}

static int vacuum_print(struct client *c, const char *what, const json_t *answer)
{
    if (c->json)
        return client_print_json(c, answer);
    vacuum_print_traces(c, answer);
    vacuum_print_kept(c, answer);
    vacuum_print_outcome(c, what, answer);
    return EXIT_DONE;
}

static int vacuum_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct vacuum_options *o = values;
    _cleanup_json_ request = json_object(), *listed = NULL, *answer = NULL;
    bool asks = !o->yes && !o->dry_run;
    char freed[UNIT_TEXT_MAX];

    if (o->keep == OPTION_ABSENT && o->older_than == OPTION_ABSENT)
        return client_refuse(c, "profctl du shows how much is stored.",
                             "vacuum needs --keep SIZE or --older-than DURATION");
    if (asks && !client_can_ask(c))
        return client_error(c, PROBLEM_CONFLICT,
                            "--yes deletes without asking; --dry-run lists what would be deleted.",
                            "vacuum cannot ask for confirmation: standard input is not a terminal");
    options_to_json(OPTION_SET(vacuum_options, o), request);
    if (o->older_than != OPTION_ABSENT)
        json_put_int(request, "collected_until", wall_ns() - o->older_than);
    int status = asks ? vacuum_call(c, request, true, &listed) : EXIT_DONE;
    if (status != EXIT_DONE)
        return status;
    if (asks) {
        int64_t bytes = json_get_int(listed, "freed", 0);
        if (bytes == 0)
            return vacuum_print(c, "would delete", listed);
        if (!c->json) {
            vacuum_print_traces(c, listed);
            vacuum_print_kept(c, listed);
        }
        _cleanup_(freep) char *traces = text_count(json_get_int(listed, "removed", 0), "trace");
        bool is_archived = json_get_int(listed, "archived", 0) > 0;
        if (!client_confirm(c, "Delete %s%s (%s)?", is_archived ? "the files of " : "", traces,
                            format_size(freed, bytes))) {
            client_note(c, "nothing was deleted");
            return EXIT_DONE;
        }
        /* Only what was listed. */
        json_put_int(request, "collected_until", json_get_int(listed, "collected_until", 0));
    }
    status = vacuum_call(c, request, o->dry_run, &answer);
    if (status != EXIT_DONE)
        return status;
    if (!asks || c->json)
        return vacuum_print(c, o->dry_run ? "would delete" : "deleted", answer);
    vacuum_print_outcome(c, "deleted", answer);
    return EXIT_DONE;
}

const struct verb verb_vacuum = {
    .name = "vacuum",
    .summary = "Delete oldest traces until the store fits in SIZE",
    .details = "Lists the traces and asks before deleting. Traces collected first are deleted first; pinned "
               "traces and those of running sessions are kept and listed.",
    .words = "--keep SIZE | --older-than DURATION",
    VERB_OPTIONS(vacuum_options, struct vacuum_options),
    .needs_only_catalog = true,
    .run = vacuum_run,
};
