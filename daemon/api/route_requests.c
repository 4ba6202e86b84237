/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a run, as JSON, as a line of JSON each, and as CSV; in pages, each bounded in rows and
 * bytes. The address of the next page stands in the Link header (RFC 8288), and in JSON as "next".
 */
#include "base/alloc.h"
#include "daemon/api/door_internal.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

#define PAGE_ROWS      1000
#define PAGE_ROWS_MAX  10000
#define PAGE_BYTES_MAX (8 << 20)

struct page {
    FILE *out;
    char *text;
    size_t size;
    int64_t started_at; /* of the run, RECORD_NONE */
    int64_t last;       /* number of the last request in it */
    size_t n;
    bool full;
};

struct format {
    const char *name, *content_type;
    const char *before, *between, *after; /* of rows */
    void (*write)(struct page *page, const json_t *request);
};

static void write_json(struct page *page, const json_t *request)
{
    json_dumpf(request, page->out, JSON_COMPACT);
}

/* -- CSV (RFC 4180) ----------------------------------------------------------------------------------- */

#define CSV_HEADER                                                                                           \
    "run,index,prompt,target,cold,intended_at,intended_ns,sent_ns,first_ns,last_ns,end_ns,ttft_ns,tpot_ns,"  \
    "e2e_ns,lateness_ns,input_tokens,output_tokens,input_source,output_source,outcome,status,error,gaps_"    \
    "us\n"

static void write_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_cell(FILE *out, const json_t *v)
{
    if (json_is_integer(v)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else if (json_is_boolean(v)) {
        fputs(json_is_true(v) ? "true" : "false", out);
    } else if (json_is_string(v)) {
        write_quoted(out, json_string_value(v));
    } else if (v) {
        _cleanup_(freep) char *text = json_dumps(v, JSON_COMPACT);
        write_quoted(out, text ? text : "");
    }
}

static void write_csv(struct page *page, const json_t *request)
{
    const char *name = CSV_HEADER;

    for (size_t n; *name; name += n + 1) {
        n = strcspn(name, ",\n");
        _cleanup_(freep) char *key = xstrndup(name, n);
        write_cell(page->out, json_object_get(request, key));
        fputc(name[n], page->out);
    }
}

/* -- Pages -------------------------------------------------------------------------------------------- */

static const struct format formats[] = {
    {"json", "application/json", "{\"requests\":[", ",", "]", write_json},
    {"jsonl", "application/jsonl", "", "\n", "", write_json},
    {"csv", "text/csv; charset=utf-8", CSV_HEADER, "", "", write_csv},
};

struct writing {
    struct page page;
    const struct format *format;
};

static int write_request(const struct request_row *row, void *arg)
{
    struct writing *w = arg;
    struct page *page = &w->page;
    _cleanup_json_ request = request_row_to_json(row);

    if (page->started_at != RECORD_NONE && row->intended_ns != RECORD_NONE)
        json_put_int(request, "intended_at", page->started_at + row->intended_ns);
    if (page->n++ > 0)
        fputs(w->format->between, page->out);
    w->format->write(page, request);
    page->last = row->number;
    page->full = ftello(page->out) > PAGE_BYTES_MAX;
    return page->full;
}

static const struct format *find_format(const char *name, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (streq(formats[i].name, name ? name : "json"))
            return &formats[i];
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "format=%s must be json, jsonl or csv", name);
    return NULL;
}

static void end_page(struct http_request *r, struct writing *w, int64_t id, int64_t limit)
{
    const bool is_json = w->format == formats;

    fputs(w->format->after, w->page.out);
    if (w->page.full || w->page.n == (size_t)limit) {
        _cleanup_(freep) char *link = xasprintf("</v1/runs/r%" PRId64 "/requests?format=%s&after=%" PRId64
                                                "&limit=%" PRId64 ">; rel=\"next\"",
                                                id, w->format->name, w->page.last, limit);
        http_reply_header(r, "Link", link);
        if (is_json)
            fprintf(w->page.out, ",\"next\":%" PRId64, w->page.last);
    }
    if (is_json || w->page.n > 0)
        fputs(is_json ? "}" : w->format->between, w->page.out);
}

void get_requests(struct door *d, struct http_request *r, int64_t id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(run_record_done) struct run_record run;
    struct writing w = {.format = find_format(http_query_get(r, "format"), &p)};
    int64_t after = -1, limit = PAGE_ROWS;

    run_record_init(&run);
    if (!w.format || query_number(r, "after", -1, INT64_MAX, &after, &p) < 0 ||
        query_number(r, "limit", 1, PAGE_ROWS_MAX, &limit, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = catalog_get_run(d->rooms.catalog, id, &run);
    if (err == -ENOENT) {
        reply_missing(r, 'r', id);
        return;
    }
    w.page.started_at = run.started_at;
    w.page.out = xmemstream(&w.page.text, &w.page.size);
    /* The names of the columns stand above the first page, so that pages make one file. */
    if (w.format->write != write_csv || after < 0)
        fputs(w.format->before, w.page.out);
    if (err >= 0)
        err = catalog_each_request(d->rooms.catalog, id, after, limit, write_request, &w);
    if (err >= 0)
        end_page(r, &w, id, limit);
    fclose(w.page.out);
    if (err < 0)
        reply_error(d, r, err, "read the requests");
    else
        http_reply(r, 200, w.format->content_type, w.page.text, w.page.size);
    free(w.page.text);
}
