/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"
#include "base/alloc.h"
#include "daemon/api/access_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "profd.example";
    static const struct host_rules nothing = {0};
    char *names[] = {name};
    const struct host_rules rules = {.names = names, .n_names = 1};
    _cleanup_(freep) char *text = xstrndup((const char *)data, size);
    struct listen_address addresses[2];
    struct address_range range;
    const char *reason;
    size_t n = 0;

    /* Without rules it is loopback: written in its own characters, whatever stands around them. */
    if (host_is_ours(text, &nothing) &&
        strspn(text, "localhstLOCALHST0123456789abcdefABCDEF.:[]") != strlen(text))
        abort();
    if (host_is_ours(text, &nothing) && !host_is_ours(text, &rules))
        abort();
    if (listen_addresses_parse(text, addresses, ARRAY_SIZE(addresses), &n, &reason) == 0 &&
        n > ARRAY_SIZE(addresses))
        abort();
    if (address_range_parse(text, &range, &reason) == 0 && !address_range_has(&range, &range.address))
        abort();
    return 0;
}
