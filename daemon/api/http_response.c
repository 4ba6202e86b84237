/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies as bytes: heads, problem documents (RFC 9457), and what the server answers in place of a handler.
 * Knows no connection.
 */
#include "daemon/api/http_internal.h"

#include "base/http_reason.h"
#include "base/json.h"
#include <event2/buffer.h>
#include <time.h>

void http_render_header(struct evbuffer *extra, const char *name, const char *value)
{
    evbuffer_add_printf(extra, "%s: ", name);
    for (const char *s = value; *s; s++) {
        char c = (unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s;
        evbuffer_add(extra, &c, 1);
    }
    evbuffer_add(extra, "\r\n", 2);
}

void http_render_head(struct evbuffer *out, const struct http_response *response)
{
    char date[64];
    struct tm tm;
    time_t seconds = time(NULL);

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", response->status,
                        http_reason(response->status), date);
    if (response->content_type)
        evbuffer_add_printf(out, "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\n",
                            response->content_type);
    if (response->content_length >= 0)
        evbuffer_add_printf(out, "Content-Length: %jd\r\n", (intmax_t)response->content_length);
    if (response->chunked)
        evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
    if (response->close)
        evbuffer_add_printf(out, "Connection: close\r\n");
    else if (response->minor == 0)
        evbuffer_add_printf(out, "Connection: keep-alive\r\n");
    if (response->extra)
        evbuffer_add_buffer(out, response->extra);
    evbuffer_add(out, "\r\n", 2);
}

json_t *http_render_problem(int status, const char *code, const char *detail, const char *remedy)
{
    json_t *problem = json_object();

    json_put_str(problem, "type", "about:blank");
    json_put_str(problem, "title", http_reason(status));
    json_put_int(problem, "status", status);
    json_object_set_new(problem, "detail", json_text(detail));
    json_put_str(problem, "code", code);
    if (remedy)
        json_object_set_new(problem, "remedy", json_text(remedy));
    return problem;
}

/* -- Refusals ----------------------------------------------------------------------------------------- */

/* The statuses with which the server refuses before any handler. */
static const struct {
    int status;
    enum problem_kind kind;
    const char *remedy;
    const char *header, *value; /* of the reply; NULL: none */
} refusals[] = {
    {400, PROBLEM_BAD_REQUEST},
    {405, PROBLEM_BAD_REQUEST, .header = "Allow", .value = "GET, HEAD, POST, PUT, DELETE"},
    {408, PROBLEM_BAD_REQUEST},
    {413, PROBLEM_TOO_LARGE},
    {414, PROBLEM_TOO_LARGE},
    {417, PROBLEM_BAD_REQUEST},
    {431, PROBLEM_TOO_LARGE},
    {501, PROBLEM_UNSUPPORTED},
    {503, PROBLEM_TOO_MANY, "try again, or raise the limit", .header = "Retry-After", .value = "1"},
    {505, PROBLEM_UNSUPPORTED},
};
_Static_assert(ARRAY_SIZE(refusals) <= HTTP_REFUSALS_MAX, "each is counted");

int http_refusal_status(size_t i)
{
    return i < ARRAY_SIZE(refusals) ? refusals[i].status : 0;
}

size_t http_refusal_index(int status)
{
    size_t i = ARRAY_SIZE(refusals) - 1;

    while (i > 0 && refusals[i].status != status)
        i--;
    return i;
}

void http_render_refusal(struct evbuffer *out, int status, const char *detail)
{
    size_t i = http_refusal_index(status);
    _cleanup_json_ problem =
        http_render_problem(status, problem_code(refusals[i].kind), detail, refusals[i].remedy);
    char *text = json_dumps(problem, JSON_COMPACT);
    struct evbuffer *extra = evbuffer_new();

    if (refusals[i].header)
        http_render_header(extra, refusals[i].header, refusals[i].value);
    http_render_head(out, &(struct http_response){.status = status,
                                                  .content_type = HTTP_PROBLEM_TYPE,
                                                  .content_length = (int64_t)strlen(text) + 1,
                                                  .close = true,
                                                  .extra = extra});
    evbuffer_add_printf(out, "%s\n", text);
    evbuffer_free(extra);
    free(text);
}
