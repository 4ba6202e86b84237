/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_head.h"

#include "base/alloc.h"
#include <errno.h>
#include <strings.h>

/* The longest run of digits that cannot overflow an int64_t. */
#define LENGTH_DIGITS_MAX 18
/* Room for a method and a version next to the target. */
#define REQUEST_LINE_MAX (HTTP_TARGET_MAX + 32)

/* -- Path and query ----------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* The length of the well-formed UTF-8 sequence at s (RFC 3629: shortest form, no surrogates), 0 for none. */
static size_t utf8_sequence(const unsigned char *s, size_t size)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

    if (n == 0 || n > size)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static bool query_is_text(const char *s, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t n = utf8_sequence((const unsigned char *)s + i, size - i);
        if (n == 0 || s[i] == '\0')
            return false;
        i += n;
    }
    return true;
}

/* Decodes escapes to out, which has room for size + 1 bytes, and ends it. Returns the length or -EINVAL. */
static ssize_t query_decode(const char *data, size_t size, bool plus_is_space, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        char c = data[i];
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            if (size - i < 3)
                return -EINVAL;
            int high = hex_digit(data[i + 1]), low = hex_digit(data[i + 2]);
            if (high < 0 || low < 0)
                return -EINVAL;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return query_is_text(out, n) ? (ssize_t)n : -EINVAL;
}

static bool path_has_encoded_slash(const char *data, size_t size)
{
    for (size_t i = 0; i + 2 < size; i++)
        if (data[i] == '%' && data[i + 1] == '2' && (data[i + 2] | 0x20) == 'f')
            return true;
    return false;
}

static bool path_is_segment(const char *s, size_t size)
{
    if (size == 0 || (size == 1 && s[0] == '.') || (size == 2 && s[0] == '.' && s[1] == '.'))
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return true;
}

int http_path_decode(const char *data, size_t size, char **ret)
{
    if (size == 0 || data[0] != '/' || path_has_encoded_slash(data, size))
        return -EINVAL;

    _cleanup_(freep) char *path = xcalloc(size + 1, 1);
    ssize_t n = query_decode(data, size, false, path);
    if (n < 0)
        return (int)n;

    for (const char *s = path + 1, *end; n > 1; s = end + 1) {
        end = strchrnul(s, '/');
        if (!path_is_segment(s, (size_t)(end - s)))
            return -EINVAL;
        if (*end == '\0')
            break;
    }
    *ret = TAKE_PTR(path);
    return 0;
}

static size_t query_count_params(const char *data, size_t size)
{
    size_t n = 1;
    for (size_t i = 0; i < size; i++)
        n += data[i] == '&';
    return n;
}

/* Decodes one "key=value" to *out, and moves *out past it. */
static int query_decode_param(const char *data, size_t size, char **out, struct http_param *ret)
{
    const char *equals = memchr(data, '=', size);
    size_t key_size = equals ? (size_t)(equals - data) : size;
    char *key = *out;
    ssize_t n = query_decode(data, key_size, true, key);
    if (n < 0)
        return (int)n;

    char *value = key + n + 1;
    n = equals ? query_decode(equals + 1, size - key_size - 1, true, value)
               : query_decode("", 0, true, value);
    if (n < 0)
        return (int)n;
    *out = value + n + 1;
    *ret = (struct http_param){key, value};
    return 0;
}

int http_query_parse(const char *data, size_t size, struct http_query *ret)
{
    size_t n_max = query_count_params(data, size);
    if (n_max > HTTP_QUERY_PARAMS_MAX)
        return -E2BIG;

    /* Every parameter needs two ends; its '=' and '&' pay for one of them. */
    struct http_query q = {.text = xcalloc(size + n_max + 2, 1), .params = xcalloc(n_max, sizeof(*q.params))};
    char *out = q.text;
    for (size_t from = 0, to; from < size; from = to + 1) {
        const char *ampersand = memchr(data + from, '&', size - from);
        to = ampersand ? (size_t)(ampersand - data) : size;
        if (to == from)
            continue;
        int r = query_decode_param(data + from, to - from, &out, &q.params[q.n]);
        if (r < 0) {
            http_query_done(&q);
            return r;
        }
        q.n++;
    }
    *ret = q;
    return 0;
}

void http_query_done(struct http_query *q)
{
    free(q->text);
    free(q->params);
    *q = (struct http_query){0};
}

/* -- Head --------------------------------------------------------------------------------------------- */

static int head_refuse(struct http_refusal *why, int status, const char *detail)
{
    *why = (struct http_refusal){status, detail};
    return -EBADMSG;
}

