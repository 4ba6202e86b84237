/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/archive/archive_loop.h"

#include "archive/archive_internal.h"
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/fleet/curl_loop.h"
#include "daemon/fleet/curl_names.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <sys/queue.h>

#define NAME_PATIENCE_NS (10 * NS_PER_S)

/* Texts of a request. */
#define JOB_TEXTS 4

struct archive_job {
    TAILQ_ENTRY(archive_job) link;
    struct archive_loop *loop;
    struct archive_request q; /* all that it points to is the job's own, and so is its descriptor */
    struct archive_part *parts;
    char *texts[JOB_TEXTS];
    struct archive_result result;
    void (*done)(struct archive_result *result, void *arg);
    void *arg;
    struct s3_call *call; /* NULL: a directory's */
    struct event timer;   /* the wait before an attempt, and the end in a later iteration */
    struct name_query *query;
    struct curl_slist *addresses;
    bool is_started, is_over, in_multi;
    bool is_offloaded; /* a thread works on it */
    bool is_canceled;  /* meanwhile: it is freed when the thread is done */
};
TAILQ_HEAD(archive_jobs, archive_job);

struct archive_loop {
    struct event_base *base;
    struct offload *offload;
    struct archive *archive;
    struct name_resolver *names;
    struct curl_loop *curl; /* NULL: not needed since it broke */
    struct archive_jobs jobs;
    unsigned n_started, max;
    uint64_t origin, queue;
};

static void archive_job_attempt(struct archive_job *job);
static void archive_loop_go_on(struct archive_loop *l);

/* -- The end of a job --------------------------------------------------------------------------------- */

static void archive_job_leave_curl(struct archive_job *job)
{
    if (job->in_multi)
        curl_loop_remove(job->loop->curl, s3_call_handle(job->call));
    job->in_multi = false;
}

/* A thread may still work on a request that its caller has given up. A descriptor that cannot be duplicated is an error of
 * the request, -EBADF. */
static void archive_job_take_request(struct archive_job *job, const struct archive_request *q)
{
    const char **const texts[JOB_TEXTS] = {&job->q.key, &job->q.sha256, &job->q.upload_id, &job->q.after};
    bool has_file = q->verb == ARCHIVE_PUT || q->verb == ARCHIVE_GET || q->verb == ARCHIVE_UPLOAD_PART;

    job->q = *q;
    for (size_t i = 0; i < JOB_TEXTS; i++) {
        job->texts[i] = xstrdup(*texts[i]);
        *texts[i] = job->texts[i];
    }
    job->q.fd = has_file ? fcntl(q->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (q->n_parts > 0) {
        job->parts = xcalloc(q->n_parts, sizeof(*job->parts));
        memcpy(job->parts, q->parts, q->n_parts * sizeof(*job->parts));
        job->q.parts = job->parts;
    }
}

static void archive_job_free(struct archive_job *job)
{
    for (size_t i = 0; i < JOB_TEXTS; i++)
        free(job->texts[i]);
    free(job->parts);
    closep(&job->q.fd);
    archive_job_leave_curl(job);
    name_query_free(job->query);
    event_del(&job->timer);
    s3_call_free(job->call);
    curl_slist_free_all(job->addresses);
    archive_result_done(&job->result);
    free(job);
}

static void archive_job_remove(struct archive_job *job)
{
    struct archive_loop *l = job->loop;

    TAILQ_REMOVE(&l->jobs, job, link);
    if (job->is_started)
        l->n_started--;
    archive_job_free(job);
    archive_loop_go_on(l);
}

static void archive_job_end(struct archive_job *job)
{
    archive_job_leave_curl(job);
    job->done(&job->result, job->arg);
    archive_job_remove(job);
}

static void archive_job_wait(struct archive_job *job, int64_t wait_ns)
{
    struct timeval tv = timeval_of(MAX(wait_ns, INT64_C(0)));

    event_add(&job->timer, &tv);
}

/* The result is there; done() is called in a later iteration, where no callback of libcurl's is running. */
static void archive_job_finish(struct archive_job *job)
{
    job->is_over = true;
    archive_job_wait(job, 0);
}

static void archive_job_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct archive_job *job = arg;

    if (job->is_over)
        archive_job_end(job);
    else
        archive_job_attempt(job);
}

