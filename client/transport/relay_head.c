/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/relay_head.h"

#include "base/alloc.h"
#include "base/page_request.h"
#include "proto/names.h"
#include <errno.h>
#include <strings.h>

/* The longest run of digits that cannot overflow an int64_t. */
#define LENGTH_DIGITS_MAX 18
#define FIELDS_MAX        100
#define TOKEN_BYTES       "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* What is read of a head, in a copy of it that is cut into strings. */
struct relay_fields {
    char *method, *target;
    struct page_request page;
    int64_t body_size;
    bool has_length;
    unsigned n;
    char *out;
};

static int relay_refuse(struct relay_head *ret, int status, const char *detail)
{
    ret->status = status;
    ret->detail = detail;
    return -EBADMSG;
}

static int relay_take_once(const char **field, const char *value, struct relay_head *ret)
{
    if (*field)
        return relay_refuse(ret, 400, "the request has a header twice");
    *field = value;
    return 0;
}

static int relay_take_length(struct relay_fields *f, const char *value, struct relay_head *ret)
{
    size_t n = strspn(value, "0123456789");

    if (f->has_length || n == 0 || value[n] || n > LENGTH_DIGITS_MAX)
        return relay_refuse(ret, 400, "the Content-Length header is not a number");
    f->has_length = true;
    f->body_size = strtoll(value, NULL, 10);
    return 0;
}

/* The headers that decide, and those that are replaced or left out; all others pass. */
static const struct {
    const char *name;
    enum { FIELD_PAGE, FIELD_LENGTH, FIELD_REFUSED, FIELD_CONNECTION, FIELD_DROPPED } kind;
    size_t offset; /* of FIELD_PAGE */
    bool passes;
} relay_fields_known[] = {
    {"Host", FIELD_PAGE, offsetof(struct page_request, host), false},
    {"Origin", FIELD_PAGE, offsetof(struct page_request, origin), false},
    {"Sec-Fetch-Site", FIELD_PAGE, offsetof(struct page_request, site), true},
    {"Sec-Fetch-Mode", FIELD_PAGE, offsetof(struct page_request, mode), true},
    {"Sec-Fetch-Dest", FIELD_PAGE, offsetof(struct page_request, dest), true},
    {"Content-Type", FIELD_PAGE, offsetof(struct page_request, content_type), true},
    {"Content-Length", FIELD_LENGTH, 0, true},
    {"Transfer-Encoding", FIELD_REFUSED, 0, false},
    {"Upgrade", FIELD_DROPPED, 0, false},
    {"Connection", FIELD_CONNECTION, 0, false},
    {"Keep-Alive", FIELD_DROPPED, 0, false},
    {"TE", FIELD_DROPPED, 0, false},
    {"Trailer", FIELD_DROPPED, 0, false},
    {"Cookie", FIELD_DROPPED, 0, false},
    {"Referer", FIELD_DROPPED, 0, false},
    {"Forwarded", FIELD_DROPPED, 0, false},
    {RELAY_HEADER, FIELD_DROPPED, 0, false},
};

static int relay_take_field(struct relay_fields *f, const char *name, const char *value,
                            struct relay_head *ret)
{
    bool passes = !starts_with(name, "Proxy-");
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(relay_fields_known); i++) {
        if (strcasecmp(relay_fields_known[i].name, name) != 0)
            continue;
        passes = relay_fields_known[i].passes;
        switch (relay_fields_known[i].kind) {
        case FIELD_PAGE:
            r = relay_take_once((const char **)((char *)&f->page + relay_fields_known[i].offset), value, ret);
            break;
        case FIELD_LENGTH:
            r = relay_take_length(f, value, ret);
            break;
        case FIELD_REFUSED:
            r = relay_refuse(ret, 501, "Transfer-Encoding is not supported: send Content-Length");
            break;
        case FIELD_CONNECTION:
            passes = strcasecmp(value, "close") == 0;
            break;
        case FIELD_DROPPED:
            break;
        }
    }
    if (r == 0 && passes)
        append_str(&f->out, "%s: %s\r\n", name, value);
    return r;
}

static bool relay_has_control(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f)
            return true;
    return false;
}

/* "METHOD /target HTTP/1.1" */
static int relay_read_request_line(struct relay_fields *f, char *line, struct relay_head *ret)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;

    if (!version || !streq(version + 1, "HTTP/1.1"))
        return relay_refuse(ret, 400, "the request line is not 'METHOD /path HTTP/1.1'");
    *target++ = '\0';
    *version = '\0';
    if (!*line || line[strspn(line, TOKEN_BYTES)] || *target != '/')
        return relay_refuse(ret, 400, "the request line is not 'METHOD /path HTTP/1.1'");
    for (const char *c = target; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || *c == '#')
            return relay_refuse(ret, 400, "the request's target has a character that must be escaped");
    f->method = line;
    f->target = target;
    return 0;
}

