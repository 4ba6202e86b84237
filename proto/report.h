/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profd talks to profd-report, the child that computes reports and runs the SQL of clients: descriptors, arguments,
 * a specification, an answer.
 *
 *     profd-report TRACES MEMORY_MAX CPU_SECONDS MAPPED_MAX ANSWER_MAX
 *
 *     0  /dev/null
 *     1  a pipe for the result: {} where the answer was written, else {"problem": CODE, "detail", "remedy"}
 *     2  its starter's stderr: only for what keeps the child from starting its work
 *     3  the specification, a regular file with one JSON object, readable
 *     4  the answer, an empty regular file, writable
 *     5  and following, one for each trace: its columns (docs/columns.md), readable
 *     5 + TRACES and following, one for each trace: its original, readable; may be closed
 *
 * The specification:
 *
 *     kind     "report": of one report, "reports", "query", "sums", "slices", "view", "flame", "export", "compare"
 *     traces   [{name, facts?, role?, kv_use?}]: as clients call it, and as the API shows it; without facts, only the
 *              trace itself says of which rank and engine instance it is
 *     reports  names
 *     view     {from?, to?, step?, phase?}: the part of each trace, in nanoseconds after its first slice
 *     top      rows of each report, 0 for all
 *     sql      one statement
 *     limit    its rows
 *     by       of a flame graph: "gpu", "host", "op", "stack" or "kernel"; thread: only of that one
 *     format   of an export: "chrome" or "perfetto"
 *     before, after  of a comparison: the traces of each side, in the order of traces
 *     table    of slices: "slice", "kernel" or "name"
 *     host     where the traces are; and left, names of other traces: copied into the answer
 *
 * The answer:
 *
 *     report   {report, columns: [NAME], rows: [[CELL]]}
 *     reports  {parts: [{instance, host?, traces: [NAME], report, columns, rows}], left: [NAME],
 *              notes: [TEXT]}; instance is null where the rows are of all traces. A report for which the traces
 *              have no events has {report, instance, lacking: true}, one that failed
 *              {report, instance, error: TEXT}.
 *     query    {columns: [NAME], rows: [[CELL]], more: whether rows were left out}
 *     sums     {steps: [{phase, steps, sum_ns, p50_ns, p99_ns, max_ns}], findings: [{rule, label?, what, cost_ns?, share?}]}
 *     flame    {unit, names: [NAME], nodes: [[parent, name, total, self, count]]}: parents come first, -1 for none
 *     export   the file
 *     compare  {kind, step, diff_measures, ...: {report, rows: [{COLUMN: value}]}, left, notes}
 *     slices   a Parquet file with the table of all traces (docs/parquet.md), synced; facts name catalog, host and session
 *     view     the answer is a connected socket instead of a file. On it come requests, each a line with a JSON object
 *              (trace/view/view.h), and each is answered by a struct view_frame and its bytes before the next one comes.
 *              The child ends when the socket is closed, or by itself between two requests.
 */
#pragma once

#include <stdint.h>

enum {
    REPORT_FD_RESULT = 1,
    REPORT_FD_SPEC = 3,
    REPORT_FD_ANSWER = 4,
    REPORT_FD_COLUMNS = 5,
};

/* Traces of one specification. */
#define REPORT_TRACES_MAX 256
#define REPORT_SPEC_MAX   (16 << 20)
#define REPORT_RESULT_MAX (64 << 10)
/* More than a child ever begins: SQLite and reports use a few for each processor. */
#define REPORT_THREADS_MAX 32
/* Rows of a statement. */
#define REPORT_ROWS_MAX 100000

/* A request to a view, with its end of line; and bytes of an answer. */
#define VIEW_REQUEST_MAX (64 << 10)
#define VIEW_ANSWER_MAX  (16 << 20)

enum view_frame_kind {
    VIEW_FRAME_JSON,
    VIEW_FRAME_BYTES,
    VIEW_FRAME_PROBLEM, /* {"problem": CODE, "detail", "remedy"?}, at most REPORT_RESULT_MAX bytes */
    _VIEW_FRAME_KIND_MAX,
};

/* Little endian. */
struct view_frame {
    uint32_t size; /* of the bytes that follow */
    uint8_t kind;
    uint8_t is_gzip; /* 1: the bytes are compressed */
    uint16_t zero;
};
