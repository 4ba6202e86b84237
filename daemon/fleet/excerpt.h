/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign texts for people: as one short line, in which control bytes and runs of space become one space, and
 * which is cut between characters.
 */
#pragma once

#include "base/util.h"

/* Writes at most max bytes with the NUL; returns buf. */
char *excerpt(const char *text, size_t size, char *buf, size_t max);
/* Whether a body is a page for a browser. */
bool looks_like_html(const char *text, size_t size);
