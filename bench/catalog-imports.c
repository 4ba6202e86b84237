/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an import costs in the catalog: "catalog-imports DIRECTORY" adds traces, each with its event, in batches that are committed, and
 * prints the processor time of each in microseconds as one line of JSON: without the triggers that number changes; as it is; and with
 * a mirror that asks for numbers after each batch. The three take turns, because the speed of a machine changes within seconds.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/offload.h"
#include "daemon/catalog/catalog.h"
#include "daemon/catalog/changes.h"
#include "daemon/catalog/records.h"

#include <err.h>
#include <event2/event.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <time.h>

#define ROUNDS  21
#define IMPORTS 4000
/* Committed together, as where a session of eight ranks ends. */
#define BATCH 8

struct imports {
    const char *directory;
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    char *path;
    bool is_mirrored;
    int64_t n;
};

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void imports_open(struct imports *i, const char *name)
{
    struct problem p = {0};

    i->path = xasprintf("%s/%s.db", i->directory, name);
    if (catalog_open(i->path, i->base, i->offload, &i->catalog, &p) < 0)
        errx(EXIT_FAILURE, "%s", p.what);
}

static void imports_drop_triggers(struct imports *i)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    _cleanup_(freep) char *sql = xstrdup("");

    if (sqlite3_open(i->path, &db) != SQLITE_OK ||
        sqlite3_prepare_v2(db,
                           "select name from sqlite_schema where type = 'trigger' and name like 'change%'",
                           -1, &s, NULL) != SQLITE_OK)
        errx(EXIT_FAILURE, "%s", sqlite3_errmsg(db));
    while (sqlite3_step(s) == SQLITE_ROW)
        append_str(&sql, "drop trigger %s;", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        errx(EXIT_FAILURE, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void import_one(struct imports *i)
{
    char name[32], path[64], sha256[65];
    struct trace_record r;

    snprintf(name, sizeof(name), "rank%" PRId64 ".json.gz", i->n);
    snprintf(path, sizeof(path), "/store/2026/%" PRId64 "/rank%" PRId64 ".json.gz", i->n / BATCH, i->n);
    snprintf(sha256, sizeof(sha256), "%016" PRIx64 "%048d", (uint64_t)i->n * UINT64_C(0x9E3779B97F4A7C15), 0);
    trace_record_init(&r);
    r.name = name;
    r.path = r.origin = path;
    r.sha256 = sha256;
    r.stored = true;
    r.size = r.disk_size = 5000000;
    r.recorded_at = r.collected_at = wall_ns();
    if (catalog_add_trace(i->catalog, &r) < 0)
        errx(EXIT_FAILURE, "cannot add a trace");
    catalog_add_event(i->catalog, "trace-added", "uid 1000 (anna)", RECORD_NONE, RECORD_NONE, r.trace_id,
                      "%s: complete", name);
    i->n++;
}

/* Microseconds of the processor for each. */
static double imports_measure(struct imports *i)
{
    int64_t begun = cpu_ns();

    for (int n = 0; n < IMPORTS; n++) {
        import_one(i);
        if (n % BATCH < BATCH - 1)
            continue;
        if (catalog_commit(i->catalog, false) < 0 ||
            (i->is_mirrored && catalog_number_changes(i->catalog) < 0))
            errx(EXIT_FAILURE, "cannot write");
    }
    return (double)(cpu_ns() - begun) / IMPORTS / 1e3;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        errx(EXIT_FAILURE, "usage: catalog-imports DIRECTORY");
    struct event_base *base = event_base_new();
    struct offload *offload;
    if (offload_new(base, 1, &offload) < 0)
        errx(EXIT_FAILURE, "offload_new");
    struct {
        const char *name;
        struct imports imports;
        json_t *us;
    } ways[] = {{.name = "bare"}, {.name = "plain"}, {.name = "mirrored"}};
    json_t *line = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        ways[i].imports = (struct imports){.directory = argv[1],
                                           .base = base,
                                           .offload = offload,
                                           .is_mirrored = streq(ways[i].name, "mirrored")};
        imports_open(&ways[i].imports, ways[i].name);
        ways[i].us = json_array();
        json_object_set_new(line, ways[i].name, ways[i].us);
    }
    imports_drop_triggers(&ways[0].imports);
    for (int n = 0; n < ROUNDS; n++)
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
            json_array_append_new(ways[i].us, json_real(imports_measure(&ways[i].imports)));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(4));
    putchar('\n');
    json_decref(line);
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        catalog_close(ways[i].imports.catalog);
        free(ways[i].imports.path);
    }
    offload_free(offload);
    event_base_free(base);
    return EXIT_SUCCESS;
}
