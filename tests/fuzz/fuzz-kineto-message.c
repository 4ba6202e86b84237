/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char head[KINETO_METADATA_BYTES];
    struct kineto_message m;

    if (kineto_message_parse(data, size, &m) < 0)
        return 0;
    if (m.n_pids < 1 || m.n_pids > KINETO_PIDS_MAX || size > KINETO_MESSAGE_MAX)
        abort();
    /* A message has the same metadata as an answer of its type and size. */
    kineto_answer_head(m.type, size - KINETO_METADATA_BYTES, head);
    if (memcmp(head, data, sizeof(uint64_t) + strlen((const char *)head + sizeof(uint64_t))) != 0)
        abort();
    return 0;
}
