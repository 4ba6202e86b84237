/* SPDX-License-Identifier: Apache-2.0 */
/* What the sender decides without a connection: what it reads, how much at a time, and what an error means. */
#include "daemon/mirror/mirror_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "version.h"
#include <errno.h>
#include <stdlib.h>

/* -- Reading ------------------------------------------------------------------------------------------ */

struct mirror_batch {
    char *path;
    struct changes_request request;
    struct changes changes;
    struct problem p;
    int err;
    mirror_batch_fn done; /* NULL: cancelled */
    void *arg;
};

static void mirror_batch_work(void *arg)
{
    struct mirror_batch *b = arg;
    b->err = changes_read(&b->request, &b->changes, &b->p);
}

static void mirror_batch_done(void *arg)
{
    struct mirror_batch *b = arg;

    if (b->done)
        b->done(b->err, &b->changes, &b->p, b->arg);
    changes_done(&b->changes);
    problem_done(&b->p);
    free(b->path);
    free(b);
}

struct mirror_batch *mirror_batch_read(struct offload *offload, const char *catalog_path, int64_t after,
                                       int64_t rows_max, mirror_batch_fn done, void *arg)
{
    struct mirror_batch *b = xcalloc(1, sizeof(*b));

    b->path = xstrdup(catalog_path);
    b->request = (struct changes_request){.path = b->path,
                                          .after = after,
                                          .rows_max = rows_max,
                                          .bytes_max = MIRROR_BATCH_BYTES,
                                          .profd = PROFD_VERSION};
    b->done = done;
    b->arg = arg;
    offload_run(offload, mirror_batch_work, mirror_batch_done, b);
    return b;
}

void mirror_batch_cancel(struct mirror_batch *b)
{
    if (b)
        b->done = NULL;
}

/* -- Sizes -------------------------------------------------------------------------------------------- */

void mirror_window_init(struct mirror_window *w, int64_t rows_max)
{
    *w = (struct mirror_window){.rows = rows_max, .rows_max = rows_max};
}

void mirror_window_taken(struct mirror_window *w)
{
    w->rows = MIN(w->rows * 2, w->rows_max);
}

bool mirror_window_refused(struct mirror_window *w)
{
    if (w->rows == 1)
        return true;
    w->rows = MAX(w->rows / 2, INT64_C(1));
    return false;
}

/* -- Errors ------------------------------------------------------------------------------------------- */

/* SQLSTATE, or its class, or a part of the text. PostgreSQL 15, appendix A. */
static const struct {
    const char *state, *part, *remedy;
} error_remedies[] = {
    {"3F000", NULL, "Create the schema: profctl mirror init URL"},
    {"42883", NULL, "Create the schema: profctl mirror init URL; for an old one: profctl mirror migrate URL"},
    {"42P01", NULL, "The schema is incomplete: profctl mirror migrate URL"},
    {"42703", NULL, "The schema is older than this profd: profctl mirror migrate URL"},
    {"42501", NULL,
     "Connect as fleet_writer, or a role that has it: [mirror] url=postgresql://fleet_writer@HOST/DATABASE"},
    {"25006", NULL, "The server is a standby: name all servers in [mirror] url=, as host=a,b"},
    {"53100", NULL,
     "The disk of PostgreSQL is full: free space there, or delete old rows: profctl mirror expire URL"},
    {"53300", NULL,
     "Raise max_connections= of the server or the connection limit of the role, or put pgbouncer before it."},
    {NULL, "too many connections",
     "Raise max_connections= of the server or the connection limit of the role, or put pgbouncer before it."},
    {NULL, "too many clients",
     "Raise max_connections= of the server or the connection limit of the role, or put pgbouncer before it."},
    {NULL, "no password supplied",
     "Add a line to the file of [mirror] passfile=: HOST:PORT:DATABASE:USER:PASSWORD, mode 0600"},
    {NULL, "password authentication failed", "Correct the password in the file of [mirror] passfile=."},
    {NULL, "certificate", "Check sslrootcert= and sslmode= in [mirror] url=."},
    {NULL, "does not exist",
     "Check the user and the database in [mirror] url=, and run profctl mirror init URL once."},
    {NULL, "Connection refused", "Check the host and port in [mirror] url=, and that PostgreSQL runs there."},
    {NULL, "pg_hba.conf", "Allow this host in pg_hba.conf of the server."},
    {NULL, "keeps the log-in busy",
     "Check that the server in [mirror] url= is yours (sslmode=verify-full), then restart profd."},
    {NULL, "cannot resolve", "Check the host in [mirror] url=."},
};

const char *mirror_error_remedy(const char *state, const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(error_remedies); i++)
        if (error_remedies[i].state ? strcmp(state, error_remedies[i].state) == 0
                                    : strstr(text, error_remedies[i].part) != NULL)
            return error_remedies[i].remedy;
    return NULL;
}

/* Data exceptions, violated constraints, limits of a program such as the size of an index entry. */
bool mirror_error_is_of_row(const char *state)
{
    static const char *const classes[] = {"22", "23", "54"};

    for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
        if (strncmp(state, classes[i], strlen(classes[i])) == 0)
            return true;
    return false;
}

int mirror_parse_applied(const char *text, int64_t *ret)
{
    char *end;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < 0 || strspn(text, "0123456789") != strlen(text))
        return -EPROTO;
    *ret = n;
    return 0;
}
