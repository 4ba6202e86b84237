/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/mirror/content.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/mirror/pq.h"
#include "daemon/mirror/settings.h"
#include <errno.h>

#define CONTENT_TIMEOUT_NS (10 * NS_PER_S)
#define SQL_CONTENT        "select fleet.content_holder($1::uuid, $2)"

struct content_question {
    struct pq *pq;
    char *uuid, *sha256;
    void (*done)(const char *host, const struct problem *p, void *arg);
    void *arg;
};

void content_cancel(struct content_question *q)
{
    pq_free(q->pq);
    free(q->uuid);
    free(q->sha256);
    free(q);
}

static void content_end(struct content_question *q, const char *host, const char *error)
{
    void (*done)(const char *host, const struct problem *p, void *arg) = q->done;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *clean = text_clean(host ? host : error, false);
    void *arg = q->arg;

    content_cancel(q);
    if (!host) {
        problem_set(&p, -EIO, PROBLEM_UPSTREAM,
                    "cannot find out from the mirror whether another host has the content: %s", clean);
        problem_remedy(&p,
                       "profctl doctor reports the state of the mirror; profctl mirror migrate adds what its "
                       "schema lacks.");
    }
    done(host ? clean : NULL, host ? NULL : &p, arg);
}

static void content_on_connected(void *arg)
{
    struct content_question *q = arg;
    const char *const values[] = {q->uuid, q->sha256};

    pq_call(q->pq, SQL_CONTENT, ARRAY_SIZE(values), values, CONTENT_TIMEOUT_NS);
}

static void content_on_result(const char *value, const struct pq_failure *error, void *arg)
{
    content_end(arg, value, error ? error->text : "empty response");
}

static void content_on_failed(const struct pq_failure *f, void *arg)
{
    content_end(arg, NULL, f->text);
}

static const struct pq_ops content_ops = {content_on_connected, content_on_result, content_on_failed};

struct content_question *content_ask(struct pq_connector *connector, struct name_resolver *names,
                                     const struct mirror_settings *settings, const char *catalog_uuid,
                                     const char *sha256,
                                     void (*done)(const char *host, const struct problem *p, void *arg),
                                     void *arg)
{
    struct content_question *q = xcalloc(1, sizeof(*q));

    *q = (struct content_question){
        .uuid = xstrdup(catalog_uuid), .sha256 = xstrdup(sha256), .done = done, .arg = arg};
    if (pq_is_installed() && pq_connect(connector, names, settings->url, settings->passfile,
                                        CONTENT_TIMEOUT_NS, &content_ops, q, &q->pq) == 0)
        return q;
    content_cancel(q);
    return NULL;
}
