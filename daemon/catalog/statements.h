/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every statement that the loop's connection runs, by name. They are prepared once, when the catalog is
 * opened, which also proves that the file has the tables it should have. The texts stand in statements.c.
 */
#pragma once

#include <sqlite3.h>

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK,
    STATEMENT_PROBE,

    STATEMENT_SAW_ROUTER,
    STATEMENT_SAW_WORKER,
    STATEMENT_KNOW_WORKER,
    STATEMENT_LAST_ROUTER,
    STATEMENT_ROUTERS,

    STATEMENT_ADD_SESSION,
    STATEMENT_SAVE_SESSION,
    STATEMENT_GET_SESSION,
    STATEMENT_PIN_SESSION,
    STATEMENT_REMOVE_SESSION,
    STATEMENT_SESSIONS,
    STATEMENT_SESSIONS_IN_STATE,
    STATEMENT_SESSIONS_ACTIVE,

    STATEMENT_ADD_TARGET,
    STATEMENT_SAVE_TARGET,
    STATEMENT_TARGETS,
    STATEMENT_COUNT_TARGETS,
    STATEMENT_COUNT_TRACES,
    STATEMENT_TARGET_TRACES,

    STATEMENT_ADD_TRACE,
    STATEMENT_SAVE_TRACE,
    STATEMENT_GET_TRACE,
    STATEMENT_TRACE_OF_PATH,
    STATEMENT_TRACE_OF_ORIGIN,
    STATEMENT_PIN_TRACE,
    STATEMENT_REMOVE_TRACE,
    /* Pages of a listing, by which filters are set. */
    STATEMENT_TRACES,
    STATEMENT_TRACES_OF_WORKER,
    STATEMENT_TRACES_OF_SESSION,
    STATEMENT_TRACES_OF_SESSION_WORKER,
    STATEMENT_TRACES_UNCLAIMED,
    STATEMENT_TRACES_UNCLAIMED_OF_WORKER,
    STATEMENT_EVICTABLE,
    STATEMENT_TWIN,
    STATEMENT_USAGE,

    STATEMENT_ADD_EVENT,
    STATEMENT_EVENTS_AFTER,
    STATEMENT_EVENTS_NEWEST,
    STATEMENT_SESSION_EVENTS_AFTER,
    STATEMENT_SESSION_EVENTS_NEWEST,
    _STATEMENT_MAX,
};

const char *statement_text(enum statement s);
/* Prepares all into statements (of _STATEMENT_MAX); an SQLite result code. Whatever was prepared is there to
 * be finalized. */
int statements_prepare(sqlite3 *db, sqlite3_stmt **statements);
void statements_finalize(sqlite3_stmt **statements);
