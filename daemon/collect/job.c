/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/job.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define DIRECTORY_MODE 0750
#define FILE_MODE      0640

struct job {
    char *root, *folder, *text;
    const char *phase;
    int64_t session_id;
    int err;
};

/* -- What was done ------------------------------------------------------------------------------------ */

static void put_moment(FILE *out, const char *what, int64_t at, int64_t status)
{
    char when[UNIT_TEXT_MAX];

    if (at == RECORD_NONE)
        return;
    fprintf(out, "  %s %s", what, format_time(when, at));
    if (status != RECORD_NONE)
        fprintf(out, " (%" PRId64 ")", status);
    putc('\n', out);
}

static char *describe(const struct session *s)
{
    const struct recording *r = &s->request.recording;
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    fprintf(out, "%s, %s: session s%" PRId64 " is %s\n", s->request.job.folder, s->request.job.phase,
            s->record.session_id, state_name(s->record.state));
    if (s->record.reason)
        fprintf(out, "%s\n", s->record.reason);
    fprintf(out, "steps %" PRId64 " to %" PRId64 "\n", r->start_step, r->start_step + r->steps);
    if (s->run_id > 0)
        fprintf(out, "load r%" PRId64 "\n", s->run_id);
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct target *t = &s->targets[i];
        fprintf(out, "%s: %s%s%s\n", t->worker.url, state_name(t->record.state),
                t->record.failure ? ": " : "", t->record.failure ? t->record.failure : "");
        put_moment(out, "start", t->record.start_sent_at, t->record.start_status);
        put_moment(out, "stop", t->record.stop_sent_at, t->record.stop_status);
    }
    fclose(out);
    return text;
}

/* -- Laying out --------------------------------------------------------------------------------------- */

static int open_directory(int at, const char *name)
{
    if (mkdirat(at, name, DIRECTORY_MODE) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(at, name, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int write_text(int folder_fd, const char *name, const char *text)
{
    _cleanup_(closep) int fd =
        openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -EIO;
}

static void lay_out(void *arg)
{
    struct job *j = arg;
    _cleanup_(freep) char *target = xasprintf("../../s%" PRId64, j->session_id),
                          *out = xasprintf("profile_%s.out", j->phase);
    _cleanup_(closep) int root = open(j->root, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    _cleanup_(closep) int folder = root < 0 ? -1 : open_directory(root, j->folder);
    _cleanup_(closep) int profiles = folder < 0 ? -1 : open_directory(folder, "profiles");

    if (profiles < 0)
        j->err = -ENOENT;
    else if (symlinkat(target, profiles, j->phase) < 0)
        j->err = -errno;
    else
        j->err = write_text(folder, out, j->text);
}

static void on_laid_out(void *arg)
{
    struct job *j = arg;

    if (j->err < 0)
        log_warning("cannot lay out %s/%s for session s%" PRId64 ": %s", j->folder, j->phase, j->session_id,
                    strerror(-j->err));
    free(j->root);
    free(j->folder);
    free(j->text);
    free(j);
}

void job_lay_out(const struct session *s, const struct store *store, struct offload *offload)
{
    if (!s->request.job.folder)
        return;
    struct job *j = xcalloc(1, sizeof(*j));
    *j = (struct job){
        .root = xstrdup(store_path(store)),
        .folder = xstrdup(s->request.job.folder),
        .phase = s->request.job.phase,
        .text = describe(s),
        .session_id = s->record.session_id,
    };
    offload_run(offload, lay_out, on_laid_out, j);
}

/* -- Taking away -------------------------------------------------------------------------------------- */

static void prune_phase(int folder, const char *phase)
{
    _cleanup_(freep) char *link = xasprintf("profiles/%s", phase), *out = xasprintf("profile_%s.out", phase);
    char target[64];

    if (readlinkat(folder, link, target, sizeof(target)) < 0 || faccessat(folder, link, F_OK, 0) == 0)
        return;
    unlinkat(folder, link, 0);
    unlinkat(folder, out, 0);
}

/* Whatever else lies in a folder keeps it. */
static void prune_folder(int root, const char *name)
{
    static const char *const phases[] = {"prefill", "decode", "aggregated"};
    _cleanup_(closep) int folder = openat(root, name, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);

    if (folder < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(phases); i++)
        prune_phase(folder, phases[i]);
    unlinkat(folder, "profiles", AT_REMOVEDIR);
    unlinkat(root, name, AT_REMOVEDIR);
}

void job_prune(const char *store_path)
{
    DIR *dir = opendir(store_path);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strchr(e->d_name, '_') && e->d_name[0] != '.')
            prune_folder(dirfd(dir), e->d_name);
    if (dir)
        closedir(dir);
}
