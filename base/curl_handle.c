/* SPDX-License-Identifier: Apache-2.0 */
#include "base/curl_handle.h"

#include "base/util.h"
#include <errno.h>

#define KEEPALIVE_S        30L /* a stop is silent for minutes */
#define NAMES_KEPT_FOREVER -1L /* for as long as the multi handle lives */

void curl_handle_prepare(CURL *easy, const struct curl_callbacks *callbacks, void *arg, char *error,
                         const char *user_agent)
{
    curl_easy_setopt(easy, CURLOPT_PRIVATE, arg);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, callbacks->open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, arg);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callbacks->before_send);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, arg);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, callbacks->header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, arg);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, callbacks->body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, arg);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
    /* libcurl looks through all that it keeps for each call, and of a router that lists ten thousand addresses it
     * keeps ten thousand. */
    curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, NAMES_KEPT_FOREVER);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, user_agent);
}

void curl_list_add(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
}

static const struct {
    CURLcode code;
    int err;
} curl_errors[] = {
    {CURLE_COULDNT_CONNECT, -ECONNREFUSED}, {CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH},
    {CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT}, {CURLE_SEND_ERROR, -ECONNRESET},
    {CURLE_RECV_ERROR, -ECONNRESET},        {CURLE_GOT_NOTHING, -ECONNRESET},
    {CURLE_PARTIAL_FILE, -ECONNRESET},      {CURLE_UNSUPPORTED_PROTOCOL, -EPROTONOSUPPORT},
    {CURLE_URL_MALFORMAT, -EINVAL},         {CURLE_OUT_OF_MEMORY, -ENOMEM},
};

int curl_handle_errno(CURL *easy, CURLcode code)
{
    long os_errno = 0;

    if (code == CURLE_COULDNT_CONNECT && curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_errno) == CURLE_OK &&
        os_errno > 0)
        return -(int)os_errno;
    for (size_t i = 0; i < ARRAY_SIZE(curl_errors); i++)
        if (curl_errors[i].code == code)
            return curl_errors[i].err;
    return -EPROTO;
}
