/* SPDX-License-Identifier: Apache-2.0 */
/* What json_read() accepts is the tree that jansson reads; what only jansson accepts is deep, or has a zero byte, which it
 * skips after a number. */
#include "base/json.h"
#include "base/json_read.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_deep(const char *text)
{
    unsigned depth = 0;
    bool quoted = false;

    for (; *text && depth <= JSON_READ_DEPTH_MAX; text++) {
        if (*text == '"')
            quoted = !quoted;
        else if (quoted && *text == '\\')
            text++;
        else if (!quoted)
            depth += (*text == '[' || *text == '{') - (*text == ']' || *text == '}');
    }
    return depth > JSON_READ_DEPTH_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    json_error_t error;
    _cleanup_json_ tree = json_read(text, size), *expected = json_loadb(text, size, JSON_DECODE_ANY, &error);
    _cleanup_(freep) char *dumped = json_dumps(tree, JSON_ENCODE_ANY);
    _cleanup_(freep) char *expected_dumped = json_dumps(expected, JSON_ENCODE_ANY);

    if (tree && (!expected || strcmp(dumped, expected_dumped) != 0))
        abort();
    if (!tree && expected && !is_deep(expected_dumped) && !memchr(data, '\0', size))
        abort();
    return 0;
}
