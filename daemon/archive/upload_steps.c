/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One upload, of a trace, of a file that others handed over, or of a manifest:
 *
 *   open and, where it is not known, hash, on a thread -> row in upload_row, committed -> requests of archive/upload.h, whose
 *   progress is kept in the row -> HEAD -> archived_at in the trace's row, together with the removal of the upload's row
 *
 * A crash at any point leaves an upload that begins again, or goes on with the parts that the archive has. Its end wakes
 * uploads.c, which begins the next one.
 */
#include "archive/s3_answer.h"
#include "archive/upload.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/archive/internal.h"
#include <errno.h>
#include <inttypes.h>

static void upload_next(struct upload *u);

/* -- The end of one ------------------------------------------------------------------------------------ */

void upload_free(struct upload *u)
{
    TAILQ_REMOVE(&u->archiver->uploads, u, link);
    u->archiver->n_uploads--;
    archive_upload_free(u->machine);
    upload_record_done(&u->row);
    reference_done(&u->file);
    closep(&u->fd);
    free(u);
}

void upload_cancel(struct upload *u)
{
    if (u->job)
        archive_cancel(TAKE_PTR(u->job));
    u->is_cancelled = true;
    if (!u->has_pending)
        upload_free(u);
}

/* Of the file, not of the archive: other uploads may succeed. */
static bool upload_error_is_of_file(int err)
{
    static const int errors[] = {-EEXIST, -EBADMSG, -ESTALE, -ERANGE, -ENOENT,
                                 -EFBIG,  -EINVAL,  -EISDIR, -ELOOP};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        if (errors[i] == err)
            return true;
    return false;
}

/* Ends it with the error in its row; takes nothing of p. */
static void upload_fail(struct upload *u, int err, const struct problem *p)
{
    struct archiver *a = u->archiver;
    struct catalog *catalog = a->modules.catalog;
    bool is_of_file = upload_error_is_of_file(err);

    a->counts.uploads_failed++;
    u->row.tries++;
    /* While the archive itself fails, that decides when it is tried again; others are tried first. */
    u->row.next_at = wall_ns() + (is_of_file ? upload_wait_ns((unsigned)MIN(u->row.tries, 30)) : 0);
    bool is_known = u->row.error && streq(u->row.error, p->what);
    if (is_of_file && !is_known)
        log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = u->row.trace_id), "%s%s%s", p->what,
                   p->remedy ? ". " : "", p->remedy ? p->remedy : "");
    if (!is_of_file)
        uploads_note_failure(a, err, p);
    replace_str(&u->row.error, p->what);
    catalog_save_upload(catalog, &u->row);
    upload_free(u);
    uploads_wake(a);
}

static void upload_fail_with(struct upload *u, int err, const char *format, ...) _printf_(3, 4);
static void upload_fail_with(struct upload *u, int err, const char *format, ...)
{
    _cleanup_(problem_done) struct problem p = {0};
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    problem_set(&p, err, PROBLEM_STORAGE, "%s", text);
    upload_fail(u, err, &p);
}

static int upload_save_trace(struct upload *u)
{
    struct archiver *a = u->archiver;
    struct catalog *catalog = a->modules.catalog;

    int r = catalog_set_archived(catalog, u->row.trace_id, u->row.key, u->sha256, u->row.size, wall_ns());
    if (r == -ENOENT) /* it was read again, or removed: what the archive has is of nobody now */
        return 0;
    if (r >= 0)
        r = catalog_add_event(catalog, "trace-archived", "profd", u->row.session_id, RECORD_NONE,
                              u->row.trace_id, "%s", u->row.key);
    if (r >= 0 && u->row.session_id != RECORD_NONE)
        manifest_want(a, u->row.session_id);
    return r;
}

static void upload_succeed(struct upload *u)
{
    struct archiver *a = u->archiver;
    struct catalog *catalog = a->modules.catalog;

    int r = u->row.kind == UPLOAD_TRACE ? upload_save_trace(u) : 0;
    if (r >= 0)
        r = catalog_remove_upload(catalog, &u->row);
    if (r < 0) {
        upload_fail_with(u, r, "cannot write to the catalog that %s is archived: %s", u->row.key,
                         strerror(-r));
        return;
    }
    /* It was made for the archive. */
    if (u->row.kind == UPLOAD_SLICES && u->row.path)
        store_unlink(u->row.path);
    a->counts.uploaded++;
    a->counts.uploaded_bytes += (uint64_t)u->row.size;
    uploads_note_success(a);
    upload_free(u);
    uploads_wake(a);
}

