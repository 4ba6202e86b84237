/* SPDX-License-Identifier: Apache-2.0 */
/* One line for each slice, by RFC 4180. */
#include "base/csv.h"
#include "trace/export/export.h"
#include "trace/export/selection.h"

#include <inttypes.h>

/* Fields after the first, each with the comma before it; an empty text or no value is an empty field. */
static void csv_put_text(FILE *out, struct text t)
{
    putc(',', out);
    if (t.size > 0)
        csv_write_sized(out, t.p, t.size);
}

static void csv_put_number(FILE *out, int64_t value)
{
    putc(',', out);
    if (value != COLUMN_NULL)
        fprintf(out, "%" PRId64, value);
}

/* A number, or its text if the trace has a text. */
static void csv_put_id(FILE *out, const struct columns *c, enum column number, enum column text, int64_t row)
{
    int64_t name = row < 0 ? COLUMN_NULL : columns_get(c, text, (uint64_t)row);

    if (name != COLUMN_NULL)
        csv_put_text(out, columns_text(c, name));
    else
        csv_put_number(out, row < 0 ? COLUMN_NULL : columns_get(c, number, (uint64_t)row));
}

static void csv_put_slice(FILE *out, const struct columns *c, uint64_t row)
{
    int64_t track = columns_get(c, COL_slice_track, row), dur = columns_get(c, COL_slice_dur, row),
            child = columns_get(c, COL_slice_child, row);

    fprintf(out, "%" PRIu64, row);
    csv_put_number(out, columns_get(c, COL_slice_ts, row));
    csv_put_number(out, dur);
    csv_put_text(out, columns_text(c, columns_get(c, COL_slice_name, row)));
    csv_put_text(out, columns_text(c, columns_get(c, COL_slice_category, row)));
    csv_put_id(out, c, COL_process_pid, COL_process_pid_text,
               columns_get(c, COL_track_process, (uint64_t)track));
    csv_put_id(out, c, COL_thread_tid, COL_thread_tid_text,
               columns_get(c, COL_track_thread, (uint64_t)track));
    csv_put_number(out, track);
    csv_put_number(out, columns_get(c, COL_slice_depth, row));
    csv_put_number(out, columns_get(c, COL_slice_parent, row));
    csv_put_number(out, dur < 0 || child < 0 ? COLUMN_NULL : dur - child);
    fputs("\r\n", out);
}

int export_csv(const struct export_trace *t, const struct selection *s, FILE *out)
{
    fputs("id,ts,dur,name,category,pid,tid,track_id,depth,parent_id,self\r\n", out);
    for (uint64_t row = 0; row < s->end; row++) {
        if (selection_has(s, row))
            csv_put_slice(out, t->columns, row);
    }
    return 0;
}
