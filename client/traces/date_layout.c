/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/date_layout.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "trace/export/merge_ranks.h"
#include <inttypes.h>
#include <time.h>

#define NS_PER_S      INT64_C(1000000000)
#define DATE_TEXT_MAX 32
/* What engines write for a partition without a value. */
#define DATE_UNKNOWN "__HIVE_DEFAULT_PARTITION__"
/* Of FNV-1a with 64 bits (draft-eastlake-fnv): equal on every host. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)
/* Bits of it in a name: enough for the files of a day. */
#define HASH_BITS 48

/* In wall-clock time; COLUMN_NULL if no trace has it. */
static int64_t ranks_first_slice(const struct named_ranks *ranks)
{
    int64_t first = COLUMN_NULL, at;

    for (size_t i = 0; i < ranks->n; i++) {
        int64_t shift = align_wall_shift(ranks->items[i].columns);
        int64_t ts = columns_get(ranks->items[i].columns, COL_slice_ts, 0);
        if (shift == COLUMN_NULL || ts == COLUMN_NULL || __builtin_add_overflow(ts, shift, &at))
            continue;
        first = first == COLUMN_NULL ? at : MIN(first, at);
    }
    return first;
}

static const char *date_text(int64_t ns, char ret[static DATE_TEXT_MAX])
{
    time_t seconds = (time_t)(ns / NS_PER_S);
    struct tm day;

    if (ns == COLUMN_NULL || !gmtime_r(&seconds, &day) || strftime(ret, DATE_TEXT_MAX, "%F", &day) == 0)
        return DATE_UNKNOWN;
    return ret;
}

/* Of facts that hardly two recordings share, and that reading a trace again does not change. */
static uint64_t ranks_hash(const struct named_ranks *ranks)
{
    static const enum meta_key facts[] = {META_base_time_ns, META_first_ns,   META_last_ns,
                                          META_events,       META_text_bytes, META_pid};
    uint64_t hash = HASH_BEGIN;

    for (size_t i = 0; i < ranks->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(facts); k++) {
            uint64_t value = (uint64_t)columns_meta(ranks->items[i].columns, facts[k]);
            for (size_t bits = 0; bits < 64; bits += 8)
                hash = (hash ^ (value >> bits & 0xff)) * HASH_PRIME;
        }
    return hash >> (64 - HASH_BITS);
}

char *date_layout_path(const char *directory, const char *table, const struct named_ranks *ranks,
                       const char *name)
{
    int stem = (int)strcspn(name, "."), end = (int)strlen(directory);
    char date[DATE_TEXT_MAX];

    while (end > 1 && directory[end - 1] == '/')
        end--;
    return xasprintf("%.*s/v1/%s/date=%s/%.*s-%012" PRIx64 ".parquet", end, directory, table,
                     date_text(ranks_first_slice(ranks), date), stem, name, ranks_hash(ranks));
}

int date_layout_make_parents(const char *path)
{
    _cleanup_(freep) char *directory = xstrndup(path, (size_t)(strrchr(path, '/') - path));

    return make_dirs(directory, 0777);
}
