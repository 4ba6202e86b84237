/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/trace_file.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/user_profd.h"
#include "client/traces/columns_cache.h"
#include "client/traces/lost_hosts.h"
#include "client/traces/reading.h"
#include "client/traces/remote_columns.h"
#include "client/transport/download.h"
#include "trace/columns/columns.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* -- Checking ----------------------------------------------------------------------------------------- */

/* Notes the data that the trace lacks, each time it is used. */
static void trace_file_note_losses(struct client *c, const char *name, const struct columns *columns)
{
    int64_t events = columns_meta(columns, META_events);
    char number[32];

    /* One row for each kind; a file with more was not written by profd. */
    for (uint64_t i = 0; i < MIN(columns_rows(columns, TABLE_defect), (uint64_t)_DEFECT_MAX); i++) {
        int64_t kind = columns_get(columns, COL_defect_kind, i),
                count = columns_get(columns, COL_defect_count, i);
        if (kind < 0 || kind >= _DEFECT_MAX || !defect_loses_data((enum defect_kind)kind))
            continue;
        const char *text = defect_text((enum defect_kind)kind);
        if ((kind == DEFECT_truncated || kind == DEFECT_corrupt_stream) && events != COLUMN_NULL)
            client_note(c, "%s: %s, after %s events", name, text, text_number(number, events));
        else if (count > 1 && kind == DEFECT_misplaced_end)
            client_note(c, "%s: %s unmatched begin or end events were left out", name,
                        text_number(number, count));
        else if (count > 1)
            client_note(c, "%s: %s; %s times", name, text, text_number(number, count));
        else
            client_note(c, "%s: %s", name, text);
    }
}

int trace_file_columns(const struct trace_file *t, struct columns **ret, char **ret_reason)
{
    return t->remote ? remote_columns_open(t->remote, ret, ret_reason)
                     : columns_open(t->columns_fd, ret, ret_reason);
}

/* 0, or the error of columns_open() with the reason. */
static int trace_file_check(struct client *c, const char *name, int fd, char **ret_reason)
{
    _cleanup_(columns_closep) struct columns *columns = NULL;
    int r = columns_open(fd, &columns, ret_reason);

    if (r >= 0)
        trace_file_note_losses(c, name, columns);
    return r;
}

/* Uses columns of the cache; false: none are valid. */
static bool trace_file_use_cached(struct client *c, struct trace_file *t, char *key)
{
    _cleanup_(freep) char *reason = NULL;

    free(t->cache_key);
    t->cache_key = key;
    t->columns_fd = columns_cache_open(key);
    if (t->columns_fd < 0)
        return false;
    if (trace_file_check(c, t->name, t->columns_fd, &reason) == 0)
        return true;
    columns_cache_drop(key);
    close(TAKE_FD(t->columns_fd));
    return false;
}

static void trace_file_explain_unsound(const struct trace_file *t, int r, const char *reason,
                                       struct problem *p)
{
    if (r == -EPROTONOSUPPORT)
        problem_set(p, r, PROBLEM_UNSUPPORTED, "%s has columns of another version of profctl", t->name);
    else
        problem_set(p, r, PROBLEM_UNSUPPORTED, "%s has damaged columns: %s", t->name,
                    reason ? reason : strerror(-r));
    problem_remedy(p, "Make the columns again from the original trace: profctl query TRACE.");
}

static int trace_file_unsound(struct client *c, const struct trace_file *t, int r, const char *reason)
{
    _cleanup_(problem_done) struct problem p = {0};

    trace_file_explain_unsound(t, r, reason, &p);
    return client_fail(c, &p);
}

/* -- Local files -------------------------------------------------------------------------------------- */

static bool is_columnar(int fd)
{
    char head[sizeof(COLUMNS_MAGIC) - 1];
    return pread(fd, head, sizeof(head), 0) == sizeof(head) && memcmp(head, COLUMNS_MAGIC, sizeof(head)) == 0;
}

int trace_file_cannot_open(struct client *c, const char *path, int err)
{
    return client_error(
        c, err == ENOENT ? PROBLEM_NOT_FOUND : PROBLEM_STORAGE,
        err == ENOENT ? "A trace is named by its id, such as t12 (profctl list-traces), or by a path." : NULL,
        "cannot open %s: %s", path, strerror(err));
}

