/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[200];
    struct problem p = {0};
    struct job_request request;
    _cleanup_json_ j = json_parse((const char *)data, size, error);

    if (session_request_parse(j, &request, &p) == 0)
        job_request_done(&request);
    problem_done(&p);
    return 0;
}
