/* SPDX-License-Identifier: Apache-2.0 */
/* The writers behind the table of formats, and what every export ends with. */
#pragma once

#include "trace/export/export.h"

int export_chrome(const struct export_trace *t, const struct selection *s, FILE *out);
int export_perfetto(const struct export_trace *t, const struct selection *s, FILE *out);
int export_speedscope(const struct export_trace *t, const struct selection *s, FILE *out);
int export_collapsed(const struct export_trace *t, const struct selection *s, FILE *out);
int export_pprof(const struct export_trace *t, const struct selection *s, FILE *out);
int export_csv(const struct export_trace *t, const struct selection *s, FILE *out);

/* The error of a writer, or of its FILE, or that of damaged columns. */
int export_outcome(int error, const struct export_trace *traces, size_t n, FILE *out);