/* A file without columns in the cache remains to be read. */
static int trace_file_look_at_path(struct client *c, const char *path, struct trace_file *t)
{
    _cleanup_(freep) char *reason = NULL;
    struct stat st;

    t->source_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (t->source_fd < 0 || fstat(t->source_fd, &st) < 0)
        return trace_file_cannot_open(c, path, errno);
    if (!S_ISREG(st.st_mode))
        return client_refuse(c, "Write its content to a file first; profctl ingest takes directories.",
                             "%s is not a regular file", path);
    if (!is_columnar(t->source_fd)) {
        if (!trace_file_use_cached(c, t, columns_key_of_file(&st)))
            t->unread_path = xstrdup(path);
        return EXIT_DONE;
    }
    t->columns_fd = TAKE_FD(t->source_fd);
    int r = trace_file_check(c, t->name, t->columns_fd, &reason);
    return r < 0 ? trace_file_unsound(c, t, r, reason) : EXIT_DONE;
}

/* -- Reading ------------------------------------------------------------------------------------------ */

struct unread {
    struct trace_file *file;
    struct columns_draft draft;
    int *status;
};

/* An interruption is printed once. */
static int trace_file_finish(struct client *c, struct unread *u, const struct reading *reading, bool is_first)
{
    _cleanup_(freep) char *reason = NULL;
    struct trace_file *t = u->file;

    if (reading->result == -EINTR && !is_first)
        return EXIT_FAILED;
    if (reading->result < 0)
        return client_fail(c, &reading->problem);
    int r = trace_file_check(c, t->name, u->draft.fd, &reason);
    if (r < 0)
        return trace_file_unsound(c, t, r, reason);
    columns_draft_keep(&u->draft, t->cache_key);
    t->columns_fd = TAKE_FD(u->draft.fd);
    free(TAKE_PTR(t->unread_path));
    return EXIT_DONE;
}

int trace_files_read(struct client *c, struct trace_file *const *files, size_t n, int64_t memory_max,
                     int *ret_statuses)
{
    _cleanup_(freep) struct unread *unread = xcalloc(n, sizeof(*unread));
    _cleanup_(freep) struct reading *readings = xcalloc(n, sizeof(*readings));
    _cleanup_(problem_done) struct problem p = {0};
    size_t n_unread = 0;
    bool is_interrupted = false;

    for (size_t i = 0; i < n && !p.what; i++) {
        struct unread *u = &unread[n_unread];
        ret_statuses[i] = EXIT_DONE;
        if (!files[i]->unread_path)
            continue;
        *u = (struct unread){.file = files[i], .status = &ret_statuses[i]};
        if (memory_max != OPTION_ABSENT && memory_max < READING_MEMORY_MIN)
            problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--memory-limit: reading a file takes at least 1M");
        else if (columns_draft_new(&u->draft, &p) >= 0)
            readings[n_unread++] = (struct reading){.source_fd = files[i]->source_fd,
                                                    .columns_fd = u->draft.fd,
                                                    .name = files[i]->unread_path,
                                                    .part = files[i]->part};
    }
    if (!p.what && n_unread > 0)
        readings_run(c, readings, n_unread, memory_max);
    for (size_t i = 0; i < n_unread; i++) {
        if (!p.what)
            *unread[i].status = trace_file_finish(c, &unread[i], &readings[i], !is_interrupted);
        is_interrupted |= readings[i].result == -EINTR;
        columns_draft_done(&unread[i].draft);
        problem_done(&readings[i].problem);
    }
    return p.what ? client_fail(c, &p) : is_interrupted ? EXIT_FAILED : EXIT_DONE;
}

/* -- A trace of profd --------------------------------------------------------------------------------- */

/* Opens the file of profd, which is on this machine if the connection is a Unix socket. */
static bool trace_file_use_stored(struct client *c, const json_t *trace, struct trace_file *t)
{
    const char *path = json_get_str(trace, "columns");
    _cleanup_(freep) char *reason = NULL;
    struct stat st;

    if (!connection_is_local(c->connection) || json_get_str(trace, "host_uuid"))
        return false;
    t->columns_fd = open_regular(AT_FDCWD, path, &st);
    if (t->columns_fd >= 0 && st.st_size == json_get_int(trace, "columns_size", -1) &&
        trace_file_check(c, t->name, t->columns_fd, &reason) == 0)
        return true;
    closep(&t->columns_fd);
    t->columns_fd = -1;
    return false;
}

