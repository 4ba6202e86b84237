/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes what was collected first. What goes is listed before anybody is asked, and what is removed after
 * the answer is at most what was listed: profd removes nothing that was collected later.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"
#include <errno.h>
#include <inttypes.h>

/* Rows of traces that are printed; the others are counted. */
#define ROWS_MAX 40
/* Traces that are named of those that stay. */
#define KEPT_NAMED_MAX 12

struct options {
    int64_t keep, older_than;
    bool dry_run, yes;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"keep", 0, "SIZE", OPTION_SIZE, AT(keep), "Size that the store may keep: 20G, 500M, 0"},
    {"older-than", 0, "DURATION", OPTION_DURATION, AT(older_than),
     "Delete only traces collected longer ago: 7d, 12h"},
    {"dry-run", 0, NULL, OPTION_FLAG, AT(dry_run), "Only list what would be deleted"},
    {"yes", 'y', NULL, OPTION_FLAG, AT(yes), "Do not ask for confirmation"},
};

enum { CELL_TRACE, CELL_SESSION, CELL_COLLECTED, CELL_SIZE, CELL_NAME, _CELL_MAX };

static const struct table_column columns[_CELL_MAX] = {
    {"TRACE", 0}, {"SESSION", 0}, {"COLLECTED", 0}, {"SIZE", COLUMN_RIGHT}, {"NAME", COLUMN_SHORTEN},
};

static void print_traces(struct client *c, const json_t *answer)
{
    _cleanup_(table_freep) struct table *table = table_new(columns, _CELL_MAX, !c->no_legend);
    const json_t *traces = json_object_get(answer, "traces"), *t;
    int64_t n = json_get_int(answer, "removed", 0), n_listed = (int64_t)json_array_size(traces);
    size_t i;

    json_array_foreach((json_t *)traces, i, t) {
        char collected[UNIT_TEXT_MAX], size[UNIT_TEXT_MAX];
        const char *name = json_get_str(t, "name");
        bool columns_only = json_get_bool(t, "columns_only", false);
        _cleanup_(freep) char *name_cell =
            xasprintf("%s%s", name ? name : "-", columns_only ? " (columns only)" : "");
        if (i == ROWS_MAX)
            break;
        table_add(table, (const char *[_CELL_MAX]){
                             [CELL_TRACE] = json_get_str(t, "trace"),
                             [CELL_SESSION] = json_get_str(t, "session"),
                             [CELL_COLLECTED] = format_time(collected, json_get_int(t, "collected_at", 0)),
                             [CELL_SIZE] = format_size(size, json_get_int(t, "size", 0)),
                             [CELL_NAME] = name_cell,
                         });
    }
    if (n_listed == 0)
        return;
    table_print(table, &c->out);
    n = MAX(n, n_listed);
    if (n > ROWS_MAX)
        fprintf(c->out.file, "and %" PRId64 " more\n", n - ROWS_MAX);
}

/* "kept: t3, t9 (pinned)" */
static void print_kept(struct client *c, const json_t *answer)
{
    static const struct {
        const char *reason, *text;
    } reasons[] = {{"pinned", "pinned"},
                   {"session-pinned", "session is pinned"},
                   {"session-running", "session is not over"}};
    const json_t *kept = json_object_get(answer, "kept"), *t;
    size_t i;

    for (size_t k = 0; k < ARRAY_SIZE(reasons); k++) {
        size_t n = 0, size;
        char *list = NULL, freed[UNIT_TEXT_MAX];
        int64_t bytes = 0;
        FILE *out = xmemstream(&list, &size);
        if (!out)
            return;
        json_array_foreach((json_t *)kept, i, t) {
            const char *trace = json_get_str(t, "trace"), *session = json_get_str(t, "session");
            if (!streq(json_get_str(t, "reason"), reasons[k].reason))
                continue;
            bytes += json_get_int(t, "size", 0);
            if (n++ < KEPT_NAMED_MAX)
                fprintf(out, "%s%s%s%s", n > 1 ? ", " : "", trace ? trace : "?", session ? " of " : "",
                        session ? session : "");
        }
        if (n > KEPT_NAMED_MAX)
            fprintf(out, " and %zu more", n - KEPT_NAMED_MAX);
        fclose(out);
        _cleanup_(freep) char *clean = text_clean(list, false);
        if (n > 0)
            client_note(c, "kept (%s, %s): %s", reasons[k].text, format_size(freed, bytes), clean);
        free(list);
    }
}

