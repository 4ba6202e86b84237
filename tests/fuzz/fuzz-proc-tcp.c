/* SPDX-License-Identifier: Apache-2.0 */
/* One input as each of the tables that name sockets, addresses and processes. */
#include "base/process_info.h"
#include "base/process_net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    _cleanup_(net_survey_done) struct net_survey survey = {0};
    struct net_space space = {0};
    struct process_status status;
    struct process_stat stat;
    bool ended;

    size_t used = net_table_parse(text, size, 0, &survey, &ended);
    if (used > size || (!ended && memchr(text + used, '\n', size - used)))
        abort();
    for (size_t i = 0; i < survey.n_listeners; i++)
        net_survey_find(&survey, 0, &survey.listeners[i].address, survey.listeners[i].port);
    net_fib_trie_parse(text, size, &space);
    net_if_inet6_parse(text, size, &space);
    free(space.addresses);
    process_status_parse(text, size, &status);
    process_stat_parse(text, size, &stat);
    return 0;
}
