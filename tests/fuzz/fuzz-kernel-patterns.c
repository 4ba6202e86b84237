/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --classes, and names that are looked at with its patterns: the bytes behind the first 0. */
#include "base/alloc.h"
#include "trace/reports/kernel_class.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(kernel_patterns_done) struct kernel_patterns patterns = {0};
    _cleanup_(freep) char *text = xstrndup((const char *)data, size);
    size_t length = strlen(text), line;
    int r = kernel_patterns_parse(text, &patterns, &line);

    if ((r < 0 && line == 0) || patterns.n > KERNEL_PATTERNS_MAX || (*text == '\0') != (line == 0))
        abort();
    for (size_t i = 0; i < patterns.n; i++)
        if (patterns.items[i].class >= _KERNEL_CLASS_MAX || !*patterns.items[i].glob)
            abort();
    const char *name = length < size ? (const char *)data + length + 1 : (const char *)data;
    if (kernel_class_of(&patterns, name, (size_t)((const char *)data + size - name)) >= _KERNEL_CLASS_MAX)
        abort();
    return 0;
}
