/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive_url.h"

#include "archive/archive.h"
#include "base/address.h"
#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>

#define KMS_KEY_MAX   2048 /* bytes, S3's limit of an ARN */
#define BUCKET_MIN    3
#define REGION_MAX    63
#define HOST_MAX      253
#define PORT_HTTP     80
#define PORT_HTTPS    443
#define COMPONENT_MAX 255 /* of a path: the limit of file systems, so that a key fits both kinds of archive */

/* -- Keys --------------------------------------------------------------------------------------------- */

static bool archive_text_is_plain(const char *text)
{
    uint32_t c;
    size_t n;

    for (const char *p = text; *p; p += n) {
        n = text_decode(p, &c);
        if (n == 0 || c < ' ' || c == 0x7f || character_is_hidden(c))
            return false;
    }
    return strlen(text) <= ARCHIVE_KEY_MAX;
}

static bool archive_component_is_valid(const char *name, size_t size, bool is_cut)
{
    if (size == 0 || size > COMPONENT_MAX)
        return is_cut && size == 0;
    if (!is_cut && (size == 1 || size == 2) && strncmp(name, "..", size) == 0)
        return false;
    return size < strlen(ARCHIVE_HIDDEN) || !starts_with(name, ARCHIVE_HIDDEN);
}

static bool archive_components_are_valid(const char *text, bool is_prefix)
{
    if (!archive_text_is_plain(text))
        return false;
    for (const char *p = text;;) {
        size_t size = strcspn(p, "/");
        bool is_last = p[size] == '\0';
        if (!archive_component_is_valid(p, size, is_prefix && is_last))
            return false;
        if (is_last)
            return true;
        p += size + 1;
    }
}

bool archive_key_is_valid(const char *key)
{
    return archive_components_are_valid(key, false);
}

bool archive_prefix_is_valid(const char *prefix)
{
    return archive_components_are_valid(prefix, true);
}

bool archive_sha256_is_valid(const char *text)
{
    return strspn(text, "0123456789abcdef") == ARCHIVE_SHA256_SIZE - 1 &&
           text[ARCHIVE_SHA256_SIZE - 1] == '\0';
}

bool archive_region_is_valid(const char *region)
{
    size_t n = strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n <= REGION_MAX && region[n] == '\0';
}

/* -- URLs --------------------------------------------------------------------------------------------- */

