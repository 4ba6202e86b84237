/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, targets and traces as a manifest of the archive has them, which anybody may have written. */
#include "base/text.h"
#include "daemon/catalog/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_trace(const json_t *json)
{
    _cleanup_(trace_record_done) struct trace_record t;
    _cleanup_(trace_record_done) struct trace_record again;

    if (trace_record_parse(json, &t) < 0) {
        trace_record_init(&again);
        return;
    }
    /* What was checked once is the same when it is checked again. */
    _cleanup_json_ first = trace_record_to_json(&t);
    if (trace_record_parse(first, &again) < 0)
        abort();
    _cleanup_json_ second = trace_record_to_json(&again);
    if (!json_equal(first, second) || t.size < 0 || t.trace_id != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[200];
    _cleanup_json_ json = json_parse((const char *)data, size, error);
    _cleanup_(session_record_done) struct session_record s;
    _cleanup_(target_record_done) struct target_record t;

    if (session_record_parse(json, &s) == 0 && s.router)
        abort();
    if (target_record_parse(json, &t) == 0 && t.worker)
        abort();
    check_trace(json);
    return 0;
}
