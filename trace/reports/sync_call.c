/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/sync_call.h"

#include <fnmatch.h>

#define NAME_LOOK_MAX 128

static const struct {
    const char *glob;
    enum sync_call kind;
} calls[] = {
    {"*Synchronize*", SYNC_WAIT}, {"*Memcpy*Async*", SYNC_NONE}, {"cudaMemcpy*", SYNC_COPY},
    {"cuMemcpy*", SYNC_COPY},     {"hipMemcpy*", SYNC_COPY},     {"*FreeAsync*", SYNC_NONE},
    {"cudaFree*", SYNC_FREE},     {"cuMemFree*", SYNC_FREE},     {"hipFree*", SYNC_FREE},
    {"*Get*", SYNC_ASKS},         {"*IsCapturing*", SYNC_ASKS},  {"*Query*", SYNC_ASKS},
    {"*EventRecord*", SYNC_ASKS},
};

enum sync_call sync_call_of(struct text name)
{
    char plain[NAME_LOOK_MAX];

    snprintf(plain, sizeof(plain), "%.*s", (int)MIN(name.size, sizeof(plain) - 1), name.p);
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        if (fnmatch(calls[i].glob, plain, 0) == 0)
            return calls[i].kind;
    return SYNC_NONE;
}
