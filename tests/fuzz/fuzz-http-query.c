/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_head.h"
#include <assert.h>
#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What comes out can go into JSON as it is. */
static void check_text(const char *text)
{
    json_t *string = json_string(text);
    assert(string);
    json_decref(string);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_query q = {0};
    char *path = NULL;

    if (http_path_decode((const char *)data, size, &path) == 0) {
        assert(path[0] == '/' && strlen(path) <= size && !strstr(path, "//"));
        check_text(path);
    }
    free(path);
    if (http_query_parse((const char *)data, size, &q) == 0)
        for (size_t i = 0; i < q.n; i++) {
            check_text(q.params[i].key);
            check_text(q.params[i].value);
        }
    http_query_done(&q);
    return 0;
}
