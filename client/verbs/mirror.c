/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mirror: the schema and the roles of the catalogs' mirror in PostgreSQL, how far each host is, and removing what is old. Talks to
 * PostgreSQL itself, with the rights of the address; only the mirror's state of one profd is asked of that one.
 */
#include "proto/mirror.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/transport/postgres.h"
#include "client/verbs/verbs.h"
#include "client/views/json_table.h"
#include "client/views/listing.h"
#include "mirror_schema.h"
#include <errno.h>
#include <inttypes.h>

/* Entry i leads from version i to i + 1; 0 is no schema. proto/mirror.sql completes what they do. */
static const struct mirror_upgrade {
    const char *sql;
    bool adds_columns; /* which are filled by sending everything again */
} mirror_upgrades[MIRROR_SCHEMA_VERSION] = {
    /* Lists that the views cannot read. */
    [1] = {.sql = "update fleet.trace set defects = null where jsonb_typeof(defects) <> 'array';"
                  "update fleet.trace_sum set categories = null where jsonb_typeof(categories) <> 'array';"
                  "update fleet.trace_sum set steps = null where jsonb_typeof(steps) <> 'array';"
                  "update fleet.trace_sum set findings = null where jsonb_typeof(findings) <> 'array';"},
};

#define ROLE_OWNER  "fleet_owner"
#define ROLE_WRITER "fleet_writer"
#define ROLE_READER "fleet_reader"

struct mirror_options {
    int64_t older_than;
    bool yes;
};

#define AT(member) offsetof(struct mirror_options, member)

/* clang-format off */
static const struct option_def mirror_options[] = {
    {"older-than", 0, "DURATION", OPTION_DURATION, AT(older_than), "For expire: delete what is older: 90d, 8760h"},
    {"yes", 'y', NULL, OPTION_FLAG, AT(yes), "Do not ask for confirmation"},
};
/* clang-format on */

/* -- The address -------------------------------------------------------------------------------------- */

static int mirror_get_state(struct client *c, json_t **ret)
{
    return client_get(c, "/v1/mirror", NULL, ret);
}

int mirror_find_reader(struct client *c, const char *given, char **ret)
{
    _cleanup_json_ state = NULL;

    if (given && *given) {
        *ret = xstrdup(given);
        return EXIT_DONE;
    }
    int status = mirror_get_state(c, &state);
    const char *reader = json_get_str(state, "reader");
    if (status != EXIT_DONE)
        return status;
    if (!reader)
        return client_error(c, PROBLEM_NOT_FOUND,
                            "Name it, as --mirror=postgresql://" ROLE_READER
                            "@HOST/DATABASE, or set [mirror] reader= in profd.conf.",
                            "profd names no address for readers of the mirror");
    *ret = xstrdup(reader);
    return EXIT_DONE;
}

