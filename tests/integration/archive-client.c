/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to an archive from the command line: archive-client [OPTION...] VERB [ARGUMENT...]; one line of JSON a request.
 * With --loop on an event loop, several uploads at a time; without it blocking, one after another.
 */
#include "archive/upload.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/units.h"
#include "daemon/archive/archive_loop.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <openssl/evp.h>
#include <signal.h>

#define TRANSFERS  4

#define STATE_MAX  (4u << 20)
#define THREADS    2
#define BLOCK_SIZE (256u << 10)

struct client {
    struct archive_settings settings;
    bool on_loop, exclusive;
    int64_t deadline_ns, offset, size, size_max;
    const char *sha256, *upload_id, *state_path, *after;
    unsigned part, max;
    struct archive *archive;
    struct event_base *base;
    struct offload *offload;
    struct archive_loop *loop;
    unsigned n_open; /* uploads */
    int status;
};

/* -- Output ------------------------------------------------------------------------------------------- */

static json_t *client_object(const struct archive_object *o)
{
    json_t *j = json_object();

    json_put_str(j, "key", o->key);
    json_object_set_new(j, "size", json_integer((json_int_t)o->size));
    json_put_int(j, "modified", o->modified_s);
    json_put_str(j, "etag", o->etag);
    json_put_str(j, "sha256", o->sha256);
    return j;
}

static void client_print(struct client *c, json_t *j)
{
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(j);
}

static json_t *client_failure(struct client *c, int err, const struct problem *p)
{
    json_t *j = json_object();

    json_object_set_new(j, "err", json_integer(err));
    if (err == 0)
        return j;
    c->status = 1;
    json_put_str(j, "error", strerrorname_np(-err));
    json_put_str(j, "code", problem_code(p->kind));
    json_put_str(j, "what", p->what);
    json_put_str(j, "remedy", p->remedy);
    return j;
}

static void client_on_result(struct archive_result *r, void *arg)
{
    struct client *c = arg;
    json_t *j = client_failure(c, r->err, &r->problem), *objects = json_array(), *parts = json_array();

    json_object_set_new(j, "object", client_object(&r->object));
    json_object_set_new(j, "attempts", json_integer(r->n_attempts));
    json_object_set_new(j, "skipped", json_integer((json_int_t)r->n_skipped));
    json_put_str(j, "upload_id", r->upload_id);
    json_put_str(j, "next", r->next);
    for (size_t i = 0; i < r->n_objects; i++)
        json_array_append_new(objects, client_object(&r->objects[i]));
    for (size_t i = 0; i < r->n_parts; i++)
        json_array_append_new(parts, json_pack("{si,sI,ss}", "number", (int)r->parts[i].number, "size",
                                               (json_int_t)r->parts[i].size, "etag", r->parts[i].etag));
    json_object_set_new(j, "objects", objects);
    json_object_set_new(j, "parts", parts);
    client_print(c, j);
    if (c->base)
        event_base_loopbreak(c->base);
}

/* -- Uploads ------------------------------------------------------------------------------------------ */

struct client_upload {
    struct client *client;
    struct archive_file file;
    char sha256[ARCHIVE_SHA256_SIZE];
    struct archive_upload *upload;
    struct archive_request q;
};

static void client_hash(int fd, uint64_t size, char ret[static ARCHIVE_SHA256_SIZE])
{
    static char block[BLOCK_SIZE];
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    ssize_t n;

    EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    for (uint64_t at = 0; at < size && (n = pread_full(fd, block, sizeof(block), at)) > 0; at += (uint64_t)n)
        EVP_DigestUpdate(hash, block, (size_t)n);
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
    for (size_t i = 0; i < ARCHIVE_SHA256_SIZE / 2; i++)
        sprintf(ret + 2 * i, "%02x", digest[i]);
}

static int client_keep(const struct archive_upload_state *state, void *arg)
{
    struct client *c = arg;
    json_t *etags, *j;

    if (!c->state_path)
        return 0;
    etags = json_array();
    for (size_t i = 0; i < state->n_parts; i++)
        json_array_append_new(etags, json_string(state->parts[i].etag));
    j = json_pack("{ss*,so}", "upload_id", state->upload_id, "etags", etags);
    _cleanup_(freep) char *temporary = xasprintf("%s.new", c->state_path);
    int r = json_dump_file(j, temporary, 0) < 0 || rename(temporary, c->state_path) < 0 ? -EIO : 0;
    json_decref(j);
    return r;
}

