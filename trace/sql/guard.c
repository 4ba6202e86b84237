/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/api.h"
#include "trace/sql/query.h"
#include "trace/sql/round.h"

#include <errno.h>
#include <strings.h>

/* Steps of SQLite's machine between two looks at whether the statement is over: some ten microseconds. */
#define STEPS_PER_LOOK 1000

/* Belongs to a connection; owns what the tables are registered with, and so goes when they go. */
struct guard {
    struct sql_source source;
    bool (*is_over)(void *arg);
    void *is_over_arg;
};

static const struct {
    int limit, value;
} limits[] = {
    {SQLITE_LIMIT_LENGTH, 16 << 20},          {SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 4096}, {SQLITE_LIMIT_EXPR_DEPTH, 1000},
    {SQLITE_LIMIT_COMPOUND_SELECT, 500},      {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

/* They tell about tables and change nothing. */
static const char *const harmless_pragmas[] = {
    "table_info",  "table_xinfo", "table_list",      "function_list",
    "module_list", "pragma_list", "compile_options",
};

static bool is_harmless(const char *pragma)
{
    for (size_t i = 0; i < ARRAY_SIZE(harmless_pragmas); i++) {
        if (strcasecmp(pragma, harmless_pragmas[i]) == 0)
            return true;
    }
    return false;
}

/* They reach out of the database: to files, addresses of this process, the log. */
static const char *const harmful_functions[] = {
    "load_extension",
    "fts3_tokenizer",
    "sqlite_log",
};

static bool is_harmful(const char *function)
{
    for (size_t i = 0; i < ARRAY_SIZE(harmful_functions); i++) {
        if (strcasecmp(function, harmful_functions[i]) == 0)
            return true;
    }
    return false;
}

static int authorize(void *arg, int action, const char *first, const char *second, const char *database,
                     const char *trigger)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return is_harmful(second) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        return is_harmless(first) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_UPDATE:
        /* Asked where a virtual table is first used. A defensive connection lets nobody do it. */
        return strcmp(first, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static int is_too_late(void *arg)
{
    struct guard *g = arg;

    return g->is_over && g->is_over(g->is_over_arg);
}

static int open_guarded(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                        char **ret_error)
{
    struct guard *g = arg;

    return g->source.open(g->source.arg, trace_id, ret_columns_fd, ret_source_fd, ret_error);
}

static int list_guarded(void *arg, int64_t **ret_ids, size_t *ret_n, char **ret_error)
{
    struct guard *g = arg;

    return g->source.list(g->source.arg, ret_ids, ret_n, ret_error);
}

static const struct sql_place *place_guarded(void *arg, int64_t trace_id)
{
    struct guard *g = arg;

    return g->source.place(g->source.arg, trace_id);
}

static bool is_over_guarded(void *arg)
{
    struct guard *g = arg;

    return is_too_late(g) || (g->source.is_over && g->source.is_over(g->source.arg));
}

static void guard_free(void *arg)
{
    struct guard *g = arg;

    if (g->source.free)
        g->source.free(g->source.arg);
    free(g);
}

static int restrict_connection(sqlite3 *db, struct guard *g)
{
    int r = sqlite3_exec(db, "pragma temp_store = memory", NULL, NULL, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        sqlite3_limit(db, limits[i].limit, limits[i].value);
    if (r == SQLITE_OK)
        r = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_set_authorizer(db, authorize, NULL);
    sqlite3_progress_handler(db, STEPS_PER_LOOK, is_too_late, g);
    return r;
}

int sql_open(struct sql_source source, bool (*is_over)(void *arg), void *is_over_arg, sqlite3 **ret)
{
    struct guard *g = calloc(1, sizeof(*g));
    sqlite3 *db = NULL;
    int r;

    if (!g) {
        if (source.free)
            source.free(source.arg);
        return -ENOMEM;
    }
    g->source = source;
    g->is_over = is_over;
    g->is_over_arg = is_over_arg;
    r = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL);
    if (r != SQLITE_OK) {
        guard_free(g);
        sqlite3_close(db);
        return r == SQLITE_NOMEM ? -ENOMEM : -EIO;
    }
    r = sql_register(db, (struct sql_source){
                             .open = open_guarded,
                             .list = source.list ? list_guarded : NULL,
                             .place = source.place ? place_guarded : NULL,
                             .is_over = is_over_guarded,
                             .free = guard_free,
                             .arg = g,
                         });
    if (r == SQLITE_OK)
        r = round_register(db);
    if (r == SQLITE_OK)
        r = restrict_connection(db, g);
    if (r != SQLITE_OK) {
        sqlite3_close(db);
        return r == SQLITE_NOMEM ? -ENOMEM : -EIO;
    }
    *ret = db;
    return 0;
}