static int mirror_open(struct client *c, const char *address, struct postgres **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    return postgres_open(address, ret, &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

/* -- init and migrate --------------------------------------------------------------------------------- */

/* Roles of the server, which other databases may have made already. */
static const char sql_roles[] =
    "select pg_advisory_xact_lock(hashtext('profd mirror'));"
    "do $$ declare r text; begin "
    "foreach r in array array['" ROLE_OWNER "', '" ROLE_WRITER "', '" ROLE_READER "'] loop "
    "if not exists (select from pg_roles where rolname = r) then execute format('create role %I login', r); "
    "execute format('alter role %I set search_path = fleet', r); end if; end loop; "
    /* A profd that gave up waiting has closed its connection: its statement ends too, and holds no lock. */
    "alter role " ROLE_WRITER " set client_connection_check_interval = '5s'; "
    "if not pg_has_role(current_user, '" ROLE_OWNER "', 'member') then "
    "execute format('grant " ROLE_OWNER " to %I', current_user); end if; "
    "if not exists (select from pg_namespace where nspname = 'fleet') then "
    "create schema fleet authorization " ROLE_OWNER "; end if; end $$;";

/* 0: there is no schema. */
static int mirror_read_version(struct client *c, struct postgres *pg, int64_t *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ has = NULL;
    _cleanup_json_ row = NULL;

    *ret = 0;
    int r =
        postgres_read(pg, "select (to_regclass('fleet.version') is not null)::int as has", 0, NULL, &has, &p);
    if (r >= 0 && streq(json_get_str(has, "has"), "1"))
        r = postgres_read(pg, "select version from fleet.version", 0, NULL, &row, &p);
    if (r < 0 && r != -ENODATA)
        return client_fail(c, &p);
    if (row)
        *ret = strtoll(json_get_str(row, "version"), NULL, 10);
    if (*ret <= MIRROR_SCHEMA_VERSION)
        return EXIT_DONE;
    return client_error(c, PROBLEM_UNSUPPORTED, "Use a newer profctl.",
                        "the mirror has schema version %" PRId64 ", and this profctl knows %d", *ret,
                        MIRROR_SCHEMA_VERSION);
}

static void append_version(char **sql, int64_t from)
{
    append_str(sql,
               "insert into fleet.version (version) values (%d) on conflict (one) do update set version = "
               "excluded.version;",
               MIRROR_SCHEMA_VERSION);
    for (int64_t i = from; i > 0 && i < MIRROR_SCHEMA_VERSION; i++)
        if (mirror_upgrades[i].adds_columns)
            append_str(sql, "update fleet.catalog set applied = 0;");
}

static int mirror_apply_schema(struct client *c, struct postgres *pg, int64_t from)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *sql = xstrdup("begin;");

    if (from == 0)
        append_str(&sql, "%s", sql_roles);
    append_str(&sql, "set local role " ROLE_OWNER
                     "; set local client_min_messages = warning; set local lock_timeout = '30s';");
    for (int64_t i = from; i > 0 && i < MIRROR_SCHEMA_VERSION; i++)
        append_str(&sql, "%s", mirror_upgrades[i].sql);
    append_str(&sql, "%s", mirror_schema);
    append_version(&sql, from);
    append_str(&sql, "commit;");
    return postgres_run(pg, sql, &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int mirror_report_schema(struct client *c, int64_t from)
{
    if (c->json) {
        json_t *answer = json_object();
        json_put_str(answer, "schema", "fleet");
        json_put_int(answer, "version", MIRROR_SCHEMA_VERSION);
        if (from > 0)
            json_put_int(answer, "migrated_from", from);
        int status = client_print_json(c, answer);
        json_decref(answer);
        return status;
    }
    if (from > 0) {
        fprintf(c->out.file, "schema fleet has version %d\n", MIRROR_SCHEMA_VERSION);
        return EXIT_DONE;
    }
    fprintf(c->out.file,
            "created schema fleet, version %d, with roles " ROLE_OWNER ", " ROLE_WRITER " and " ROLE_READER
            "\n",
            MIRROR_SCHEMA_VERSION);
    client_note(c, "Set passwords with psql: \\password " ROLE_WRITER ", \\password " ROLE_READER);
    client_note(c,
                "Then on each host: [mirror] url=postgresql://" ROLE_WRITER "@HOST/DATABASE passfile=FILE");
    return EXIT_DONE;
}

static int mirror_init(struct client *c, const struct mirror_options *o, const char *address)
{
    _cleanup_(postgres_closep) struct postgres *pg = NULL;
    int64_t version = 0;
    int status = mirror_open(c, address, &pg);

    if (status == EXIT_DONE)
        status = mirror_read_version(c, pg, &version);
    if (status == EXIT_DONE)
        status = mirror_apply_schema(c, pg, version);
    return status == EXIT_DONE ? mirror_report_schema(c, version) : status;
}

static int mirror_migrate(struct client *c, const struct mirror_options *o, const char *address)
{
    _cleanup_(postgres_closep) struct postgres *pg = NULL;
    int64_t version = 0;
    int status = mirror_open(c, address, &pg);

    if (status == EXIT_DONE)
        status = mirror_read_version(c, pg, &version);
    if (status == EXIT_DONE && version == 0)
        return client_error(c, PROBLEM_NOT_FOUND, "profctl mirror init URL creates it.",
                            "the database has no schema fleet");
    if (status == EXIT_DONE)
        status = mirror_apply_schema(c, pg, version);
    return status == EXIT_DONE ? mirror_report_schema(c, version) : status;
}

/* -- status ------------------------------------------------------------------------------------------- */

/* Times as nanoseconds, as everywhere else. */
static const char sql_catalogs[] = "select host, catalog, profd, applied, lag, rows, (extract(epoch from "
                                   "changed_at) * 1000000000)::bigint as changed_at, "
                                   "(extract(epoch from seen_at) * 1000000000)::bigint as seen_at, "
                                   "replaced_by from fleet.catalogs order by host, first_seen_at";

/* A profd that has nothing to send does not connect; a day without any event is unusual all the same. */
#define NAMED_HOSTS_MAX 8
#define SILENT_NS       (24 * 3600 * NS_PER_S)

static const char *catalog_state(const json_t *catalog)
{
    if (json_get_str(catalog, "replaced_by"))
        return "replaced";
    if (json_get_int(catalog, "seen_at", 0) < wall_ns() - SILENT_NS)
        return "silent";
    return json_get_int(catalog, "lag", 0) > 0 ? "behind" : "current";
}

/* Since the last change that the mirror has. */
static char *catalog_behind_text(const json_t *catalog)
{
    char text[UNIT_TEXT_MAX];
    int64_t changed_at = json_get_int(catalog, "changed_at", 0);

    if (json_get_int(catalog, "lag", 0) <= 0 || changed_at == 0)
        return xstrdup("-");
    return xstrdup(format_duration(text, MAX(wall_ns() - changed_at, INT64_C(0))));
}

static const struct json_column catalog_columns[] = {
    {{"HOST", 0, IMPORTANCE_KEY}, JSON_CELL_TEXT, "host"},
    {{"STATE", 0, IMPORTANCE_HIGH}, JSON_CELL_TEXT, "state"},
    {{"LAG", COLUMN_RIGHT, IMPORTANCE_HIGH}, JSON_CELL_COUNT, "lag"},
    {{"BEHIND", COLUMN_RIGHT, IMPORTANCE_HIGH}, .text = catalog_behind_text},
    {{"APPLIED", COLUMN_RIGHT, IMPORTANCE_LOW}, JSON_CELL_COUNT, "applied"},
    {{"ROWS", COLUMN_RIGHT}, JSON_CELL_COUNT, "rows"},
    {{"SEEN", 0, IMPORTANCE_HIGH, "seen_at"}, JSON_CELL_TIME, "seen_at"},
    {{"PROFD", 0, IMPORTANCE_LOW}, JSON_CELL_TEXT, "profd"},
    {{"CATALOG", 0, IMPORTANCE_LOW}, JSON_CELL_TEXT, "catalog"},
};

/* What to do about hosts in a state. */
static const struct {
    const char *state, *text;
} catalog_notes[] = {
    {"silent", "sent nothing for more than 24 hours. On each of them: profctl mirror status, profctl doctor"},
    {"behind", "still sending. If the lag does not fall, on each of them: profctl mirror status"},
    {"replaced", "replaced by a restored catalog. To delete the old rows: profctl mirror expire URL "
                 "--older-than DURATION"},
};

static void mirror_note_states(struct client *c, const json_t *catalogs)
{
    size_t i;
    json_t *one;

    for (size_t k = 0; k < ARRAY_SIZE(catalog_notes); k++) {
        _cleanup_(freep) char *hosts = xstrdup("");
        size_t n = 0;
        json_array_foreach((json_t *)catalogs, i, one)
            if (streq(json_get_str(one, "state"), catalog_notes[k].state) && n++ < NAMED_HOSTS_MAX)
                append_str(&hosts, "%s%s", n > 1 ? ", " : "", json_get_str(one, "host"));
        if (n > NAMED_HOSTS_MAX)
            append_str(&hosts, " and %zu more", n - NAMED_HOSTS_MAX);
        if (n > 0)
            client_note(c, "%s: %s", hosts, catalog_notes[k].text);
    }
}

/* The server's texts of integers as integers. */
static void catalog_take_numbers(json_t *catalog)
{
    static const char *const numbers[] = {"applied", "lag", "rows", "changed_at", "seen_at"};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const char *text = json_get_str(catalog, numbers[i]);
        if (text)
            json_object_set_new(catalog, numbers[i], json_integer(strtoll(text, NULL, 10)));
    }
}

/* A reader may not look into fleet.version; the first version had no function that names it. */
static int64_t mirror_read_known_version(struct postgres *pg)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ has = NULL;
    _cleanup_json_ row = NULL;

    if (postgres_read(pg, "select (to_regprocedure('fleet.schema_version()') is not null)::int as has", 0,
                      NULL, &has, &p) < 0 ||
        !streq(json_get_str(has, "has"), "1"))
        return 1;
    if (postgres_read(pg, "select fleet.schema_version() as version", 0, NULL, &row, &p) < 0)
        return 1;
    /* It is null while a migration has made no version yet. */
    const char *version = json_get_str(row, "version");
    return version ? strtoll(version, NULL, 10) : 1;
}

static void mirror_note_version(struct client *c, int64_t version)
{
    client_note(c, "The schema of the mirror has version %" PRId64 ", and this profctl knows %d.", version,
                MIRROR_SCHEMA_VERSION);
    client_note(c, "%s",
                version < MIRROR_SCHEMA_VERSION ? MIRROR_OLD_REMEDY
                                                : "Upgrade profctl and the profds of the hosts.");
}

static int mirror_list_catalogs(struct client *c, const char *address)
{
    _cleanup_(postgres_closep) struct postgres *pg = NULL;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ catalogs = NULL;
    size_t i;
    json_t *one;
    int status = json_table_new(c, catalog_columns, ARRAY_SIZE(catalog_columns), &table);

    if (status == EXIT_DONE)
        status = mirror_open(c, address, &pg);
    if (status != EXIT_DONE)
        return status;
    if (postgres_read_all(pg, sql_catalogs, &catalogs, &p) < 0)
        return client_fail(c, &p);
    json_array_foreach(catalogs, i, one) {
        catalog_take_numbers(one);
        json_put_str(one, "state", catalog_state(one));
        json_table_add(table, catalog_columns, one);
    }
    if (c->json)
        return client_print_json(c, catalogs);
    listing_print(c, table);
    mirror_note_states(c, catalogs);
    int64_t version = mirror_read_known_version(pg);
    if (version != MIRROR_SCHEMA_VERSION)
        mirror_note_version(c, version);
    return EXIT_DONE;
}

static void mirror_print_state(struct client *c, const json_t *state)
{
    const char *error = json_get_str(state, "error"), *remedy = json_get_str(state, "remedy"),
               *url = json_get_str(state, "url");
    int64_t lag = json_get_int(state, "lag", 0), lag_ns = json_get_int(state, "lag_ns", 0);
    char long_age[UNIT_TEXT_MAX];
    _cleanup_(freep) char *changes = text_count(lag, "change");
    _cleanup_(freep) char *age = lag_ns < 60 * NS_PER_S
                                     ? xasprintf("%" PRId64 "s", (lag_ns + NS_PER_S / 2) / NS_PER_S)
                                     : xstrdup(format_duration(long_age, lag_ns));

    fprintf(c->out.file, "%s: %s", url ? url : "mirror", json_get_str(state, "state"));
    if (lag > 0)
        /* The mirror looks at the age once a second. */
        fprintf(c->out.file, ", %s to send, the oldest about %s old", changes, age);
    fprintf(c->out.file, "\n");
    if (error)
        fprintf(c->out.file, "  %s\n", error);
    if (remedy)
        fprintf(c->out.file, "  %s\n", remedy);
    int64_t version = json_get_int(state, "schema_version", 0),
            known = json_get_int(state, "schema_known", 0);
    if (version != known) {
        fprintf(c->out.file,
                "  The schema of the mirror has version %" PRId64 ", and this profd knows %" PRId64 ".\n",
                version, known);
        fprintf(c->out.file, "  %s\n", version < known ? MIRROR_OLD_REMEDY : MIRROR_NEW_REMEDY);
    }
}

static int mirror_status(struct client *c, const struct mirror_options *o, const char *address)
{
    _cleanup_json_ state = NULL;

    if (address)
        return mirror_list_catalogs(c, address);
    int status = mirror_get_state(c, &state);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, state);
    mirror_print_state(c, state);
    return EXIT_DONE;
}