/* -- Requests ------------------------------------------------------------------------------------------ */

/* Entity tags of the parts as a JSON array, "" where a part was not sent. */
static void upload_keep_progress(struct upload *u)
{
    const struct archive_upload_state *state = archive_upload_state(u->machine);
    _cleanup_json_ parts = json_array();

    for (size_t i = 0; i < state->n_parts; i++)
        json_array_append_new(parts, json_string(state->parts[i].etag));
    replace_str(&u->row.s3_upload_id, state->upload_id);
    free(u->row.parts);
    u->row.parts = json_dumps(parts, JSON_COMPACT);
    catalog_save_upload(u->archiver->modules.catalog, &u->row);
}

static void upload_on_answer(struct archive_result *result, void *arg)
{
    struct upload *u = arg;

    u->job = NULL;
    if (u->is_cancelled) {
        upload_free(u);
        return;
    }
    if (u->machine) {
        archive_upload_take(u->machine, result);
        if (u->verb == ARCHIVE_UPLOAD_CREATE || u->verb == ARCHIVE_UPLOAD_PART)
            upload_keep_progress(u);
        upload_next(u);
    } else if (result->err < 0) {
        upload_fail(u, result->err, &result->problem);
    } else {
        upload_succeed(u);
    }
}

static void upload_send(struct upload *u, const struct archive_request *q)
{
    /* A credential for uploads may be one that reads nothing. */
    enum archive_role role = q->verb == ARCHIVE_HEAD ? ROLE_READ : ROLE_WRITE;

    u->verb = q->verb;
    u->job = archive_start(archiver_loop(u->archiver, role), q, upload_on_answer, u);
}

static void upload_next(struct upload *u)
{
    const struct problem *p;
    struct archive_request q;

    if (archive_upload_next(u->machine, &q)) {
        upload_send(u, &q);
        return;
    }
    int r = archive_upload_result(u->machine, &p);
    if (r < 0)
        upload_fail(u, r, p);
    else
        upload_succeed(u);
}

static int64_t upload_timeout_ns(const struct upload *u)
{
    int64_t rate = u->archiver->settings->rate, part = MIN(u->row.size, (int64_t)ARCHIVE_SINGLE_MAX);
    int64_t slowest = rate > 0 ? MIN(rate / 2 + 1, ARCHIVE_SLOWEST_BYTES_PER_S) : ARCHIVE_SLOWEST_BYTES_PER_S;

    return ARCHIVE_REQUEST_NS + part / slowest * NS_PER_S;
}

static void upload_begin_requests(struct upload *u)
{
    const struct archive_file file = {
        .key = u->row.key, .fd = u->fd, .size = (uint64_t)u->row.size, .sha256 = u->sha256};
    _cleanup_json_ etags = u->row.parts ? json_loads(u->row.parts, 0, NULL) : NULL;
    size_t n = json_array_size(etags);
    struct archive_part *parts = xcalloc(n + 1, sizeof(*parts));
    const struct archive_upload_state kept = {u->row.s3_upload_id, parts, n};

    for (size_t i = 0; i < n; i++) {
        const char *etag = json_string_value(json_array_get(etags, i));
        parts[i].number = (unsigned)i + 1;
        snprintf(parts[i].etag, sizeof(parts[i].etag), "%s", etag ? etag : "");
    }
    u->machine = archive_upload_new(&file, &kept, upload_timeout_ns(u), ARCHIVE_PATIENCE_NS);
    free(parts);
    upload_next(u);
}

static void upload_put_manifest(struct upload *u)
{
    upload_send(u, &(const struct archive_request){.verb = ARCHIVE_PUT,
                                                   .key = u->row.key,
                                                   .fd = u->fd,
                                                   .size = (uint64_t)u->row.size,
                                                   .deadline_ns = mono_ns() + upload_timeout_ns(u),
                                                   .patience_ns = ARCHIVE_PATIENCE_NS});
}

