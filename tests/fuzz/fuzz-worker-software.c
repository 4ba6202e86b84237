/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of a worker's JSON in a row of the catalog: whatever the text is, and, where profd has written it, exactly
 * the texts that its JSON has. */
#include "base/alloc.h"
#include "daemon/catalog/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *shown_of(char *worker)
{
    struct target_record r;
    json_t *shown = json_object();

    target_record_init(&r);
    r.worker = worker;
    target_json_renew(shown, &r);
    return shown;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"identity", "name", "node", "engine", "version", "role", "model"};
    _cleanup_(freep) char *text = xstrndup((const char *)data, size);
    json_error_t error;
    _cleanup_json_ worker = json_loads(text, 0, &error);
    _cleanup_(freep) char *written = json_is_object(worker) ? json_dumps(worker, JSON_COMPACT) : NULL;
    _cleanup_json_ shown = written ? shown_of(written) : NULL;

    json_decref(shown_of(text));
    for (size_t i = 0; shown && i < ARRAY_SIZE(keys); i++) {
        const char *expected = json_get_str(worker, keys[i]), *found = json_get_str(shown, keys[i]);
        if (expected ? !found || !streq(expected, found) : json_object_get(shown, keys[i]) != NULL)
            abort();
    }
    return 0;
}
