/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traces of a session that is part of a job of srtctl, where srtctl would have put them:
 * <store>/<folder>/profiles/<phase> leads to the session's own directory, or in a session of several phases
 * to each trace of the phase's workers, and <folder>/profile_<phase>.out reports what was done.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/collect/store.h"
#include "daemon/session/sessions.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define DIRECTORY_MODE 0750
#define FILE_MODE      0640

struct layout_part {
    char *text;   /* of profile_<phase>.out; NULL: the phase is not in this session */
    char **files; /* paths of its traces, relative to the store; NULL: all of the session's directory */
    size_t n_files;
};

struct layout {
    char *root, *folder;
    struct layout_part parts[_JOB_PHASE_MAX];
    int64_t session_id;
    int err;
};

static void layout_print_moment(FILE *out, const char *what, int64_t at, int64_t status)
{
    char when[UNIT_TEXT_MAX];

    if (at == RECORD_NONE)
        return;
    fprintf(out, "  %s %s", what, format_time(when, at));
    if (status != RECORD_NONE)
        fprintf(out, " (%" PRId64 ")", status);
    putc('\n', out);
}

static char *layout_describe(const struct session *s, enum job_phase phase)
{
    int64_t first = s->request.job.phases[phase].start_step;
    char *text = NULL;
    size_t size, k;
    json_t *remark;
    FILE *out = xmemstream(&text, &size);

    fprintf(out, "%s, %s: session s%" PRId64 " is %s\n", s->request.job.folder, job_phase_name(phase),
            s->record.session_id, state_name(s->record.state));
    if (s->record.reason)
        fprintf(out, "%s\n", s->record.reason);
    fprintf(out, "start_step %" PRId64 ", stop_step %" PRId64 "\n", first,
            first + s->request.job.phases[phase].steps);
    if (s->run_id > 0)
        fprintf(out, "load r%" PRId64 "\n", s->run_id);
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct target *t = &s->targets[i];
        if (job_phase_of(t->worker.role) != phase)
            continue;
        fprintf(out, "%s: %s%s%s\n", t->worker.url, state_name(t->record.state),
                t->record.failure ? ": " : "", t->record.failure ? t->record.failure : "");
        layout_print_moment(out, "start", t->record.start_sent_at, t->record.start_status);
        layout_print_moment(out, "stop", t->record.stop_sent_at, t->record.stop_status);
        json_array_foreach(s->remarks, k, remark) {
            const char *what = json_get_str(remark, "text"), *remedy = json_get_str(remark, "remedy");
            if (streq(json_get_str(remark, "worker"), t->worker.url) && what)
                fprintf(out, "  %s%s%s\n", what, remedy ? "\n    " : "", remedy ? remedy : "");
        }
    }
    fclose(out);
    return text;
}

