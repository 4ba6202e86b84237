/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include "base/clock.h"
#include "base/fs.h"
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>

#define STATM_MAX 256

/* Resident and of no file; 0 where /proc does not tell. */
static int64_t resident_bytes(void)
{
    _cleanup_(freep) char *text = NULL;
    int64_t resident, shared;
    size_t size;

    if (read_file(AT_FDCWD, "/proc/self/statm", STATM_MAX, &text, &size) < 0 ||
        sscanf(text, "%*d %" SCNd64 " %" SCNd64, &resident, &shared) != 2)
        return 0;
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

static int64_t slack_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();

    return MAX(resident_bytes() - (int64_t)m.uordblks - (int64_t)m.hblkhd, INT64_C(0));
}

void heap_look(struct heap_keeper *k, bool at_rest)
{
    int64_t at_ns = mono_ns();

    if (!at_rest && at_ns - k->looked_ns < HEAP_INTERVAL_NS)
        return;
    k->looked_ns = at_ns;
    int64_t slack = slack_bytes();
    k->kept = MIN(k->kept, slack);
    if (slack - k->kept <= HEAP_SLACK_MAX)
        return;
    malloc_trim(0);
    k->kept = slack_bytes();
}
