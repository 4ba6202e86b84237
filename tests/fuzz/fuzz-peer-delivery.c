/* SPDX-License-Identifier: Apache-2.0 */
/* What another host answers about a lease: targets and traces with their facts. */
#include "base/alloc.h"
#include "base/text.h"
#include "base/uuid.h"
#include "daemon/hosts/delivery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);

    if (text && (strlen(text) > DELIVERY_TEXT_MAX * 3 || strcmp(clean, text) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[200];
    const char *reason = NULL;
    struct delivery d;
    _cleanup_json_ answer = json_parse((const char *)data, size, error);

    if (answer && delivery_parse(answer, &d, &reason) == 0) {
        for (size_t i = 0; i < d.n_targets; i++) {
            check_text(d.targets[i].worker);
            check_text(d.targets[i].failure);
        }
        for (size_t i = 0; i < d.n_traces; i++) {
            _cleanup_json_ facts = json_parse(d.traces[i].facts, strlen(d.traces[i].facts), error);
            if (!uuid_is(d.traces[i].uuid) || !json_get_str(facts, "name") ||
                strlen(d.traces[i].facts) > DELIVERY_FACTS_MAX)
                abort();
            /* What was checked once is the same when it is checked again. */
            _cleanup_json_ again = trace_facts_check(facts);
            if (!json_equal(facts, again))
                abort();
            check_text(d.traces[i].worker);
        }
    } else if (answer && !reason) {
        abort();
    }
    if (answer)
        delivery_done(&d);
    return 0;
}
