/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/download.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#define SHOW_INTERVAL_NS (200 * NS_PER_MS)
#define HASH_BLOCK       (1 << 20)
/* Of a file on another host: profd passes a range of that size on without a copy of its own. */
#define REMOTE_RANGE (INT64_C(4) << 20)

struct download_state {
    struct client *c;
    const struct download *d;
    int fd;
    EVP_MD_CTX *hash;
    int64_t size, begin_ns, next_show;
    int64_t skip; /* bytes that were received before, and come again */
};

static void digest_text(EVP_MD_CTX *hash, char *ret)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    EVP_DigestFinal_ex(hash, digest, &n);
    for (unsigned i = 0; i < n && 2 * i + 2 < SHA256_TEXT; i++)
        sprintf(ret + (size_t)2 * i, "%02x", digest[i]);
}

static void download_show(struct download_state *a)
{
    char done[UNIT_TEXT_MAX], total[UNIT_TEXT_MAX], rate[UNIT_TEXT_MAX];
    int64_t now = mono_ns(), elapsed = now - a->begin_ns, expected = a->d->size;

    if (a->c->quiet || !a->c->err.is_terminal || elapsed < NS_PER_S || now < a->next_show)
        return;
    a->next_show = now + SHOW_INTERVAL_NS;
    int percent = expected > 0 ? (int)(100.0 * (double)a->size / (double)expected) : 0;
    _cleanup_(freep) char *name = text_clean(a->d->name, false);
    _cleanup_(freep) char *line = xasprintf(
        "%3d %%  %s of %s  %s/s  %s\n", percent, format_size(done, a->size), format_size(total, expected),
        format_size(rate, (int64_t)((double)a->size * 1e9 / (double)elapsed)), name);
    screen_draw(&a->c->err, line);
}

static int download_on_bytes(const void *data, size_t size, void *arg)
{
    struct download_state *a = arg;
    size_t again = (size_t)MIN((int64_t)size, a->skip);

    a->skip -= (int64_t)again;
    data = (const char *)data + again;
    size -= again;
    a->size += (int64_t)size;
    if (a->d->size >= 0 && a->size > a->d->size)
        return -EBADMSG;
    EVP_DigestUpdate(a->hash, data, size);
    download_show(a);
    return write_all(a->fd, data, size);
}

static int download_check(const struct download_state *a, struct problem *p)
{
    char got[SHA256_TEXT] = "";

    digest_text(a->hash, got);
    bool size_differs = a->d->size >= 0 && a->size != a->d->size;
    if (!size_differs && (!a->d->sha256 || streq(a->d->sha256, got)))
        return 0;
    problem_remedy(p, "Retry; profctl show %s prints the path of the file on profd's host.", a->d->id);
    return problem_set(p, -EBADMSG, PROBLEM_UPSTREAM,
                       "the downloaded file of %s differs from the catalog: %s", a->d->id,
                       size_differs ? "its size differs" : "its SHA-256 differs");
}

/* A complete file would first be copied by the profd that is asked, and nothing would be seen of it meanwhile. What comes
 * from the archive is such a copy, for each range: then the rest is that of a complete file. */
static int download_ranges(struct download_state *a, struct problem *p)
{
    int r = 0;

    while (a->size < a->d->size && r >= 0) {
        int64_t begin = a->size;
        r = connection_download_range(a->c->connection, a->d->path, begin,
                                      MIN(a->d->size - begin, REMOTE_RANGE), download_on_bytes, a, p);
        if (r >= 0 && a->size == begin)
            r = problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "incomplete response");
        if (r >= 0 && a->size < a->d->size && connection_came_from_archive(a->c->connection)) {
            a->skip = a->size;
            return connection_download(a->c->connection, a->d->path, download_on_bytes, a, p);
        }
    }
    return r;
}