static void client_read_state(const struct client *c, struct archive_upload_state *ret)
{
    _cleanup_json_ j = c->state_path ? json_load_file(c->state_path, 0, NULL) : NULL;
    const json_t *etags = json_object_get(j, "etags"), *etag;
    size_t i;

    *ret = (struct archive_upload_state){.upload_id = xstrdup(json_get_str(j, "upload_id")),
                                         .n_parts = json_array_size(etags)};
    ret->parts = xcalloc(ret->n_parts + 1, sizeof(*ret->parts));
    json_array_foreach(etags, i, etag) {
        ret->parts[i].number = (unsigned)i + 1;
        snprintf(ret->parts[i].etag, ARCHIVE_ETAG_MAX, "%s", json_string_value(etag));
    }
}

static void client_upload_open(struct client *c, const char *key, const char *path, struct client_upload *ret)
{
    struct archive_upload_state kept;
    struct stat st;
    int fd = open_regular(AT_FDCWD, path, &st);

    if (fd < 0) {
        fprintf(stderr, "archive-client: %s: %s\n", path, strerror(-fd));
        exit(2);
    }
    *ret = (struct client_upload){.client = c, .file = {.key = key, .fd = fd, .size = (uint64_t)st.st_size}};
    client_hash(fd, ret->file.size, ret->sha256);
    ret->file.sha256 = c->sha256 ? c->sha256 : ret->sha256;
    client_read_state(c, &kept);
    ret->upload = archive_upload_new(&ret->file, &kept, c->deadline_ns, 0);
    free(kept.upload_id);
    free(kept.parts);
}

static void client_upload_close(struct client_upload *u)
{
    const struct problem *p;
    int err = archive_upload_result(u->upload, &p);
    json_t *j = client_failure(u->client, err, p);

    json_object_set_new(j, "existed", json_boolean(archive_upload_existed(u->upload)));
    json_put_str(j, "key", u->file.key);
    client_print(u->client, j);
    archive_upload_free(u->upload);
    close(u->file.fd);
}

static void client_upload_on_result(struct archive_result *r, void *arg);

static void client_upload_go_on(struct client_upload *u)
{
    if (archive_upload_next(u->upload, &u->q)) {
        archive_start(u->client->loop, &u->q, client_upload_on_result, u);
        return;
    }
    client_upload_close(u);
    if (--u->client->n_open == 0)
        event_base_loopbreak(u->client->base);
}

static void client_upload_on_result(struct archive_result *r, void *arg)
{
    struct client_upload *u = arg;

    archive_upload_take(u->upload, r);
    client_keep(archive_upload_state(u->upload), u->client);
    client_upload_go_on(u);
}

/* Without an event loop. */
static void client_upload_run(struct client *c, struct archive_upload *upload)
{
    struct archive_request q;
    int r = 0;

    while (r == 0 && archive_upload_next(upload, &q)) {
        struct archive_result result;
        archive_perform(c->archive, &q, &result);
        archive_upload_take(upload, &result);
        archive_result_done(&result);
        r = client_keep(archive_upload_state(upload), c);
    }
}

/* KEY FILE [KEY FILE]... */
static void client_uploads(struct client *c, char **words, int n)
{
    size_t n_files = (size_t)n / 2;
    _cleanup_(freep) struct client_upload *uploads = xcalloc(n_files + 1, sizeof(*uploads));

    c->n_open = (unsigned)n_files;
    for (size_t i = 0; i < n_files; i++) {
        client_upload_open(c, words[2 * i], words[2 * i + 1], &uploads[i]);
        if (c->on_loop) {
            client_upload_go_on(&uploads[i]);
            continue;
        }
        client_upload_run(c, uploads[i].upload);
        client_upload_close(&uploads[i]);
    }
    if (c->on_loop && c->n_open > 0)
        event_base_dispatch(c->base);
}

