/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/requests.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/cli/text.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include <errno.h>

#define PAGE_ROWS 10000

static char *path_of(const char *run, const char *format)
{
    return xasprintf("/v1/runs/%s/requests?format=%s&limit=%d", run, format, PAGE_ROWS);
}

/* -- CSV, as profd sends it --------------------------------------------------------------------------- */

static int write_on(const void *data, size_t size, void *arg)
{
    return fwrite(data, 1, size, arg) == size ? 0 : -EIO;
}

/* A page is kept in memory where it has to be cleaned. */
static int pass_page_on(struct client *c, const char *path, struct problem *p)
{
    _cleanup_(freep) char *text = NULL;
    size_t size;

    if (!c->out.is_tty)
        return connection_download(c->connection, path, write_on, c->out.file, p);
    FILE *page = xmemstream(&text, &size);
    int r = connection_download(c->connection, path, write_on, page, p);
    fclose(page);
    _cleanup_(freep) char *clean = text_clean(text, true);
    fputs(clean, c->out.file);
    return r;
}

static int pass_csv_on(struct client *c, const char *run)
{
    char *path = connection_has_events(c->connection) ? path_of(run, "csv") : NULL;
    int status = EXIT_DONE;

    if (!path) {
        _cleanup_(problem_done) struct problem p = {0};
        problem_set(&p, -EOPNOTSUPP, PROBLEM_UNSUPPORTED, "requests are not offered on D-Bus as CSV");
        problem_remedy(&p, "Leave --bus out, or take --jsonl.");
        return client_fail(c, &p);
    }
    while (path && status == EXIT_DONE) {
        _cleanup_(problem_done) struct problem p = {0};
        int r = pass_page_on(c, path, &p);
        free(path);
        path = r == 0 ? connection_next_page(c->connection) : NULL;
        /* Who reads no further is no failure, and a full disk is told when all is flushed. */
        if (r < 0 && !ferror(c->out.file))
            status = client_fail(c, &p);
    }
    free(path);
    return status;
}

/* -- Pages of JSON ------------------------------------------------------------------------------------- */

/* Calls fn for each page, a list. An exit status. */
static int each_page(struct client *c, const char *run, void (*fn)(const json_t *page, void *arg), void *arg)
{
    int64_t after = -1;

    for (;;) {
        _cleanup_(freep) char *path = path_of(run, "json");
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

struct printing {
    const struct screen *out;
    const char *before, *between, *after; /* of requests */
    size_t n;
};

static void print_page(const json_t *page, void *arg)
{
    struct printing *p = arg;
    size_t i;
    json_t *request;

    json_array_foreach(page, i, request) {
        fputs(p->n++ > 0 ? p->between : p->before, p->out->file);
        screen_json(p->out, request, JSON_COMPACT);
    }
}

static int print_as(struct client *c, const char *run, struct printing printing)
{
    printing.out = &c->out;
    int status = each_page(c, run, print_page, &printing);
    if (status == EXIT_DONE)
        fputs(printing.n > 0 ? printing.after : "", c->out.file);
    return status;
}

static int print_lines(struct client *c, const char *run)
{
    return print_as(c, run, (struct printing){.before = "", .between = "\n", .after = "\n"});
}

static int print_json(struct client *c, const char *run)
{
    fputs("{\"requests\":[", c->out.file);
    int status = print_as(c, run, (struct printing){.before = "\n", .between = ",\n", .after = "\n"});
    if (status == EXIT_DONE)
        fputs("]}\n", c->out.file);
    return status;
}

static void keep_page(const json_t *page, void *arg)
{
    json_array_extend(arg, (json_t *)page);
}

int requests_get(struct client *c, const char *run, json_t **ret)
{
    _cleanup_json_ all = json_array();
    int status = each_page(c, run, keep_page, all);

    if (status == EXIT_DONE)
        *ret = TAKE_PTR(all);
    return status;
}

/* -- For people ---------------------------------------------------------------------------------------- */

enum column_kind { COLUMN_OF_TEXT, COLUMN_OF_COUNT, COLUMN_OF_MS };

static const struct request_column {
    struct table_column table;
    const char *key;
    enum column_kind kind;
} columns[] = {
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

#define N_COLUMNS ARRAY_SIZE(columns)

static const char *cell_of(const struct request_column *column, const json_t *request, char *buf)
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

static void add_request(struct table *table, const json_t *request)
{
    char numbers[N_COLUMNS][32];
    const char *cells[N_COLUMNS];

    for (size_t i = 0; i < N_COLUMNS; i++)
        cells[i] = cell_of(&columns[i], request, numbers[i]);
    table_add(table, cells);
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (columns[i].kind != COLUMN_OF_TEXT)
            table_set_real(table, i, figure_at(request, columns[i].key));
}

static int print_table(struct client *c, const char *run)
{
    struct table_column headings[N_COLUMNS];
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ list = NULL;
    size_t i;
    json_t *request;

    for (i = 0; i < N_COLUMNS; i++)
        headings[i] = columns[i].table;
    int status = listing_table(c, headings, N_COLUMNS, &table);
    if (status == EXIT_DONE)
        status = requests_get(c, run, &list);
    if (status != EXIT_DONE)
        return status;
    json_array_foreach(list, i, request)
        add_request(table, request);
    listing_print(c, table);
    return EXIT_DONE;
}

int requests_print(struct client *c, const char *run, bool as_lines)
{
    if (as_lines)
        return print_lines(c, run);
    if (c->json)
        return print_json(c, run);
    /* All that was recorded of a request is in profd's own CSV. */
    return c->format == TABLE_CSV && !c->columns && !c->no_legend ? pass_csv_on(c, run) : print_table(c, run);
}