static void archive_job_step(struct archive_job *job, enum s3_step step, int64_t wait_ns)
{
    archive_job_leave_curl(job);
    if (step == S3_STEP_DONE)
        archive_job_finish(job);
    else
        archive_job_wait(job, wait_ns);
}

/* -- Attempts ----------------------------------------------------------------------------------------- */

static void archive_job_on_ended(void *private, CURLcode code)
{
    struct archive_job *job = private;
    int64_t wait_ns;
    enum s3_step step = s3_call_ended(job->call, code, &wait_ns);

    archive_job_step(job, step, wait_ns);
}

/* libcurl no longer knows the state of its transfers: each has an attempt that failed. */
static void archive_loop_on_broken(void *arg, CURLMcode code)
{
    struct archive_loop *l = arg;
    struct archive_job *job;

    log_error("archive: libcurl: %s; its transfers begin anew", curl_multi_strerror(code));
    TAILQ_FOREACH(job, &l->jobs, link) {
        if (!job->in_multi)
            continue;
        int64_t wait_ns;
        archive_job_leave_curl(job);
        enum s3_step step = s3_call_failed(job->call, -EAGAIN, curl_multi_strerror(code), &wait_ns);
        archive_job_step(job, step, wait_ns);
    }
    l->curl = curl_loop_free(l->curl);
}

static void archive_job_fail_attempt(struct archive_job *job, int err, const char *why)
{
    int64_t wait_ns;
    enum s3_step step = s3_call_failed(job->call, err, why, &wait_ns);

    archive_job_step(job, step, wait_ns);
}

/* To the addresses of the endpoint's name; NULL: it is an address itself. */
static void archive_job_send(struct archive_job *job, const struct name_answer *answer)
{
    static const struct curl_loop_ops ops = {archive_job_on_ended, archive_loop_on_broken};
    const struct archive_endpoint *endpoint = &job->loop->archive->s3.endpoint;
    CURL *easy = s3_call_handle(job->call);

    if (answer && answer->err < 0) {
        archive_job_fail_attempt(job, answer->err == -ETIMEDOUT ? -ETIMEDOUT : -EHOSTUNREACH,
                                 "the endpoint's name cannot be resolved");
        return;
    }
    if (answer) {
        curl_slist_free_all(job->addresses);
        job->addresses = curl_addresses(endpoint->host, endpoint->port, answer);
        curl_easy_setopt(easy, CURLOPT_RESOLVE, job->addresses);
        curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, curl_refuse_to_resolve);
    }
    curl_easy_setopt(easy, CURLOPT_PRIVATE, job);
    if (!job->loop->curl &&
        curl_loop_new(job->loop->base, job->loop->max, &ops, job->loop, &job->loop->curl) < 0)
        out_of_memory();
    if (curl_loop_add(job->loop->curl, easy) < 0)
        archive_job_fail_attempt(job, -EIO, "libcurl did not take the transfer");
    else
        job->in_multi = true;
}

static void archive_job_on_name(const struct name_answer *answer, void *arg)
{
    struct archive_job *job = arg;

    job->query = NULL;
    archive_job_send(job, answer);
}

static void archive_job_attempt(struct archive_job *job)
{
    struct archive_loop *l = job->loop;
    const char *host = l->archive->s3.endpoint.host;
    struct name_answer answer;
    struct in6_addr address;

    if (s3_call_begin(job->call) < 0) {
        archive_job_finish(job);
        return;
    }
    if (address_of_host(host, &address) || host_is_loopback(host))
        archive_job_send(job, NULL);
    else if (names_known(l->names, host, l->origin, &answer))
        archive_job_send(job, &answer);
    else
        job->query = names_ask(l->names, host, l->origin, job->q.deadline_ns, NAME_PATIENCE_NS,
                               archive_job_on_name, job);
}

