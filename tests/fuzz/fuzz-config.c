/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(config_errors_done) struct config_errors errors = {0};
    _cleanup_(config_done) struct config c;

    config_init(&c);
    int r = config_parse(&c, "profd.conf", (const char *)data, size, &errors);
    if ((r < 0) != (errors.n > 0) || errors.n > CONFIG_ERRORS_MAX + 1)
        abort();
    return 0;
}
