/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the daemon and its children. They go to stderr; if stderr is the journal and after log_open(), to
 * the journal's socket, with fields that journalctl can filter by. If the socket fails, lines go to stderr
 * with a priority prefix. Without a journal, a file of bounded size can replace stderr.
 * The function that gives up on an error logs it, once, with the object's id; modules below it never log above
 * debug.
 *
 * If the journal does not keep up, lines are dropped and counted; the loop never waits long for the journal.
 */
#pragma once

#include "base/util.h"
#include <syslog.h>

/* The subject of a line; 0 or NULL: unknown. The text names the subject too, since only the journal shows
 * fields. */
struct log_fields {
    int64_t session_id;     /* PROFD_SESSION=s7 */
    int64_t trace_id;       /* PROFD_TRACE=t12 */
    const char *worker;     /* PROFD_WORKER=http://... */
    const char *message_id; /* MESSAGE_ID=, see below */
};
#define LOG_FIELDS(...) (&(const struct log_fields){__VA_ARGS__})

/* LOG_INFO by default; LOG_DEBUG shows each call to a worker. */
void log_set_level(int level);
/* Detects whether stderr is the journal. To be called before any thread starts. */
void log_open(void);
/* From then on, lines are also appended to that file, each with its time. A full file is renamed to PATH.old
 * and a new one is started. To be called once. */
#define LOG_FILE_MAX (4 << 20)
int log_to_file(const char *path);
/* Stops writing to stderr, which becomes the file. */
void log_leave_stderr(void);
void log_line(int level, const char *format, ...) _printf_(2, 3);
void log_struct(int level, const struct log_fields *fields, const char *format, ...) _printf_(3, 4);

#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)

/*
 * The MESSAGE_ID of each event that the journal's catalog explains (journalctl -x). The ids never change; the id
 * of a removed event is never used again.
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
#define MESSAGE_ARCHIVE_FAILED   MESSAGE_ID("0a0f")

/*
 * The journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram per entry, one KEY=value
 * per line. sd_journal_send() waits for a busy journal without a limit; these functions give up.
 */

#define JOURNAL_SOCKET    "/run/systemd/journal/socket"
#define JOURNAL_LINE_MAX  2048
#define JOURNAL_VALUE_MAX 512 /* bytes of a field other than the message; longer values are cut */
#define JOURNAL_ENTRY_MAX (JOURNAL_LINE_MAX + 4 * JOURNAL_VALUE_MAX)

/* Writes an entry and returns its size. No value can add a line of its own. Pure. */
size_t journal_entry(char buffer[JOURNAL_ENTRY_MAX], int level, const struct log_fields *fields,
                     const char *line);
/* A connected socket whose sends end soon, or a negative errno value. */
int journal_connect(const char *path);
