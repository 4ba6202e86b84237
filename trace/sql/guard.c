/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that can only read, and the function round() of SQLite 3.43 and trace_processor. It rounds the stored
 * number: 0.045, which is stored as a little less, becomes 0.04. Older versions of SQLite return 0.05.
 */
#include "base/util.h"
#include "trace/sql/query.h"
#include "trace/sql/traces.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <strings.h>

/* -- round() -------------------------------------------------------------------------------------------- */

/* Digits of a double before and after the point. */
#define WHOLE_DIGITS    310
#define FRACTION_DIGITS 1074
#define PLACES_MAX      30
/* Beyond this no double has a fraction. */
#define FRACTION_NONE 0x1p52

/* Adds one to the last digit of a number that begins with 0 and has a point in it. */
static void digits_increment(char *digits, size_t size)
{
    for (char *c = digits + size; c-- > digits;) {
        if (!isdigit((unsigned char)*c))
            continue;
        if (*c < '9') {
            ++*c;
            return;
        }
        *c = '0';
    }
}

/* Halves are rounded away from zero. */
static double round_places(double value, int places)
{
    /* The exact value, after a 0 for a carry. */
    char digits[WHOLE_DIGITS + FRACTION_DIGITS + 8];
    int n = snprintf(digits, sizeof(digits), "0%.*f", FRACTION_DIGITS, fabs(value));
    size_t end = (size_t)n - FRACTION_DIGITS + (size_t)places;
    bool up = digits[end] >= '5';

    digits[end] = '\0';
    if (up)
        digits_increment(digits, end);
    return copysign(strtod(digits, NULL), value);
}

static void round_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    int64_t places = argc == 2 ? sqlite3_value_int64(argv[1]) : 0;
    double value;

    if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
        (argc == 2 && sqlite3_value_type(argv[1]) == SQLITE_NULL))
        return;
    value = sqlite3_value_double(argv[0]);
    if (fabs(value) < FRACTION_NONE)
        value = round_places(value, (int)MAX(0, MIN(places, PLACES_MAX)));
    sqlite3_result_double(ctx, value);
}

/* Replaces the function of SQLite on this connection. An SQLite result code. */
static int round_register(sqlite3 *db)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int r = sqlite3_create_function_v2(db, "round", 1, flags, NULL, round_function, NULL, NULL, NULL);

    return r != SQLITE_OK
               ? r
               : sqlite3_create_function_v2(db, "round", 2, flags, NULL, round_function, NULL, NULL, NULL);
}

/* -- The connection ------------------------------------------------------------------------------------- */

/* Steps of SQLite between two checks whether the statement must end: some ten microseconds. */
#define GUARD_STEPS 1000

static const struct {
    int limit, value;
} guard_limits[] = {
    {SQLITE_LIMIT_LENGTH, 16 << 20},          {SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 4096}, {SQLITE_LIMIT_EXPR_DEPTH, 1000},
    {SQLITE_LIMIT_COMPOUND_SELECT, 500},      {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

/* They describe tables and change nothing. */
static const char *const harmless_pragmas[] = {
    "table_info",  "table_xinfo", "table_list",      "function_list",
    "module_list", "pragma_list", "compile_options",
};

/* They access files, addresses of this process, or the log. */
static const char *const harmful_functions[] = {
    "load_extension",
    "fts3_tokenizer",
    "sqlite_log",
};

static bool name_is_in(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static int guard_authorize(void *arg, int action, const char *first, const char *second, const char *database,
                           const char *trigger)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return name_is_in(second, harmful_functions, ARRAY_SIZE(harmful_functions)) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        return name_is_in(first, harmless_pragmas, ARRAY_SIZE(harmless_pragmas)) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_UPDATE:
        /* SQLite asks this at the first use of a virtual table. A defensive connection denies the update itself. */
        return strcmp(first, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static const int guard_settings[][2] = {
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
};

static int guard_restrict(sqlite3 *db)
{
    int r = sqlite3_exec(db, "pragma temp_store = memory", NULL, NULL, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(guard_limits); i++)
        sqlite3_limit(db, guard_limits[i].limit, guard_limits[i].value);
    for (size_t i = 0; i < ARRAY_SIZE(guard_settings) && r == SQLITE_OK; i++)
        r = sqlite3_db_config(db, guard_settings[i][0], guard_settings[i][1], NULL);
    return r == SQLITE_OK ? sqlite3_set_authorizer(db, guard_authorize, NULL) : r;
}

int sql_open(struct sql_source source, int (*is_over)(void *arg), void *is_over_arg, sqlite3 **ret)
{
    sqlite3 *db = NULL;
    int r = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL);

    source.is_over = is_over;
    source.is_over_arg = is_over_arg;
    if (r == SQLITE_OK)
        r = sql_register(db, source);
    else if (source.free)
        source.free(source.arg);
    if (r == SQLITE_OK)
        r = round_register(db);
    if (r == SQLITE_OK)
        r = guard_restrict(db);
    if (r != SQLITE_OK) {
        sqlite3_close(db);
        return r == SQLITE_NOMEM ? -ENOMEM : -EIO;
    }
    if (is_over)
        sqlite3_progress_handler(db, GUARD_STEPS, is_over, is_over_arg);
    *ret = db;
    return 0;
}