/* 0 or a problem; -EBADMSG: the columns are damaged. */
static int trace_file_fetch(struct client *c, const json_t *trace, struct trace_file *t, struct problem *p)
{
    _cleanup_(columns_draft_done) struct columns_draft draft;
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s/columns", t->name), *reason = NULL;
    /* Ctrl-C must leave no draft. */
    client_hold_signals();
    int r = columns_draft_new(&draft, p);

    if (r >= 0)
        r = download(c,
                     &(struct download){.path = path,
                                        .id = t->name,
                                        .name = "columns",
                                        .size = json_get_int(trace, "columns_size", -1),
                                        .is_remote = json_get_str(trace, "host_uuid")},
                     draft.fd, p);
    if (r < 0)
        return r;
    r = trace_file_check(c, t->name, draft.fd, &reason);
    if (r < 0) {
        trace_file_explain_unsound(t, r, reason, p);
        return -EBADMSG;
    }
    if (t->cache_key)
        columns_draft_keep(&draft, t->cache_key);
    t->columns_fd = TAKE_FD(draft.fd);
    return 0;
}

/* Reads the trace here, as a file: from its host, which fetches it, or from the archive. EXIT_DONE, or an exit status after
 * the problem was printed. */
static int trace_file_use_original(struct client *c, const json_t *trace, struct trace_file *t)
{
    const char *sha256 = json_get_str(trace, "sha256"), *name = json_get_str(trace, "name");
    _cleanup_(problem_done) struct problem p = {0};

    /* Without the size of columns that only the host knows. */
    if (sha256 && trace_file_use_cached(c, t, columns_key_of_trace(sha256, 0)))
        return EXIT_DONE;
    client_hold_signals();
    t->source_fd = nameless_file();
    int r = t->source_fd < 0 ? problem_set(&p, t->source_fd, PROBLEM_STORAGE, "cannot keep %s: %s", t->name,
                                           strerror(-t->source_fd))
                             : download_trace(c, trace, t->source_fd, &p);
    if (r >= 0 && lseek(t->source_fd, 0, SEEK_SET) < 0)
        r = problem_set(&p, -errno, PROBLEM_STORAGE, "cannot read %s: %s", t->name, strerror(errno));
    if (r < 0)
        return client_fail(c, &p);
    t->unread_path = xstrdup(name ? name : t->name);
    return EXIT_DONE;
}

/* The host of the trace does not answer, or removed it (p): if the archive has the trace, it is read here. */
static int trace_file_use_archived(struct client *c, const json_t *trace, struct trace_file *t,
                                   const struct problem *p)
{
    bool may_be_archived = p->kind == PROBLEM_UNREACHABLE ||
                           (p->kind == PROBLEM_NOT_FOUND && json_object_get(trace, "archived_at"));

    if (may_be_archived && json_get_str(trace, "sha256") && archive_is_configured(c))
        return trace_file_use_original(c, trace, t);
    lost_hosts_add(c, trace, -EREMOTEIO, p);
    return client_fail(c, p);
}

/* Of columns that are large enough, only the pages that are needed: 1; 0: they are read completely; -EIO: their host does
 * not deliver them: p. */
static int trace_file_use_pages(struct client *c, const json_t *trace, struct trace_file *t,
                                struct problem *p)
{
    int64_t size = json_get_int(trace, "columns_size", 0);
    _cleanup_(columns_closep) struct columns *columns = NULL;
    _cleanup_(freep) char *reason = NULL;

