/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to the worker of one target: their paths, credentials and bounds, what an unanswered one means, and
 * the recording that is requested of it.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/process_ranks.h"
#include "daemon/session/internal.h"
#include <errno.h>

#define REFUSAL_TEXT_MAX 600

static const struct call_credentials *target_credentials(const struct target *t)
{
    const struct call_credentials *c =
        settings_credentials(t->session->all->fleet_settings, t->session->record.fleet, t->worker.url);
    return c && call_credentials_any(c) ? c : &t->credentials;
}

void target_keep_credentials(struct target *t)
{
    struct call_credentials kept;

    call_credentials_copy(target_credentials(t), &kept);
    call_credentials_done(&t->credentials);
    t->credentials = kept;
}

const struct target_transport *target_transport(const struct target *t)
{
    static const struct target_transport http = {.start = target_send_start, .stop = target_send_stop};
    if (target_is_remote(t))
        return &transport_peer;
    if (worker_is_watched(&t->worker))
        return &transport_watched;
    return target_is_on_demand(t) ? &transport_kineto : &http;
}

const struct answer_recorder *target_recorder(const struct target *t)
{
    for (const struct answer_recorder *const *r = extra_recorders; *r; r++)
        if ((*r)->engine == t->worker.engine)
            return *r;
    return NULL;
}

/* Of a start or a stop, only its status and the text of an error are needed. The answer to a recorded request
 * is read completely, because closing the connection may cancel the request. */
static size_t target_answer_max(const struct target *t)
{
    const struct answer_recorder *recorder = target_recorder(t);

    if (recorder)
        return recorder->answer_max;
    return t->session->request.recording.prompt ? CALL_ANSWER_MAX_DEFAULT : ANSWER_EXCERPT_MAX;
}

struct call *target_call(struct target *t, const char *path, json_t *body, int64_t timeout_ns,
                         void (*done)(const struct call_result *result, void *arg))
{
    struct sessions *all = t->session->all;
    _cleanup_(freep) char *url = xasprintf("%s%s", t->worker.url, path);
    _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const struct engine_ops *engine = target_engine(t);
    struct call_request request = {
        .method = engine_method(engine),
        .url = url,
        .body = text,
        .credentials = target_credentials(t),
        .admin = true,
        .connect_timeout_ns = all->settings->connect_timeout_ns,
        .deadline_ns = mono_ns() + timeout_ns,
        .answer_max = target_answer_max(t),
        .account = (uint64_t)t->session->record.session_id,
    };
    return call_start(all->caller, &request, done, t);
}

static const char *target_path(const struct target *t, const char *path, const char *older)
{
    return t->older_paths && older ? older : path;
}

const char *target_start_path(const struct target *t)
{
    const struct engine_ops *ops = target_engine(t);

    if (t->session->request.recording.prompt && ops->request_path)
        return ops->request_path;
    return target_path(t, ops->start_path, ops->older_start_path);
}

const char *target_stop_path(const struct target *t)
{
    return target_path(t, target_engine(t)->stop_path, target_engine(t)->older_stop_path);
}

bool target_goes_older(struct target *t, const struct call_result *r)
{
    if (r->err < 0 || r->status != 404 || t->older_paths || !target_engine(t)->older_start_path)
        return false;
    t->older_paths = true;
    return true;
}

bool target_drops_newer_keys(struct target *t, const struct call_result *r)
{
    if (r->err < 0 || t->older_keys || !engine_refuses_newer_keys(target_engine(t), r->status, r->body))
        return false;
    t->older_keys = true;
    return true;
}

char *target_refusal(const struct target *t, const struct call_result *r)
{
    const struct engine_ops *ops = target_engine(t);
    char text[REFUSAL_TEXT_MAX];

    if (r->err != 0 || r->status / 100 != 2 || !ops->refusal)
        return NULL;
    /* What worked has a short answer. */
    char *refusal = r->cut ? xstrdup(r->body) : ops->refusal(r->body);
    if (refusal)
        replace_str(&refusal, excerpt(refusal, strlen(refusal), text, sizeof(text)));
    return refusal;
}

bool target_ends_by_itself(const struct target *t)
{
    return t->session->request.recording.steps > 0 || !target_engine(t)->stop_path;
}

struct recording target_recording(const struct target *t)
{
    struct recording recording = job_request_recording(&t->session->request, t->worker.role);
    if (t->start_step > 0)
        recording.start_step = t->start_step;
    else if (t->steps_before_load >= 0)
        recording.start_step = MAX(recording.start_step, (int64_t)1) + (int64_t)t->steps_before_load;
    recording.profile_id = t->record.profile_id;
    recording.output_dir = t->record.output_dir;
    return recording;
}

/* -- Calls that were not answered -- */

static const struct {
    int err;
    const char *remedy;
} hints[] = {
    {-ECONNREFUSED, "Nothing listens there any more: see the server's log for why it ended."},
    {-ECONNRESET, "See the server's log for why it closed the connection."},
    {-EHOSTUNREACH, "Is its host up, and can it be reached from here?"},
    {-ENETUNREACH, "Is its host up, and can it be reached from here?"},
    {-ENOBUFS, "Record fewer workers at a time, or raise [limits] answers= in profd.conf."},
    {-EACCES, "Correct that key in profd.conf."},
};

char *unanswered_remedy(const struct call_result *r, const char *timeout_key)
{
    if (r->remedy)
        return xstrdup(r->remedy);
    if (r->err == -ETIMEDOUT && r->sent_at_ns == 0)
        return xstrdup("Is its host up, and can it be reached from here?");
    if (r->err == -ETIMEDOUT)
        return xasprintf(
            "It may still be writing a trace: wait for it, or raise [timeouts] %s= in profd.conf.",
            timeout_key);
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (hints[i].err == r->err)
            return xstrdup(hints[i].remedy);
    return xstrdup("See the server's log for details.");
}
