/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/directory.h"

#include "archive/archive_url.h"
#include "archive/directory_copy.h"
#include "archive/directory_list.h"
#include "archive/s3_request.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/xattr.h>

#define TEMPORARY       ARCHIVE_HIDDEN "tmp"
#define TEMPORARY_AGE_S (7 * 86400)
#define ATTRIBUTE       "user.profd.sha256"
#define FILE_MODE       0640
#define DIRECTORY_MODE  0750
#define ID_SIZE         17         /* hex, with the NUL */
#define NOTES_MAX       (4u << 20) /* bytes of the list of parts */

/* One request in hand. */
struct directory_work {
    const struct archive_directory *directory;
    const struct archive_request *q;
    struct archive_result *ret;
    int root, temporary; /* descriptors of the two directories */
};

/* -- Names -------------------------------------------------------------------------------------------- */

static int directory_open_below(int fd, const char *name, bool create)
{
    if (create && mkdirat(fd, name, DIRECTORY_MODE) < 0 && errno != EEXIST)
        return -errno;
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return inner < 0 ? -errno : inner;
}

/* The directory of a key, and its name there: NAME_MAX + 1 bytes. */
static int directory_open_parent(const struct directory_work *w, bool create, char *name)
{
    _cleanup_(freep) char *path = xstrdup(w->q->key);
    int fd = openat(w->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = fd < 0 ? -errno : 0;

    while (r == 0 && (r = path_take_component(path, name)) == 0 && *path) {
        int inner = directory_open_below(fd, name, create);
        if (inner >= 0 && create)
            fsync(fd);
        close(fd);
        fd = inner;
        r = inner < 0 ? inner : 0;
    }
    if (r < 0 && fd >= 0)
        close(fd);
    return r < 0 ? r : fd;
}

static void directory_new_id(char id[static ID_SIZE])
{
    uint64_t number = 0;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)wall_ns();
    snprintf(id, ID_SIZE, "%016" PRIx64, number);
}

static bool directory_is_id(const char *text)
{
    return text && strspn(text, "0123456789abcdef") == ID_SIZE - 1 && text[ID_SIZE - 1] == '\0';
}

