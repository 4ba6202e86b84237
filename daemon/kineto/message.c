/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/message.h"

#include <errno.h>

/* The payloads without the pids of a request. */
#define REQUEST_BYTES 16
#define CONTEXT_BYTES 16

static const char *const type_names[] = {[KINETO_REQUEST] = "req", [KINETO_CONTEXT] = "ctxt"};

static int32_t message_int32(const unsigned char *at)
{
    int32_t n;
    memcpy(&n, at, sizeof(n));
    return n;
}

static int64_t message_int64(const unsigned char *at)
{
    int64_t n;
    memcpy(&n, at, sizeof(n));
    return n;
}

static int message_type(const unsigned char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(type_names); i++)
        if (memcmp(word, type_names[i], strlen(type_names[i]) + 1) == 0)
            return (int)i;
    return -EBADMSG;
}

/* i32 type, i32 n, i64 jobid, i32 pids[n] */
static int message_parse_request(const unsigned char *payload, size_t size, struct kineto_message *ret)
{
    if (size < REQUEST_BYTES)
        return -EBADMSG;
    int32_t n = message_int32(payload + 4);
    if (n < 1 || n > KINETO_PIDS_MAX || size != REQUEST_BYTES + sizeof(int32_t) * (size_t)n)
        return -EBADMSG;
    ret->bits = (unsigned)message_int32(payload);
    ret->job_id = message_int64(payload + 8);
    ret->n_pids = (size_t)n;
    memcpy(ret->pids, payload + REQUEST_BYTES, sizeof(int32_t) * (size_t)n);
    return 0;
}

/* i32 gpu, i32 pid, i64 jobid */
static int message_parse_context(const unsigned char *payload, size_t size, struct kineto_message *ret)
{
    if (size != CONTEXT_BYTES)
        return -EBADMSG;
    ret->gpu = message_int32(payload);
    ret->pids[0] = message_int32(payload + 4);
    ret->n_pids = 1;
    ret->job_id = message_int64(payload + 8);
    return 0;
}

int kineto_message_parse(const void *data, size_t size, struct kineto_message *ret)
{
    const unsigned char *bytes = data;
    struct kineto_message m = {0};
    uint64_t payload_size;

    if (size < KINETO_METADATA_BYTES)
        return -EBADMSG;
    memcpy(&payload_size, bytes, sizeof(payload_size));
    int type = message_type(bytes + sizeof(payload_size));
    if (type < 0 || payload_size != size - KINETO_METADATA_BYTES)
        return -EBADMSG;
    m.type = (enum kineto_message_type)type;
    int r = type == KINETO_REQUEST
                ? message_parse_request(bytes + KINETO_METADATA_BYTES, (size_t)payload_size, &m)
                : message_parse_context(bytes + KINETO_METADATA_BYTES, (size_t)payload_size, &m);
    if (r == 0)
        *ret = m;
    return r;
}

void kineto_answer_head(enum kineto_message_type type, size_t size,
                        unsigned char ret[static KINETO_METADATA_BYTES])
{
    const uint64_t payload_size = size;

    memset(ret, 0, KINETO_METADATA_BYTES);
    memcpy(ret, &payload_size, sizeof(payload_size));
    memcpy(ret + sizeof(payload_size), type_names[type], strlen(type_names[type]));
}
