/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_render.h"

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
