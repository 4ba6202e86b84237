/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of a process that registers: its environment, control group, maps and version, and listen=. */
#include "base/alloc.h"
#include "daemon/fleet/process.h"
#include "daemon/kineto/facts.h"
#include "daemon/kineto/holder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *text = xstrndup((const char *)data, size), *copy = xcalloc(size + 1, 1);
    _cleanup_(freep) char *unit = kineto_facts_unit(text), *dir = torch_dir_of_maps(text);
    _cleanup_(freep) char *version = torch_version_parse(text), *reason = NULL;
    struct kineto_process p = {0};
    struct kineto_listen l;

    memcpy(copy, data, size);
    kineto_facts_environ(&(struct string_list){copy, size}, &p);
    if (p.trace_root && strlen(p.trace_root) > KINETO_FACT_MAX)
        abort();
    kineto_process_done(&p);
    kineto_holder_inode(copy, size, "@dynolog@");
    if (unit && strpbrk(unit, "/\n"))
        abort();
    if (dir && dir[0] != '/')
        abort();
    if (version && strpbrk(version, "/ \n"))
        abort();
    if (kineto_listen_parse(text, &l, &reason) == 0) {
        for (size_t i = 0; i < l.n_dirs; i++)
            if (l.dirs[i][0] != '/' || strlen(l.dirs[i]) > KINETO_DIR_MAX || strstr(l.dirs[i], "//"))
                abort();
        kineto_listen_done(&l);
    }
    return 0;
}
