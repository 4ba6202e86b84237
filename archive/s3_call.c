/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_call.h"

#include "archive/s3_answer.h"
#include "archive/s3_failure.h"
#include "archive/s3_retry.h"
#include "base/address.h"
#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/curl_handle.h"
#include "base/fs.h"
#include "base/metadata_address.h"
#include "version.h"
#include <errno.h>
#include <openssl/evp.h>

#define CONNECT_TIMEOUT_MS 10000L
/* Larger than libcurl's own: each is a system call and a turn of the loop. */
#define SEND_BUFFER_SIZE    (256L << 10)
#define RECEIVE_BUFFER_SIZE (128L << 10)
/* An error document that is longer is none. */
#define ERROR_BODY_MAX (64u << 10)

struct s3_call {
    struct s3 *s3;
    const struct archive_request *q;
    struct archive_result *result;
    CURL *easy;
    char curl_error[CURL_ERROR_SIZE];
    struct s3_text text;
    struct curl_slist *headers;
    char sha256[ARCHIVE_SHA256_SIZE]; /* of the content to send */
    int hash_err;
    struct s3_download download;
    uint64_t sent; /* of the content, in this attempt */
    struct s3_head head;
    char *body; /* XML */
    size_t body_size, body_cap;
    /* What the callbacks found wrong, in this attempt. */
    int own_err;
    char *own_error;
    const char *own_remedy;
    bool is_head_checked;
    int64_t began_ns; /* the first attempt; 0: none yet */
};

/* -- Addresses ---------------------------------------------------------------------------------------- */

const char *s3_address_refused(const struct in6_addr *address, bool allow_link_local)
{
    static const struct address_range link_local[] = {
        {{.s6_addr = {[10] = 0xff, 0xff, 169, 254}}, 96 + 16},
        {{.s6_addr = {0xfe, 0x80}}, 10},
    };

    if (allow_link_local)
        return NULL;
    if (address_is_metadata(address))
        return "is where a cloud hands out credentials";
    for (size_t i = 0; i < ARRAY_SIZE(link_local); i++)
        if (address_range_has(&link_local[i], address))
            return "is a link-local address";
    return NULL;
}

/* The first reason counts. */
static void s3_call_refuse(struct s3_call *c, int err, const char *format, ...) _printf_(3, 4);
static void s3_call_refuse(struct s3_call *c, int err, const char *format, ...)
{
    va_list ap;

    if (c->own_err < 0)
        return;
    va_start(ap, format);
    c->own_err = err;
    c->own_error = xvasprintf(format, ap);
    va_end(ap);
}

