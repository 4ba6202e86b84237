/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "daemon/api/http_file.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the file's size, the rest is the header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t file_sizes[] = {0, 1, 100, INT64_C(1) << 40, INT64_MAX};
    struct http_range range = {0};

    if (size == 0)
        return 0;
    _cleanup_(freep) char *text = strndup((const char *)data + 1, size - 1);
    int64_t file_size = file_sizes[data[0] % ARRAY_SIZE(file_sizes)];
    if (http_range_parse(text, file_size, &range) == HTTP_RANGE_PART)
        assert(range.offset >= 0 && range.size >= 1 && range.offset <= file_size - range.size);
    return 0;
}
