/* SPDX-License-Identifier: Apache-2.0 */
#include "base/routerlog.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *url = routerlog_find((const char *)data, size);
    if (url && !starts_with(url, "http"))
        abort();
    return 0;
}
