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

#include "base/util.h"
#include <syslog.h>

/* What a line is about; what is 0 or NULL is not known. The text says it too: only the journal shows fields.
 */
struct log_fields {
    int64_t session_id;     /* PROFD_SESSION=s7 */
    int64_t trace_id;       /* PROFD_TRACE=t12 */
    const char *worker;     /* PROFD_WORKER=http://... */
    const char *message_id; /* MESSAGE_ID=, see below */
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

/*
 * What an operator looks up: the MESSAGE_ID of each event that the journal's catalog explains (journalctl
 * -x). They stay as they are for ever; an event that is gone leaves its number behind.
 */

#define MESSAGE_ID(event)        "1ba1d1a2c1f04e0f9c1f6f0e1f6d" event

#define MESSAGE_STARTED          MESSAGE_ID("0a01")
#define MESSAGE_STOPPING         MESSAGE_ID("0a02")
#define MESSAGE_RELOADED         MESSAGE_ID("0a03")
#define MESSAGE_CONFIG_REFUSED   MESSAGE_ID("0a04")
#define MESSAGE_SESSION_STARTED  MESSAGE_ID("0a05")
#define MESSAGE_SESSION_COMPLETE MESSAGE_ID("0a06")
#define MESSAGE_SESSION_FAILED   MESSAGE_ID("0a07") /* or partial */
#define MESSAGE_STOP_OWED        MESSAGE_ID("0a08") /* profd ends, and a profiler may still run */
#define MESSAGE_OWED_STOP_SENT   MESSAGE_ID("0a09")
#define MESSAGE_TRACE_UNREADABLE MESSAGE_ID("0a0a")
#define MESSAGE_STORE_FULL       MESSAGE_ID("0a0b")
#define MESSAGE_CATALOG_MIGRATED MESSAGE_ID("0a0c")
#define MESSAGE_CLIENT_REFUSED   MESSAGE_ID("0a0d")
#define MESSAGE_FILE_REFUSED     MESSAGE_ID("0a0e")

/*
 * The journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram an entry, one KEY=value a
 * line. sd_journal_send() waits for a journal that is busy as long as that takes; this gives up.
 */

#define JOURNAL_SOCKET    "/run/systemd/journal/socket"
#define JOURNAL_LINE_MAX  2048
#define JOURNAL_VALUE_MAX 512 /* of a field beside the message; longer ones are cut */
#define JOURNAL_ENTRY_MAX (JOURNAL_LINE_MAX + 4 * JOURNAL_VALUE_MAX)

/* Writes an entry and returns its size. No value can add a line of its own. Pure. */
size_t journal_entry(char buffer[JOURNAL_ENTRY_MAX], int level, const struct log_fields *fields,
                     const char *line);
/* A connected socket whose sends end soon, or a negative errno value. */
int journal_connect(const char *path);
