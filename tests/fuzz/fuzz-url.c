/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/fleet/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *text = xstrndup((const char *)data, size), *normal = NULL, *again = NULL;
    const char *reason;

    if (url_normalise(text, &normal, &reason) < 0)
        return 0;
    /* What is normal stays as it is. */
    if (url_normalise(normal, &again, &reason) < 0 || !streq(normal, again))
        abort();
    url_is_loopback(normal);
    free(url_with_host_of(normal, "http://[2001:db8::1]:1"));
    free(url_join(normal, "/x"));
    return 0;
}
