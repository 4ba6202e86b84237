/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a client names: opened on a thread, imported as any other, and kept as a trace without a session
 * or of the one that was named, unless its bytes are in the catalog: then that trace is completed (columns,
 * session). A file that is no trace is refused, and nothing of it is kept.
 */
#include "base/alloc.h"
#include "daemon/collect/pipeline.h"
#include <errno.h>

static void import_request_on_done(struct import_job *job)
{
    struct catalog *catalog = job->collector->catalog;
    struct problem *p = &job->problem;

    if (job->outcome == IMPORT_CANCELLED)
        problem_set(p, -ECANCELED, PROBLEM_CONFLICT, "profd is shutting down");
    else if (job->outcome == IMPORT_UNSAVED)
        catalog_problem(catalog, job->err, p, "cannot catalog %s", job->origin);
    else if (job->outcome == IMPORT_POSTPONED && job->err == -EBUSY)
        catalog_problem(catalog, job->err, p, "cannot import %s now", job->origin);
    else if (job->outcome == IMPORT_POSTPONED)
        problem_set(p, job->err, PROBLEM_TOO_MANY, "cannot import %s now: %s", job->origin,
                    strerror(-job->err));
    job->options.report(&(const struct import_result){.trace_id = p->what ? 0 : job->row.trace_id,
                                                      .existed = job->outcome == IMPORT_EXISTED,
                                                      .problem = *p},
                        job->options.arg);
}

static void import_request_open(void *arg)
{
    struct import_job *job = arg;

    job->fd = reference_open_new(job->origin, &job->st, &job->process_started);
    if (job->fd >= 0)
        job->holes = file_holes(job->fd, &job->st);
}

static int import_request_check(struct import_job *job)
{
    const struct collector *c = job->collector;
    struct problem *p = &job->problem;

    if (job->fd == -ENOENT || job->fd == -ENOTDIR)
        return problem_set(p, job->fd, PROBLEM_NOT_FOUND, "there is no file %s", job->origin);
    if (job->fd == -EINVAL || job->fd == -ELOOP || job->fd == -ENXIO)
        return problem_set(p, job->fd, PROBLEM_BAD_REQUEST, "%s is not a regular file", job->origin);
    if (job->fd < 0) {
        problem_set(p, job->fd, job->fd == -EACCES ? PROBLEM_DENIED : PROBLEM_STORAGE,
                    "profd cannot read %s: %s", job->origin, strerror(-job->fd));
        if (job->fd == -EACCES)
            problem_remedy(p, "Let profd's user read it and the directories above it.");
        return job->fd;
    }
    if (c->closing)
        return problem_set(p, -ECANCELED, PROBLEM_CONFLICT, "profd is shutting down");
    if (job->st.st_size > c->settings->file_max) {
        problem_set(p, -EFBIG, PROBLEM_TOO_LARGE, "%s exceeds the size limit of a trace", job->origin);
        problem_remedy(p, "[collect] file_max= in profd.conf sets the limit.");
        return -EFBIG;
    }
    if (!ingest_has_room(c->ingest, job->queue_user, job->dir_path)) {
        problem_set(p, -EAGAIN, PROBLEM_TOO_MANY, "too many files wait to be read");
        problem_remedy(p, "Try again when some of them have been read.");
        return -EAGAIN;
    }
    return 0;
}

static void import_request_on_opened(void *arg)
{
    struct import_job *job = arg;

    if (import_request_check(job) < 0) {
        job->outcome = IMPORT_REFUSED;
        import_request_on_done(job);
        import_job_free(job);
        return;
    }
    job->in_place = store_holds(job->collector->store, job->origin);
    job->copy = !job->in_place && !job->options.reference;
    import_start(job);
}

void collector_import(struct collector *c, const struct import_request *request,
                      void (*done)(const struct import_result *result, void *arg), void *arg)
{
    struct import_job *job = import_job_new(c, IMPORT_REQUESTED, request->path, import_request_on_done);

    job->actor = xstrdup(request->actor);
    job->queue_user = xstrdup(request->actor);
    job->displaces_newer = true;
    job->options = (struct import_options){.reference = request->reference,
                                           .again = request->again,
                                           .labels = xstrdup(request->labels),
                                           .session_id = request->session_id,
                                           .session_name = xstrdup(request->session_name),
                                           .report = done,
                                           .arg = arg};
    offload_run_in(c->offload, offload_queue_of_file(request->path), import_request_open,
                   import_request_on_opened, job);
}
