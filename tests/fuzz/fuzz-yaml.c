/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as people write it: with and without lines it is the same document, unless a key is duplicated. */
#include "base/yaml_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[200];
    _cleanup_json_ lines = NULL;
    _cleanup_json_ plain = yaml_parse((const char *)data, size, error);
    if (!plain && !error[0])
        abort();
    _cleanup_json_ with_lines = yaml_parse_with_lines((const char *)data, size, error, &lines, NULL);
    if (with_lines && (!lines || !json_equal(plain, with_lines)))
        abort();
    if (!with_lines && (lines || !error[0]))
        abort();
    return 0;
}
