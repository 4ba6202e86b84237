/* SPDX-License-Identifier: Apache-2.0 */
/* A list of networks, a newline, the text of an address. Whatever was taken, some addresses are never called.
 */
#include "base/alloc.h"
#include "daemon/fleet/network.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool allows(const struct network_policy *p, const char *address)
{
    struct in6_addr a;
    return address_of_host(address, &a) && network_allows(p, &a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *list = xstrndup((const char *)data, size);
    _cleanup_(freep) char *reason = NULL;
    _cleanup_(network_done) struct network_policy p = {0}, copy = {0};
    char *address = strchr(list, '\n');

    if (address)
        *address++ = '\0';
    int r = network_add(&p, list, &reason);
    network_copy(&p, &copy);
    if ((r < 0) != (reason != NULL) || (r < 0) != (p.n == 0) || copy.n != p.n)
        abort();
    if (address && allows(&p, address) != allows(&copy, address))
        abort();
    if (allows(&p, "169.254.169.254") || allows(&p, "[::ffff:169.254.169.254]") ||
        allows(&p, "fd00:ec2::254"))
        abort();
    return 0;
}
