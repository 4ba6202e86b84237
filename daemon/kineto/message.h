/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto's messages: one datagram each, 40 bytes of metadata and a payload, in the machine's own byte order, without a
 * version. Pure.
 *
 * Source: pytorch/kineto @114171dfba68 (2026-08-20), libkineto/third_party/dynolog_headers/dynolog/src/ipcfabric/
 * FabricManager.h and Utils.h.
 */
#pragma once

#include "base/util.h"

#define KINETO_METADATA_BYTES 40
#define KINETO_TYPE_BYTES     32
/* Kineto sends a process and at most 11 ancestors; a few more do not hurt. */
#define KINETO_PIDS_MAX 64
/* Of what may be received. */
#define KINETO_MESSAGE_MAX (KINETO_METADATA_BYTES + 16 + 4 * KINETO_PIDS_MAX)

enum kineto_message_type {
    KINETO_REQUEST, /* "req": is there a text for me? The first one is the registration. */
    KINETO_CONTEXT, /* "ctxt": I use this GPU. Only old versions send it. */
};

struct kineto_message {
    enum kineto_message_type type;
    unsigned bits;  /* of a request */
    int32_t gpu;    /* of a context */
    int64_t job_id; /* SLURM_JOB_ID of its environment, as strtoll() reads it; 0: none */
    /* As the namespace of the sender counts them, the process first. They prove nothing. */
    int32_t pids[KINETO_PIDS_MAX];
    size_t n_pids;
};

/* -EBADMSG for everything else than one complete message. */
int kineto_message_parse(const void *data, size_t size, struct kineto_message *ret);

/* The metadata of an answer to a message; `size` bytes follow it in the same datagram. */
void kineto_answer_head(enum kineto_message_type type, size_t size,
                        unsigned char ret[static KINETO_METADATA_BYTES]);
