/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/requests.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include <errno.h>

#define PAGE_ROWS 10000

static char *requests_path(const char *run, const char *format)
{
    return xasprintf("/v1/runs/%s/requests?format=%s&limit=%d", run, format, PAGE_ROWS);
}

/* -- CSV of profd --------------------------------------------------------------------------- */

static int write_to_file(const void *data, size_t size, void *arg)
{
    return fwrite(data, 1, size, arg) == size ? 0 : -EIO;
}

/* On a terminal a page is kept in memory, and control characters are removed. */
static int csv_page(struct client *c, const char *path, struct problem *p)
{
    _cleanup_(freep) char *text = NULL;
    size_t size;

    if (!c->out.is_tty)
        return connection_download(c->connection, path, write_to_file, c->out.file, p);
    FILE *page = xmemstream(&text, &size);
    int r = connection_download(c->connection, path, write_to_file, page, p);
    fclose(page);
    _cleanup_(freep) char *clean = text_clean(text, true);
    fputs(clean, c->out.file);
    return r;
}

static int csv_print(struct client *c, const char *run)
{
    char *path = connection_has_events(c->connection) ? requests_path(run, "csv") : NULL;
    int status = EXIT_DONE;

    if (!path)
        return client_error(c, PROBLEM_UNSUPPORTED, "Omit --bus, or use --jsonl.",
                            "D-Bus has no CSV of requests");
    while (path && status == EXIT_DONE) {
        _cleanup_(problem_done) struct problem p = {0};
        int r = csv_page(c, path, &p);
        free(path);
        path = r == 0 ? connection_next_page(c->connection) : NULL;
        /* A closed pipe is not a failure, and a full disk is reported by the last flush. */
        if (r < 0 && !ferror(c->out.file))
            status = client_fail(c, &p);
    }
    free(path);
    return status;
}

/* -- Pages of JSON ------------------------------------------------------------------------------------- */

/* Calls fn for each page, a list. An exit status. */
static int pages_each(struct client *c, const char *run, void (*fn)(const json_t *page, void *arg), void *arg)
{
    int64_t after = -1;

    for (;;) {
        _cleanup_(freep) char *path = requests_path(run, "json");
        _cleanup_json_ answer = NULL;
        if (after >= 0)
            url_add_int(&path, "after", after);
        int status = client_get(c, path, "reading requests", &answer);
        if (status != EXIT_DONE)
            return status;
        int64_t next = json_get_int(answer, "next", -1);
        fn(json_object_get(answer, "requests"), arg);
        if (next <= after)
            return EXIT_DONE;
        after = next;
    }
}

struct page_printer {
    const struct screen *out;
    const char *before, *between; /* of requests */
    size_t n;
};

static void page_print(const json_t *page, void *arg)
{
    struct page_printer *p = arg;
    size_t i;
    json_t *request;

    json_array_foreach(page, i, request) {
        fputs(p->n++ > 0 ? p->between : p->before, p->out->file);
        screen_json(p->out, request, JSON_COMPACT);
    }
}

static int json_print(struct client *c, const char *run, bool as_lines)
{
    struct page_printer printing = {&c->out, as_lines ? "" : "\n", as_lines ? "\n" : ",\n", 0};

    fputs(as_lines ? "" : "{\"requests\":[", c->out.file);
    int status = pages_each(c, run, page_print, &printing);
    if (status == EXIT_DONE)
        fprintf(c->out.file, "%s%s", printing.n > 0 ? "\n" : "", as_lines ? "" : "]}\n");
    return status;
}

static void page_keep(const json_t *page, void *arg)
{
    json_array_extend(arg, (json_t *)page);
}

int requests_get(struct client *c, const char *run, json_t **ret)
{
    _cleanup_json_ all = json_array();
    int status = pages_each(c, run, page_keep, all);

    if (status == EXIT_DONE)
        *ret = TAKE_PTR(all);
    return status;
}

