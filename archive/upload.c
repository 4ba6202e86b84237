/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/upload.h"

#include "archive/archive_url.h"
#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>

/* How often an upload that the server has lost is begun anew. */
#define UPLOADS_MAX 3

enum upload_step {
    UPLOAD_PUT,
    UPLOAD_LOOK,  /* whether the object is there, before the first part and where a PUT was refused */
    UPLOAD_PARTS, /* which parts are there, for a resumption */
    UPLOAD_CREATE,
    UPLOAD_PART,
    UPLOAD_LOOK_AGAIN, /* since CompleteMultipartUpload replaces */
    UPLOAD_COMPLETE,
    UPLOAD_VERIFY,
    UPLOAD_OVER,
    _UPLOAD_STEP_MAX,
};

struct archive_upload {
    struct archive_file file;
    int64_t request_timeout_ns, patience_ns;
    enum upload_step step;
    bool is_conditional; /* the server knows If-None-Match */
    bool existed;
    struct archive_upload_state state;
    bool *is_there; /* of parts: confirmed by the archive in this run */
    char *after;    /* the next page of parts */
    size_t part;    /* the one in hand, from 0 */
    unsigned n_uploads;
    int err;
    struct problem problem;
};

struct archive_upload *archive_upload_new(const struct archive_file *file,
                                          const struct archive_upload_state *kept, int64_t request_timeout_ns,
                                          int64_t patience_ns)
{
    struct archive_upload *u = xcalloc(1, sizeof(*u));
    bool is_single = file->size <= ARCHIVE_SINGLE_MAX;
    size_t n = is_single ? 0 : archive_part_count(file->size);

    *u = (struct archive_upload){.file = *file,
                                 .request_timeout_ns = request_timeout_ns,
                                 .patience_ns = patience_ns,
                                 .step = is_single ? UPLOAD_PUT : UPLOAD_LOOK,
                                 .is_conditional = true};
    u->state.n_parts = n;
    u->state.parts = xcalloc(n + 1, sizeof(*u->state.parts));
    u->is_there = xcalloc(n + 1, sizeof(*u->is_there));
    for (size_t i = 0; i < n; i++)
        u->state.parts[i] = (struct archive_part){
            .number = (unsigned)i + 1,
            .size = MIN(archive_part_size(file->size), file->size - i * archive_part_size(file->size))};
    if (!is_single && kept && kept->upload_id) {
        u->state.upload_id = xstrdup(kept->upload_id);
        for (size_t i = 0; i < MIN(n, kept->n_parts); i++)
            if (kept->parts[i].number == i + 1)
                memcpy(u->state.parts[i].etag, kept->parts[i].etag, sizeof(u->state.parts[i].etag));
    }
    return u;
}

struct archive_upload *archive_upload_free(struct archive_upload *u)
{
    if (!u)
        return NULL;
    free(u->state.upload_id);
    free(u->state.parts);
    free(u->is_there);
    free(u->after);
    problem_done(&u->problem);
    free(u);
    return NULL;
}

const struct archive_upload_state *archive_upload_state(const struct archive_upload *u)
{
    return &u->state;
}

bool archive_upload_existed(const struct archive_upload *u)
{
    return u->existed;
}

