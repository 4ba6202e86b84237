/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"
#include "client/views/follow.h"
#include "client/views/listing.h"
#include "client/views/session.h"

struct options {
    bool once;
};

static const struct option_def options[] = {
    {"once", '1', NULL, OPTION_FLAG, offsetof(struct options, once), "one look, also on a terminal"},
};

static int get_session(struct client *c, const char *ref, json_t **ret)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", ref);
    return client_get(c, path, NULL, ret);
}

static int print_session(struct client *c, const json_t *session)
{
    _cleanup_(freep) char *title = session_title(session);

    client_page(c);
    if (listing_is_text(c))
        listing_title(c, title);
    if (json_array_size(json_object_get(session, "targets")) > 0 || listing_is_separated(c)) {
        int status = listing_print_workers(c, session);
        if (status != EXIT_DONE || listing_is_separated(c))
            return status;
    }
    session_print_remarks(session, &c->out);
    if (session_is_over(session))
        session_print_outcome(session, &c->out);
    return EXIT_DONE;
}

/* Live until it is over, where someone looks on. */
static int show_session(struct client *c, const struct options *o, const char *ref)
{
    _cleanup_json_ session = NULL;
    _cleanup_json_ last = NULL;
    int status = get_session(c, ref, &session);

    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, session);
    if (o->once || !c->out.is_terminal || session_is_over(session) || c->transient ||
        listing_is_separated(c) || c->columns) {
        status = print_session(c, session);
        if (status != EXIT_DONE || listing_is_separated(c))
            return status;
        if (c->transient && !session_is_over(session))
            client_note(
                c, "No profd is running that would go on with it; profctl stop %s starts one and ends it.",
                ref);
        return EXIT_DONE;
    }
    _cleanup_(freep) char *title = session_title(session);
    listing_title(c, title);
    session_print_remarks(session, &c->out);
    status = follow_session(c, ref, &c->out, INTERRUPT_LEAVES, &last);
    if (status != EXIT_DONE)
        return status;
    if (session_is_over(last))
        session_print_outcome(last, &c->out);
    return EXIT_DONE;
}

/* "profd 0.2.0 at /run/profd/profd.sock"; "No profd is running, state in /home/anna/.local/state/profd" */
static char *daemon_text(const struct client *c, const json_t *version)
{
    const char *number = json_get_str(version, "version"), *state = json_get_str(version, "state_dir");

    return c->transient ? xasprintf("No profd is running, state in %s", state ? state : "?")
                        : xasprintf("profd %s at %s", number ? number : "?", connection_name(c->connection));
}

/* "profd 0.2.0 at /run/profd/profd.sock: 48 traces, 3.1 GiB of 200 GiB" */
static int print_daemon(struct client *c)
{
    _cleanup_json_ version = NULL;
    _cleanup_json_ usage = NULL;
    int status = client_get(c, "/v1/version", NULL, &version);

    if (status == EXIT_DONE)
        status = client_get(c, "/v1/usage", NULL, &usage);
    if (status != EXIT_DONE)
        return status;
    char bytes[UNIT_TEXT_MAX], budget[UNIT_TEXT_MAX];
    int64_t max_use = json_get_int(usage, "max_use", 0);
    _cleanup_(freep) char *daemon = daemon_text(c, version);
    _cleanup_(freep) char *traces = text_count(json_get_int(usage, "traces", 0), "trace");
    _cleanup_(freep) char *line =
        xasprintf("%s: %s, %s", daemon, traces, format_size(bytes, json_get_int(usage, "bytes", 0)));
    _cleanup_(freep) char *clean = text_clean(line, false);
    fputs(clean, c->out.file);
    if (max_use > 0 && max_use < INT64_MAX)
        fprintf(c->out.file, " of %s", format_size(budget, max_use));
    fputc('\n', c->out.file);
    return EXIT_DONE;
}

/* No session was named: those that are not over, else how the last one ended. */
static int show_all(struct client *c, const struct options *o)
{
    _cleanup_json_ active = NULL;
    _cleanup_json_ last = NULL;
    size_t i;
    json_t *item;
    int status = client_get(c, "/v1/sessions?state=active", NULL, &active);

    if (status != EXIT_DONE)
        return status;
    const json_t *sessions = json_object_get(active, "sessions");
    size_t n = json_array_size(sessions);
    if (c->json)
        return client_print_json(c, active);
    if (n == 1) {
        const char *id = json_get_str(json_array_get(sessions, 0), "session");
        return id ? show_session(c, o, id) : EXIT_FAILED;
    }
    status = listing_refuse(c, "is of one session", "Name it: profctl status s7.");
    if (status == EXIT_DONE)
        status = print_daemon(c);
    if (status == EXIT_DONE && n == 0)
        status = client_get(c, "/v1/sessions?limit=1", NULL, &last);
    if (status != EXIT_DONE)
        return status;
    if (n == 0)
        sessions = json_object_get(last, "sessions");
    if (json_array_size(sessions) == 0)
        client_note(c, "Nothing was recorded yet: profctl start --router URL --wait");
    json_array_foreach(sessions, i, item) {
        _cleanup_json_ session = NULL;
        const char *id = json_get_str(item, "session");
        status = id ? get_session(c, id, &session) : EXIT_FAILED;
        if (status == EXIT_DONE)
            status = print_session(c, session);
    }
    return status;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    char ref[REF_TEXT_MAX];

    if (n_words == 0) {
        int status = show_all(c, o);
        return status == EXIT_DONE && c->transient ? EXIT_FAILED : status;
    }
    return client_parse_ref(c, words[0], 's', "s", ref) < 0 ? EXIT_USAGE : show_session(c, o, ref);
}

const struct verb verb_status = {
    .name = "status",
    .words = "[s7]",
    .summary = "Show a session, live on a terminal until it is over",
    .details =
        "Without an id: all sessions that are not over, else how profd is and how the last session ended.\n"
        "Where no profd runs: what your own catalog says; without an id the exit status is 1 then.",
    .default_kind = 's',
    .max_words = 1,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = run,
};
