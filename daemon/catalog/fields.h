/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as lists of fields, written once: the SQL texts, the binding of values, the reading of rows and the
 * JSON all follow from them.
 *
 * Each list takes two macros. F(type, name) is a struct member and a column of that name. R(member, table) is
 * a URL in the record and, in the row, the id of the router or worker that has it. The last column and the id
 * stand outside of the lists, as SQL wants no comma behind its last item.
 */
#pragma once

#include "base/json.h"
#include "daemon/catalog/records.h"
#include <sqlite3.h>

enum field_type {
    FIELD_ID,    /* of the record itself; 0 or RECORD_NONE: to be given. Not rendered */
    FIELD_REF,   /* id of another row, not rendered */
    FIELD_INNER, /* a number that is profd's own, not rendered */
    FIELD_INNER_TEXT,
    FIELD_SESSION, /* id of a session, rendered as "session": "s7" */
    FIELD_NUMBER,  /* RECORD_NONE where absent */
    FIELD_COUNT,   /* a number that is always there, 0 at first */
    FIELD_RANK,    /* a number rendered within "ranks" */
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_OBJECT,      /* JSON text, NULL is {} */
    FIELD_ARRAY,       /* JSON text, NULL is absent */
    FIELD_WORKER_JSON, /* JSON text, of which only what names the software is rendered */
    FIELD_STATE,
    FIELD_TRACE_STATE,
    FIELD_TRACE_KIND,
    FIELD_RUN_STATE,
};

struct field {
    enum field_type type;
    size_t offset;
    const char *name; /* in JSON */
};

struct field_list {
    const struct field *fields;
    size_t n;
};

extern const struct field_list session_fields, target_fields, trace_fields, run_fields, request_fields,
    function_fields;

/* clang-format off */
#define SESSION_FIELDS(F, R)                                                                                          \
    F(STATE, state)                                                                                                   \
    R(router, router)                                                                                                 \
    F(TEXT, dialect) F(TEXT, fleet) F(OBJECT, options) F(OBJECT, labels) F(NUMBER, requested_at)                      \
    F(TEXT, requested_by) F(NUMBER, start_at) F(NUMBER, starts_sent_at) F(NUMBER, recording_at) F(NUMBER, stop_at)    \
    F(NUMBER, hard_stop_at) F(NUMBER, stopped_at) F(NUMBER, finished_at) F(NUMBER, skew_ns) F(TEXT, reason)           \
    F(TEXT, remedy) F(ARRAY, remarks) F(TEXT, name) F(ARRAY, skipped) F(INNER, begun_at) F(INNER_TEXT, boot_id)       \
    F(INNER, begun_boot_ns) F(INNER, stop_boot_ns) F(INNER, hard_stop_boot_ns)

#define TARGET_FIELDS(F, R)                                                                                           \
    F(SESSION, session_id)                                                                                            \
    R(worker_url, worker)                                                                                             \
    F(WORKER_JSON, worker) F(STATE, state) F(TEXT, profile_id) F(TEXT, output_dir) F(TEXT, trace_dir)                 \
    F(COUNT, ranks_expected) F(BOOL, owes_stop) F(NUMBER, start_sent_at) F(NUMBER, start_answered_at)                 \
    F(NUMBER, start_status) F(NUMBER, stop_sent_at) F(NUMBER, stop_answered_at) F(NUMBER, stop_status)                \
    F(TEXT, failure)

