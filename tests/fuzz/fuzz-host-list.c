/* SPDX-License-Identifier: Apache-2.0 */
/* A list of hosts, and the same bytes as a list of ports. */
#include "base/host_list.h"
#include "base/util.h"

#define HOSTS_MAX 200
#define PORTS_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host_list list = {0};
    const char *text = (const char *)data, *reason = NULL;
    int ports[PORTS_MAX];
    size_t n;

    int r = host_list_expand(text, size, HOSTS_MAX, &list, &reason);
    if (list.n > HOSTS_MAX || (r == 0 && list.n == 0))
        abort();
    for (size_t i = 0; i < list.n; i++)
        if (!*list.names[i] || strlen(list.names[i]) > 253)
            abort();
    host_list_done(&list);
    if (port_list_expand(text, size, PORTS_MAX, ports, &n, &reason) < 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (n > PORTS_MAX || ports[i] < 1 || ports[i] > 65535)
            abort();
    return 0;
}
