/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hosts/lease_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[200];
    _cleanup_json_ j = json_parse((const char *)data, size, error);

    for (int route = 0; route < _LEASE_ROUTE_MAX; route++) {
        struct problem p = {0};
        struct lease_body b;
        if (lease_body_parse((enum lease_route)route, j, &b, &p) == 0)
            lease_body_done(&b);
        else if (p.kind != PROBLEM_BAD_REQUEST)
            abort();
        problem_done(&p);
    }
    return 0;
}
