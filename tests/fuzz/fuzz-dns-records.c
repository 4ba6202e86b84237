/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a name server, read as that to each kind of question. */
#include "daemon/fleet/dns_records.h"

#define RECORDS_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int type = DNS_A; type <= DNS_SRV; type++) {
        struct dns_records records = {0};
        int r = dns_records_parse(data, size, (enum dns_type)type, RECORDS_MAX, &records);
        if (records.n > RECORDS_MAX)
            abort();
        for (size_t i = 0; i < records.n && r == 0; i++)
            if (!records.items[i].host[0] || records.items[i].port < 0 || records.items[i].port > 65535)
                abort();
        dns_records_done(&records);
    }
    return 0;
}