/* -- One request -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum archive_verb verb;
    int flags; /* of the file; -1: none */
} client_verbs[] = {
    {"put", ARCHIVE_PUT, O_RDONLY},
    {"head", ARCHIVE_HEAD, -1},
    {"get", ARCHIVE_GET, O_RDWR | O_CREAT | O_TRUNC},
    {"delete", ARCHIVE_DELETE, -1},
    {"list", ARCHIVE_LIST, -1},
    {"create", ARCHIVE_UPLOAD_CREATE, -1},
    {"part", ARCHIVE_UPLOAD_PART, O_RDONLY},
    {"parts", ARCHIVE_UPLOAD_PARTS, -1},
    {"complete", ARCHIVE_UPLOAD_COMPLETE, -1},
    {"abort", ARCHIVE_UPLOAD_ABORT, -1},
};

static uint64_t client_file_size(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* KEY [FILE], or for complete KEY ETAG... */
static int client_request(struct client *c, const char *name, char **words, int n)
{
    struct archive_request q = {.key = n > 0 ? words[0] : "", .fd = -1};
    struct archive_result result;
    struct archive_part parts[16] = {{0}};
    size_t i = 0;

    while (i < ARRAY_SIZE(client_verbs) && !streq(client_verbs[i].name, name))
        i++;
    if (i == ARRAY_SIZE(client_verbs))
        return 2;
    q.verb = client_verbs[i].verb;
    if (client_verbs[i].flags >= 0 &&
        (n < 2 || (q.fd = open(words[1], client_verbs[i].flags | O_CLOEXEC, 0644)) < 0))
        return 2;
    for (size_t k = 0; q.verb == ARCHIVE_UPLOAD_COMPLETE && k + 1 < (size_t)n && k < ARRAY_SIZE(parts); k++) {
        parts[k].number = (unsigned)k + 1;
        snprintf(parts[k].etag, ARCHIVE_ETAG_MAX, "%s", words[k + 1]);
        q.n_parts = k + 1;
    }
    q.parts = parts;
    q.offset = (uint64_t)c->offset;
    q.size = c->size > 0 ? (uint64_t)c->size : q.verb == ARCHIVE_PUT ? client_file_size(q.fd) : 0;
    q.size_max = (uint64_t)c->size_max;
    q.sha256 = c->sha256;
    q.exclusive = c->exclusive;
    q.upload_id = c->upload_id;
    q.part = c->part;
    q.after = c->after;
    q.max = c->max;
    q.deadline_ns = mono_ns() + c->deadline_ns;
    if (c->on_loop) {
        archive_start(c->loop, &q, client_on_result, c);
        event_base_dispatch(c->base);
    } else {
        archive_perform(c->archive, &q, &result);
        client_on_result(&result, c);
        archive_result_done(&result);
    }
    closep(&q.fd);
    return c->status;
}

enum {
    OPTION_URL = 0x100,
    OPTION_ENDPOINT,
    OPTION_REGION,
    OPTION_CREDENTIALS,
    OPTION_CA,
    OPTION_ENCRYPTION,
    OPTION_KMS_KEY,
    OPTION_RATE,
    OPTION_STALL,
    OPTION_LINK_LOCAL,
    OPTION_LOOP,
    OPTION_DEADLINE,
    OPTION_EXCLUSIVE,
    OPTION_OFFSET,
    OPTION_SIZE,
    OPTION_SIZE_MAX,
    OPTION_SHA256,
    OPTION_UPLOAD,
    OPTION_STATE,
    OPTION_AFTER,
    OPTION_PART,
    OPTION_MAX
};

static const struct option client_options[] = {
    {"url", 1, NULL, OPTION_URL},
    {"endpoint", 1, NULL, OPTION_ENDPOINT},
    {"region", 1, NULL, OPTION_REGION},
    {"credentials", 1, NULL, OPTION_CREDENTIALS},
    {"ca", 1, NULL, OPTION_CA},
    {"encryption", 1, NULL, OPTION_ENCRYPTION},
    {"kms-key", 1, NULL, OPTION_KMS_KEY},
    {"rate", 1, NULL, OPTION_RATE},
    {"stall", 1, NULL, OPTION_STALL},
    {"allow-link-local", 0, NULL, OPTION_LINK_LOCAL},
    {"loop", 0, NULL, OPTION_LOOP},
    {"deadline", 1, NULL, OPTION_DEADLINE},
    {"exclusive", 0, NULL, OPTION_EXCLUSIVE},
    {"offset", 1, NULL, OPTION_OFFSET},
    {"size", 1, NULL, OPTION_SIZE},
    {"size-max", 1, NULL, OPTION_SIZE_MAX},
    {"sha256", 1, NULL, OPTION_SHA256},
    {"upload", 1, NULL, OPTION_UPLOAD},
    {"state", 1, NULL, OPTION_STATE},
    {"after", 1, NULL, OPTION_AFTER},
    {"part", 1, NULL, OPTION_PART},
    {"max", 1, NULL, OPTION_MAX},
    {0},
};

static int client_take_option(struct client *c, int option, const char *value)
{
    const char **texts[] = {
        [OPTION_URL - OPTION_URL] = &c->settings.url,
        [OPTION_ENDPOINT - OPTION_URL] = &c->settings.endpoint,
        [OPTION_REGION - OPTION_URL] = &c->settings.region,
        [OPTION_CREDENTIALS - OPTION_URL] = &c->settings.credentials_file,
        [OPTION_CA - OPTION_URL] = &c->settings.ca_file,
        [OPTION_ENCRYPTION - OPTION_URL] = &c->settings.encryption,
        [OPTION_KMS_KEY - OPTION_URL] = &c->settings.kms_key,
        [OPTION_SHA256 - OPTION_URL] = &c->sha256,
        [OPTION_UPLOAD - OPTION_URL] = &c->upload_id,
        [OPTION_STATE - OPTION_URL] = &c->state_path,
        [OPTION_AFTER - OPTION_URL] = &c->after,
    };
    size_t i = (size_t)(option - OPTION_URL);

    if (option < OPTION_URL)
        return -EINVAL;
    if (i < ARRAY_SIZE(texts) && texts[i]) {
        *texts[i] = value;
        return 0;
    }
    switch (option) {
    case OPTION_RATE:
        return parse_size(value, &c->settings.rate);
    case OPTION_STALL:
        return parse_duration(value, &c->settings.stall_ns);
    case OPTION_DEADLINE:
        return parse_duration(value, &c->deadline_ns);
    case OPTION_OFFSET:
        return parse_size(value, &c->offset);
    case OPTION_SIZE:
        return parse_size(value, &c->size);
    case OPTION_SIZE_MAX:
        return parse_size(value, &c->size_max);
    case OPTION_LINK_LOCAL:
        c->settings.allow_link_local = true;
        return 0;
    case OPTION_LOOP:
        c->on_loop = true;
        return 0;
    case OPTION_EXCLUSIVE:
        c->exclusive = true;
        return 0;
    case OPTION_PART:
        c->part = (unsigned)atoi(value);
        return 0;
    default:
        c->max = (unsigned)atoi(value);
        return 0;
    }
}

static void client_open_loop(struct client *c)
{
    c->base = event_base_new();
    if (offload_new(c->base, THREADS, &c->offload) < 0 ||
        archive_loop_new(c->base, c->offload, c->archive, TRANSFERS, &c->loop) < 0)
        abort();
}

static void client_close(struct client *c)
{
    if (!c->loop) {
        archive_free(c->archive);
        return;
    }
    offload_drain(c->offload, DEADLINE_NEVER);
    archive_loop_free(c->loop);
    offload_free(c->offload);
    event_base_free(c->base);
}

int main(int argc, char **argv)
{
    struct client c = {.deadline_ns = 60 * NS_PER_S};
    struct problem p = {0};
    int option;

    signal(SIGPIPE, SIG_IGN);
    while ((option = getopt_long(argc, argv, "", client_options, NULL)) >= 0)
        if (client_take_option(&c, option, optarg) < 0)
            return 2;
    if (optind >= argc || !c.settings.url)
        return 2;
    int r = archive_new(&c.settings, &c.archive, &p);
    if (r < 0) {
        client_print(&c, client_failure(&c, r, &p));
        problem_done(&p);
        return 1;
    }
    if (c.on_loop)
        client_open_loop(&c);
    if (streq(argv[optind], "upload"))
        client_uploads(&c, argv + optind + 1, argc - optind - 1);
    else
        c.status = client_request(&c, argv[optind], argv + optind + 1, argc - optind - 1);
    client_close(&c);
    return c.status;
}
