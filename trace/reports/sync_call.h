/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of a GPU's runtime wait for the GPU. Pure. */
#pragma once

#include "trace/columns/columns.h"

enum sync_call {
    SYNC_NONE,
    SYNC_WAIT, /* for an event, a stream, the device */
    SYNC_COPY, /* a copy that returns when it is done */
    SYNC_FREE, /* memory that is given back: everything that may use it has to end */
    SYNC_ASKS, /* does nothing on the GPU: between a call and what waits for it */
};

enum sync_call sync_call_of(struct text name);

static inline bool sync_call_waits(enum sync_call kind)
{
    return kind == SYNC_WAIT || kind == SYNC_COPY || kind == SYNC_FREE;
}