/* -- expire ------------------------------------------------------------------------------------------- */

static int mirror_expire(struct client *c, const struct mirror_options *o, const char *address)
{
    _cleanup_(postgres_closep) struct postgres *pg = NULL;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ row = NULL;
    char before[32], time[UNIT_TEXT_MAX];
    const char *const values[] = {before};

    if (o->older_than == OPTION_ABSENT)
        return client_refuse(c, "profctl mirror expire URL --older-than 365d", "expire needs --older-than");
    int64_t before_ns = wall_ns() - o->older_than;
    snprintf(before, sizeof(before), "%" PRId64, before_ns / NS_PER_S);
    int status = mirror_open(c, address, &pg);
    if (status != EXIT_DONE)
        return status;
    if (!o->yes && client_can_ask(c) &&
        !client_confirm(
            c, "Delete what was collected, requested or logged before %s from the mirror of all hosts?",
            format_time(time, before_ns)))
        return EXIT_DONE;
    if (postgres_read(pg, "select * from fleet.expire(to_timestamp($1::bigint))", 1, values, &row, &p) < 0)
        return client_fail(c, &p);
    int64_t rows = strtoll(json_get_str(row, "rows"), NULL, 10);
    if (c->json) {
        json_t *answer = json_object();
        json_put_int(answer, "rows", rows);
        json_put_int(answer, "partitions", strtoll(json_get_str(row, "partitions"), NULL, 10));
        status = client_print_json(c, answer);
        json_decref(answer);
        return status;
    }
    _cleanup_(freep) char *text = text_count(rows, "row");
    fprintf(c->out.file, "deleted %s and %s partitions\n", text, json_get_str(row, "partitions"));
    return EXIT_DONE;
}

/* ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(struct client *c, const struct mirror_options *o, const char *address);
    bool needs_address;
} mirror_commands[] = {
    {"init", mirror_init, true},
    {"migrate", mirror_migrate, true},
    {"status", mirror_status, false},
    {"expire", mirror_expire, true},
};

static int mirror_run(struct client *c, const void *values, int n_words, char **words)
{
    const char *command = n_words > 0 ? words[0] : "status", *address = n_words > 1 ? words[1] : NULL;

    for (size_t i = 0; i < ARRAY_SIZE(mirror_commands); i++) {
        if (!streq(mirror_commands[i].name, command))
            continue;
        if (!address && mirror_commands[i].needs_address)
            return client_refuse(c,
                                 "An address is postgresql://USER@HOST:PORT/DATABASE; the password is read "
                                 "from PGPASSWORD or ~/.pgpass.",
                                 "mirror %s needs the address of PostgreSQL", command);
        return mirror_commands[i].run(c, values, address);
    }
    return client_refuse(c, "profctl mirror --help", "unknown command: mirror %s", command);
}

const struct verb verb_mirror = {
    .name = "mirror",
    .summary = "Set up, check and expire the PostgreSQL mirror",
    .details = "init creates the schema and the roles, migrate upgrades the schema, expire deletes old rows. "
               "status shows how "
               "far this profd is; with URL, every host of the mirror. URL is "
               "postgresql://USER@HOST:PORT/DATABASE; passwords "
               "are read from PGPASSWORD or ~/.pgpass.",
    .words = "init|migrate|status|expire [URL]",
    .has_listing = true,
    .max_words = 2,
    VERB_OPTIONS(mirror_options, struct mirror_options),
    .run = mirror_run,
};