static bool archive_bucket_is_valid(const char *bucket, size_t n)
{
    static const char ends[] = "abcdefghijklmnopqrstuvwxyz0123456789";

    if (n < BUCKET_MIN || n > ARCHIVE_BUCKET_MAX || !strchr(ends, bucket[0]) || !strchr(ends, bucket[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.-", bucket[i]) ||
            (bucket[i] == '.' && bucket[i + 1] == '.'))
            return false;
    return true;
}

static int archive_url_parse_s3(const char *text, struct archive_url *ret, const char **reason)
{
    size_t n = strcspn(text, "/");
    const char *prefix = text[n] ? text + n + 1 : "";
    size_t size = strlen(prefix);

    if (!archive_bucket_is_valid(text, n)) {
        *reason = "a bucket's name has 3 to 63 lower case letters, digits, '.' and '-'";
        return -EINVAL;
    }
    while (size > 0 && prefix[size - 1] == '/')
        size--;
    _cleanup_(freep) char *plain = xstrndup(prefix, size);
    if (size > 0 && !archive_key_is_valid(plain)) {
        *reason = "the prefix is not the name of a folder";
        return -EINVAL;
    }
    ret->kind = ARCHIVE_S3;
    snprintf(ret->bucket, sizeof(ret->bucket), "%.*s", (int)n, text);
    ret->prefix = xasprintf("%s%s", plain, size > 0 ? "/" : "");
    return 0;
}

static int archive_url_parse_file(const char *text, struct archive_url *ret, const char **reason)
{
    size_t size = strlen(text);

    while (size > 1 && text[size - 1] == '/')
        size--;
    _cleanup_(freep) char *path = xstrndup(text, size);
    if (text[0] != '/' || size < 2 || !archive_text_is_plain(path)) {
        *reason = "a directory's URL is file:///, followed by its absolute path";
        return -EINVAL;
    }
    ret->kind = ARCHIVE_DIRECTORY;
    ret->path = TAKE_PTR(path);
    return 0;
}

static const struct {
    const char *scheme;
    int (*parse)(const char *text, struct archive_url *ret, const char **reason);
} schemes[] = {{"s3://", archive_url_parse_s3}, {"file://", archive_url_parse_file}};

int archive_url_parse(const char *text, struct archive_url *ret, const char **reason)
{
    struct archive_url u = {0};

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        if (!starts_with(text, schemes[i].scheme))
            continue;
        int r = schemes[i].parse(text + strlen(schemes[i].scheme), &u, reason);
        if (r == 0)
            *ret = u;
        return r;
    }
    *reason = "it begins with neither s3:// nor file://";
    return -EINVAL;
}

void archive_url_done(struct archive_url *u)
{
    free(u->prefix);
    free(u->path);
    *u = (struct archive_url){0};
}

/* -- Endpoints ---------------------------------------------------------------------------------------- */

/* The length of the host at the start of the text; 0: none. */
static size_t archive_host_size(const char *text)
{
    struct in6_addr address;
    size_t n = text[0] == '['
                   ? strcspn(text, "]") + 1
                   : strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");

    if (n > HOST_MAX || n > strlen(text))
        return 0;
    _cleanup_(freep) char *host = xstrndup(text, n);
    return text[0] != '[' || address_of_host(host, &address) ? n : 0;
}

int archive_endpoint_parse(const char *text, struct archive_endpoint *ret, const char **reason)
{
    bool is_tls = starts_with(text, "https://");
    size_t scheme = is_tls ? strlen("https://") : starts_with(text, "http://") ? strlen("http://") : 0;
    const char *host = text + scheme;
    size_t n = archive_host_size(host);
    _cleanup_(freep) char *port = xstrdup(n > 0 && host[n] == ':' ? host + n + 1 : NULL);

    *reason = "an endpoint is https://HOST or https://HOST:PORT";
    if (scheme == 0 || n == 0)
        return -EINVAL;
    if (port)
        port[strcspn(port, "/")] = '\0';
    const char *rest = host + n + (port ? 1 + strlen(port) : 0);
    if (!streq(rest, "") && !streq(rest, "/"))
        return -EINVAL;
    int number = !port ? (is_tls ? PORT_HTTPS : PORT_HTTP) : port_parse(port);
    if (number == 0)
        return -EINVAL;
    *ret = (struct archive_endpoint){.host = xstrndup(host, n), .port = number, .is_tls = is_tls};
    /* The port of the scheme is left out of the Host header, and so of the signature. */
    bool is_usual = number == (is_tls ? PORT_HTTPS : PORT_HTTP);
    ret->base = is_usual ? xasprintf("http%s://%s", is_tls ? "s" : "", ret->host)
                         : xasprintf("http%s://%s:%d", is_tls ? "s" : "", ret->host, number);
    return 0;
}

void archive_endpoint_done(struct archive_endpoint *e)
{
    free(e->base);
    free(e->host);
    *e = (struct archive_endpoint){0};
}

/* -- Parts, paths ------------------------------------------------------------------------------------- */

uint64_t archive_part_size(uint64_t size)
{
    uint64_t part = ARCHIVE_PART_SIZE;

    while (part < UINT64_MAX / 2 / ARCHIVE_PARTS_MAX && part * ARCHIVE_PARTS_MAX < size)
        part *= 2;
    return part;
}

unsigned archive_part_count(uint64_t size)
{
    uint64_t part = archive_part_size(size);

    return size == 0 ? 1 : (unsigned)((size - 1) / part + 1);
}

void archive_append_path(char **url, const char *key)
{
    for (const char *p = key;; p++) {
        size_t size = strcspn(p, "/");
        _cleanup_(freep) char *component = xstrndup(p, size);
        append_url_escaped(url, component);
        p += size;
        if (*p == '\0')
            return;
        append_str(url, "/");
    }
}

bool archive_kms_key_is_valid(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/_-";
    size_t n = strspn(text, allowed);

    return n > 0 && n <= KMS_KEY_MAX && !text[n];
}
