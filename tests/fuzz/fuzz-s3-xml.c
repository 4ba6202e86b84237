/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of S3 services, as results of the requests that they answer. */
#include "archive/archive_url.h"
#include "archive/s3_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum archive_verb verbs[] = {ARCHIVE_LIST, ARCHIVE_UPLOAD_CREATE, ARCHIVE_UPLOAD_PARTS,
                                              ARCHIVE_UPLOAD_COMPLETE};
    const struct s3_service service = {.prefix = (char *)"pre/"};
    const struct s3_head head = {.status = 200};
    _cleanup_(freep) char *reason = NULL;
    struct s3_xml xml;

    int r = s3_xml_parse((const char *)data, size, &xml, &reason);
    if ((r == 0) != (reason == NULL) || xml.n_objects > ARCHIVE_LIST_MAX || xml.n_parts > S3_PARTS_MAX)
        abort();
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        const struct archive_request q = {.verb = verbs[i], .key = "a", .fd = -1};
        const struct s3_answer answer = {&q, &service, &head, &xml, reason, ""};
        struct archive_result result = {0};
        const char *why = NULL;
        if (s3_answer_take(&answer, &result, &why) < 0 && !why)
            abort();
        for (size_t k = 0; k < result.n_objects; k++)
            if (!archive_key_is_valid(result.objects[k].key) || result.objects[k].key[0] != 'a')
                abort();
        archive_result_done(&result);
    }
    s3_xml_done(&xml);
    return 0;
}
