/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/named_queries.h"

#include "base/alloc.h"
#include "client/cli/table.h"
#include "client/cli/text.h"

/* By their names since torch 1.9 and before, as trace/columns/category.h has them. */
#define KERNELS_AND_COPIES "('kernel', 'gpu_memcpy', 'Kernel', 'Memcpy')"
#define TRANSFERS          "('gpu_memcpy', 'gpu_memset', 'Memcpy', 'Memset')"

/* clang-format off */
const struct named_query named_queries[] = {
    /* The three statements of RTP-LLM's profiling page; the first for categories by either name. */
    {"kernels", "GPU kernels and copies by name: mean, longest, shortest, sum, share",
     "SELECT ROUND(AVG(dur) / 1000, 2) AS avg_us, MAX(dur) / 1000 AS max_us, MIN(dur) / 1000 AS min_us,\n"
     "  ROUND(SUM(dur) / 1000.0 / 1000, 2) AS sum_ms, ROUND(SUM(dur) * 100.0 / (SELECT SUM(dur) FROM slice WHERE\n"
     "  category IN " KERNELS_AND_COPIES "), 1) AS percent, COUNT(name) AS count, name\n"
     "FROM (SELECT * FROM slice) WHERE category IN " KERNELS_AND_COPIES "\n"
     "GROUP BY name ORDER BY SUM(dur) DESC"},
    {"gaps", "time between a kernel or copy and the one before it, longest first",
     "SELECT ts, name, prev_name, diff FROM gap ORDER BY diff DESC"},
    {"gaps-total", "sum of these gaps",
     "SELECT SUM(diff) FROM gap"},
    {"categories", "what the trace consists of",
     "SELECT category, SUM(count) AS count, COUNT(*) AS names, ROUND(SUM(sum_dur) / 1e6, 3) AS sum_ms\n"
     "FROM name_stat GROUP BY category ORDER BY SUM(sum_dur) DESC"},
    {"threads", "threads and streams, and how long each was busy",
     "SELECT pid, process.name AS process, tid, thread.name AS thread, COUNT(*) AS slices,\n"
     "  ROUND(SUM(IIF(depth = 0, dur, 0)) / 1e6, 3) AS busy_ms\n"
     "FROM slice JOIN thread_track ON track_id = thread_track.id JOIN thread USING (utid)\n"
     "  LEFT JOIN process USING (upid)\n"
     "GROUP BY utid ORDER BY busy_ms DESC"},
    {"collectives", "communication between ranks, by operation, type and group",
     "SELECT collective, dtype, group_size, group_name, COUNT(*) AS count, SUM(in_elements) AS in_elements,\n"
     "  ROUND(SUM(dur) / 1e6, 3) AS sum_ms, ROUND(AVG(dur) / 1e3, 1) AS avg_us, MIN(name) AS name\n"
     "FROM collective GROUP BY collective, dtype, group_size, group_name ORDER BY SUM(dur) DESC"},
    {"launches", "kernels with the longest delay after their launch",
     "SELECT ROUND(delay / 1e3, 1) AS delay_us, gpu_ts, ROUND(gpu_dur / 1e3, 1) AS gpu_us, stream, launch_name, name\n"
     "FROM launch ORDER BY delay DESC LIMIT 100"},
    {"memcpy", "copies and memsets by name, with bytes and bandwidth",
     "SELECT name, COUNT(*) AS count, ROUND(SUM(dur) / 1e6, 3) AS sum_ms, SUM(bytes) AS bytes,\n"
     "  ROUND(CAST(SUM(bytes) AS REAL) / SUM(dur), 2) AS gb_per_s\n"
     "FROM (SELECT name, dur, EXTRACT_ARG(arg_set_id, 'args.bytes') AS bytes FROM slice\n"
     "  WHERE category IN " TRANSFERS ")\n"
     "GROUP BY name ORDER BY SUM(dur) DESC"},
    {"ops", "operators by name, with the time that is not their children's",
     "SELECT name, COUNT(*) AS count, ROUND(SUM(self_dur) / 1e6, 3) AS self_ms, ROUND(SUM(dur) / 1e6, 3) AS sum_ms,\n"
     "  ROUND(AVG(dur) / 1e3, 1) AS avg_us\n"
     "FROM op GROUP BY name ORDER BY SUM(self_dur) DESC"},
    {"annotations", "ranges that the program named, by name",
     "SELECT name, category, COUNT(*) AS count, ROUND(SUM(dur) / 1e6, 3) AS sum_ms, ROUND(AVG(dur) / 1e6, 3) AS avg_ms\n"
     "FROM annotation GROUP BY name, category ORDER BY SUM(dur) DESC"},
    {"steps", "the profiler's steps in order",
     "SELECT name, ts, ROUND(dur / 1e6, 3) AS ms FROM slice\n"
     "WHERE name GLOB 'ProfilerStep*' AND category IS NOT 'gpu_user_annotation' ORDER BY ts"},
    {"defects", "what was wrong with the trace",
     "SELECT name, value AS count, file_offset AS first_offset, description FROM stats WHERE value > 0 ORDER BY id"},
};
/* clang-format on */
const size_t named_queries_count = ARRAY_SIZE(named_queries);

const struct named_query *named_query_find(const char *name)
{
    for (size_t i = 0; i < named_queries_count; i++)
        if (streq(named_queries[i].name, name))
            return &named_queries[i];
    return NULL;
}

const char *named_query_nearest(const char *name)
{
    _cleanup_(freep) const char **names = xcalloc(named_queries_count, sizeof(*names));

    for (size_t i = 0; i < named_queries_count; i++)
        names[i] = named_queries[i].name;
    return nearest_name(name, names, named_queries_count);
}

const struct table_column named_query_columns[N_NAMED_QUERY_COLUMNS] = {
    {"NAME", .importance = IMPORTANCE_KEY},
    {"SHOWS", COLUMN_SHORTEN, .least = 40},
};

void named_queries_add(struct table *table)
{
    for (size_t i = 0; i < named_queries_count; i++)
        table_add(table, (const char *const[]){named_queries[i].name, named_queries[i].about});
}
