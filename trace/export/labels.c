/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/labels.h"

#include <inttypes.h>
#include <stdarg.h>

static _printf_(1, 2) char *label(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    return text;
}

/* As the arguments of a "%.*s". */
#define TEXT(t) (int)MIN((t).size, (size_t)INT32_MAX), (t).p

/* The column's text, without the space that Kineto ends some names with. */
static struct text text_at(const struct columns *c, enum column column, int64_t row)
{
    struct text t = columns_text(c, columns_get(c, column, (uint64_t)row));

    while (t.size > 0 && t.p[t.size - 1] == ' ')
        t.size--;
    return t;
}

static char *label_id(const struct columns *c, const char *what, enum column number, enum column text,
                      int64_t row)
{
    struct text t = text_at(c, text, row);
    int64_t id = columns_get(c, number, (uint64_t)row);

    if (t.size > 0)
        return label("%s %.*s", what, TEXT(t));
    return id == COLUMN_NULL ? label("%s", what) : label("%s %" PRId64, what, id);
}

char *label_process(const struct columns *c, int64_t process)
{
    struct text name = text_at(c, COL_process_name, process),
                labels = text_at(c, COL_process_labels, process);
    _cleanup_(freep) char *id = NULL;

    if (name.size > 0 && labels.size > 0)
        return label("%.*s %.*s", TEXT(name), TEXT(labels));
    if (labels.size > 0)
        return label("%.*s", TEXT(labels));
    id = label_id(c, name.size > 0 ? "" : "process", COL_process_pid, COL_process_pid_text, process);
    if (!id || name.size == 0)
        return TAKE_PTR(id);
    return label("%.*s%s", TEXT(name), id);
}

char *label_thread(const struct columns *c, int64_t thread)
{
    struct text name = text_at(c, COL_thread_name, thread);

    if (name.size > 0)
        return label("%.*s", TEXT(name));
    return label_id(c, "thread", COL_thread_tid, COL_thread_tid_text, thread);
}

char *label_track(const struct columns *c, uint64_t track)
{
    int64_t thread = columns_get(c, COL_track_thread, track),
            process = columns_get(c, COL_track_process, track);
    struct text name = text_at(c, COL_track_name, (int64_t)track);
    _cleanup_(freep) char *of_process = process == COLUMN_NULL ? NULL : label_process(c, process);
    _cleanup_(freep) char *own = NULL;

    if (thread != COLUMN_NULL)
        own = label_thread(c, thread);
    else
        own = name.size > 0 ? label("%.*s", TEXT(name)) : label("instants");
    if (!of_process || !own)
        return TAKE_PTR(own);
    return label("%s / %s", of_process, own);
}
