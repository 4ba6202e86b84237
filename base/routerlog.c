/* SPDX-License-Identifier: Apache-2.0 */
#include "base/routerlog.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define MARK       "Router launched at "
#define BLOCK_SIZE (256 << 10)
/* Bytes that neighbouring blocks share: the mark and the longest address after it. */
#define OVERLAP     512
#define ADDRESS_MAX 300

static bool routerlog_in_address(unsigned char c)
{
    return isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']';
}

static char *routerlog_host_of(const char *host, size_t n)
{
    struct in6_addr v6;
    bool brackets = n >= 2 && host[0] == '[' && host[n - 1] == ']';
    _cleanup_(freep) char *bare = brackets ? xstrndup(host + 1, n - 2) : xstrndup(host, n);

    if (inet_pton(AF_INET6, bare, &v6) == 1)
        return IN6_IS_ADDR_UNSPECIFIED(&v6) ? xstrdup("[::1]") : xasprintf("[%s]", bare);
    if (brackets || bare[0] == '\0' || strpbrk(bare, ":[]"))
        return NULL;
    return streq(bare, "0.0.0.0") ? xstrdup("127.0.0.1") : TAKE_PTR(bare);
}

/* HOST:PORT at text; IPv6 with or without brackets. */
static char *routerlog_parse_address(const char *text, size_t size)
{
    static const char *const prefixes[] = {"http://", "https://"};
    const char *scheme = prefixes[0];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        size_t k = strlen(prefixes[i]);
        if (size > k && memcmp(text, prefixes[i], k) == 0) {
            scheme = prefixes[i];
            text += k;
            size -= k;
            break;
        }
    }
    while (n < size && n < ADDRESS_MAX && routerlog_in_address((unsigned char)text[n]))
        n++;
    while (n > 0 && text[n - 1] == '.')
        n--;
    const char *colon = n > 0 ? memrchr(text, ':', n) : NULL;
    if (!colon)
        return NULL;
    unsigned long port = 0;
    size_t digits = n - (size_t)(colon + 1 - text);
    for (size_t i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)colon[1 + i]))
            return NULL;
        port = port * 10 + (unsigned long)(colon[1 + i] - '0');
        if (port > 65535)
            return NULL;
    }
    if (digits == 0 || port == 0)
        return NULL;
    _cleanup_(freep) char *host = routerlog_host_of(text, (size_t)(colon - text));
    return host ? xasprintf("%s%s:%lu", scheme, host, port) : NULL;
}

/* memmem() from the end. */
static const char *routerlog_find_last(const char *text, size_t size, const char *mark, size_t n)
{
    const char *end = text + size;
    while ((size_t)(end - text) >= n) {
        const char *p = memrchr(text, mark[0], (size_t)(end - text) - n + 1);
        if (!p)
            return NULL;
        if (memcmp(p, mark, n) == 0)
            return p;
        end = p + n - 1;
    }
    return NULL;
}

char *routerlog_find(const char *text, size_t size)
{
    const size_t n = strlen(MARK);
    size_t end = size;

    for (;;) {
        const char *p = routerlog_find_last(text, end, MARK, n);
        if (!p)
            return NULL;
        char *url = routerlog_parse_address(p + n, size - (size_t)(p + n - text));
        if (url)
            return url;
        end = (size_t)(p - text) + n - 1;
    }
}

static int routerlog_open_log(const char *path, int64_t *ret_size)
{
    struct stat st;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    *ret_size = st.st_size;
    return TAKE_FD(fd);
}

static int routerlog_search_backwards(int fd, int64_t size, char **ret_url)
{
    _cleanup_(freep) char *block = xcalloc(BLOCK_SIZE + OVERLAP, 1);
    int64_t lowest = MAX(INT64_C(0), size - ROUTERLOG_SCAN_MAX);

    for (int64_t end = size; end > lowest;) {
        int64_t start = MAX(lowest, end - BLOCK_SIZE);
        ssize_t n = pread_full(fd, block, (size_t)MIN(end - start + OVERLAP, size - start), (uint64_t)start);
        if (n < 0)
            return (int)n;
        *ret_url = routerlog_find(block, (size_t)n);
        if (*ret_url)
            return 0;
        end = start;
    }
    return -ENOENT;
}

int routerlog_read(const char *path, char **ret_url, struct problem *p)
{
    int64_t size = 0;
    _cleanup_(closep) int fd = routerlog_open_log(path, &size);
    if (fd < 0)
        return problem_set(p, fd, PROBLEM_BAD_REQUEST, "cannot read the router's log %s: %s", path,
                           fd == -EINVAL ? "it is not a regular file" : strerror(-fd));
    int r = routerlog_search_backwards(fd, size, ret_url);
    if (r == -ENOENT) {
        problem_set(p, r, PROBLEM_NOT_FOUND, "%s has no line \"" MARK "HOST:PORT\"", path);
        problem_remedy(p, "Is it the log of a training job whose router is up? Else name the router with "
                          "--router URL.");
    } else if (r < 0) {
        problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read the router's log %s: %s", path, strerror(-r));
    }
    return r;
}
