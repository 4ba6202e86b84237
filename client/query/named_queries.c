/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/named_queries.h"

#include "client/cli/text.h"

/* By their names since torch 1.9 and before, as trace/columns/category.h has them. */
#define KERNELS_AND_COPIES "('kernel', 'gpu_memcpy', 'Kernel', 'Memcpy')"

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
    {"threads", "threads and streams, with the busy time of each",
     "SELECT pid, process.name AS process, tid, thread.name AS thread, COUNT(*) AS slices,\n"
     "  ROUND(SUM(IIF(depth = 0, dur, 0)) / 1e6, 3) AS busy_ms\n"
     "FROM slice JOIN thread_track ON track_id = thread_track.id JOIN thread USING (utid)\n"
     "  LEFT JOIN process USING (upid)\n"
     "GROUP BY utid ORDER BY busy_ms DESC"},
    {"defects", "defects of the trace",
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

char *named_query_remedy(const char *name, const char *remedy)
{
    const char *names[ARRAY_SIZE(named_queries)];

    for (size_t i = 0; i < ARRAY_SIZE(named_queries); i++)
        names[i] = named_queries[i].name;
    return did_you_mean(name, names, ARRAY_SIZE(named_queries), remedy);
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
