/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the objects of traces: by their content, so that equal content is stored once, whoever uploads it. */
#include "archive/archive_url.h"
#include "base/alloc.h"
#include "daemon/archive/internal.h"

#define OBJECT_KEY_ROOT "traces/sha256/"

/* The end of a name that says how to read the file. */
static const char *object_key_extension(const char *name)
{
    static const char *const known[] = {".json.gz", ".json.zst", ".json", ".sqlite",
                                        ".csv",     ".log",      ".txt",  ".parquet"};

    for (size_t i = 0; name && i < ARRAY_SIZE(known); i++)
        if (ends_with(name, known[i]))
            return known[i];
    return ".bin";
}

char *object_key_of_trace(const char *sha256, const char *name)
{
    return xasprintf(OBJECT_KEY_ROOT "%.2s/%s%s", sha256, sha256, object_key_extension(name));
}

bool object_key_is_of(const char *key, const char *sha256)
{
    _cleanup_(freep) char *stem = xasprintf(OBJECT_KEY_ROOT "%.2s/%s.", sha256, sha256);
    return key && starts_with(key, stem) && archive_key_is_valid(key);
}
