/* SPDX-License-Identifier: Apache-2.0 */
/* What the HTTP server answers by itself, in place of a handler. */
#include "daemon/api/http.h"

#include "base/json.h"
#include "base/problem.h"
#include "daemon/api/http_internal.h"
#include "daemon/api/http_render.h"
#include <event2/buffer.h>

/* Whatever the server and the parser of heads refuse with. */
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

void http_refusal_render(struct evbuffer *out, int status, const char *detail)
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