    if (size < REMOTE_COLUMNS_MIN || connection_is_on_bus(c->connection))
        return 0;
    /* Ctrl-C ends a call, not the process. */
    client_hold_signals();
    t->columns_fd = remote_columns_new(c, t->name, t->cache_key, (uint64_t)size, &t->remote);
    if (t->columns_fd >= 0 && trace_file_columns(t, &columns, &reason) >= 0) {
        trace_file_note_losses(c, t->name, columns);
        return 1;
    }
    if (t->cache_key)
        columns_cache_drop_partial(t->cache_key);
    struct problem *why = t->remote ? remote_columns_problem(t->remote) : NULL;
    if (why) {
        *p = *why;
        *why = (struct problem){0};
    }
    t->remote = remote_columns_free(t->remote);
    t->columns_fd = -1;
    return p->what ? -EIO : 0;
}

static int trace_file_no_columns(struct client *c, const json_t *trace, const struct trace_file *t)
{
    const char *none = json_get_str(trace, "columns_reason");
    const char *reason = none ? none : json_get_str(trace, "reason");

    _cleanup_(freep) char *remedy = xasprintf(
        "If it is a trace that can be read: profctl get %s -o FILE, then profctl query FILE.", t->name);

    return client_error(c, PROBLEM_UNSUPPORTED, remedy, "profd has no columns of %s: %s", t->name,
                        reason ? reason : "it was not read");
}

/* Columns that profd cannot deliver are made again from the original, if that can be read. */
static int trace_file_fetch_or_look(struct client *c, const json_t *trace, struct trace_file *t)
{
    _cleanup_(problem_done) struct problem p = {0};
    int r = trace_file_fetch(c, trace, t, &p);

    if (r >= 0)
        return EXIT_DONE;
    if (r == -EREMOTEIO && json_get_str(trace, "host_uuid"))
        return trace_file_use_archived(c, trace, t, &p);
    if (r == -EINTR || !t->source_path || access(t->source_path, R_OK) < 0)
        return client_fail(c, &p);
    client_note(c, "the columns of %s are %s; reading %s", t->name, r == -EBADMSG ? "damaged" : "lost",
                t->source_path);
    return trace_file_look_at_path(c, t->source_path, t);
}

/* profd fetches the trace into its store and reads it; then its columns are downloaded as any others. */
static int trace_file_fetch_archived(struct client *c, const json_t *trace, struct trace_file *t)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s", t->name);
    _cleanup_json_ now = NULL;
    char size[UNIT_TEXT_MAX];

    client_note(c, "fetching %s (%s) from the archive", t->name,
                format_size(size, json_get_int(trace, "size", 0)));
    if (download_from_archive(c, trace, true, &p) < 0 || trace_file_fetch(c, trace, t, &p) < 0)
        return client_fail(c, &p);
    if (connection_is_local(c->connection) && client_get(c, path, NULL, &now) == EXIT_DONE)
        t->source_path = xstrdup(json_get_str(now, "path"));
    return EXIT_DONE;
}

static void trace_file_take_clock(struct trace_file *t, const json_t *trace)
{
    const char *host = json_get_str(trace, "host");

    if (!host)
        return;
    t->host = xstrdup(host);
    if (!json_get_str(trace, "host_uuid"))
        return;
    t->clock_offset_ns = json_get_int(trace, "clock_offset_ns", COLUMN_NULL);
    t->clock_error_ns = json_get_int(trace, "clock_error_ns", COLUMN_NULL);
}

static int trace_file_look_at_id(struct client *c, int64_t id, struct trace_file *t)
{
    _cleanup_json_ trace = NULL;
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s", t->name);
    int status = client_need_profd(c);

    if (status == EXIT_DONE)
        status = client_get(c, path, NULL, &trace);
    if (status != EXIT_DONE)
        return status;
    bool is_here = connection_is_local(c->connection) && !json_get_str(trace, "host_uuid");
    const char *original = is_here ? json_get_str(trace, "path") : NULL;
    trace_file_take_clock(t, trace);
    const char *sha256 = json_get_str(trace, "sha256");
    if (!json_get_str(trace, "columns") && (is_here || json_get_int(trace, "columns_size", 0) <= 0)) {
        if (trace_json_is_archived(
                trace)) /* another host has no columns either until it has fetched the trace */
            return json_get_str(trace, "host_uuid") ? trace_file_use_original(c, trace, t)
                                                    : trace_file_fetch_archived(c, trace, t);
        if (!original || access(original, R_OK) < 0)
            return trace_file_no_columns(c, trace, t);
        client_note(c, "profd has no columns of %s; reading %s", t->name, original);
        return trace_file_look_at_path(c, original, t);
    }
    t->source_path = xstrdup(original);
    if (original && access(original, F_OK) < 0 && errno == ENOENT && !trace_json_is_archived(trace))
        client_note(c, "the original of %s is gone: only arguments with columns are available", t->name);
    if (trace_file_use_stored(c, trace, t))
        return EXIT_DONE;
    if (sha256 &&
        trace_file_use_cached(c, t, columns_key_of_trace(sha256, json_get_int(trace, "columns_size", 0))))
        return EXIT_DONE;
    _cleanup_(problem_done) struct problem p = {0};
    int r = trace_file_use_pages(c, trace, t, &p);
    return r > 0    ? EXIT_DONE
           : r == 0 ? trace_file_fetch_or_look(c, trace, t)
                    : trace_file_use_archived(c, trace, t, &p);
}

