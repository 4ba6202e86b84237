/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, loaded when it is first called (on_demand.h): it brings thirty other libraries (Kerberos, LDAP, GnuTLS
 * and more), which take 5 ms and 4 MiB of every process.
 */
#include "base/on_demand.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <stdarg.h>

static struct on_demand_library libcurl = {"libcurl.so.4"};

#define CURL_CALL(type, name, parameters, arguments) ON_DEMAND(&libcurl, type, name, parameters, arguments)

/* clang-format off */
CURL_CALL(CURLcode, curl_global_init, (long flags), (flags))
CURL_CALL(void, curl_global_cleanup, (void), ())
CURL_CALL(void, curl_free, (void *p), (p))
CURL_CALL(time_t, curl_getdate, (const char *text, const time_t *unused), (text, unused))

CURL_CALL(CURL *, curl_easy_init, (void), ())
CURL_CALL(void, curl_easy_cleanup, (CURL *easy), (easy))
CURL_CALL(void, curl_easy_reset, (CURL *easy), (easy))
CURL_CALL(CURLcode, curl_easy_perform, (CURL *easy), (easy))
CURL_CALL(CURLcode, curl_easy_pause, (CURL *easy, int what), (easy, what))
CURL_CALL(const char *, curl_easy_strerror, (CURLcode code), (code))
CURL_CALL(char *, curl_easy_unescape, (CURL *easy, const char *text, int size, int *ret_size), (easy, text, size, ret_size))
CURL_CALL(CURLHcode, curl_easy_header, (CURL *easy, const char *name, size_t i, unsigned origin, int request, struct curl_header **ret),
          (easy, name, i, origin, request, ret))

CURL_CALL(CURLM *, curl_multi_init, (void), ())
CURL_CALL(CURLMcode, curl_multi_cleanup, (CURLM *multi), (multi))
CURL_CALL(CURLMcode, curl_multi_add_handle, (CURLM *multi, CURL *easy), (multi, easy))
CURL_CALL(CURLMcode, curl_multi_remove_handle, (CURLM *multi, CURL *easy), (multi, easy))
CURL_CALL(CURLMcode, curl_multi_assign, (CURLM *multi, curl_socket_t fd, void *arg), (multi, fd, arg))
CURL_CALL(CURLMcode, curl_multi_socket_action, (CURLM *multi, curl_socket_t fd, int what, int *ret_running), (multi, fd, what, ret_running))
CURL_CALL(CURLMcode, curl_multi_perform, (CURLM *multi, int *ret_running), (multi, ret_running))
CURL_CALL(CURLMcode, curl_multi_poll, (CURLM *multi, struct curl_waitfd *fds, unsigned n, int timeout_ms, int *ret), (multi, fds, n, timeout_ms, ret))
CURL_CALL(CURLMsg *, curl_multi_info_read, (CURLM *multi, int *ret_left), (multi, ret_left))
CURL_CALL(const char *, curl_multi_strerror, (CURLMcode code), (code))

CURL_CALL(struct curl_slist *, curl_slist_append, (struct curl_slist *list, const char *text), (list, text))
CURL_CALL(void, curl_slist_free_all, (struct curl_slist *list), (list))

CURL_CALL(CURLU *, curl_url, (void), ())
CURL_CALL(void, curl_url_cleanup, (CURLU *url), (url))
CURL_CALL(CURLUcode, curl_url_get, (CURLU *url, CURLUPart part, char **ret, unsigned flags), (url, part, ret, flags))
CURL_CALL(CURLUcode, curl_url_set, (CURLU *url, CURLUPart part, const char *text, unsigned flags), (url, part, text, flags))
CURL_CALL(const char *, curl_url_strerror, (CURLUcode code), (code))
/* clang-format on */

/* The functions with "..." take one more argument. Its type follows from the number of the option: an offset, or
 * something of the size of a pointer. */
#define OPTION_IS_OFFSET(option) ((option) >= CURLOPTTYPE_OFF_T && (option) < CURLOPTTYPE_BLOB)

#define CURL_SET(type, name, handle_type, option_type)                                                       \
    ON_DEMAND_DECLARE(type, name, (handle_type handle, option_type option, ...));                            \
    type on_demand_##name(handle_type handle, option_type option, ...)                                       \
    {                                                                                                        \
        __typeof__(name) *real = ON_DEMAND_REAL(&libcurl, name);                                             \
        va_list args;                                                                                        \
        va_start(args, option);                                                                              \
        type code = OPTION_IS_OFFSET(option) ? real(handle, option, va_arg(args, curl_off_t))                \
                                             : real(handle, option, va_arg(args, void *));                   \
        va_end(args);                                                                                        \
        return code;                                                                                         \
    }

CURL_SET(CURLcode, curl_easy_setopt, CURL *, CURLoption)
CURL_SET(CURLMcode, curl_multi_setopt, CURLM *, CURLMoption)
/* Takes a pointer, of each. */
CURL_SET(CURLcode, curl_easy_getinfo, CURL *, CURLINFO)
