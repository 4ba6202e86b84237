/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/process_memory.h"

#include "base/process_info.h"

#include <errno.h>

#define TEXT_MAX 8192
/* An address space has 57 bits at most. */
#define AMOUNT_MAX (INT64_C(1) << 57)

/* The number that text begins with, behind blanks, times `unit`; -1 where there is none. */
static int64_t amount(const char *text, int64_t unit)
{
    char *end;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    return end == text || errno != 0 || n < 0 || n > AMOUNT_MAX / unit ? -1 : n * unit;
}

int64_t smaps_rollup_bytes(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            return amount(line + n + 1, 1024);
    }
    return -1;
}

int64_t statm_rss_bytes(const char *text)
{
    const char *blank = strchr(text, ' ');

    return blank ? amount(blank, sysconf(_SC_PAGESIZE)) : -1;
}

/* What has ended, although nobody asked how, and what is the kernel's own have no memory. */
static int64_t read_pss(pid_t pid)
{
    _cleanup_(freep) char *text = NULL;
    size_t size;
    int r = process_read(pid, "smaps_rollup", TEXT_MAX, &text, &size);

    if (r == -ESRCH || r == -ENOENT)
        return 0;
    return r < 0 ? -1 : smaps_rollup_bytes(text, "Pss");
}

static int64_t read_rss(pid_t pid)
{
    _cleanup_(freep) char *text = NULL;
    size_t size;

    return process_read(pid, "statm", TEXT_MAX, &text, &size) < 0 ? -1 : statm_rss_bytes(text);
}

int process_memory_read(const pid_t *pids, size_t n, bool with_pss, struct process_memory *ret)
{
    struct process_memory m = {.pss_bytes = with_pss ? 0 : -1};

    for (size_t i = 0; i < n; i++) {
        int64_t rss = read_rss(pids[i]), pss = m.pss_bytes < 0 ? -1 : read_pss(pids[i]);
        /* It ended since the tree was listed. */
        if (rss < 0)
            continue;
        m.processes++;
        m.rss_bytes += rss;
        m.pss_bytes = pss < 0 ? -1 : m.pss_bytes + pss;
    }
    if (m.processes == 0)
        return -ESRCH;
    *ret = m;
    return 0;
}