/* Removes what a crash left, long ago. */
static void directory_sweep(const struct directory_work *w)
{
    int fd = openat(w->temporary, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int64_t oldest = wall_ns() / NS_PER_S - TEMPORARY_AGE_S;
    struct dirent *entry;
    struct stat st = {0};

    while (dir && (entry = readdir(dir)))
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_mtim.tv_sec < oldest)
            unlinkat(fd, entry->d_name, 0);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

/* rename() that never replaces; where a file system has no such thing (NFS), a link. */
static int directory_rename_new(int from_fd, const char *from, int to_fd, const char *to)
{
    if (renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(from_fd, from, to_fd, to, 0) < 0)
        return -errno;
    unlinkat(from_fd, from, 0);
    return 0;
}

/* The temporary file becomes the key. */
static int directory_publish(const struct directory_work *w, const char *from, bool exclusive)
{
    char name[NAME_MAX + 1];
    _cleanup_(closep) int fd = directory_open_parent(w, true, name);
    int r = fd < 0 ? fd : 0;

    if (r == 0 && exclusive)
        r = directory_rename_new(w->temporary, from, fd, name);
    else if (r == 0)
        r = renameat(w->temporary, from, fd, name) < 0 ? -errno : 0;
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r;
}

/* -- Objects ------------------------------------------------------------------------------------------ */

static void directory_describe(int fd, const struct stat *st, struct archive_object *ret)
{
    char sha256[ARCHIVE_SHA256_SIZE] = "";

    ret->size = (uint64_t)st->st_size;
    ret->modified_s = st->st_mtim.tv_sec;
    snprintf(ret->etag, sizeof(ret->etag), "%" PRIx64 "-%" PRIx64 ".%lx-%" PRIx64, (uint64_t)st->st_ino,
             (uint64_t)st->st_mtim.tv_sec, (unsigned long)st->st_mtim.tv_nsec, (uint64_t)st->st_size);
    if (fgetxattr(fd, ATTRIBUTE, sha256, sizeof(sha256) - 1) == (ssize_t)sizeof(sha256) - 1 &&
        archive_sha256_is_valid(sha256))
        memcpy(ret->sha256, sha256, sizeof(sha256));
}

/* Its descriptor. -ENOENT also for what is no regular file. */
static int directory_open_object(const struct directory_work *w, struct stat *ret_st)
{
    char name[NAME_MAX + 1];
    _cleanup_(closep) int parent = directory_open_parent(w, false, name);
    int fd = parent < 0 ? parent : open_regular(parent, name, ret_st);

    return fd == -ELOOP || fd == -EINVAL || fd == -ENOTDIR ? -ENOENT : fd;
}

static int directory_head(struct directory_work *w)
{
    struct stat st = {0};
    _cleanup_(closep) int fd = directory_open_object(w, &st);

    if (fd < 0)
        return fd;
    directory_describe(fd, &st, &w->ret->object);
    return 0;
}

static int directory_put(struct directory_work *w)
{
    char id[ID_SIZE], name[NAME_MAX];

    directory_sweep(w);
    directory_new_id(id);
    snprintf(name, sizeof(name), "put-%s", id);
    _cleanup_(closep) int fd = openat(w->temporary, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return -errno;
    const struct directory_copy copy = {w->q, w->directory->rate, w->q->fd, fd, w->q->offset, 0, w->q->size};
    char sha256[ARCHIVE_SHA256_SIZE];
    struct stat st = {0};
    int r = directory_copy_bytes(&copy, sha256);
    if (r == 0 && w->q->sha256 && !streq(w->q->sha256, sha256))
        r = -ESTALE;
    if (r == 0)
        fsetxattr(fd, ATTRIBUTE, sha256, sizeof(sha256) - 1, 0);
    if (r == 0 && (fsync(fd) < 0 || fstat(fd, &st) < 0))
        r = -errno;
    if (r == 0)
        r = directory_publish(w, name, w->q->exclusive);
    if (r < 0) {
        unlinkat(w->temporary, name, 0);
        return r;
    }
    directory_describe(fd, &st, &w->ret->object);
    memcpy(w->ret->object.sha256, sha256, sizeof(sha256));
    return 0;
}

static int directory_get(struct directory_work *w)
{
    const struct archive_request *q = w->q;
    struct stat st = {0};
    _cleanup_(closep) int fd = directory_open_object(w, &st);

    if (fd < 0)
        return fd;
    uint64_t total = (uint64_t)st.st_size;
    if (q->offset > total || (q->offset == total && (q->offset > 0 || q->size > 0)))
        return -ERANGE;
    uint64_t size = q->size > 0 ? MIN(q->size, total - q->offset) : total - q->offset;
    if (q->size_max > 0 && size > q->size_max)
        return -EFBIG;
    const struct directory_copy copy = {q, w->directory->rate, fd, q->fd, q->offset, 0, size};
    char sha256[ARCHIVE_SHA256_SIZE];
    int r = directory_copy_bytes(&copy, sha256);
    if (r < 0)
        return r;
    directory_describe(fd, &st, &w->ret->object);
    const char *wanted = q->sha256 ? q->sha256 : size == total ? w->ret->object.sha256 : "";
    if (*wanted && !streq(wanted, sha256))
        return -EBADMSG;
    w->ret->object.size = size;
    memcpy(w->ret->object.sha256, sha256, sizeof(sha256));
    return 0;
}

static int directory_delete(struct directory_work *w)
{
    char name[NAME_MAX + 1];
    _cleanup_(closep) int parent = directory_open_parent(w, false, name);
    int r = parent < 0 ? parent : unlinkat(parent, name, 0) < 0 ? -errno : fsync(parent) < 0 ? -errno : 0;

    return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int directory_list(struct directory_work *w)
{
    return archive_directory_list(w->root, w->q, w->ret);
}

/* -- Uploads: a temporary file, and a list of its parts that is written after them --------------------- */

static int directory_open_upload(const struct directory_work *w, const char *kind, int flags)
{
    char name[NAME_MAX];

    if (!directory_is_id(w->q->upload_id))
        return -ENOENT;
    snprintf(name, sizeof(name), "%s-%s", kind, w->q->upload_id);
    int fd = openat(w->temporary, name, flags | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    return fd < 0 ? -errno : fd;
}

static void directory_remove_upload(const struct directory_work *w)
{
    static const char *const kinds[] = {"upload", "parts"};
    char name[NAME_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        snprintf(name, sizeof(name), "%s-%s", kinds[i], w->q->upload_id);
        unlinkat(w->temporary, name, 0);
    }
}

static int directory_upload_create(struct directory_work *w)
{
    char id[ID_SIZE], name[NAME_MAX];

    directory_sweep(w);
    directory_new_id(id);
    snprintf(name, sizeof(name), "upload-%s", id);
    _cleanup_(closep) int fd = openat(w->temporary, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd < 0 || fsync(fd) < 0 || fsync(w->temporary) < 0)
        return -errno;
    if (w->q->sha256)
        fsetxattr(fd, ATTRIBUTE, w->q->sha256, ARCHIVE_SHA256_SIZE - 1, 0);
    w->ret->upload_id = xstrdup(id);
    return 0;
}

static int directory_upload_part(struct directory_work *w)
{
    _cleanup_(closep) int fd = directory_open_upload(w, "upload", O_RDWR);
    const struct directory_copy copy = {w->q,         w->directory->rate, w->q->fd,  fd,
                                        w->q->offset, w->q->offset,       w->q->size};
    char *sha256 = w->ret->object.sha256, note[ARCHIVE_SHA256_SIZE + 64];
    int r = fd < 0 ? fd : directory_copy_bytes(&copy, sha256);

    if (r == 0 && w->q->sha256 && !streq(w->q->sha256, sha256))
        r = -ESTALE;
    if (r == 0 && fdatasync(fd) < 0)
        r = -errno;
    if (r < 0)
        return r;
    _cleanup_(closep) int notes = directory_open_upload(w, "parts", O_WRONLY | O_CREAT | O_APPEND);
    if (notes < 0)
        return notes;
    /* It begins with a newline, too: a crash may have cut the line before. */
    int n = snprintf(note, sizeof(note), "\n%u %" PRIu64 " %" PRIu64 " %s\n", w->q->part, w->q->offset,
                     w->q->size, sha256);
    r = write_all(notes, note, (size_t)n);
    if (r == 0 && fdatasync(notes) < 0)
        r = -errno;
    w->ret->object.size = w->q->size;
    snprintf(w->ret->object.etag, sizeof(w->ret->object.etag), "%s", sha256);
    return r;
}

struct directory_note {
    unsigned part;
    uint64_t offset, size;
    char sha256[ARCHIVE_SHA256_SIZE];
};

/* The latest line of each part, by number: notes has ARCHIVE_PARTS_MAX + 1. A line that a crash cut is none. */
static int directory_read_notes(const struct directory_work *w, struct directory_note *notes)
{
    _cleanup_(closep) int fd = directory_open_upload(w, "parts", O_RDONLY);
    _cleanup_(freep) char *text = NULL;
    int r = fd < 0 ? fd : read_fd(fd, NOTES_MAX, &text, NULL);

    if (r == -ENOENT)
        return 0; /* no part yet */
    if (r < 0)
        return r;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        struct directory_note note = {0};
        *end = '\0';
        if (sscanf(line, "%u %" SCNu64 " %" SCNu64 " %64s", &note.part, &note.offset, &note.size,
                   note.sha256) == 4 &&
            note.part >= 1 && note.part <= ARCHIVE_PARTS_MAX && archive_sha256_is_valid(note.sha256))
            notes[note.part] = note;
    }
    return 0;
}

static int directory_upload_parts(struct directory_work *w)
{
    _cleanup_(closep) int fd = directory_open_upload(w, "upload", O_RDONLY);
    _cleanup_(freep) struct directory_note *notes = xcalloc(ARCHIVE_PARTS_MAX + 1, sizeof(*notes));
    int r = fd < 0 ? fd : directory_read_notes(w, notes);

    for (unsigned i = 1; i <= ARCHIVE_PARTS_MAX && r == 0; i++) {
        if (notes[i].part == 0)
            continue;
        VEC_GROW(w->ret->parts, w->ret->n_parts, w->ret->cap_parts);
        struct archive_part *part = &w->ret->parts[w->ret->n_parts++];
        *part = (struct archive_part){.number = i, .size = notes[i].size};
        snprintf(part->etag, sizeof(part->etag), "%s", notes[i].sha256);
    }
    return r;
}

/* All parts that the caller names are there, one after another, and nothing else. */
static int directory_check_parts(const struct directory_work *w, const struct directory_note *notes,
                                 uint64_t size)
{
    uint64_t at = 0;

    for (size_t i = 0; i < w->q->n_parts; i++) {
        const struct directory_note *note = &notes[w->q->parts[i].number];
        if (note->part == 0 || !streq(note->sha256, w->q->parts[i].etag) || note->offset != at)
            return -ESTALE;
        at += note->size;
    }
    return at == size ? 0 : -ESTALE;
}

static int directory_upload_complete(struct directory_work *w)
{
    _cleanup_(closep) int fd = directory_open_upload(w, "upload", O_RDWR);
    _cleanup_(freep) struct directory_note *notes = xcalloc(ARCHIVE_PARTS_MAX + 1, sizeof(*notes));
    char name[NAME_MAX];
    struct stat st = {0};
    int r = fd < 0 ? fd : directory_read_notes(w, notes);

    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    if (r == 0)
        r = directory_check_parts(w, notes, (uint64_t)st.st_size);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r < 0)
        return r;
    snprintf(name, sizeof(name), "upload-%s", w->q->upload_id);
    r = directory_publish(w, name, true);
    if (r < 0)
        return r;
    directory_describe(fd, &st, &w->ret->object);
    directory_remove_upload(w);
    return 0;
}

static int directory_upload_abort(struct directory_work *w)
{
    _cleanup_(closep) int fd = directory_open_upload(w, "upload", O_RDONLY);

    if (fd < 0)
        return fd;
    directory_remove_upload(w);
    return 0;
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static int (*const verbs[_ARCHIVE_VERB_MAX])(struct directory_work *w) = {
    [ARCHIVE_PUT] = directory_put,
    [ARCHIVE_HEAD] = directory_head,
    [ARCHIVE_GET] = directory_get,
    [ARCHIVE_DELETE] = directory_delete,
    [ARCHIVE_LIST] = directory_list,
    [ARCHIVE_UPLOAD_CREATE] = directory_upload_create,
    [ARCHIVE_UPLOAD_PART] = directory_upload_part,
    [ARCHIVE_UPLOAD_PARTS] = directory_upload_parts,
    [ARCHIVE_UPLOAD_COMPLETE] = directory_upload_complete,
    [ARCHIVE_UPLOAD_ABORT] = directory_upload_abort,
};

static const struct {
    int err;
    enum problem_kind kind;
    const char *what; /* NULL: as strerror() has it */
    const char *remedy;
} directory_errors[] = {
    {-ENODEV, PROBLEM_STORAGE, "the directory does not exist", "Mount or create it, or correct url=."},
    {-EEXIST, PROBLEM_CONFLICT, "the object exists", NULL},
    {-ENOENT, PROBLEM_NOT_FOUND, "there is no such object or upload", NULL},
    {-EACCES, PROBLEM_DENIED, NULL, "Let the user that runs this program read and write there."},
    {-EPERM, PROBLEM_DENIED, NULL, "Let the user that runs this program read and write there."},
    {-EROFS, PROBLEM_STORAGE, NULL, "Mount the file system read-write."},
    {-ENOSPC, PROBLEM_STORAGE, NULL, "Delete old objects, or enlarge the file system."},
    {-EDQUOT, PROBLEM_STORAGE, NULL, "Delete old objects, or raise the quota."},
    {-ESTALE, PROBLEM_CONFLICT, "a file or a part changed meanwhile", NULL},
    {-EBADMSG, PROBLEM_STORAGE, "the SHA-256 of the content is not the expected one",
     "Check the file system; upload the object again from a host that still has it."},
    {-ERANGE, PROBLEM_BAD_REQUEST, "the object is shorter", NULL},
    {-EFBIG, PROBLEM_TOO_LARGE, "the object is larger than permitted", NULL},
    {-ETIMEDOUT, PROBLEM_STORAGE, "the deadline passed", "Check how fast the file system is (rate=)."},
};

static int directory_fail(const struct directory_work *w, int err)
{
    struct problem *p = &w->ret->problem;
    enum problem_kind kind = PROBLEM_STORAGE;
    const char *what = NULL, *remedy = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(directory_errors); i++)
        if (directory_errors[i].err == err) {
            kind = directory_errors[i].kind;
            what = directory_errors[i].what;
            remedy = directory_errors[i].remedy;
        }
    problem_set(p, err, kind, "cannot %s %s%s%s: %s", s3_verb_text(w->q->verb), w->directory->name,
                w->q->key[0] ? "/" : "", w->q->key, what ? what : strerror(-err));
    if (remedy)
        problem_remedy(p, "%s", remedy);
    return w->ret->err = err;
}

int archive_directory_perform(const struct archive_directory *d, const struct archive_request *q,
                              struct archive_result *ret)
{
    struct directory_work w = {d, q, ret, -1, -1};
    bool is_reading = q->verb == ARCHIVE_HEAD || q->verb == ARCHIVE_GET || q->verb == ARCHIVE_LIST;
    int r = 0;

    ret->n_attempts = 1;
    w.root = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.root < 0)
        return directory_fail(&w, errno == ENOENT ? -ENODEV : -errno);
    if (!is_reading) {
        w.temporary = directory_open_below(w.root, TEMPORARY, true);
        r = w.temporary < 0 ? w.temporary : 0;
    }
    if (r == 0)
        r = verbs[q->verb](&w);
    closep(&w.temporary);
    closep(&w.root);
    return r < 0 ? directory_fail(&w, r) : 0;
}
