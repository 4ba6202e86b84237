/* SPDX-License-Identifier: Apache-2.0 */
/* Databases in which an event refers only to what there is. */
#include "trace/sql/nsys.h"
#include <errno.h>

#define STRINGS_MAX (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    char reason[256];

    if (intake_new(STRINGS_MAX, &in) < 0)
        return 0;
    int r = nsys_read(data, size, in, reason, sizeof(reason));
    if (r < 0 && r != -EBADMSG && r != -ENOMEM && r != in->error)
        abort();
    if (r == -EBADMSG && reason[0] == '\0')
        abort();
    for (size_t i = 0; i < in->batch->n; i++) {
        const struct event *e = &in->batch->events[i];
        if (e->dur < 0 || e->thread >= in->n_threads || e->name >= strings_count(in->strings) ||
            e->category >= in->n_categories)
            abort();
    }
    return 0;
}
