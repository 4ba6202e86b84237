/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the head of a response: what passes lies within them, and does not change as more bytes arrive. */
#include "client/transport/http_answer.h"
#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct http_answer a, same;

    ssize_t head = http_answer_parse(text, size, &a);
    if (head <= 0) {
        assert(head == 0 || head == -EPROTO);
        return 0;
    }
    assert((size_t)head <= size && (size_t)head <= HTTP_ANSWER_HEAD_MAX);
    assert(a.status >= 100 && a.status <= 599 && a.content_length >= -1);
    assert(!a.link || (a.link > text && a.link + a.link_size < text + head));
    assert(http_answer_parse(text, (size_t)head, &same) == head && same.status == a.status);
    assert(http_answer_parse(text, (size_t)head - 1, &same) == 0);
    return 0;
}
