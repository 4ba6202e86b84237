/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/web_page.h"

#include "base/alloc.h"
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <strings.h>

#define BLANKS " \t"

/* Scripts and styles are the page's own files, and nothing else may frame it, or be framed, loaded or sent to. The page
 * hands a trace to Perfetto in a window that it opened, which is why that window may know its opener. */
static const char *const page_headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src "
     "'self'; "
     "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin-allow-popups"},
    {"Vary", "Accept-Encoding"},
};

/* "gzip;q=0.5": whether the coding of that name is admitted. */
static bool encoding_is_admitted(const char *item, size_t size, const char *name)
{
    size_t n = strcspn(item, ",; \t");
    const char *end = item + size, *q = memchr(item, ';', size);

    if (n != strlen(name) || strncasecmp(item, name, n) != 0)
        return false;
    if (!q)
        return true;
    q += 1 + strspn(q + 1, BLANKS);
    if (end - q < 3 || strncasecmp(q, "q=", 2) != 0)
        return true;
    /* Not for a weight of zero: "q=0", "q=0.000". */
    for (q += 2; q < end; q++)
        if (*q >= '1' && *q <= '9')
            return true;
    return false;
}

static bool encoding_is_accepted(const char *accept, const char *name)
{
    for (const char *item = accept; item && *item;) {
        item += strspn(item, ", \t");
        size_t size = strcspn(item, ",");
        if (encoding_is_admitted(item, size, name))
            return true;
        item += size;
    }
    return false;
}

enum web_encoding web_encoding_choose(const char *accept, bool has_brotli)
{
    if (has_brotli && encoding_is_accepted(accept, "br"))
        return WEB_BROTLI;
    return encoding_is_accepted(accept, "gzip") ? WEB_GZIP : WEB_IDENTITY;
}

bool web_etag_matches(const char *header, const char *etag)
{
    size_t size = strlen(etag);

    for (const char *item = header; item && *item;) {
        item += strspn(item, ", \t");
        if (*item == '*')
            return true;
        if (starts_with(item, "W/"))
            item += 2;
        if (strncmp(item, etag, size) == 0 && (item[size] == '\0' || strchr(", \t", item[size])))
            return true;
        item += strcspn(item, ",");
    }
    return false;
}

const struct web_asset *web_asset_find(const char *name)
{
    for (size_t i = 0; i < web_assets_count; i++)
        if (streq(web_assets[i].name, name))
            return &web_assets[i];
    return NULL;
}

void *web_asset_inflate(const struct web_asset *a)
{
    struct inflate_state *state = xcalloc(1, sizeof(*state));
    void *ret = xcalloc(a->size + 1, 1);

    isal_inflate_init(state);
    state->crc_flag = ISAL_GZIP;
    state->next_in = (uint8_t *)a->gzip;
    state->avail_in = (uint32_t)a->gzip_size;
    state->next_out = ret;
    state->avail_out = (uint32_t)a->size;
    int r = isal_inflate(state);
    bool is_complete =
        r == ISAL_DECOMP_OK && state->block_state == ISAL_BLOCK_FINISH && state->total_out == a->size;
    free(state);
    if (is_complete)
        return ret;
    free(ret);
    return NULL;
}

/* Its forms differ, so that the tag is a weak one. */
static void web_asset_add_headers(struct http_request *r, const struct web_asset *a)
{
    _cleanup_(freep) char *etag = xasprintf("W/%s", a->etag);

    for (size_t i = 0; i < ARRAY_SIZE(page_headers); i++)
        http_reply_header(r, page_headers[i][0], page_headers[i][1]);
    http_reply_header(r, "ETag", etag);
    http_reply_header(r, "Cache-Control",
                      a->is_immutable ? "public, max-age=31536000, immutable" : "no-cache");
}

static void web_asset_reply_plain(struct http_request *r, const struct web_asset *a)
{
    _cleanup_(freep) char *content = web_asset_inflate(a);
    _cleanup_(problem_done) struct problem p = {0};

    if (content) {
        http_reply(r, 200, a->content_type, content, a->size);
        return;
    }
    problem_set(&p, -EIO, PROBLEM_INTERNAL, "cannot decompress %s", a->name);
    http_reply_problem(r, &p);
}

void web_asset_reply(struct http_request *r, const struct web_asset *a)
{
    web_asset_add_headers(r, a);
    if (web_etag_matches(http_header(r, "If-None-Match"), a->etag)) {
        http_reply(r, 304, NULL, NULL, 0);
        return;
    }
    switch (web_encoding_choose(http_header(r, "Accept-Encoding"), a->brotli_size > 0)) {
    case WEB_BROTLI:
        http_reply_header(r, "Content-Encoding", "br");
        http_reply(r, 200, a->content_type, a->brotli, a->brotli_size);
        break;
    case WEB_GZIP:
        http_reply_header(r, "Content-Encoding", "gzip");
        http_reply(r, 200, a->content_type, a->gzip, a->gzip_size);
        break;
    default:
        web_asset_reply_plain(r, a);
    }
}