/* Checks the address that curl connects to: what the name resolved to before does not matter. */
static curl_socket_t s3_call_on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct s3_call *c = arg;
    char text[ADDRESS_TEXT_SIZE] = "";
    struct in6_addr ip;
    const char *why = "is of neither IPv4 nor IPv6";

    if (address_of_socket(&address->addr, &ip)) {
        address_format(&ip, text);
        why = s3_address_refused(&ip, c->s3->allow_link_local);
    }
    if (why) {
        s3_call_refuse(c, -EPERM, "the endpoint's address %s %s: not called", text, why);
        c->own_remedy = "Correct endpoint=, or find out why its name leads there.";
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* -- What curl calls ---------------------------------------------------------------------------------- */

static size_t s3_call_on_header(char *line, size_t size, size_t n, void *arg)
{
    struct s3_call *c = arg;

    if (s3_head_take(&c->head, line, size * n) < 0) {
        s3_call_refuse(c, -EPROTO, "the head of the answer has more than %u bytes", S3_HEAD_MAX);
        return 0;
    }
    return size * n;
}

static bool s3_call_has_data(const struct s3_call *c)
{
    return c->q->verb == ARCHIVE_GET && c->head.status >= 200 && c->head.status <= 299;
}

/* Once for each attempt, at the latest when it ended. */
static bool s3_call_check_download(struct s3_call *c)
{
    const char *why = NULL;

    if (c->is_head_checked)
        return c->own_err == 0;
    c->is_head_checked = true;
    int r = s3_download_begin(&c->download, c->q, &c->head, &why);
    if (r < 0)
        s3_call_refuse(c, r, "%s", why);
    return r == 0;
}

static size_t s3_call_take_data(struct s3_call *c, const char *data, size_t size)
{
    const char *why = NULL;

    if (!s3_call_check_download(c))
        return 0;
    int r = s3_download_write(&c->download, c->q, data, size, &why);
    if (r < 0)
        s3_call_refuse(c, r, "%s", why);
    return r < 0 ? 0 : size;
}

static size_t s3_call_on_body(char *data, size_t size, size_t n, void *arg)
{
    struct s3_call *c = arg;
    size_t max = c->head.status >= 300 ? ERROR_BODY_MAX : S3_XML_MAX;

    size *= n;
    if (s3_call_has_data(c))
        return s3_call_take_data(c, data, size);
    if (size > max - c->body_size) {
        s3_call_refuse(c, -EPROTO, "the answer (HTTP %d) has more than %zu bytes", c->head.status, max);
        return 0;
    }
    if (!ARRAY_RESERVE(c->body, c->body_cap, c->body_size + size))
        out_of_memory();
    memcpy(c->body + c->body_size, data, size);
    c->body_size += size;
    return size;
}

/* From the page cache, where the hashing has just read it. */
static size_t s3_call_on_read(char *buffer, size_t size, size_t n, void *arg)
{
    struct s3_call *c = arg;
    size_t wanted = (size_t)MIN((uint64_t)(size * n), c->q->size - c->sent);
    ssize_t got = pread_full(c->q->fd, buffer, wanted, c->q->offset + c->sent);

    if (got < 0 || (size_t)got < wanted) {
        s3_call_refuse(c, got < 0 ? (int)got : -ESTALE, "reading the file failed: %s",
                       got < 0 ? strerror(-(int)got) : "it became shorter");
        return CURL_READFUNC_ABORT;
    }
    c->sent += (size_t)got;
    return (size_t)got;
}

static int s3_call_on_seek(void *arg, curl_off_t offset, int origin)
{
    struct s3_call *c = arg;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > c->q->size)
        return CURL_SEEKFUNC_FAIL;
    c->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* -- An attempt --------------------------------------------------------------------------------------- */

struct s3_call *s3_call_new(struct s3 *s3, const struct archive_request *q, struct archive_result *ret)
{
    struct s3_call *c = xcalloc(1, sizeof(*c));

    *c = (struct s3_call){.s3 = s3, .q = q, .result = ret, .easy = curl_easy_init()};
    if (!c->easy)
        out_of_memory();
    return c;
}

static void s3_call_forget_attempt(struct s3_call *c)
{
    s3_text_done(&c->text);
    curl_slist_free_all(c->headers);
    c->headers = NULL;
    free(c->own_error);
    c->own_error = NULL;
    c->own_remedy = NULL;
    c->own_err = 0;
    c->head = (struct s3_head){0};
    c->body_size = 0;
    c->sent = 0;
    c->is_head_checked = false;
    c->curl_error[0] = '\0';
}

struct s3_call *s3_call_free(struct s3_call *c)
{
    if (!c)
        return NULL;
    /* curl first: it holds the lines of the head. */
    curl_easy_cleanup(c->easy);
    s3_call_forget_attempt(c);
    s3_download_done(&c->download);
    free(c->body);
    free(c);
    return NULL;
}

CURL *s3_call_handle(struct s3_call *c)
{
    return c->easy;
}

bool s3_call_has_content(const struct s3_call *c)
{
    return c->q->verb == ARCHIVE_PUT || c->q->verb == ARCHIVE_UPLOAD_PART;
}

void s3_call_hash(struct s3_call *c)
{
    c->hash_err = s3_content_hash(c->q->fd, c->q->offset, c->q->size, c->sha256);
    if (c->hash_err == 0 && c->q->sha256 && !streq(c->q->sha256, c->sha256))
        c->hash_err = -EBADMSG;
}

static void s3_call_set_method(struct s3_call *c)
{
    if (c->text.has_file) {
        curl_easy_setopt(c->easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->q->size);
        curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, s3_call_on_read);
        curl_easy_setopt(c->easy, CURLOPT_READDATA, c);
        curl_easy_setopt(c->easy, CURLOPT_SEEKFUNCTION, s3_call_on_seek);
        curl_easy_setopt(c->easy, CURLOPT_SEEKDATA, c);
        curl_easy_setopt(c->easy, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER_SIZE);
    } else if (c->text.body) {
        curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(c->text.body));
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->text.body);
    } else if (streq(c->text.method, "HEAD")) {
        curl_easy_setopt(c->easy, CURLOPT_NOBODY, 1L);
    } else if (!streq(c->text.method, "GET")) {
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, c->text.method);
    }
}