/* ----------------------------------------------------------------------------------------------------- */

int trace_file_look(struct client *c, const char *word, struct trace_file *ret)
{
    const char *slash = strrchr(word, '/');
    int64_t id;

    *ret = (struct trace_file){.columns_fd = -1, .source_fd = -1};
    if (parse_ref(word, 't', &id) == 't') {
        ret->name = xasprintf("t%lld", (long long)id);
        return trace_file_look_at_id(c, id, ret);
    }
    ret->name = text_clean(slash && slash[1] ? slash + 1 : word, false);
    return trace_file_look_at_path(c, word, ret);
}

int trace_file_open(struct client *c, const char *word, int64_t memory_max, struct trace_file *ret)
{
    int status = trace_file_look(c, word, ret), of_file = EXIT_DONE;

    if (status == EXIT_DONE && ret->unread_path)
        status = trace_files_read(c, &ret, 1, memory_max, &of_file);
    return status == EXIT_DONE ? of_file : status;
}

void trace_file_done(struct trace_file *t)
{
    if (t->remote)
        remote_columns_free(t->remote); /* closes the descriptor */
    else
        closep(&t->columns_fd);
    closep(&t->source_fd);
    free(t->name);
    free(t->source_path);
    free(t->unread_path);
    free(t->cache_key);
    free(t->host);
}

static int trace_file_duplicate(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -errno : copy;
}

int trace_file_original(struct trace_file *t)
{
    if (t->source_fd < 0 && t->source_path)
        t->source_fd = MAX(open_regular(AT_FDCWD, t->source_path, NULL), -1);
    return t->source_fd;
}

int trace_file_part(struct client *c, struct trace_file *merged, const struct merged_part *part,
                    const char *label, struct trace_file *ret)
{
    int fd = trace_file_original(merged), copy = fd < 0 ? -1 : trace_file_duplicate(fd);
    struct stat st;

    *ret = (struct trace_file){
        .name = xstrdup(label), .columns_fd = -1, .source_fd = MAX(copy, -1), .part = *part};
    if (copy < 0 || fstat(copy, &st) < 0)
        return -ENOENT;
    _cleanup_(freep) char *key = columns_key_of_file(&st);
    if (!trace_file_use_cached(c, ret, xasprintf("%s-part%" PRId64, key, part->number)))
        ret->unread_path = xstrdup(merged->name);
    return 0;
}

static int trace_file_open_sql(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                               char **ret_error)
{
    struct trace_file *t = arg;
    int fd = t->remote ? -1 : trace_file_duplicate(t->columns_fd);

    if (fd < 0 && !t->remote) {
        *ret_error = xasprintf("cannot open %s: %s", t->name, strerror(-fd));
        return fd;
    }
    *ret_columns_fd = fd;
    /* Without the original, only arguments with columns are available. */
    if (ret_source_fd)
        *ret_source_fd = trace_file_original(t) < 0 ? -1 : MAX(trace_file_duplicate(t->source_fd), -1);
    return 0;
}

static int trace_file_sql_columns(void *arg, int64_t trace_id, struct columns **ret, char **ret_reason)
{
    return trace_file_columns(arg, ret, ret_reason);
}

struct sql_source trace_file_source(struct trace_file *t)
{
    return (struct sql_source){.open = trace_file_open_sql, .columns = trace_file_sql_columns, .arg = t};
}
