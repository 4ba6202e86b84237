/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of hosts, addresses and ports of an address of PostgreSQL, as three lines; and an answer of the server. */
#include "daemon/mirror/mirror_internal.h"
#include "daemon/mirror/pq_hosts.h"
#include <stdlib.h>
#include <string.h>

#define LINES 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1), *lines[LINES] = {text, NULL, NULL};
    struct pq_host hosts[PQ_HOSTS_MAX];
    const char *reason;
    int64_t applied;
    size_t n;

    if (!text)
        abort();
    memcpy(text, data, size);
    if (mirror_parse_applied(text, &applied) == 0 && applied < 0)
        abort();
    for (int i = 1; i < LINES && lines[i - 1]; i++) {
        lines[i] = strchr(lines[i - 1], '\n');
        if (lines[i])
            *lines[i]++ = '\0';
    }
    int r = pq_hosts_parse(lines[0], lines[1], lines[2], hosts, &n, &reason);
    if ((r < 0) != (reason != NULL) || (r == 0 && (n == 0 || n > PQ_HOSTS_MAX)))
        abort();
    for (size_t i = 0; i < n; i++)
        if (atoi(hosts[i].port) < 1 || atoi(hosts[i].port) > 65535 ||
            memchr(hosts[i].name, '\0', sizeof(hosts[i].name)) == NULL)
            abort();
    free(text);
    return 0;
}