static int call(struct client *c, const json_t *request, bool dry_run, json_t **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ body = json_copy((json_t *)request);

    if (dry_run)
        json_put_bool(body, "dry_run", true);
    if (connection_call(c->connection, "POST", "/v1/vacuum", body,
                        dry_run ? "listing the oldest traces" : "deleting the oldest traces", ret, &p) < 0)
        return client_fail(c, &p);
    return EXIT_DONE;
}

static void print_outcome(struct client *c, const char *what, const json_t *answer)
{
    char freed[UNIT_TEXT_MAX];
    _cleanup_(freep) char *traces = text_count(json_get_int(answer, "removed", 0), "trace");

    if (json_get_int(answer, "freed", 0) == 0)
        fputs("nothing to remove\n", c->out.file);
    else
        fprintf(c->out.file, "%s %s, %s\n", what, traces,
                format_size(freed, json_get_int(answer, "freed", 0)));
}

static int print_answer(struct client *c, const char *what, const json_t *answer)
{
    if (c->json)
        return client_print_json(c, answer);
    print_traces(c, answer);
    print_kept(c, answer);
    print_outcome(c, what, answer);
    return EXIT_DONE;
}

/* Lists what goes and asks; narrows the request to what was listed. *ret_go_on is false where nothing is to
 * be done. */
static int ask(struct client *c, json_t *request, bool *ret_go_on)
{
    _cleanup_json_ answer = NULL;
    char freed[UNIT_TEXT_MAX];
    int status = call(c, request, true, &answer);

    *ret_go_on = false;
    if (status != EXIT_DONE)
        return status;
    int64_t bytes = json_get_int(answer, "freed", 0);
    if (bytes == 0)
        return print_answer(c, "would remove", answer);
    if (!c->json) {
        print_traces(c, answer);
        print_kept(c, answer);
    }
    _cleanup_(freep) char *traces = text_count(json_get_int(answer, "removed", 0), "trace");
    *ret_go_on = client_confirm(c, "Remove %s (%s)?", traces, format_size(freed, bytes));
    if (!*ret_go_on)
        client_note(c, "nothing was removed");
    json_put_int(request, "collected_until", json_get_int(answer, "collected_until", 0));
    return EXIT_DONE;
}

static int make_request(const struct options *o, json_t *request, struct problem *p)
{
    if (o->keep == OPTION_ABSENT && o->older_than == OPTION_ABSENT) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "vacuum needs --keep SIZE or --older-than DURATION");
        problem_remedy(p, "profctl du shows how much is stored.");
        return -EINVAL;
    }
    if (o->keep != OPTION_ABSENT)
        json_put_int(request, "keep", o->keep);
    if (o->older_than != OPTION_ABSENT)
        json_put_int(request, "collected_until", wall_ns() - o->older_than);
    return 0;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();
    _cleanup_json_ answer = NULL;
    bool go_on = true, asks = !o->yes && !o->dry_run;

    if (make_request(o, request, &p) < 0)
        return client_fail(c, &p);
    if (asks && !client_can_ask(c)) {
        problem_set(&p, -ENOTTY, PROBLEM_CONFLICT,
                    "vacuum cannot ask for confirmation: standard input is not a terminal");
        problem_remedy(&p, "--yes deletes without asking; --dry-run lists what would be deleted.");
        return client_fail(c, &p);
    }
    int status = asks ? ask(c, request, &go_on) : EXIT_DONE;
    if (status != EXIT_DONE || !go_on)
        return status;
    status = call(c, request, o->dry_run, &answer);
    if (status != EXIT_DONE)
        return status;
    if (!asks || c->json)
        return print_answer(c, o->dry_run ? "would remove" : "removed", answer);
    print_outcome(c, "removed", answer);
    return EXIT_DONE;
}

const struct verb verb_vacuum = {
    .name = "vacuum",
    .words = "--keep SIZE | --older-than DURATION",
    .summary = "Delete oldest traces until the store fits in SIZE",
    .details =
        "Lists what goes and asks first. The traces that were collected first go first; pinned traces and\n"
        "those of sessions that are not over stay and are named.",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