int download(struct client *c, const struct download *d, int fd, struct problem *p)
{
    struct download_state a = {.c = c, .d = d, .fd = fd, .hash = EVP_MD_CTX_new(), .begin_ns = mono_ns()};

    if (!a.hash || EVP_DigestInit_ex(a.hash, EVP_sha256(), NULL) != 1)
        abort();
    int r = d->is_remote && d->size > 0 && !connection_is_on_bus(c->connection)
                ? download_ranges(&a, p)
                : connection_download(c->connection, d->path, download_on_bytes, &a, p);
    screen_clear(&c->err);
    if (r == -EBADMSG || r == 0) {
        problem_done(p);
        r = download_check(&a, p);
    }
    EVP_MD_CTX_free(a.hash);
    return r;
}

bool archive_is_configured(struct client *c)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ archive = NULL;

    return connection_call(c->connection, "GET", "/v1/archive", NULL, NULL, &archive, &p) == 0 &&
           !streq(json_get_str(archive, "state"), "off");
}

bool trace_json_is_archived(const json_t *trace)
{
    return json_object_get(trace, "archived_at") && !json_get_bool(trace, "stored", false);
}

static void fetch_show(struct client *c, const char *id, const json_t *answer, int64_t begin_ns)
{
    char done[UNIT_TEXT_MAX], total[UNIT_TEXT_MAX];
    int64_t bytes = json_get_int(answer, "bytes", 0), size = json_get_int(answer, "size", 0);

    if (c->quiet || !c->err.is_terminal)
        return;
    int percent = size > 0 ? (int)(100.0 * (double)bytes / (double)size) : 0;
    _cleanup_(freep) char *line = xasprintf("%3d %%  %s of %s  fetching %s from the archive (%d s)\n",
                                            percent, format_size(done, bytes), format_size(total, size), id,
                                            (int)((mono_ns() - begin_ns) / NS_PER_S));
    screen_draw(&c->err, line);
}

int download_from_archive(struct client *c, const json_t *trace, bool columns, struct problem *p)
{
    const char *id = json_get_str(trace, "trace");
    int64_t begin_ns = mono_ns();
    /* The profd of another host fetches its traces when they are asked for. */
    bool is_there = !trace_json_is_archived(trace) || json_get_str(trace, "host_uuid");
    int r = 0;

    _cleanup_(freep) char *path =
        xasprintf("/v1/traces/%s/fetch?columns=%s", id ? id : "", columns ? "true" : "false");
    while (r >= 0 && !is_there) {
        _cleanup_json_ answer = NULL;
        r = connection_call(c->connection, "POST", path, NULL, NULL, &answer, p);
        is_there = r >= 0 && !streq(json_get_str(answer, "state"), "fetching");
        if (r >= 0 && !is_there)
            fetch_show(c, id ? id : "", answer, begin_ns);
    }
    screen_clear(&c->err);
    return r;
}

int download_trace(struct client *c, const json_t *trace, int fd, struct problem *p)
{
    const char *id = json_get_str(trace, "trace"), *name = json_get_str(trace, "name");
    const char *host = json_get_str(trace, "host");
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s/file", id ? id : "");
    int r = download_from_archive(c, trace, false, p);

    if (r < 0)
        return r;
    r = download(c,
                 &(struct download){.path = path,
                                    .id = id ? id : "",
                                    .name = name ? name : "",
                                    .size = json_get_int(trace, "size", -1),
                                    .sha256 = json_get_str(trace, "sha256"),
                                    .is_remote = json_get_str(trace, "host_uuid")},
                 fd, p);
    if (r >= 0 && connection_came_from_archive(c->connection))
        client_note(c, "%s comes from the archive: %s did not deliver it", id ? id : "",
                    host ? host : "its host");
    return r;
}

int download_to_file(struct client *c, const json_t *trace, const char *path, struct problem *p)
{
    _cleanup_(output_done) struct output out = {0};

    client_hold_signals();
    int r = output_open_as_is(path, &out, p);
    if (r == 0)
        r = download_trace(c, trace, fileno(out.file), p);
    return r == 0 ? output_keep(&out, p) : r;
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