static int layout_open_directory(int at, const char *name)
{
    if (mkdirat(at, name, DIRECTORY_MODE) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(at, name, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int layout_write_text(int folder_fd, const char *name, const char *text)
{
    _cleanup_(closep) int fd =
        openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -EIO;
}

/* The store's files by paths that hold wherever the store is mounted; others as they are. */
static char *layout_link_target(const char *root, const char *path)
{
    size_t n = strlen(root);
    return strncmp(path, root, n) == 0 && path[n] == '/' ? xasprintf("../../..%s", path + n) : xstrdup(path);
}

static int layout_link_files(const struct layout *j, int profiles_fd, const char *name,
                             const struct layout_part *part)
{
    _cleanup_(closep) int fd = layout_open_directory(profiles_fd, name);

    for (size_t i = 0; i < part->n_files && fd >= 0; i++) {
        const char *slash = strrchr(part->files[i], '/');
        _cleanup_(freep) char *target = layout_link_target(j->root, part->files[i]);
        if (slash && symlinkat(target, fd, slash + 1) < 0 && errno != EEXIST)
            return -errno;
    }
    return MIN(fd, 0);
}

/* Links the files of the phase, or the directory of the entire session if no other phase has any. */
static int layout_link_phase(const struct layout *j, int profiles_fd, enum job_phase phase)
{
    const char *name = job_phase_name(phase);
    _cleanup_(freep) char *target = xasprintf("../../s%" PRId64, j->session_id);

    for (int i = 0; i < _JOB_PHASE_MAX; i++)
        if (i != (int)phase && j->parts[i].text)
            return layout_link_files(j, profiles_fd, name, &j->parts[phase]);
    return symlinkat(target, profiles_fd, name) < 0 ? -errno : 0;
}

static void layout_make(void *arg)
{
    struct layout *j = arg;
    _cleanup_(closep) int root = open(j->root, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    _cleanup_(closep) int folder = root < 0 ? -1 : layout_open_directory(root, j->folder);
    _cleanup_(closep) int profiles = folder < 0 ? -1 : layout_open_directory(folder, "profiles");

    j->err = profiles < 0 ? -ENOENT : 0;
    for (int i = 0; i < _JOB_PHASE_MAX && j->err == 0; i++) {
        _cleanup_(freep) char *out = xasprintf("profile_%s.out", job_phase_name((enum job_phase)i));
        if (!j->parts[i].text)
            continue;
        j->err = layout_link_phase(j, profiles, (enum job_phase)i);
        if (j->err == 0)
            j->err = layout_write_text(folder, out, j->parts[i].text);
    }
}

static void layout_on_made(void *arg)
{
    struct layout *j = arg;

    if (j->err < 0)
        log_warning("cannot lay out %s for session s%" PRId64 ": %s", j->folder, j->session_id,
                    strerror(-j->err));
    for (int i = 0; i < _JOB_PHASE_MAX; i++) {
        for (size_t k = 0; k < j->parts[i].n_files; k++)
            free(j->parts[i].files[k]);
        free(j->parts[i].files);
        free(j->parts[i].text);
    }
    free(j->root);
    free(j->folder);
    free(j);
}

struct layout_listing {
    struct layout *layout;
    const struct session *session;
};

static int layout_take_trace(const struct trace_record *r, void *arg)
{
    const struct layout_listing *l = arg;

    for (size_t i = 0; i < l->session->n_targets; i++) {
        const struct target *t = &l->session->targets[i];
        struct layout_part *part = &l->layout->parts[job_phase_of(t->worker.role)];
        if (!r->path || !streq(r->worker_url, t->worker.url))
            continue;
        part->files = xrealloc(part->files, part->n_files + 1, sizeof(*part->files));
        part->files[part->n_files++] = xstrdup(r->path);
        break;
    }
    return 0;
}

static void layout_session_ended(const struct session *s, struct catalog *catalog, const struct store *store,
                                 struct offload *offload)
{
    if (!s->request.job.folder)
        return;
    struct layout *j = xcalloc(1, sizeof(*j));
    const struct trace_filter all = {.session_id = s->record.session_id,
                                     .since = RECORD_NONE,
                                     .until = RECORD_NONE,
                                     .before_id = RECORD_NONE,
                                     .limit = RECORD_NONE};
    *j = (struct layout){
        .root = xstrdup(store_path(store)),
        .folder = xstrdup(s->request.job.folder),
        .session_id = s->record.session_id,
    };
    for (int i = 0; i < _JOB_PHASE_MAX; i++)
        if (s->request.job.phases[i].steps > 0)
            j->parts[i].text = layout_describe(s, (enum job_phase)i);
    int r = catalog_each_trace(catalog, &all, layout_take_trace,
                               &(struct layout_listing){.layout = j, .session = s});
    if (r < 0)
        log_warning("cannot list the traces of session s%" PRId64 ": %s", j->session_id, strerror(-r));
    offload_run(offload, layout_make, layout_on_made, j);
}

/* Links in a phase's own directory that lead nowhere any more. */
static void layout_prune_links(int folder, const char *path)
{
    int fd = openat(folder, path, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    char target[4096];

    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (readlinkat(fd, e->d_name, target, sizeof(target)) > 0 && faccessat(fd, e->d_name, F_OK, 0) < 0)
            unlinkat(fd, e->d_name, 0);
    if (dir)
        closedir(dir);
}

static void layout_prune_phase(int folder, const char *phase)
{
    _cleanup_(freep) char *path = xasprintf("profiles/%s", phase), *out = xasprintf("profile_%s.out", phase);
    char target[64];

    if (readlinkat(folder, path, target, sizeof(target)) >= 0) {
        if (faccessat(folder, path, F_OK, 0) == 0)
            return;
        unlinkat(folder, path, 0);
    } else {
        layout_prune_links(folder, path);
        if (unlinkat(folder, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return;
    }
    unlinkat(folder, out, 0);
}

/* Whatever else lies in a folder keeps it. */
static void layout_prune_folder(int root, const char *name)
{
    _cleanup_(closep) int folder = openat(root, name, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);

    if (folder < 0)
        return;
    for (int i = 0; i < _JOB_PHASE_MAX; i++)
        layout_prune_phase(folder, job_phase_name((enum job_phase)i));
    unlinkat(folder, "profiles", AT_REMOVEDIR);
    unlinkat(root, name, AT_REMOVEDIR);
}

static void layout_prune(const char *store_path)
{
    DIR *dir = opendir(store_path);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strchr(e->d_name, '_') && e->d_name[0] != '.')
            layout_prune_folder(dirfd(dir), e->d_name);
    if (dir)
        closedir(dir);
}

static const struct store_layout layout = {.session_ended = layout_session_ended, .prune = layout_prune};
const struct store_layout *const extra_store_layouts[] = {&layout, NULL};
