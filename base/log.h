/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the daemon and its children: to stderr, plain; where stderr is the journal, to the journal
 * itself after log_open(), with fields that journalctl can select by, else with a priority before the line.
 * Where there is no journal, a file takes stderr's place, and is bounded.
 * Whoever gives up on an error logs it, once, with the object's id; rooms below never log above debug.
 *
 * A journal that does not keep up costs lines, which are counted, and never holds the loop for long.
 */
#pragma once

#include "base/message_id.h"
#include "base/util.h"
#include <syslog.h>

/* What a line is about; what is 0 or NULL is not known. The text says it too: only the journal shows fields.
 */
struct log_fields {
    int64_t session_id;     /* PROFD_SESSION=s7 */
    int64_t trace_id;       /* PROFD_TRACE=t12 */
    const char *worker;     /* PROFD_WORKER=http://... */
    const char *message_id; /* MESSAGE_ID=, of base/message_id.h */
};
#define LOG_FIELDS(...) (&(const struct log_fields){__VA_ARGS__})

/* LOG_INFO by default; LOG_DEBUG shows each call to a worker. */
void log_set_level(int level);
/* Looks whether stderr is the journal. Before any thread. */
void log_open(void);
/* From here on lines go to the end of that file too, each with its time. A full one is renamed to PATH.old,
 * and begun anew. Once. */
#define LOG_FILE_MAX (4 << 20)
int log_to_file(const char *path);
/* And no longer to stderr, which is the file from here on. */
void log_leave_stderr(void);
void log_line(int level, const char *format, ...) _printf_(2, 3);
void log_struct(int level, const struct log_fields *fields, const char *format, ...) _printf_(3, 4);

#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
