/* SPDX-License-Identifier: Apache-2.0 */
/* A command line, as /proc has it: words with their NULs. */
#include "base/alloc.h"
#include "daemon/fleet/process_ranks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *text = xcalloc(size + 1, 1);
    struct rank_launch l;
    int node;

    memcpy(text, data, size);
    _cleanup_(freep) char *of_text = NULL;
    ranks_url_parse(text, &of_text, &node);
    const struct string_list args = {text, size};
    if (!rank_launch_read(&args, &l))
        return 0;
    _cleanup_(freep) char *url = ranks_url(l.group, l.node);
    _cleanup_(freep) char *group = NULL;
    if (!ranks_url_parse(url, &group, &node) || !streq(group, l.group) || node != l.node || l.node < 0 ||
        l.node >= l.nodes || l.ranks < 0 || l.first_rank < 0)
        abort();
    rank_launch_done(&l);
    return 0;
}
