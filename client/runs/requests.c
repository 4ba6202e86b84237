/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/requests.h"

#include "base/alloc.h"
#include "client/text/run.h"
#include "client/text/table.h"
#include "client/text/text.h"
#include <errno.h>

static char *path_of(const char *run, const char *format)
{
    return xasprintf("/v1/runs/%s/requests?format=%s", run, format);
}

/* -- As profd sends them ------------------------------------------------------------------------------- */

static int write_on(const void *data, size_t size, void *arg)
{
    return fwrite(data, 1, size, arg) == size ? 0 : -EIO;
}

static int pass_on(struct client *c, const char *run, const char *format)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = path_of(run, format);

    if (door_download(c->door, path, write_on, c->out.file, &p) < 0 && !ferror(c->out.file))
        return client_fail(c, &p);
    return EXIT_DONE;
}

/* -- For people ---------------------------------------------------------------------------------------- */

/* Nanoseconds are shown as milliseconds. */
static const struct request_column {
    struct table_column table;
    const char *key;
    double factor;
} columns[] = {
    {{"REQUEST", COLUMN_RIGHT}, "index", 1},
    {{"AT ms", COLUMN_RIGHT}, "intended_ns", 1e-6},
    {{"LATE", COLUMN_RIGHT | COLUMN_SPARE}, "lateness_ns", 1e-6},
    {{"TTFT", COLUMN_RIGHT}, "ttft_ns", 1e-6},
    {{"TPOT", COLUMN_RIGHT}, "tpot_ns", 1e-6},
    {{"E2E", COLUMN_RIGHT}, "e2e_ns", 1e-6},
    {{"IN", COLUMN_RIGHT}, "input_tokens", 1},
    {{"OUT", COLUMN_RIGHT}, "output_tokens", 1},
    {{"OUTCOME", 0}, "outcome", 0},
    {{"TARGET", COLUMN_URL | COLUMN_SPARE}, "target", 0},
    {{"ERROR", COLUMN_SHORTEN}, "error", 0},
};

#define N_COLUMNS ARRAY_SIZE(columns)

static void add_request(struct table *table, const json_t *request)
{
    char numbers[N_COLUMNS][32];
    const char *cells[N_COLUMNS];

    for (size_t i = 0; i < N_COLUMNS; i++)
        cells[i] = columns[i].factor == 0
                       ? json_get_str(request, columns[i].key)
                       : figure_text(numbers[i], columns[i].factor * figure_at(request, columns[i].key));
    table_add(table, cells);
}

static int print_table(struct client *c, const char *run)
{
    struct table_column headings[N_COLUMNS];
    _cleanup_json_ list = NULL;
    size_t i;
    json_t *request;
    int status = requests_get(c, run, &list);

    if (status != EXIT_DONE)
        return status;
    for (i = 0; i < N_COLUMNS; i++)
        headings[i] = columns[i].table;
    _cleanup_(table_freep) struct table *table = table_new(headings, N_COLUMNS, !c->no_legend);
    json_array_foreach(list, i, request) add_request(table, request);
    table_print(table, &c->out);
    return EXIT_DONE;
}

int requests_get(struct client *c, const char *run, json_t **ret)
{
    _cleanup_(freep) char *path = path_of(run, "json");
    _cleanup_json_ answer = NULL;
    int status = client_get(c, path, "reading requests", &answer);

    if (status == EXIT_DONE)
        *ret = json_incref(json_is_array(answer) ? answer : json_object_get(answer, "requests"));
    return status;
}

int requests_print(struct client *c, const char *run, enum requests_format format)
{
    static const char *const words[] = {
        [REQUESTS_CSV] = "csv",
        [REQUESTS_JSONL] = "jsonl",
        [REQUESTS_JSON] = "json",
    };
    return format == REQUESTS_TABLE ? print_table(c, run) : pass_on(c, run, words[format]);
}
