/* SPDX-License-Identifier: Apache-2.0 */
/* Real traces in memory, as they are and decompressed. */
#pragma once

#include "base/fs.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-fixture.h"
#include "tests/unit/real-traces.h"
#include <fcntl.h>

static inline char *load(const char *name, size_t *ret_size)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s", TRACES_DIR, name);
    char *data = NULL;

    assert_int_equal(read_file(AT_FDCWD, path, FIXTURE_FILE_MAX, &data, ret_size), 0);
    return data;
}

static inline char *load_text(const char *name, size_t *ret_size)
{
    size_t size;
    _cleanup_(freep) char *data = load(name, &size);

    return unpack(data, size, ret_size);
}
