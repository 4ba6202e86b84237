/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of PostgreSQL: what libpq reads in them, and how they are shown without a password. Connects to nothing. */
#include "daemon/mirror/pq_internal.h"

#include "base/alloc.h"
#include "daemon/mirror/pq.h"
#include <errno.h>

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
