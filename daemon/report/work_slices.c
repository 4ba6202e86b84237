/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the traces of a session as Parquet files, for programs that query many sessions. */
#include "base/alloc.h"
#include "daemon/report/work.h"
#include "proto/names.h"
#include "trace/export/export.h"
#include "trace/ranks/sum_tables.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <unistd.h>

/* As profctl export identifies them; a fact without a value is not known. */
static struct export_identity slices_identify(const json_t *facts)
{
    const char *trace = json_get_str(facts, "trace");
    struct export_identity identity = {
        .catalog = json_get_str(facts, "catalog"),
        .session = json_get_str(facts, "session"),
        .trace = trace,
        .host = json_get_str(facts, "host"),
        .worker = json_get_str(facts, "worker"),
        .instance = json_get_str(facts, "instance"),
        .rank = json_get_int(json_object_get(facts, "ranks"), "rank", COLUMN_NULL),
        .trace_id = COLUMN_NULL,
    };

    if (trace)
        parse_ref(trace, 't', &identity.trace_id);
    return identity;
}

int work_write_slices(const char *table, const struct columns *const *columns, const json_t *const *facts,
                      size_t n, FILE *answer)
{
    const struct sum_table *sums = table ? sum_table_find(table) : NULL;
    _cleanup_(freep) struct export_trace *traces = xcalloc(n, sizeof(*traces));
    _cleanup_(freep) struct export_identity *identities = xcalloc(n, sizeof(*identities));

    for (size_t i = 0; i < n; i++) {
        identities[i] = slices_identify(facts[i]);
        traces[i] = (struct export_trace){.columns = columns[i], .source_fd = -1, .identity = &identities[i]};
    }
    if (!sums && (!table || !streq(table, "slice")))
        return -EINVAL;
    int r = sums ? sum_table_write(sums, traces, n, answer, NULL)
                 : export_traces(export_format_find("parquet"), traces, n, &EXPORT_ALL, answer);
    if (r >= 0 && (fflush(answer) != 0 || fsync(fileno(answer)) < 0))
        r = -errno;
    return r;
}
