/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/nsys.h"

#include "trace/read/scan_text.h"
#include "trace/sql/nsys_events.h"
#include <errno.h>
#include <sqlite3.h>

/* -- A SQLite database of unknown origin, in memory, only read: no views, triggers, virtual tables ------ */

/* The schema of nsys 2026 has 100 KB; statements here are far shorter. */
#define LENGTH_SQL_MAX (1 << 20)

static const struct {
    int id, value;
} database_limits[] = {
    {SQLITE_LIMIT_SQL_LENGTH, LENGTH_SQL_MAX},
    {SQLITE_LIMIT_COLUMN, 200},
    {SQLITE_LIMIT_EXPR_DEPTH, 50},
    {SQLITE_LIMIT_COMPOUND_SELECT, 4},
    {SQLITE_LIMIT_FUNCTION_ARG, 16},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

static const struct {
    int option, value;
} database_settings[] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
};

static int database_open_memory(const void *data, size_t size, sqlite3 **ret)
{
    sqlite3 *db = NULL;
    int r = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    *ret = db;
    for (size_t i = 0; r == SQLITE_OK && i < ARRAY_SIZE(database_settings); i++)
        r = sqlite3_db_config(db, database_settings[i].option, database_settings[i].value, NULL);
    if (r != SQLITE_OK)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(database_limits); i++)
        sqlite3_limit(db, database_limits[i].id, database_limits[i].value);
    /* No value is longer than the file. */
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, (int)MIN(MAX(size, (size_t)LENGTH_SQL_MAX), (size_t)INT32_MAX));
    /* The flag prevents writes to the data. */
    r = sqlite3_deserialize(db, "main", (unsigned char *)(uintptr_t)data, (sqlite3_int64)size,
                            (sqlite3_int64)size, SQLITE_DESERIALIZE_READONLY);
    if (r == SQLITE_OK)
        r = sqlite3_exec(db, "PRAGMA cell_size_check = 1; PRAGMA temp_store = 2; SELECT 1 FROM sqlite_schema",
                         NULL, NULL, NULL);
    return r;
}

/* data must outlive the connection. -EBADMSG with a reason, -ENOMEM. */
static int database_open(const void *data, size_t size, sqlite3 **ret, char *ret_reason, size_t reason_size)
{
    sqlite3 *db = NULL;
    int r = database_open_memory(data, size, &db);

    if (r == SQLITE_OK) {
        *ret = db;
        return 0;
    }
    snprintf(ret_reason, reason_size, "the database cannot be read: %s",
             db ? sqlite3_errmsg(db) : sqlite3_errstr(r));
    sqlite3_close(db);
    return r == SQLITE_NOMEM ? -ENOMEM : -EBADMSG;
}

