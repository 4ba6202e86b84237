/* SPDX-License-Identifier: Apache-2.0 */
/* The real traces beside the checkout, for tests that are skipped where there are none. */
#pragma once

#include "base/fs.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-room.h"
#include <fcntl.h>

static inline void skip_without_traces(void)
{
    if (access(TRACES_DIR, R_OK) == 0)
        return;
    print_message("skipped: there are no traces at %s\n", TRACES_DIR);
    skip();
}

static inline char *load(const char *name, size_t *ret_size)
{
    char path[4096], *data = NULL;

    snprintf(path, sizeof(path), "%s/%s", TRACES_DIR, name);
    assert_int_equal(read_file(AT_FDCWD, path, ROOM_FILE_MAX, &data, ret_size), 0);
    return data;
}

static inline char *load_text(const char *name, size_t *ret_size)
{
    size_t size;
    _cleanup_(freep) char *data = load(name, &size);

    return unpack(data, size, ret_size);
}
