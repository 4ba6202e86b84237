/* SPDX-License-Identifier: Apache-2.0 */
/* URLs, endpoints and keys of archives. */
#include "archive/archive_url.h"
#include "archive/s3_answer.h"
#include "base/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *text = xstrndup((const char *)data, size), *path = xstrdup("");
    struct archive_endpoint endpoint = {0};
    struct archive_url url = {0};
    const char *reason = NULL;

    if (archive_url_parse(text, &url, &reason) < 0 && !reason)
        abort();
    archive_url_done(&url);
    reason = NULL;
    if (archive_endpoint_parse(text, &endpoint, &reason) < 0 && !reason)
        abort();
    archive_endpoint_done(&endpoint);
    if (archive_key_is_valid(text) && !archive_prefix_is_valid(text))
        abort();
    /* What is sent as a path is what a list has as a key. */
    archive_append_path(&path, text);
    if (!s3_key_decode(path) || !streq(path, text))
        abort();
    s3_key_decode(text);
    return 0;
}
