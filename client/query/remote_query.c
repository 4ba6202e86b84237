/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/remote_query.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "proto/report.h"
#include <errno.h>
#include <inttypes.h>

struct remote_rows {
    const json_t *columns, *rows;
    size_t next; /* row; the current one is before it */
};

static const json_t *remote_cell(const struct remote_rows *r, int column)
{
    return json_array_get(json_array_get(r->rows, r->next - 1), (size_t)column);
}

static int remote_step(void *arg)
{
    struct remote_rows *r = arg;
    return r->next++ < json_array_size(r->rows) ? SQLITE_ROW : SQLITE_DONE;
}

static int remote_count(void *arg)
{
    return (int)json_array_size(((struct remote_rows *)arg)->columns);
}

static const char *remote_name(void *arg, int column)
{
    const char *name =
        json_string_value(json_array_get(((struct remote_rows *)arg)->columns, (size_t)column));
    return name ? name : "?";
}

static enum result_type remote_type(void *arg, int column)
{
    return json_is_number(remote_cell(arg, column)) ? RESULT_NUMBER : RESULT_TEXT;
}

static char *remote_text(void *arg, int column)
{
    const json_t *cell = remote_cell(arg, column);
    char real[RESULT_REAL_TEXT];

    if (json_is_integer(cell))
        return xasprintf("%" PRId64, (int64_t)json_integer_value(cell));
    if (json_is_real(cell)) {
        result_real_text(json_real_value(cell), real);
        return xstrdup(real);
    }
    return xstrdup(json_string_value(cell));
}

static int remote_print(struct client *c, const struct remote_query *q, const json_t *answer,
                        const char *host, int64_t begin_ns)
{
    struct remote_rows rows = {json_object_get(answer, "columns"), json_object_get(answer, "rows"), 0};
    const struct result_options options = {
        .format = c->format, .with_heading = !c->no_legend, .rows_max = q->rows_max};
    const struct result_source source = {.step = remote_step,
                                         .count = remote_count,
                                         .name = remote_name,
                                         .type = remote_type,
                                         .text = remote_text,
                                         .arg = &rows};
    int64_t took_ns = mono_ns() - begin_ns;
    char took[UNIT_TEXT_MAX];

    client_page(c);
    struct result_end end = result_print_source(&c->out, &options, &source);
    _cleanup_(freep) char *n = text_count(end.rows, "row");
    if (json_get_bool(answer, "more", false) || end.code == SQLITE_ROW)
        client_note(c, "the first %s; --limit leaves the others out", n);
    else if ((c->format == TABLE_FITTED || c->format == TABLE_WIDE) && !c->no_legend)
        client_note(c, "%s, %s on %s", n, format_duration(took, took_ns), host);
    return EXIT_DONE;
}

/* Why the host did not run it, unless the caller's attempt explains that better. */
static void remote_note_failure(struct client *c, const struct remote_query *q, const char *host,
                                const struct problem *p)
{
    if (p->kind == PROBLEM_TOO_LARGE || p->kind == PROBLEM_TOO_MANY)
        client_note(c, "%s does not run the statement: %s; reading the columns of %s", host, p->what,
                    q->name);
}

static bool remote_answer_is_complete(struct client *c, const struct remote_query *q, const json_t *answer,
                                      const char *host)
{
    if (!json_is_array(json_object_get(answer, "columns")) || !json_is_array(json_object_get(answer, "rows")))
        return false;
    if (!json_get_bool(answer, "more", false) || q->rows_max <= REPORT_ROWS_MAX)
        return true;
    client_note(c, "%s sends %d rows at most: reading the columns of %s", host, REPORT_ROWS_MAX, q->name);
    return false;
}

bool remote_query_run(struct client *c, const struct remote_query *q, int *ret_status)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ trace = NULL, *answer = NULL, *body = json_object();
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s", q->name), *query = xasprintf("%s/query", path),
                          *doing = NULL;
    int64_t begin_ns = mono_ns();

    /* A trace that does not exist is reported by the caller. */
    if (connection_call(c->connection, "GET", path, NULL, NULL, &trace, &p) < 0 ||
        !json_get_str(trace, "host_uuid") || json_get_int(trace, "columns_size", 0) <= 0)
        return false;
    const char *host = json_get_str(trace, "host") ? json_get_str(trace, "host") : "the host of the trace";
    doing = xasprintf("running the statement on %s", host);
    json_put_str(body, "sql", q->sql);
    json_put_int(body, "limit", MIN(q->rows_max, (int64_t)REPORT_ROWS_MAX));
    int r = connection_call(c->connection, "POST", query, body, doing, &answer, &p);
    if (r == -EINTR) {
        *ret_status = client_fail(c, &p);
        return true;
    }
    if (r < 0) {
        remote_note_failure(c, q, host, &p);
        return false;
    }
    if (!remote_answer_is_complete(c, q, answer, host))
        return false;
    *ret_status = remote_print(c, q, answer, host, begin_ns);
    return true;
}
