/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peers/survey.h"

#include "base/alloc.h"
#include "base/clock.h"

/* Hellos and estimates that are this recent count as those of the moment. */
#define SURVEY_AGE_NS (2 * NS_PER_S)
#define CLOCK_AGE_NS  (30 * NS_PER_S)
/* For a table, fewer exchanges than for a start at one time. */
#define SURVEY_EXCHANGES 4
/* Clocks that are measured at a time. */
#define SURVEY_CLOCKS_MAX 64

struct survey_clock {
    struct peers_survey *survey;
    struct clock_measuring *measuring; /* NULL: over */
    char *uuid;
};

struct peers_survey {
    struct peers *peers;
    struct peers_refreshing *refreshing;
    struct survey_clock *clocks; /* of the peers that answered */
    size_t n_clocks, n_started, n_running;
    void (*done)(void *arg);
    void *arg;
};

static void survey_free(struct peers_survey *s)
{
    for (size_t i = 0; i < s->n_clocks; i++) {
        clock_measuring_cancel(s->clocks[i].measuring);
        free(s->clocks[i].uuid);
    }
    free(s->clocks);
    free(s);
}

static void survey_continue(struct peers_survey *s);

/* A failure leaves the peer without an estimate, which the table shows. */
static void survey_on_clock(const struct clock_estimate *e, const struct problem *p, void *arg)
{
    struct survey_clock *c = arg;

    c->measuring = NULL;
    c->survey->n_running--;
    survey_continue(c->survey);
}

static void survey_continue(struct peers_survey *s)
{
    while (s->n_started < s->n_clocks && s->n_running < SURVEY_CLOCKS_MAX) {
        struct survey_clock *c = &s->clocks[s->n_started++];
        const struct peer *peer = peers_find(s->peers, c->uuid);
        if (!peer)
            continue;
        s->n_running++;
        c->measuring = peer_measure_clock(s->peers, peer, SURVEY_EXCHANGES, survey_on_clock, c);
    }
    if (s->n_running > 0)
        return;
    s->done(s->arg);
    survey_free(s);
}

static bool peer_needs_clock(const struct peer *peer)
{
    const struct clock_estimate *e = &peer->clock;

    return peer->state == PEER_OK &&
           (e->measured_mono_ns == 0 || mono_ns() - e->measured_mono_ns > CLOCK_AGE_NS);
}

static void survey_on_refreshed(void *arg)
{
    struct peers_survey *s = arg;
    const struct peer *peer;
    size_t n = 0;

    s->refreshing = NULL;
    LIST_FOREACH(peer, peers_list(s->peers), link) {
        n += peer_needs_clock(peer);
    }
    s->clocks = xcalloc(MAX(n, (size_t)1), sizeof(*s->clocks));
    LIST_FOREACH(peer, peers_list(s->peers), link) {
        if (peer_needs_clock(peer) && s->n_clocks < n)
            s->clocks[s->n_clocks++] = (struct survey_clock){.survey = s, .uuid = xstrdup(peer->host_uuid)};
    }
    survey_continue(s);
}

struct peers_survey *peers_survey_start(struct peers *p, void (*done)(void *arg), void *arg)
{
    struct peers_survey *s = xcalloc(1, sizeof(*s));

    *s = (struct peers_survey){.peers = p, .done = done, .arg = arg};
    s->refreshing = peers_refresh(p, SURVEY_AGE_NS, survey_on_refreshed, s);
    return s;
}

void peers_survey_cancel(struct peers_survey *s)
{
    if (!s)
        return;
    peers_refresh_cancel(s->refreshing);
    survey_free(s);
}