/* RFC 9110, 5.6.2. */
static bool head_is_token_char(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool head_is_token(const char *s)
{
    size_t n = 0;
    while (head_is_token_char(s[n]))
        n++;
    return n > 0 && s[n] == '\0';
}

static bool head_has_control(const char *s, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return true;
    return false;
}

ssize_t http_head_find(const char *data, size_t size, size_t head_max, size_t *scanned,
                       struct http_refusal *why)
{
    /* Other protocols, such as TLS, may never send the end of a line. */
    if (size > 0 && !head_is_token_char(data[0]))
        return head_refuse(why, 400, "this is not an HTTP request");

    size_t end = MIN(size, head_max);
    for (size_t i = *scanned; i < end; i++) {
        if (data[i] != '\n')
            continue;
        if (i == 0 || data[i - 1] != '\r')
            return head_refuse(why, 400, "a line of the head ends without a carriage return");
        if (i >= 3 && data[i - 2] == '\n')
            return (ssize_t)i + 1;
    }
    *scanned = end;
    if (end >= REQUEST_LINE_MAX && !memchr(data, '\n', REQUEST_LINE_MAX))
        return head_refuse(why, 414, "the request's target is too long");
    if (size >= head_max)
        return head_refuse(why, 431, "the request's head is too large");
    return 0;
}

static int head_read_method(const char *word, enum http_method *ret, struct http_refusal *why)
{
    static const struct {
        const char *word;
        int method; /* -1: known, and never allowed here */
    } methods[] = {
        {"GET", HTTP_GET}, {"HEAD", HTTP_HEAD},     {"POST", HTTP_POST},
        {"PUT", HTTP_PUT}, {"DELETE", HTTP_DELETE}, {"OPTIONS", -1},
        {"PATCH", -1},     {"TRACE", -1},           {"CONNECT", -1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if (!streq(methods[i].word, word))
            continue;
        if (methods[i].method < 0)
            return head_refuse(why, 405, "the method is not allowed here");
        *ret = (enum http_method)methods[i].method;
        return 0;
    }
    return head_is_token(word) ? head_refuse(why, 501, "the method is unknown")
                               : head_refuse(why, 400, "the method is not a word");
}

static int head_read_version(const char *word, int *ret_minor, struct http_refusal *why)
{
    if (streq(word, "HTTP/1.1") || streq(word, "HTTP/1.0")) {
        *ret_minor = word[strlen(word) - 1] - '0';
        return 0;
    }
    return starts_with(word, "HTTP/") ? head_refuse(why, 505, "only HTTP/1.1 and HTTP/1.0 are supported")
                                      : head_refuse(why, 400, "the request line names no HTTP version");
}

static int head_read_target(const char *target, struct http_head *h, struct http_refusal *why)
{
    size_t size = strlen(target);

    if (size > HTTP_TARGET_MAX)
        return head_refuse(why, 414, "the request's target is too long");
    if (target[0] != '/')
        return head_refuse(why, 400, "the request's target does not start with '/'");
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)target[i] <= ' ' || (unsigned char)target[i] >= 0x7f || target[i] == '#')
            return head_refuse(why, 400, "the request's target has a character that must be escaped");

    const char *query = strchrnul(target, '?');
    if (http_path_decode(target, (size_t)(query - target), &h->path) < 0)
        return head_refuse(why, 400, "the request's path is not well-formed");
    if (*query == '\0')
        return 0;
    int r = http_query_parse(query + 1, strlen(query + 1), &h->query);
    if (r == -E2BIG)
        return head_refuse(why, 400, "the request's query has too many parameters");
    return r < 0 ? head_refuse(why, 400, "the request's query is not well-formed") : 0;
}

/* "METHOD target HTTP/1.1", one space between each. */
static int head_read_request_line(char *line, struct http_head *h, struct http_refusal *why)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;

    if (!version || strchr(version + 1, ' ') || head_has_control(line, strlen(line)))
        return head_refuse(why, 400, "the request line is not 'METHOD /path HTTP/1.1'");
    *target++ = '\0';
    *version++ = '\0';
    int r = head_read_version(version, &h->minor, why);
    if (r == 0)
        r = head_read_method(line, &h->method, why);
    if (r == 0)
        r = head_read_target(target, h, why);
    return r;
}

static int head_read_field(char *line, size_t size, struct http_field *ret, struct http_refusal *why)
{
    if (size > HTTP_HEADER_LINE_MAX)
        return head_refuse(why, 431, "a header line is too long");
    if (line[0] == ' ' || line[0] == '\t')
        return head_refuse(why, 400, "a header line is folded");
    if (strlen(line) != size || head_has_control(line, size))
        return head_refuse(why, 400, "a header line has a control character");
    char *value = strchr(line, ':');
    if (!value)
        return head_refuse(why, 400, "a header line has no colon");
    *value++ = '\0';
    if (!head_is_token(line))
        return head_refuse(why, 400, "a header's name is not a word that ends at its colon");

    value += strspn(value, " ");
    /* Parsers differ on whether a tab belongs to the value. */
    if (*value == '\t')
        return head_refuse(why, 400, "a header's value starts with a tab");
    char *end = line + size;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    *ret = (struct http_field){line, value};
    return 0;
}

/* Framing of the message by its headers, while they are read. */
struct head_framing {
    unsigned n_host, n_length, n_transfer;
    bool close, keep_alive;
};

static int head_on_host(struct http_head *h, struct head_framing *f, const char *value,
                        struct http_refusal *why)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-._~%!$&'()*+,;=:[]";

    f->n_host++;
    return value[strspn(value, allowed)] ? head_refuse(why, 400, "the Host header is not a host") : 0;
}

