/* SPDX-License-Identifier: Apache-2.0 */
/* A file of credentials. */
#include "archive/s3_credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *reason = NULL;
    struct s3_keys keys = {0};
    int r = s3_keys_parse((const char *)data, size, &keys, &reason);

    if ((r == 0) != (keys.id && keys.secret) || (r == 0) != (reason == NULL))
        abort();
    s3_keys_done(&keys);
    return 0;
}
