/* SPDX-License-Identifier: Apache-2.0 */
#include "base/on_demand.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void on_demand_fail(void)
{
    fprintf(stderr, "%s: cannot load a shared library: %s\n", program_invocation_short_name, dlerror());
    exit(EXIT_FAILURE);
}

/* Threads that come at the same time get the same handle. */
static void *on_demand_load(struct on_demand_library *library)
{
    void *handle = __atomic_load_n(&library->handle, __ATOMIC_ACQUIRE);

    if (!handle) {
        handle = dlopen(library->soname, RTLD_LAZY | RTLD_LOCAL);
        if (!handle)
            on_demand_fail();
        __atomic_store_n(&library->handle, handle, __ATOMIC_RELEASE);
    }
    return handle;
}

void *on_demand_find(struct on_demand_function *function)
{
    void *found = dlsym(on_demand_load(function->library), function->name);

    if (!found)
        on_demand_fail();
    __atomic_store_n(&function->address, found, __ATOMIC_RELEASE);
    return found;
}