static void s3_call_set_limits(struct s3_call *c)
{
    const struct s3 *s = c->s3;

    curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(c->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c->easy, CURLOPT_LOW_SPEED_TIME, (long)MAX(INT64_C(1), s->stall_ns / NS_PER_S));
    if (c->q->deadline_ns != DEADLINE_NEVER)
        curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS,
                         (long)MAX(INT64_C(1), (c->q->deadline_ns - mono_ns()) / NS_PER_MS));
    if (s->rate > 0) {
        curl_easy_setopt(c->easy, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)s->rate);
        curl_easy_setopt(c->easy, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)s->rate);
    }
}

static void s3_call_set_identity(struct s3_call *c)
{
    const struct s3_keys *keys = &c->s3->credentials.keys;

    for (size_t i = 0; i < c->text.n_headers; i++)
        curl_list_add(&c->headers, c->text.headers[i]);
    if (keys->token) {
        char *line = xasprintf("x-amz-security-token: %s", keys->token);
        curl_list_add(&c->headers, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->easy, CURLOPT_AWS_SIGV4, c->s3->provider);
    /* Not CURLOPT_USERPWD: a key may hold a colon. */
    curl_easy_setopt(c->easy, CURLOPT_USERNAME, keys->id);
    curl_easy_setopt(c->easy, CURLOPT_PASSWORD, keys->secret);
    if (c->s3->ca_file)
        curl_easy_setopt(c->easy, CURLOPT_CAINFO, c->s3->ca_file);
}

/* The call ends with what the attempt before could not even begin. */
static int s3_call_give_up(struct s3_call *c, int err, const char *why)
{
    struct problem *p = &c->result->problem;

    c->result->err = err;
    problem_set(p, err, err == -EBADMSG ? PROBLEM_CONFLICT : PROBLEM_STORAGE, "cannot %s %s/%s: %s",
                s3_verb_text(c->q->verb), c->s3->name, c->q->key, why);
    return err;
}

int s3_call_begin(struct s3_call *c)
{
    static const struct curl_callbacks callbacks = {s3_call_on_open_socket, NULL, s3_call_on_header,
                                                    s3_call_on_body};

    curl_easy_reset(c->easy);
    s3_call_forget_attempt(c);
    if (c->hash_err == -EBADMSG)
        return s3_call_give_up(c, -ESTALE, "the file changed since its SHA-256 was computed");
    if (c->hash_err < 0)
        return s3_call_give_up(c, c->hash_err, strerror(-c->hash_err));
    if (c->q->deadline_ns != DEADLINE_NEVER && c->q->deadline_ns <= mono_ns())
        return s3_call_give_up(c, -ETIMEDOUT, "the deadline passed before it was sent");
    int r = s3_credentials_update(&c->s3->credentials, &c->result->problem);
    if (r < 0)
        return c->result->err = r;
    c->result->n_attempts++;
    c->began_ns = c->began_ns ? c->began_ns : mono_ns();
    s3_download_rewind(&c->download);
    const struct s3_progress progress = {c->download.got, c->download.etag};
    s3_text_build(&c->s3->service, c->q, &progress, c->sha256, &c->text);
    curl_handle_prepare(c->easy, &callbacks, c, c->curl_error, "profd/" PROFD_VERSION);
    curl_easy_setopt(c->easy, CURLOPT_URL, c->text.url);
    curl_easy_setopt(c->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c->easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_SIZE);
    s3_call_set_method(c);
    s3_call_set_limits(c);
    s3_call_set_identity(c);
    return 0;
}

/* -- Its end ------------------------------------------------------------------------------------------ */

/* What failed below the answer: 0, or an errno value with its text. An answer that is complete counts although sending
 * the content failed: the server had seen enough. */
static int s3_call_broken(struct s3_call *c, CURLcode code, const struct s3_xml *xml, const char **why)
{
    if (c->own_err < 0) {
        *why = c->own_error;
        return c->own_err;
    }
    if (code == CURLE_OK || xml->document == S3_DOCUMENT_ERROR)
        return 0;
    *why = c->curl_error[0] ? c->curl_error : curl_easy_strerror(code);
    return curl_handle_errno(c->easy, code);
}

/* Leading blanks keep the connection of a long CompleteMultipartUpload alive. */
static void s3_call_parse_body(struct s3_call *c, struct s3_xml *ret, char **ret_reason)
{
    const char *body = c->body;
    size_t size = c->body_size;

    *ret = (struct s3_xml){0};
    *ret_reason = NULL;
    for (; size > 0 && strchr(" \t\r\n", *body) && *body; size--)
        body++;
    if (size > 0)
        s3_xml_parse(body, size, ret, ret_reason);
}

static enum s3_step s3_call_decide(struct s3_call *c, int err, const char *why, const struct s3_xml *xml,
                                   int64_t *ret_wait_ns)
{
    bool is_error = xml->document == S3_DOCUMENT_ERROR;
    const struct s3_attempt attempt = {
        .err = err,
        .status = c->head.status,
        .code = is_error ? xml->code : NULL,
        .retry_after_s = c->head.retry_after_s,
        .retry_date_s = c->head.retry_date_s,
        .wall_s = wall_ns() / NS_PER_S,
        .number = c->result->n_attempts,
        .has_new_credentials = s3_credentials_changed(&c->s3->credentials),
    };

    int64_t until_ns = c->q->deadline_ns;
    if (c->q->patience_ns > 0)
        until_ns = MIN(until_ns, c->began_ns + c->q->patience_ns);
    enum s3_retry retry = s3_retry_decide(&attempt, backoff_random(), mono_ns(), until_ns, ret_wait_ns);
    if (retry == S3_RETRY_AFTER)
        return S3_STEP_AGAIN;
    _cleanup_(freep) char *name = xasprintf("%s%s%s", c->s3->name, c->q->key[0] ? "/" : "", c->q->key);
    const struct s3_failure failure = {
        .verb = c->q->verb,
        .name = name,
        .bucket = c->s3->bucket,
        .region = c->s3->region,
        .endpoint = c->s3->endpoint.base,
        .credentials_file = c->s3->credentials.path,
        .key_id = c->s3->credentials.keys.id,
        .err = err,
        .error = why,
        .remedy = c->own_remedy,
        .head = &c->head,
        .xml = xml,
        .wall_s = attempt.wall_s,
        .at_deadline = retry == S3_RETRY_DEADLINE,
        .n_attempts = c->result->n_attempts,
    };
    c->result->err = s3_failure_describe(&failure, &c->result->problem);
    return S3_STEP_DONE;
}

/* A complete download whose bytes are not those that were stored has to begin anew. */
static int s3_call_finish_download(struct s3_call *c, const char **why)
{
    int r = s3_call_check_download(c) ? 0 : c->own_err;

    if (r < 0) {
        *why = c->own_error;
        return r;
    }
    r = s3_download_end(&c->download, c->q, &c->result->object, why);
    if (r == -EBADMSG)
        s3_download_done(&c->download);
    return r;
}

static void s3_call_note_address(struct s3_call *c)
{
    const char *address = NULL;

    if (curl_easy_getinfo(c->easy, CURLINFO_PRIMARY_IP, &address) == CURLE_OK && address && *address)
        snprintf(c->result->address, sizeof(c->result->address), "%s", address);
}

enum s3_step s3_call_ended(struct s3_call *c, CURLcode code, int64_t *ret_wait_ns)
{
    _cleanup_(freep) char *reason = NULL;
    const char *why = NULL;
    struct s3_xml xml;

    *ret_wait_ns = 0;
    s3_call_note_address(c);
    s3_call_parse_body(c, &xml, &reason);
    int err = s3_call_broken(c, code, &xml, &why);
    /* Since 200 is sent first, the end of a long CompleteMultipartUpload can still be an error. */
    bool is_good =
        err == 0 && c->head.status >= 200 && c->head.status <= 299 && xml.document != S3_DOCUMENT_ERROR;
    /* Some services answer so where S3 says nothing. */
    bool is_gone = err == 0 && c->q->verb == ARCHIVE_DELETE && streq(xml.code, "NoSuchKey");
    if (is_good && c->q->verb == ARCHIVE_GET)
        err = s3_call_finish_download(c, &why);
    else if (is_good) {
        const struct s3_answer answer = {c->q, &c->s3->service, &c->head, &xml, reason, c->sha256};
        err = s3_answer_take(&answer, c->result, &why);
    }
    enum s3_step step = S3_STEP_DONE;
    if ((!is_good && !is_gone) || err < 0)
        step = s3_call_decide(c, err, why, &xml, ret_wait_ns);
    s3_xml_done(&xml);
    return step;
}

enum s3_step s3_call_failed(struct s3_call *c, int err, const char *why, int64_t *ret_wait_ns)
{
    const struct s3_xml none = {0};

    return s3_call_decide(c, err, why, &none, ret_wait_ns);
}
