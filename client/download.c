/* SPDX-License-Identifier: Apache-2.0 */
#include "client/download.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/follow.h"
#include "client/text.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#define SHOW_INTERVAL_NS (200 * NS_PER_MS)
#define HASH_BLOCK       (1 << 20)

struct download {
    struct client *c;
    const char *name;
    int fd;
    EVP_MD_CTX *hash;
    int64_t size, expected, begin_ns, next_show;
};

static void digest_text(EVP_MD_CTX *hash, char *ret)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    EVP_DigestFinal_ex(hash, digest, &n);
    for (unsigned i = 0; i < n && 2 * i + 2 < SHA256_TEXT; i++)
        sprintf(ret + (size_t)2 * i, "%02x", digest[i]);
}

static void show(struct download *d)
{
    char done[UNIT_TEXT_MAX], whole[UNIT_TEXT_MAX], rate[UNIT_TEXT_MAX];
    int64_t now = mono_ns(), elapsed = now - d->begin_ns;

    if (d->c->quiet || !d->c->err.is_terminal || elapsed < NS_PER_S || now < d->next_show)
        return;
    d->next_show = now + SHOW_INTERVAL_NS;
    int percent = d->expected > 0 ? (int)(100.0 * (double)d->size / (double)d->expected) : 0;
    _cleanup_(freep) char *name = text_clean(d->name, false);
    _cleanup_(freep) char *line = xasprintf(
        "%3d %%  %s of %s  %s/s  %s\n", percent, format_size(done, d->size), format_size(whole, d->expected),
        format_size(rate, (int64_t)((double)d->size * 1e9 / (double)elapsed)), name);
    screen_draw(&d->c->err, line);
}

static int on_bytes(const void *data, size_t size, void *arg)
{
    struct download *d = arg;

    d->size += (int64_t)size;
    if (d->expected >= 0 && d->size > d->expected)
        return -EBADMSG;
    EVP_DigestUpdate(d->hash, data, size);
    show(d);
    return write_all(d->fd, data, size);
}

static int check(const struct download *d, const json_t *trace, struct problem *p)
{
    const char *id = json_get_str(trace, "trace"), *sha256 = json_get_str(trace, "sha256");
    char got[SHA256_TEXT] = "";

    digest_text(d->hash, got);
    bool size_differs = d->expected >= 0 && d->size != d->expected;
    if (!size_differs && (!sha256 || streq(sha256, got)))
        return 0;
    problem_set(p, -EBADMSG, PROBLEM_UPSTREAM, "what arrived of %s is not what was recorded: %s", id,
                size_differs ? "its size differs" : "its SHA-256 differs");
    problem_remedy(p, "Try again; if it stays, profctl show %s names the file on profd's host.", id);
    return -EBADMSG;
}

int download_trace(struct client *c, const json_t *trace, int fd, struct problem *p)
{
    const char *id = json_get_str(trace, "trace"), *name = json_get_str(trace, "name");
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s/file", id ? id : "");
    struct download d = {.c = c,
                         .name = name ? name : "",
                         .fd = fd,
                         .hash = EVP_MD_CTX_new(),
                         .expected = json_get_int(trace, "size", -1),
                         .begin_ns = mono_ns()};

    if (!d.hash || EVP_DigestInit_ex(d.hash, EVP_sha256(), NULL) != 1)
        abort();
    int r = door_download(c->door, path, on_bytes, &d, p);
    screen_clear(&c->err);
    if (r == -EBADMSG || r == 0) {
        problem_done(p);
        r = check(&d, trace, p);
    }
    EVP_MD_CTX_free(d.hash);
    return r;
}

static int cannot_write(const char *path, int err, struct problem *p)
{
    return problem_set(p, -err, PROBLEM_STORAGE, "cannot write %s: %s", path, strerror(err));
}

/* As open(2) would have made it. */
static mode_t default_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

int download_to_file(struct client *c, const json_t *trace, const char *path, struct problem *p)
{
    const char *slash = strrchr(path, '/');
    _cleanup_(freep) char *part = xasprintf("%.*s.profctl-XXXXXX", slash ? (int)(slash + 1 - path) : 0, path);
    follow_hold_signals();
    _cleanup_(closep) int fd = mkostemp(part, O_CLOEXEC);

    if (fd < 0)
        return cannot_write(path, errno, p);
    int r = download_trace(c, trace, fd, p);
    if (r == 0 && (fchmod(fd, default_mode()) < 0 || fsync(fd) < 0 || rename(part, path) < 0))
        r = cannot_write(path, errno, p);
    if (r < 0)
        unlink(part);
    return r;
}

int file_sha256(const char *path, char *ret)
{
    _cleanup_(closep) int fd = open_regular(AT_FDCWD, path, NULL);
    _cleanup_(freep) char *block = xcalloc(HASH_BLOCK, 1);
    ssize_t n = 0;

    if (fd < 0)
        return fd;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
        abort();
    while ((n = read(fd, block, HASH_BLOCK)) > 0)
        EVP_DigestUpdate(hash, block, (size_t)n);
    digest_text(hash, ret);
    EVP_MD_CTX_free(hash);
    return n < 0 ? -errno : 0;
}
