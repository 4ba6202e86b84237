/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of PostgreSQL: what libpq reads in them, and how they are shown without a password. Connects to nothing. */
#include "daemon/mirror/pq_internal.h"

#include "base/alloc.h"
#include "daemon/mirror/pq.h"
#include <errno.h>

/* Of the TCP connection: a server that is gone is noticed while nothing is sent. */
#define KEEPALIVES_IDLE_S "30"
#define USER_TIMEOUT_MS   "30000"

const char *pq_option(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o && o->keyword; o++)
        if (streq(o->keyword, keyword))
            return o->val && *o->val ? o->val : NULL;
    return NULL;
}

PQconninfoOption *pq_parse(const char *conninfo)
{
    char *error = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &error);

    /* It may quote the password. */
    PQfreemem(error);
    return options;
}

int pq_read_hosts(const PQconninfoOption *options, struct pq_host hosts[static PQ_HOSTS_MAX], size_t *ret_n,
                  const char **ret_reason)
{
    return pq_hosts_parse(pq_option(options, "host"), pq_option(options, "hostaddr"),
                          pq_option(options, "port"), hosts, ret_n, ret_reason);
}

int pq_check(const char *conninfo, struct problem *p)
{
    struct pq_host hosts[PQ_HOSTS_MAX];
    const char *reason = "it is neither postgresql://USER@HOST:PORT/DATABASE nor \"host=... dbname=...\"";
    size_t n;
    PQconninfoOption *options = pq_parse(conninfo);

    int r = options ? pq_read_hosts(options, hosts, &n, &reason) : -EINVAL;
    PQconninfoFree(options);
    return r < 0 ? problem_set(p, r, PROBLEM_BAD_REQUEST, "not an address of PostgreSQL: %s", reason) : 0;
}

char *pq_format(const char *conninfo)
{
    PQconninfoOption *options = pq_parse(conninfo);
    struct pq_host hosts[PQ_HOSTS_MAX];
    const char *reason, *user = pq_option(options, "user"), *database = pq_option(options, "dbname");
    size_t n = 0;
    char *text = xasprintf("postgresql://%s%s", user ? user : "", user ? "@" : "");

    int r = options ? pq_read_hosts(options, hosts, &n, &reason) : -EINVAL;
    for (size_t i = 0; i < n; i++)
        append_str(&text, "%s%s:%s", i > 0 ? "," : "", *hosts[i].name ? hosts[i].name : hosts[i].address,
                   hosts[i].port);
    append_str(&text, "/%s", database ? database : "");
    PQconninfoFree(options);
    if (r < 0) {
        free(text);
        return NULL;
    }
    return text;
}

bool pq_has_password(const char *conninfo)
{
    PQconninfoOption *options = pq_parse(conninfo);
    bool has = pq_option(options, "password") != NULL;

    PQconninfoFree(options);
    return has;
}

/* -- Connecting --------------------------------------------------------------------------------------- */

static void pq_put(struct pq_keywords *k, const char *keyword, const char *value)
{
    if (k->n == PQ_PARAMETERS_MAX || !value || !*value)
        return;
    k->keywords[k->n] = keyword;
    k->values[k->n++] = value;
}

/* What connecting does itself, or must not be left to libpq. */
static bool pq_is_own_keyword(const char *keyword)
{
    static const char *const own[] = {"host",       "hostaddr",        "port",    "connect_timeout",
                                      "gssencmode", "client_encoding", "passfile"};

    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (streq(own[i], keyword))
            return true;
    return false;
}

void pq_read_keywords(const PQconninfoOption *options, const struct pq_host *host, const char *address,
                      const char *passfile, struct pq_keywords *ret)
{
    *ret = (struct pq_keywords){0};
    pq_put(ret, "host", host->name);
    pq_put(ret, "hostaddr", address);
    pq_put(ret, "port", host->port);
    pq_put(ret, "gssencmode", "disable");
    pq_put(ret, "client_encoding", "UTF8");
    pq_put(ret, "passfile", passfile ? passfile : pq_option(options, "passfile"));
    pq_put(ret, "fallback_application_name", "profd");
    if (!pq_option(options, "target_session_attrs"))
        pq_put(ret, "target_session_attrs", "read-write");
    if (!pq_option(options, "keepalives_idle"))
        pq_put(ret, "keepalives_idle", KEEPALIVES_IDLE_S);
    if (!pq_option(options, "tcp_user_timeout"))
        pq_put(ret, "tcp_user_timeout", USER_TIMEOUT_MS);
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (!pq_is_own_keyword(o->keyword))
            pq_put(ret, o->keyword, o->val);
}