/* -- Threads ------------------------------------------------------------------------------------------ */

static void archive_job_work(void *arg)
{
    struct archive_job *job = arg;

    if (job->call)
        s3_call_hash(job->call);
    else
        archive_directory_perform(&job->loop->archive->directory, &job->q, &job->result);
}

static void archive_job_on_worked(void *arg)
{
    struct archive_job *job = arg;

    job->is_offloaded = false;
    if (job->is_canceled)
        archive_job_remove(job);
    else if (job->call)
        archive_job_attempt(job);
    else
        archive_job_end(job);
}

static void archive_job_begin(struct archive_job *job)
{
    struct archive_loop *l = job->loop;

    job->is_started = true;
    l->n_started++;
    if (!l->archive->is_directory)
        job->call = s3_call_new(&l->archive->s3, &job->q, &job->result);
    if (!job->call || s3_call_has_content(job->call)) {
        job->is_offloaded = true;
        /* A shared directory that hangs holds one thread. */
        offload_run_in(l->offload, job->call ? OFFLOAD_NO_QUEUE : l->queue, archive_job_work,
                       archive_job_on_worked, job);
    } else {
        archive_job_wait(job, 0);
    }
}

static void archive_loop_go_on(struct archive_loop *l)
{
    struct archive_job *job;

    TAILQ_FOREACH(job, &l->jobs, link) {
        if (l->n_started >= l->max)
            return;
        if (!job->is_started && !job->is_over)
            archive_job_begin(job);
    }
}

/* -- The loop ----------------------------------------------------------------------------------------- */

int archive_loop_new(struct event_base *base, struct offload *offload, struct archive *archive,
                     unsigned transfers_max, struct archive_loop **ret)
{
    struct archive_loop *l = xcalloc(1, sizeof(*l));
    int64_t rate = archive->is_directory ? archive->directory.rate : archive->s3.rate;

    *l = (struct archive_loop){.base = base, .offload = offload, .max = rate > 0 ? 1 : transfers_max};
    TAILQ_INIT(&l->jobs);
    int r = names_new(base, &l->names);
    if (r < 0) {
        free(l);
        return r;
    }
    l->archive = archive;
    l->origin = names_origin(archive_name(archive));
    l->queue = archive->is_directory ? offload_queue_of_dir(archive->directory.path) : OFFLOAD_NO_QUEUE;
    *ret = l;
    return 0;
}

bool archive_loop_is_idle(const struct archive_loop *l)
{
    return TAILQ_EMPTY(&l->jobs);
}

struct archive *archive_loop_archive(const struct archive_loop *l)
{
    return l->archive;
}

struct archive_loop *archive_loop_free(struct archive_loop *l)
{
    struct archive_job *job;

    if (!l)
        return NULL;
    l->max = 0; /* nothing begins any more */
    while ((job = TAILQ_FIRST(&l->jobs)))
        archive_job_remove(job);
    curl_loop_free(l->curl);
    names_free(l->names);
    archive_free(l->archive);
    free(l);
    return NULL;
}

struct archive_job *archive_start(struct archive_loop *l, const struct archive_request *q,
                                  void (*done)(struct archive_result *result, void *arg), void *arg)
{
    struct archive_job *job = xcalloc(1, sizeof(*job));

    *job = (struct archive_job){.loop = l, .done = done, .arg = arg};
    archive_job_take_request(job, q);
    event_assign(&job->timer, l->base, -1, 0, archive_job_on_timer, job);
    TAILQ_INSERT_TAIL(&l->jobs, job, link);
    if (archive_check(l->archive, &job->q, &job->result) < 0)
        archive_job_finish(job);
    else
        archive_loop_go_on(l);
    return job;
}

void archive_cancel(struct archive_job *job)
{
    if (!job)
        return;
    job->is_canceled = true;
    if (!job->is_offloaded)
        archive_job_remove(job);
}
