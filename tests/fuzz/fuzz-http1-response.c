/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/http1_response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct framing {
    struct http1_response r;
    char *body;
    size_t body_size, heads;
    enum http1_step end;
};

static void framing_feed(struct framing *f, const char *bytes, size_t size, char *room)
{
    const char *end = bytes + size, *body;
    size_t n;

    f->body = room;
    while (f->end == HTTP1_MORE) {
        enum http1_step step = http1_response_next(&f->r, &bytes, &size, &body, &n);
        if (bytes + size != end || f->r.line_size > HTTP1_HEAD_MAX || f->r.head_size > HTTP1_HEAD_MAX)
            abort();
        if (step == HTTP1_MORE)
            return;
        f->heads += step == HTTP1_HEAD;
        if (step == HTTP1_BODY) {
            if (n == 0 || f->heads != 1)
                abort();
            memcpy(f->body + f->body_size, body, n);
            f->body_size += n;
        }
        if (step == HTTP1_END || step == HTTP1_BAD)
            f->end = step;
    }
}

/* However a response is cut, it is framed in the same way. The first byte tells where. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    size_t n = size - 1, at = n ? data[0] % n : 0;
    struct framing complete = {.end = HTTP1_MORE}, cut = {.end = HTTP1_MORE};
    char *room = malloc(2 * size);

    framing_feed(&complete, text, n, room);
    framing_feed(&cut, text, at, room + size);
    framing_feed(&cut, text + at, n - at, room + size);
    if (complete.end == HTTP1_MORE)
        complete.end = http1_response_close(&complete.r);
    if (cut.end == HTTP1_MORE)
        cut.end = http1_response_close(&cut.r);
    if (complete.end != cut.end || complete.r.status != cut.r.status || complete.heads != cut.heads ||
        complete.body_size != cut.body_size ||
        (n > 0 && memcmp(room, room + size, complete.body_size) != 0) ||
        complete.r.keep_alive != cut.r.keep_alive || (complete.end == HTTP1_BAD) != !!complete.r.error ||
        strcmp(complete.r.content_type, cut.r.content_type) != 0)
        abort();
    http1_response_done(&complete.r);
    http1_response_done(&cut.r);
    free(room);
    return 0;
}