static int head_on_length(struct http_head *h, struct head_framing *f, const char *value,
                          struct http_refusal *why)
{
    size_t n = strspn(value, "0123456789");

    if (f->n_length++ > 0)
        return head_refuse(why, 400, "the request has two Content-Length headers");
    if (n == 0 || value[n] != '\0')
        return head_refuse(why, 400, "the Content-Length header is not a number");
    if (n > LENGTH_DIGITS_MAX)
        return head_refuse(why, 413, "the request's body is too large");
    h->content_length = strtoll(value, NULL, 10);
    return 0;
}

static int head_on_transfer(struct http_head *h, struct head_framing *f, const char *value,
                            struct http_refusal *why)
{
    f->n_transfer++;
    return 0;
}

static int head_on_connection(struct http_head *h, struct head_framing *f, const char *value,
                              struct http_refusal *why)
{
    for (const char *s = value; *s; s += strcspn(s, ",")) {
        s += strspn(s, ", \t");
        size_t n = strcspn(s, ", \t");
        if (n == 5 && strncasecmp(s, "close", n) == 0)
            f->close = true;
        if (n == 10 && strncasecmp(s, "keep-alive", n) == 0)
            f->keep_alive = true;
    }
    return 0;
}

static int head_on_expect(struct http_head *h, struct head_framing *f, const char *value,
                          struct http_refusal *why)
{
    if (strcasecmp(value, "100-continue") != 0)
        return head_refuse(why, 417, "only '100-continue' can be expected here");
    h->expects_continue = true;
    return 0;
}

static const struct {
    const char *name;
    int (*read)(struct http_head *h, struct head_framing *f, const char *value, struct http_refusal *why);
} framing_headers[] = {
    {"Host", head_on_host},
    {"Content-Length", head_on_length},
    {"Transfer-Encoding", head_on_transfer},
    {"Connection", head_on_connection},
    {"Expect", head_on_expect},
};

static int head_check_framing(struct http_head *h, const struct head_framing *f,
                              const struct http_limits *limits, struct http_refusal *why)
{
    if (f->n_transfer > 0 && f->n_length > 0)
        return head_refuse(why, 400, "the request has both Content-Length and Transfer-Encoding");
    if (f->n_transfer > 0)
        return head_refuse(why, 501, "Transfer-Encoding is not supported: send Content-Length");
    if (f->n_host > 1 || (f->n_host == 0 && h->minor == 1))
        return head_refuse(why, 400, "the request has not exactly one Host header");
    if (h->content_length > (int64_t)limits->body_max)
        return head_refuse(why, 413, "the request's body is too large");
    h->keep_alive = !f->close && (h->minor == 1 || f->keep_alive);
    h->expects_continue = h->expects_continue && h->minor == 1 && h->content_length > 0;
    return 0;
}

static int head_read_fields(char *text, char *end, const struct http_limits *limits, struct http_head *h,
                            struct http_refusal *why)
{
    struct head_framing framing = {0};

    for (char *line = text, *next; line < end; line = next) {
        char *eol = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (!eol)
            return head_refuse(why, 400, "a header line does not end");
        next = eol + 2;
        if (eol == line)
            return next == end ? head_check_framing(h, &framing, limits, why)
                               : head_refuse(why, 400, "the head continues after its end");
        if (h->n_fields == limits->headers_max)
            return head_refuse(why, 431, "the request has too many headers");
        *eol = '\0';
        struct http_field *field = &h->fields[h->n_fields];
        int r = head_read_field(line, (size_t)(eol - line), field, why);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(framing_headers); i++)
            if (strcasecmp(framing_headers[i].name, field->name) == 0)
                r = framing_headers[i].read(h, &framing, field->value, why);
        if (r < 0)
            return r;
        h->n_fields++;
    }
    return head_refuse(why, 400, "the head does not end");
}

int http_head_parse(const char *data, size_t size, const struct http_limits *limits, struct http_head *ret,
                    struct http_refusal *why)
{
    struct http_head h = {
        .text = xcalloc(size + 1, 1),
        .fields = xcalloc(limits->headers_max, sizeof(struct http_field)),
    };
    memcpy(h.text, data, size);

    char *eol = memmem(h.text, size, "\r\n", 2);
    int r;
    if (!eol || memchr(h.text, '\0', (size_t)(eol - h.text))) {
        r = head_refuse(why, 400, "the request line is not 'METHOD /path HTTP/1.1'");
    } else {
        *eol = '\0';
        r = head_read_request_line(h.text, &h, why);
    }
    if (r == 0)
        r = head_read_fields(eol + 2, h.text + size, limits, &h, why);
    if (r < 0) {
        http_head_done(&h);
        return r;
    }
    *ret = h;
    return 0;
}

void http_head_done(struct http_head *h)
{
    free(h->text);
    free(h->path);
    free(h->fields);
    http_query_done(&h->query);
    *h = (struct http_head){0};
}

const char *http_head_field(const struct http_head *h, const char *name)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (strcasecmp(h->fields[i].name, name) == 0)
            return h->fields[i].value;
    return NULL;
}
