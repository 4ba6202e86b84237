/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that servers answer with, read without building a tree of them: excerpts for people, sums of Prometheus
 * metrics, the paths of an OpenAPI document. Pure; the texts are untrusted.
 */
#pragma once

#include "base/util.h"

/* The text as one short line, in which control bytes and runs of space become one space, and which is cut between
 * characters. Writes at most max bytes with the NUL; returns buf. */
char *excerpt(const char *text, size_t size, char *buf, size_t max);
/* What a body is that is not JSON, static: "HTML instead of JSON", "empty", "not JSON". */
const char *answer_kind(const char *text, size_t size);
/* Whether a body is a page for a browser. */
bool looks_like_html(const char *text, size_t size);

/* Sum of all samples of one metric in Prometheus text; false where it does not occur. */
bool metrics_sum(const char *text, size_t size, const char *metric, double *ret);
/* Whether some sample's name begins like this. */
bool metrics_has_prefix(const char *text, size_t size, const char *prefix);

/*
 * One pass over the bytes: an openapi.json has hundreds of kilobytes, a fleet has a thousand of them, and the
 * event loop waits meanwhile.
 *
 * Sets bit i of *ret for each paths[i] (at most 32) that is a key of the top-level "paths". -EPROTO where the
 * text is not a JSON object with such a member, or ends early.
 */
int openapi_find_paths(const char *data, size_t size, const char *const *paths, size_t n, unsigned *ret);