#define TRACE_FIELDS(F, R)                                                                                            \
    F(SESSION, session_id) F(REF, target_id)                                                                          \
    R(worker_url, worker)                                                                                             \
    F(TRACE_KIND, kind) F(TRACE_STATE, state) F(TEXT, reason) F(TEXT, name) F(TEXT, path) F(TEXT, origin)             \
    F(BOOL, stored) F(COUNT, size) F(TEXT, sha256) F(TEXT, format) F(NUMBER, uncompressed) F(RANK, rank) F(RANK, dp)  \
    F(RANK, pp) F(RANK, tp) F(RANK, ep) F(TEXT, stage) F(NUMBER, world_size) F(NUMBER, pid) F(NUMBER, devices)        \
    F(TEXT, device_name) F(NUMBER, events) F(NUMBER, first_event_at) F(NUMBER, span_ns) F(ARRAY, candidates)          \
    F(NUMBER, owner_uid) F(NUMBER, recorded_at) F(NUMBER, collected_at) F(OBJECT, labels) F(NUMBER, last_event_at)    \
    F(TEXT, columns) F(NUMBER, columns_size) F(NUMBER, columns_version) F(TEXT, columns_reason) F(NUMBER, slices)     \
    F(NUMBER, gpu_slices) F(NUMBER, threads) F(NUMBER, flows) F(ARRAY, defects) F(INNER, device) F(INNER, inode)   \
    F(INNER, process_started) F(TEXT, instance) F(COUNT, disk_size)

#define RUN_FIELDS(F, R)                                                                                              \
    F(REF, session_id) F(RUN_STATE, state)                                                                            \
    R(router, router)                                                                                                 \
    F(TEXT, dialect) F(TEXT, fleet) F(TEXT, model) F(OBJECT, workload) F(ARRAY, targets) F(OBJECT, labels)            \
    F(NUMBER, requested_at) F(TEXT, requested_by) F(NUMBER, started_at) F(NUMBER, ended_at) F(COUNT, success)         \
    F(COUNT, incomplete) F(COUNT, error) F(TEXT, reason) F(TEXT, remedy) F(ARRAY, notes)

#define REQUEST_FIELDS(F, R)                                                                                          \
    F(REF, run_id) F(NUMBER, number) F(NUMBER, prompt) F(TEXT, target) F(BOOL, cold) F(NUMBER, intended_ns)           \
    F(NUMBER, sent_ns) F(NUMBER, first_ns) F(NUMBER, last_ns) F(NUMBER, end_ns) F(NUMBER, ttft_ns)                    \
    F(NUMBER, tpot_ns) F(NUMBER, e2e_ns) F(NUMBER, lateness_ns) F(NUMBER, input_tokens) F(NUMBER, output_tokens)      \
    F(TEXT, input_source) F(TEXT, output_source) F(TEXT, outcome) F(NUMBER, status) F(TEXT, error)

#define FUNCTION_FIELDS(F, R)                                                                                         \
    F(REF, trace_id) F(SESSION, session_id)                                                                           \
    R(worker_url, worker)                                                                                             \
    F(TEXT, moment) F(TEXT, name) F(TEXT, file) F(NUMBER, line) F(COUNT, calls) F(COUNT, tsub_ns) F(COUNT, ttot_ns)
/* clang-format on */

void fields_done(const struct field_list *l, void *record);
/* Every field, with texts of its own. What `to` held is not freed. */
void fields_copy(const struct field_list *l, void *to, const void *from);
/* Parameters and columns are numbered as the list is. Texts are borrowed until the statement is reset. */
void fields_bind(const struct field_list *l, sqlite3_stmt *s, const void *record);
void fields_read(const struct field_list *l, sqlite3_stmt *s, void *record);
void fields_put_json(const struct field_list *l, const void *record, json_t *object);
/* The same in the place of what the object has of an older state of the record. */
void fields_renew_json(const struct field_list *l, const void *record, json_t *object);

/* Single values: NULL and RECORD_NONE are null. Parameters count from 1, columns from 0. */
void bind_text(sqlite3_stmt *s, int i, const char *text);
void bind_number(sqlite3_stmt *s, int i, int64_t number);
int64_t column_number(sqlite3_stmt *s, int i);
char *column_text_copy(sqlite3_stmt *s, int i); /* NULL for null */
const char *column_text(sqlite3_stmt *s, int i);
/* "s7", where the id is not RECORD_NONE. */
void put_ref(json_t *object, const char *key, char kind, int64_t id);
