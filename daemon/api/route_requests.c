/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a benchmark run as JSON, as lines of JSON, and as CSV, in pages that are bounded in rows and
 * bytes. The address of the next page is in the Link header (RFC 8288), and in JSON as "next".
 */
#include "base/alloc.h"
#include "base/csv.h"
#include "base/text.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include <errno.h>
#include <inttypes.h>

#define PAGE_ROWS      1000
#define PAGE_ROWS_MAX  10000
#define PAGE_BYTES_MAX (4 << 20)
/* Bytes of a row as text, without the gaps between its tokens. */
#define ROW_BYTES 600

struct request_format {
    const char *name, *content_type;
    const char *before; /* of the first page */
    void (*write)(FILE *out, const json_t *request);
};

struct request_page {
    const struct request_format *format;
    json_t *list; /* of JSON; else text: */
    FILE *out;
    char *text;
    size_t size;
    int64_t started_at; /* of the run, RECORD_NONE */
    int64_t last;       /* number of the last request in it */
    size_t n, bytes;
};

static void request_write_line(FILE *out, const json_t *request)
{
    json_dumpf(request, out, JSON_COMPACT);
    fputc('\n', out);
}

/* -- CSV (RFC 4180) ----------------------------------------------------------------------------------- */

#define CSV_HEADER                                                                                           \
    "run,index,prompt,target,cold,intended_at,intended_ns,sent_ns,first_ns,last_ns,end_ns,ttft_ns,tpot_ns,"  \
    "e2e_ns,lateness_ns,input_tokens,output_tokens,input_source,output_source,outcome,status,error,gaps_"    \
    "us\n"

static void csv_write_cell(FILE *out, const json_t *v)
{
    if (json_is_integer(v)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else if (json_is_boolean(v)) {
        fputs(json_is_true(v) ? "true" : "false", out);
    } else if (json_is_string(v)) {
        _cleanup_(freep) char *clean = text_clean(json_string_value(v), true);
        csv_write_quoted(out, clean);
    } else if (v) {
        _cleanup_(freep) char *text = json_dumps(v, JSON_COMPACT);
        csv_write_quoted(out, text ? text : "");
    }
}

static void request_write_csv(FILE *out, const json_t *request)
{
    const char *name = CSV_HEADER;

    for (size_t n; *name; name += n + 1) {
        n = strcspn(name, ",\n");
        _cleanup_(freep) char *key = xstrndup(name, n);
        csv_write_cell(out, json_object_get(request, key));
        fputc(name[n], out);
    }
}

/* -- Pages -------------------------------------------------------------------------------------------- */

static const struct request_format formats[] = {
    {"json", NULL, NULL, NULL},
    {"jsonl", "application/jsonl", "", request_write_line},
    {"csv", "text/csv; charset=utf-8", CSV_HEADER, request_write_csv},
};

static const struct request_format *request_format_find(const char *name, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (streq(formats[i].name, name ? name : "json"))
            return &formats[i];
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "format=%s must be json, jsonl or csv", name);
    return NULL;
}

static int request_page_add(const struct request_row *row, void *arg)
{
    struct request_page *page = arg;
    json_t *request = request_row_to_json(row);

    if (page->started_at != RECORD_NONE)
        json_put_int(request, "intended_at", page->started_at + row->intended_ns);
    if (page->list) {
        json_array_append_new(page->list, request);
    } else {
        page->format->write(page->out, request);
        json_decref(request);
    }
    page->last = row->number;
    page->n++;
    page->bytes += ROW_BYTES + (row->gaps_us ? strlen(row->gaps_us) : 0);
    return page->bytes > PAGE_BYTES_MAX;
}

static void request_page_link_next(struct http_request *r, const struct request_page *page, int64_t id,
                                   int64_t limit)
{
    _cleanup_(freep) char *link = xasprintf("</v1/runs/r%" PRId64 "/requests?format=%s&after=%" PRId64
                                            "&limit=%" PRId64 ">; rel=\"next\"",
                                            id, page->format->name, page->last, limit);
    http_reply_header(r, "Link", link);
}

/* A page that is opened in a browser is saved, not shown. */
static void request_page_name(struct http_request *r, const struct request_page *page, int64_t id)
{
    _cleanup_(freep) char *value =
        xasprintf("attachment; filename=\"r%" PRId64 "-requests.%s\"", id, page->format->name);
    http_reply_header(r, "Content-Disposition", value);
}

static void request_page_reply(struct http_request *r, struct request_page *page, bool is_last)
{
    if (page->list) {
        json_t *body = json_object();
        json_object_set(body, "requests", page->list);
        if (!is_last)
            json_put_int(body, "next", page->last);
        http_reply_json(r, 200, body);
    } else {
        fflush(page->out);
        http_reply(r, 200, page->format->content_type, page->text, page->size);
    }
}

/* Only the first page has a header, so that the pages concatenated are one file. */
static void request_page_begin(struct request_page *page, int64_t after)
{
    if (!page->format->write) {
        page->list = json_array();
        return;
    }
    page->out = xmemstream(&page->text, &page->size);
    if (after < 0)
        fputs(page->format->before, page->out);
}

static void request_page_done(struct request_page *page)
{
    json_decref(page->list);
    if (page->out)
        fclose(page->out);
    free(page->text);
}

void get_requests(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(run_record_done) struct run_record run;
    _cleanup_(request_page_done) struct request_page page = {
        .format = request_format_find(http_query_get(r, "format"), &p)};
    int64_t after = -1, limit = PAGE_ROWS;

    run_record_init(&run);
    if (!page.format || query_number(r, "after", -1, INT64_MAX, &after, &p) < 0 ||
        query_number(r, "limit", 1, PAGE_ROWS_MAX, &limit, &p) < 0) {
        http_reply_problem(r, &p);
        return;
    }
    int err = catalog_get_run(api->modules.catalog, match->id, &run);
    if (reply_failure(api, r, err, 'r', match->id, "read"))
        return;
    page.started_at = run.started_at;
    request_page_begin(&page, after);
    err = catalog_each_request(api->modules.catalog, match->id, after, limit, request_page_add, &page);
    if (err < 0) {
        reply_error(api, r, err, "read the requests");
        return;
    }
    bool is_last = err == 0 && page.n < (size_t)limit;
    request_page_name(r, &page, match->id);
    if (!is_last)
        request_page_link_next(r, &page, match->id, limit);
    request_page_reply(r, &page, is_last);
}
