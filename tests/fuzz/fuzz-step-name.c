/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct step_name name;

    if (!step_name_parse((struct text){(const char *)data, size}, &name))
        return 0;
    if (name.source >= _STEP_SOURCE_NAMED_MAX || name.phase >= _STEP_PHASE_MAX ||
        !step_source_name(name.source) || !step_phase_name(name.phase) ||
        (name.tokens < 0 && name.tokens != COLUMN_NULL) ||
        (name.requests < 0 && name.requests != COLUMN_NULL))
        abort();
    return 0;
}