/* True for an ordinary table. Only such ones may be named in a statement. */
static bool database_has_table(sqlite3 *db, const char *table)
{
    sqlite3_stmt *s = NULL;
    bool found = false;

    /* A view or a virtual table has no page of its own. */
    if (sqlite3_prepare_v2(db,
                           "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 0",
                           -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
        found = sqlite3_step(s) == SQLITE_ROW;
    }
    sqlite3_finalize(s);
    return found;
}

static bool database_has_column(sqlite3 *db, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(db, "main", table, column, NULL, NULL, NULL, NULL, NULL) ==
           SQLITE_OK;
}

/* -- Tables of an nsys export --------------------------------------------------------------------------- */

struct nsys {
    sqlite3 *db;
    bool has_strings;
    char *reason;
    size_t reason_size;
    struct nsys_events events;
};

/* The first column of the first row; COLUMN_NULL: no integer. */
static int64_t nsys_ask_int(struct nsys *n, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t value = COLUMN_NULL;

    if (sqlite3_prepare_v2(n->db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW &&
        sqlite3_column_type(s, 0) == SQLITE_INTEGER)
        value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

/* The same as the number of a string; 0: no text. */
static uint32_t nsys_ask_text(struct nsys *n, const char *sql, int64_t key)
{
    sqlite3_stmt *s = NULL;
    uint32_t number = 0;

    if (sqlite3_prepare_v2(n->db, sql, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(s, 1, key);
        if (sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_TEXT)
            number = clean_text(n->events.in, (const char *)sqlite3_column_text(s, 0),
                                (size_t)sqlite3_column_bytes(s, 0), n->events.number);
    }
    sqlite3_finalize(s);
    return number == STRINGS_NONE ? 0 : number;
}

/* SELECT of all values and the name; a column that the table lacks is NULL. */
static char *nsys_table_sql(struct nsys *n, const struct nsys_table *t)
{
    sqlite3_str *sql = sqlite3_str_new(n->db);

    sqlite3_str_appendall(sql, "SELECT ");
    for (size_t i = 0; i < _NSYS_VALUE_MAX; i++)
        if (database_has_column(n->db, t->table, nsys_value_columns[i]))
            sqlite3_str_appendf(sql, "t.\"%w\", ", nsys_value_columns[i]);
        else
            sqlite3_str_appendall(sql, "NULL, ");

    sqlite3_str_appendall(sql, "coalesce(");
    if (t->name_text && database_has_column(n->db, t->table, t->name_text))
        sqlite3_str_appendf(sql, "t.\"%w\", ", t->name_text);
    for (size_t i = 0; i < NSYS_NAME_IDS_MAX && t->name_ids[i]; i++)
        if (n->has_strings && database_has_column(n->db, t->table, t->name_ids[i]))
            sqlite3_str_appendf(sql, "(SELECT value FROM StringIds WHERE id = t.\"%w\"), ", t->name_ids[i]);
    sqlite3_str_appendf(sql, "NULL, NULL) FROM \"%w\" AS t", t->table);
    return sqlite3_str_finish(sql);
}

static void nsys_read_row(sqlite3_stmt *s, struct nsys_row *ret)
{
    for (int i = 0; i < _NSYS_VALUE_MAX; i++)
        ret->values[i] =
            sqlite3_column_type(s, i) == SQLITE_INTEGER ? sqlite3_column_int64(s, i) : COLUMN_NULL;
    ret->name = NULL;
    if (sqlite3_column_type(s, _NSYS_VALUE_MAX) == SQLITE_TEXT) {
        ret->name = (const char *)sqlite3_column_text(s, _NSYS_VALUE_MAX);
        ret->name_size = (size_t)sqlite3_column_bytes(s, _NSYS_VALUE_MAX);
    }
}

static int nsys_read_table(struct nsys *n, const struct nsys_table *t)
{
    struct intake *in = n->events.in;
    sqlite3_stmt *s = NULL;
    struct nsys_row row;
    char *sql = nsys_table_sql(n, t);

    if (!sql)
        return -ENOMEM;
    int r = sqlite3_prepare_v2(n->db, sql, -1, &s, NULL);
    sqlite3_free(sql);
    if (r == SQLITE_OK)
        while ((r = sqlite3_step(s)) == SQLITE_ROW && in->error == 0) {
            nsys_read_row(s, &row);
            t->take(&n->events, t, &row);
        }
    if (in->error == 0 && r != SQLITE_DONE && r != SQLITE_NOMEM) {
        intake_defect(in, DEFECT_corrupt_stream, n->events.number);
        snprintf(n->reason, n->reason_size, "the database is damaged: %s: %s", t->table,
                 sqlite3_errmsg(n->db));
    }
    sqlite3_finalize(s);
    return in->error < 0 ? in->error : r == SQLITE_NOMEM ? -ENOMEM : 0;
}

static void nsys_read_devices(struct nsys *n)
{
    struct nsys_events *e = &n->events;
    sqlite3_stmt *s = NULL;

    if (database_has_table(n->db, "TARGET_INFO_CUDA_DEVICE") &&
        sqlite3_prepare_v2(n->db,
                           "SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId IS NOT NULL",
                           -1, &s, NULL) == SQLITE_OK)
        while (e->n_devices < NSYS_DEVICES_MAX && sqlite3_step(s) == SQLITE_ROW)
            e->devices[e->n_devices++] = (struct nsys_device){
                sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2)};
    sqlite3_finalize(s);
}

/* Names for the threads and processes that have events. */
static void nsys_read_names(struct nsys *n)
{
    static const char thread_sql[] = "SELECT (SELECT value FROM StringIds WHERE id = t.nameId) FROM "
                                     "ThreadNames AS t WHERE t.globalTid & 0xFFFFFFFFFFFF = ?1";
    static const char process_sql[] = "SELECT name FROM PROCESSES WHERE pid = ?1";
    static const char gpu_sql[] = "SELECT name FROM TARGET_INFO_GPU WHERE id = ?1";
    bool thread_names = n->has_strings && database_has_table(n->db, "ThreadNames");
    bool process_names = database_has_table(n->db, "PROCESSES");
    bool gpu_names = database_has_table(n->db, "TARGET_INFO_GPU");
    struct intake *in = n->events.in;

    for (size_t i = 0; i < in->n_threads && thread_names; i++) {
        const struct process_entry *p = &in->processes[in->threads[i].process];
        if (!nsys_is_gpu(p) && p->pid != NSYS_OVERHEAD_PROCESS)
            in->threads[i].name = nsys_ask_text(n, thread_sql, p->pid << NSYS_ID_BITS | in->threads[i].tid);
    }
    for (size_t i = 0; i < in->n_processes; i++) {
        struct process_entry *p = &in->processes[i];
        if (nsys_is_gpu(p) ? gpu_names : process_names)
            p->name = nsys_ask_text(n, nsys_is_gpu(p) ? gpu_sql : process_sql, p->pid);
    }
}

/* The time to which all times are relative. Unknown if the export moved times to the wall clock, or if the start was
 * not recorded. */
static int64_t nsys_base_time(struct nsys *n)
{
    static const char normalized_sql[] =
        "SELECT value = 'true' FROM META_DATA_EXPORT WHERE name = 'EXPORT_PARAM_TIME_NORMALIZE'";
    static const char shift_sql[] =
        "SELECT CAST(value AS INTEGER) FROM META_DATA_EXPORT WHERE name = 'EXPORT_PARAM_TIME_SHIFT'";
    int64_t start = COLUMN_NULL, shift = COLUMN_NULL;

    if (database_has_table(n->db, "TARGET_INFO_SESSION_START_TIME"))
        start = nsys_ask_int(n, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    if (database_has_table(n->db, "META_DATA_EXPORT")) {
        if (nsys_ask_int(n, normalized_sql) == 1)
            return COLUMN_NULL;
        shift = nsys_ask_int(n, shift_sql);
    }
    if (start == COLUMN_NULL || (shift != COLUMN_NULL && __builtin_sub_overflow(start, shift, &start)))
        return COLUMN_NULL;
    return start;
}

static void nsys_read_meta(struct nsys *n)
{
    struct intake *in = n->events.in;
    int64_t gpus = 0;

    for (size_t i = 0; i < in->n_processes; i++)
        gpus += nsys_is_gpu(&in->processes[i]);
    in->meta[META_devices] = gpus;
    in->meta[META_base_time_ns] = nsys_base_time(n);
    if (n->events.n_processes == 1)
        in->meta[META_pid] = nsys_pid(n->events.processes[0]);
    if (database_has_table(n->db, "TARGET_INFO_GPU")) {
        uint32_t name = nsys_ask_text(n, "SELECT name FROM TARGET_INFO_GPU ORDER BY id", 0);
        if (name != 0)
            in->meta[META_device_name] = name;
        in->meta[META_sm_count] = nsys_ask_int(n, "SELECT smCount FROM TARGET_INFO_GPU ORDER BY id");
    }
}

static int nsys_read_all(struct nsys *n)
{
    size_t seen = 0;

    n->has_strings = database_has_table(n->db, "StringIds");
    nsys_read_devices(n);
    for (size_t i = 0; i < nsys_tables_count; i++) {
        if (!database_has_table(n->db, nsys_tables[i].table))
            continue;
        int r = nsys_read_table(n, &nsys_tables[i]);
        if (r < 0)
            return r;
        seen++;
    }
    if (seen == 0) {
        snprintf(n->reason, n->reason_size, "none of the tables of an nsys export is in the database");
        return -EBADMSG;
    }
    nsys_read_names(n);
    nsys_read_meta(n);
    return n->events.in->error;
}

int nsys_read(const void *data, size_t size, struct intake *intake, char *ret_reason, size_t reason_size)
{
    _cleanup_(freep) struct nsys *n = calloc(1, sizeof(*n));

    if (!n)
        return -ENOMEM;
    n->events.in = intake;
    n->reason = ret_reason;
    n->reason_size = reason_size;
    ret_reason[0] = '\0';
    int r = database_open(data, size, &n->db, ret_reason, reason_size);
    if (r == 0)
        r = nsys_read_all(n);
    sqlite3_close(n->db);
    return r;
}