static int relay_read_line(struct relay_fields *f, char *line, size_t size, struct relay_head *ret)
{
    if (strlen(line) != size || relay_has_control(line, size))
        return relay_refuse(ret, 400, "the head has a control character");
    if (!f->method)
        return relay_read_request_line(f, line, ret);
    if (f->n++ == FIELDS_MAX)
        return relay_refuse(ret, 431, "the request has too many headers");
    char *value = strchr(line, ':');
    if (!value)
        return relay_refuse(ret, 400, "a header line has no colon");
    *value++ = '\0';
    if (!*line || line[strspn(line, TOKEN_BYTES)])
        return relay_refuse(ret, 400, "a header's name is not a word that ends at its colon");
    value += strspn(value, " \t");
    for (size_t n = strlen(value); n > 0 && strchr(" \t", value[n - 1]); n--)
        value[n - 1] = '\0';
    return relay_take_field(f, line, value, ret);
}

/* Host, where a browser has it: an address or name of loopback, and the port. */
static bool relay_host_is_own(const char *host, int port)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    char own[32];

    for (size_t i = 0; host && i < ARRAY_SIZE(names); i++) {
        snprintf(own, sizeof(own), "%s:%d", names[i], port);
        if (strcasecmp(host, own) == 0)
            return true;
    }
    return false;
}

static int relay_check(struct relay_fields *f, const struct relay_rules *rules, struct relay_head *ret)
{
    _cleanup_(freep) char *path = xstrndup(f->target, strcspn(f->target, "?"));

    if (!relay_host_is_own(f->page.host, rules->port))
        return relay_refuse(ret, 403, "unknown host name: use the address that profctl web printed");
    f->page.method = f->method;
    f->page.path = path;
    f->page.has_body = f->body_size > 0;
    enum page_verdict verdict = page_request_check(&f->page);
    f->page.path = NULL;
    switch (verdict) {
    case PAGE_REQUEST_FOREIGN:
        return relay_refuse(ret, 403, "pages of other origins have no access to profd");
    case PAGE_REQUEST_NOT_JSON:
        return relay_refuse(ret, 403, "the body of a page's request must be application/json");
    default:
        return 0;
    }
}

static int relay_read_lines(struct relay_fields *f, char *text, size_t size, struct relay_head *ret)
{
    for (char *line = text, *end = text + size; line < end;) {
        char *eol = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (!eol || memchr(line, '\n', (size_t)(eol - line)))
            return relay_refuse(ret, 400, "a line of the head does not end with CRLF");
        *eol = '\0';
        int r = eol > line ? relay_read_line(f, line, (size_t)(eol - line), ret) : 0;
        if (r < 0)
            return r;
        line = eol + 2;
    }
    return f->method ? 0 : relay_refuse(ret, 400, "the request line is not 'METHOD /path HTTP/1.1'");
}

ssize_t relay_head_read(const char *data, size_t size, const struct relay_rules *rules,
                        struct relay_head *ret)
{
    const char *end = memmem(data, size, "\r\n\r\n", 4);
    size_t head_size = end ? (size_t)(end - data) + 4 : 0;
    struct relay_fields f = {.out = NULL};

    *ret = (struct relay_head){0};
    if (head_size > RELAY_HEAD_MAX || (!end && size >= RELAY_HEAD_MAX))
        return relay_refuse(ret, 431, "the request's head is too large");
    if (!end)
        return 0;
    _cleanup_(freep) char *text = xcalloc(head_size + 1, 1), *fields = NULL;
    memcpy(text, data, head_size);
    f.out = xstrdup("");
    int r = relay_read_lines(&f, text, head_size, ret);
    if (r == 0)
        r = relay_check(&f, rules, ret);
    fields = f.out;
    if (r < 0)
        return r;
    ret->text = xasprintf("%s %s%s HTTP/1.1\r\nHost: %s\r\n", f.method, rules->prefix, f.target, rules->host);
    if (f.page.origin)
        append_str(&ret->text, "Origin: %s\r\n", rules->origin);
    append_str(&ret->text, "%s%s\r\n", rules->to_socket ? RELAY_HEADER ": 1\r\n" : "", fields);
    ret->size = strlen(ret->text);
    ret->body_size = f.body_size;
    return (ssize_t)head_size;
}
