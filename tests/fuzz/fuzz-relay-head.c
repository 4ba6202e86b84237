/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a request at the relay of profctl web: what passes is one request for profd's parser too, of the same length,
 * for profd's host, and marked as relayed. */
#include "base/alloc.h"
#include "client/transport/relay_head.h"
#include "daemon/api/http_head.h"
#include <assert.h>

#define PROFD  "gpu7.example:9460"
#define ORIGIN "https://" PROFD

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct relay_head *head)
{
    struct http_limits limits = http_limits_default;
    struct http_refusal why = {0};
    struct http_head h = {0};
    size_t scanned = 0;

    limits.body_max = SIZE_MAX / 2;
    limits.head_max = head->size + 1;
    limits.headers_max = 200;
    assert(strlen(head->text) == head->size && head->body_size >= 0);
    assert(strstr(head->text, "\r\n\r\n") == head->text + head->size - 4);
    ssize_t n = http_head_find(head->text, head->size, limits.head_max, &scanned, &why);
    assert(n < 0 || n == (ssize_t)head->size);
    if (n < 0 || http_head_parse(head->text, head->size, &limits, &h, &why) < 0)
        return;
    const char *origin = http_head_field(&h, "Origin");
    assert(h.content_length == head->body_size && h.minor == 1);
    assert(streq(http_head_field(&h, "Host"), PROFD) && streq(http_head_field(&h, "Profd-Relay"), "1"));
    assert(!origin || streq(origin, ORIGIN));
    assert(!http_head_field(&h, "Transfer-Encoding") && !http_head_field(&h, "Cookie"));
    http_head_done(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct relay_rules rules = {
        .port = 4711, .host = PROFD, .origin = ORIGIN, .prefix = "", .to_socket = true};
    struct relay_head head;

    ssize_t n = relay_head_read((const char *)data, size, &rules, &head);
    assert(n <= (ssize_t)size && (n >= 0 || (head.status >= 400 && head.detail && !head.text)));
    if (n > 0)
        check(&head);
    free(head.text);
    return 0;
}