/* -- The table ---------------------------------------------------------------------------------------- */

enum column_kind { COLUMN_OF_TEXT, COLUMN_OF_COUNT, COLUMN_OF_MS };

static const struct request_column {
    struct table_column table;
    const char *key;
    enum column_kind kind;
} request_columns[] = {
    {{"REQUEST", COLUMN_RIGHT, IMPORTANCE_KEY, "index"}, "index", COLUMN_OF_COUNT},
    {{"AT ms", COLUMN_RIGHT, IMPORTANCE_NORMAL, "intended_ns"}, "intended_ns", COLUMN_OF_MS},
    {{"LATE", COLUMN_RIGHT, IMPORTANCE_EXTRA, "lateness_ns"}, "lateness_ns", COLUMN_OF_MS},
    {{"TTFT", COLUMN_RIGHT, IMPORTANCE_HIGH, "ttft_ns"}, "ttft_ns", COLUMN_OF_MS},
    {{"TPOT", COLUMN_RIGHT, IMPORTANCE_HIGH, "tpot_ns"}, "tpot_ns", COLUMN_OF_MS},
    {{"E2E", COLUMN_RIGHT, IMPORTANCE_HIGH, "e2e_ns"}, "e2e_ns", COLUMN_OF_MS},
    {{"IN", COLUMN_RIGHT, IMPORTANCE_NORMAL, "input_tokens"}, "input_tokens", COLUMN_OF_COUNT},
    {{"OUT", COLUMN_RIGHT, IMPORTANCE_NORMAL, "output_tokens"}, "output_tokens", COLUMN_OF_COUNT},
    {{"OUTCOME", 0, IMPORTANCE_HIGH}, "outcome", COLUMN_OF_TEXT},
    {{"TARGET", COLUMN_URL, IMPORTANCE_LOW}, "target", COLUMN_OF_TEXT},
    {{"ERROR", COLUMN_SHORTEN, .least = 16}, "error", COLUMN_OF_TEXT},
};

#define N_COLUMNS ARRAY_SIZE(request_columns)

static const char *request_cell(const struct request_column *column, const json_t *request, char *buf)
{
    int64_t n = json_get_int(request, column->key, -1);

    switch (column->kind) {
    case COLUMN_OF_TEXT:
        return json_get_str(request, column->key);
    case COLUMN_OF_COUNT:
        return n >= 0 ? text_number(buf, n) : NULL;
    case COLUMN_OF_MS:
        break;
    }
    return figure_text(buf, figure_at(request, column->key) / NS_PER_MS);
}

static void request_add(struct table *table, const json_t *request)
{
    char numbers[N_COLUMNS][32];
    const char *cells[N_COLUMNS];

    for (size_t i = 0; i < N_COLUMNS; i++)
        cells[i] = request_cell(&request_columns[i], request, numbers[i]);
    table_add(table, cells);
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (request_columns[i].kind != COLUMN_OF_TEXT)
            table_set_real(table, i, figure_at(request, request_columns[i].key));
}

static int requests_print_table(struct client *c, const char *run)
{
    struct table_column headings[N_COLUMNS];
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ list = NULL;
    size_t i;
    json_t *request;

    for (i = 0; i < N_COLUMNS; i++)
        headings[i] = request_columns[i].table;
    int status = listing_table(c, headings, N_COLUMNS, &table);
    if (status == EXIT_DONE)
        status = requests_get(c, run, &list);
    if (status != EXIT_DONE)
        return status;
    json_array_foreach(list, i, request)
        request_add(table, request);
    listing_print(c, table);
    return EXIT_DONE;
}

int requests_print(struct client *c, const char *run, bool as_lines)
{
    if (as_lines || c->json)
        return json_print(c, run, as_lines);
    /* Only the CSV of profd has all columns. */
    return c->format == TABLE_CSV && !c->columns && !c->no_legend ? csv_print(c, run)
                                                                  : requests_print_table(c, run);
}