int archive_upload_result(const struct archive_upload *u, const struct problem **ret_problem)
{
    *ret_problem = &u->problem;
    return u->err;
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static const enum archive_verb step_verbs[_UPLOAD_STEP_MAX] = {
    [UPLOAD_PUT] = ARCHIVE_PUT,
    [UPLOAD_LOOK] = ARCHIVE_HEAD,
    [UPLOAD_PARTS] = ARCHIVE_UPLOAD_PARTS,
    [UPLOAD_CREATE] = ARCHIVE_UPLOAD_CREATE,
    [UPLOAD_PART] = ARCHIVE_UPLOAD_PART,
    [UPLOAD_LOOK_AGAIN] = ARCHIVE_HEAD,
    [UPLOAD_COMPLETE] = ARCHIVE_UPLOAD_COMPLETE,
    [UPLOAD_VERIFY] = ARCHIVE_HEAD,
};

bool archive_upload_next(struct archive_upload *u, struct archive_request *ret)
{
    if (u->step == UPLOAD_OVER)
        return false;
    *ret = (struct archive_request){
        .verb = step_verbs[u->step],
        .key = u->file.key,
        .fd = u->file.fd,
        .size = u->file.size,
        .sha256 = u->file.sha256,
        .exclusive = u->is_conditional,
        .upload_id = u->state.upload_id,
        .after = u->after,
        .parts = u->state.parts,
        .n_parts = u->state.n_parts,
        .deadline_ns = mono_ns() + u->request_timeout_ns,
        .patience_ns = u->patience_ns,
    };
    if (u->step == UPLOAD_PART) {
        ret->part = u->state.parts[u->part].number;
        ret->offset = u->part * archive_part_size(u->file.size);
        ret->size = u->state.parts[u->part].size;
        ret->sha256 = NULL;
    }
    return true;
}

/* -- Results ------------------------------------------------------------------------------------------ */

static void archive_upload_end(struct archive_upload *u, int err)
{
    u->err = err;
    u->step = UPLOAD_OVER;
}

static void archive_upload_fail(struct archive_upload *u, struct archive_result *r)
{
    u->problem = r->problem;
    r->problem = (struct problem){0};
    archive_upload_end(u, r->err);
}

static bool archive_upload_is_same(const struct archive_upload *u, const struct archive_object *o)
{
    return o->size == u->file.size && (!o->sha256[0] || streq(o->sha256, u->file.sha256));
}

static void archive_upload_conflict(struct archive_upload *u, const char *what)
{
    problem_set(&u->problem, -EEXIST, PROBLEM_CONFLICT, "%s in the archive %s", u->file.key, what);
    problem_remedy(&u->problem,
                   "Find out who wrote it, and delete or rename it there: it is never replaced.");
    archive_upload_end(u, -EEXIST);
}

static void archive_upload_to_next_part(struct archive_upload *u)
{
    while (u->part < u->state.n_parts && u->is_there[u->part])
        u->part++;
    u->step = u->part < u->state.n_parts ? UPLOAD_PART : UPLOAD_LOOK_AGAIN;
}

/* Without the upload that the server no longer has, or that it cannot complete. */
static void archive_upload_anew(struct archive_upload *u, struct archive_result *r)
{
    if (++u->n_uploads > UPLOADS_MAX) {
        archive_upload_fail(u, r);
        return;
    }
    replace_str(&u->state.upload_id, NULL);
    replace_str(&u->after, NULL);
    for (size_t i = 0; i < u->state.n_parts; i++) {
        u->state.parts[i].etag[0] = '\0';
        u->is_there[i] = false;
    }
    u->part = 0;
    u->step = UPLOAD_LOOK;
}

static void archive_upload_on_put(struct archive_upload *u, struct archive_result *r)
{
    if (r->err == 0)
        u->step = UPLOAD_VERIFY;
    else if (r->err == -EEXIST && u->is_conditional)
        u->step = UPLOAD_LOOK;
    else if (r->err == -EOPNOTSUPP && u->is_conditional) {
        /* Without the condition, one who looks first can still replace what comes in between: with the same content,
         * if names follow from contents. */
        u->is_conditional = false;
        u->step = UPLOAD_LOOK;
    } else
        archive_upload_fail(u, r);
}

static void archive_upload_on_look(struct archive_upload *u, struct archive_result *r)
{
    if (r->err == 0 && archive_upload_is_same(u, &r->object)) {
        u->existed = true;
        archive_upload_end(u, 0);
    } else if (r->err == 0) {
        archive_upload_conflict(u, "has another content");
    } else if (r->err != -ENOENT) {
        archive_upload_fail(u, r);
    } else if (u->state.n_parts == 0) {
        u->step = UPLOAD_PUT;
        /* A key that exists for PUT and does not for HEAD is not tried for ever. */
        if (++u->n_uploads > UPLOADS_MAX)
            archive_upload_fail(u, r);
    } else if (u->step == UPLOAD_LOOK) {
        u->step = u->state.upload_id ? UPLOAD_PARTS : UPLOAD_CREATE;
    } else {
        u->step = UPLOAD_COMPLETE;
    }
}

static void archive_upload_on_parts(struct archive_upload *u, struct archive_result *r)
{
    if (r->err == -ENOENT) {
        archive_upload_anew(u, r);
        return;
    }
    if (r->err < 0) {
        archive_upload_fail(u, r);
        return;
    }
    for (size_t i = 0; i < r->n_parts; i++) {
        const struct archive_part *there = &r->parts[i];
        if (there->number > u->state.n_parts)
            continue;
        const struct archive_part *kept = &u->state.parts[there->number - 1];
        u->is_there[there->number - 1] =
            kept->size == there->size && kept->etag[0] && streq(kept->etag, there->etag);
    }
    replace_str(&u->after, r->next);
    if (!u->after)
        archive_upload_to_next_part(u);
}

static void archive_upload_on_create(struct archive_upload *u, struct archive_result *r)
{
    if (r->err < 0) {
        archive_upload_fail(u, r);
        return;
    }
    replace_str(&u->state.upload_id, r->upload_id);
    archive_upload_to_next_part(u);
}

static void archive_upload_on_part(struct archive_upload *u, struct archive_result *r)
{
    if (r->err == -ENOENT) {
        archive_upload_anew(u, r);
        return;
    }
    if (r->err < 0) {
        archive_upload_fail(u, r);
        return;
    }
    memcpy(u->state.parts[u->part].etag, r->object.etag, sizeof(r->object.etag));
    u->is_there[u->part] = true;
    archive_upload_to_next_part(u);
}

/* A completion whose answer was lost has removed the upload: the object decides. */
static void archive_upload_on_complete(struct archive_upload *u, struct archive_result *r)
{
    if (r->err == 0)
        u->step = UPLOAD_VERIFY;
    else if (r->err == -ENOENT || r->err == -ESTALE)
        archive_upload_anew(u, r);
    else if (r->err == -EEXIST)
        u->step = UPLOAD_LOOK;
    else
        archive_upload_fail(u, r);
}

static void archive_upload_on_verify(struct archive_upload *u, struct archive_result *r)
{
    if (r->err < 0)
        archive_upload_fail(u, r);
    else if (archive_upload_is_same(u, &r->object))
        archive_upload_end(u, 0);
    else
        archive_upload_conflict(u, "has another content than was just uploaded");
}

static void (*const step_takers[_UPLOAD_STEP_MAX])(struct archive_upload *u, struct archive_result *r) = {
    [UPLOAD_PUT] = archive_upload_on_put,           [UPLOAD_LOOK] = archive_upload_on_look,
    [UPLOAD_PARTS] = archive_upload_on_parts,       [UPLOAD_CREATE] = archive_upload_on_create,
    [UPLOAD_PART] = archive_upload_on_part,         [UPLOAD_LOOK_AGAIN] = archive_upload_on_look,
    [UPLOAD_COMPLETE] = archive_upload_on_complete, [UPLOAD_VERIFY] = archive_upload_on_verify,
};

void archive_upload_take(struct archive_upload *u, struct archive_result *result)
{
    step_takers[u->step](u, result);
}
