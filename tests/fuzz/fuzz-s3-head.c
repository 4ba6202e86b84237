/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an S3 service's answer, and the download that it announces. */
#include "archive/s3_answer.h"
#include "base/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        uint64_t offset, size;
    } ranges[] = {{0, 0}, {10, 0}, {10, 5}};
    const char *p = (const char *)data, *end = p + size;
    struct s3_head head = {0};
    int r = 0;

    while (p < end && r == 0) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *next = newline ? newline + 1 : end;
        r = s3_head_take(&head, p, (size_t)(next - p));
        p = next;
    }
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
        const struct archive_request q = {
            .verb = ARCHIVE_GET, .key = "a", .fd = -1, .offset = ranges[i].offset, .size = ranges[i].size};
        struct s3_download download = {0};
        const char *why = NULL;
        r = s3_download_begin(&download, &q, &head, &why);
        if (r == 0 && (ranges[i].size > 0 ? download.expected > ranges[i].size : false))
            abort();
        if (r < 0 && !why)
            abort();
        s3_download_done(&download);
    }
    return 0;
}