/* -- The begin of one ---------------------------------------------------------------------------------- */

static void upload_on_committed(int err, void *arg)
{
    struct upload *u = arg;

    u->has_pending = false;
    if (u->is_cancelled)
        upload_free(u);
    else if (err < 0)
        upload_fail_with(u, err, "cannot write to the catalog that %s is being uploaded: %s", u->row.key,
                         strerror(-err));
    else if (u->row.kind == UPLOAD_MANIFEST)
        upload_put_manifest(u);
    else
        upload_begin_requests(u);
}

static void upload_save_row(struct upload *u)
{
    int r = catalog_save_upload(u->archiver->modules.catalog, &u->row);

    if (r < 0) {
        upload_fail_with(u, r, "cannot write to the catalog: %s", strerror(-r));
        return;
    }
    u->has_pending = true;
    catalog_then(u->archiver->modules.catalog, false, upload_on_committed, u);
}

static void upload_name_trace(struct upload *u)
{
    char *key = object_key_of_trace(u->sha256, u->row.name);

    /* Another content than a transfer in parts began with. */
    if (!streq(u->row.key, key)) {
        replace_str(&u->row.s3_upload_id, NULL);
        replace_str(&u->row.parts, NULL);
    }
    free(u->row.key);
    u->row.key = key;
}

static void upload_open(void *arg)
{
    struct upload *u = arg;

    u->fd = reference_open(&u->file, &u->st);
    if (u->fd < 0 || u->sha256[0])
        return;
    int r = s3_content_hash(u->fd, 0, (uint64_t)u->st.st_size, u->sha256);
    if (r < 0) {
        closep(&u->fd);
        u->fd = r;
    }
}

static void upload_on_opened(void *arg)
{
    struct upload *u = arg;

    u->has_pending = false;
    if (u->is_cancelled) {
        upload_free(u);
        return;
    }
    if (u->fd < 0) {
        upload_fail_with(u, u->fd, "cannot archive %s: %s", u->row.path, strerror(-u->fd));
        return;
    }
    if (u->row.kind == UPLOAD_TRACE && u->st.st_size != u->row.size) {
        upload_fail_with(u, -ESTALE, "cannot archive %s: it has %lld bytes and not %lld as in the catalog",
                         u->row.path, (long long)u->st.st_size, (long long)u->row.size);
        return;
    }
    u->row.size = u->st.st_size;
    replace_str(&u->row.sha256, u->sha256);
    if (u->row.kind == UPLOAD_TRACE)
        upload_name_trace(u);
    if (object_is_being_removed(u->archiver, u->row.key)) /* whose end begins it again */
        upload_free(u);
    else
        upload_save_row(u);
}

static void upload_open_manifest(struct upload *u)
{
    struct archiver *a = u->archiver;
    uint64_t size = 0;

    u->fd = manifest_open(a, u->row.session_id, &size);
    if (u->fd < 0) {
        upload_fail_with(u, u->fd, "cannot describe s%" PRId64 " for the archive: %s", u->row.session_id,
                         strerror(-u->fd));
        return;
    }
    u->row.size = (int64_t)size;
    upload_save_row(u);
}

static struct upload_record upload_row_copy(const struct upload_record *r)
{
    struct upload_record copy = *r;
    char **const texts[] = {&copy.path,  &copy.key,   &copy.sha256, &copy.s3_upload_id,
                            &copy.parts, &copy.error, &copy.name};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        *texts[i] = xstrdup(*texts[i]);
    return copy;
}

void upload_begin(struct archiver *a, const struct upload_record *row)
{
    struct upload *u = xcalloc(1, sizeof(*u));

    *u = (struct upload){.archiver = a, .fd = -EBADF, .row = upload_row_copy(row)};
    TAILQ_INSERT_TAIL(&a->uploads, u, link);
    a->n_uploads++;
    if (row->sha256)
        snprintf(u->sha256, sizeof(u->sha256), "%s", row->sha256);
    if (row->kind == UPLOAD_MANIFEST) {
        upload_open_manifest(u);
        return;
    }
    reference_of_stored(row->path, &u->file);
    u->has_pending = true;
    offload_run_in(a->modules.offload, offload_queue_of_file(row->path), upload_open, upload_on_opened, u);
}
