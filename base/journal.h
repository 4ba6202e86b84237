/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram an entry, one KEY=value a
 * line. sd_journal_send() waits for a journal that is busy as long as that takes; this gives up.
 */
#pragma once

#include "base/log.h"

#define JOURNAL_SOCKET    "/run/systemd/journal/socket"
#define JOURNAL_LINE_MAX  2048
#define JOURNAL_VALUE_MAX 512 /* of a field beside the message; longer ones are cut */
#define JOURNAL_ENTRY_MAX (JOURNAL_LINE_MAX + 4 * JOURNAL_VALUE_MAX)

/* Writes an entry and returns its size. No value can add a line of its own. Pure. */
size_t journal_entry(char buffer[JOURNAL_ENTRY_MAX], int level, const struct log_fields *fields,
                     const char *line);
/* A connected socket whose sends end soon, or a negative errno value. */
int journal_connect(const char *path);
