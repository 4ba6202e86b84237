/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the daemon and its children, to stderr: with a priority prefix where stderr is the journal,
 * plain elsewhere. Whoever gives up on an error logs it, once, with the object's id; rooms below never log
 * above debug.
 */
#pragma once

#include "base/util.h"
#include <syslog.h>

/* LOG_INFO by default; LOG_DEBUG shows each call to a worker. */
void log_set_level(int level);
void log_line(int level, const char *format, ...) _printf_(2, 3);

#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
