/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl brings thirty other libraries (Kerberos, LDAP, GnuTLS and more), which take 5 ms and 4 MiB
 * of every process.
 */
#include "base/on_demand_call.h"

ON_DEMAND("libcurl.so.4", \
          curl_easy_cleanup, curl_easy_getinfo, curl_easy_header, curl_easy_init, curl_easy_pause, \
          curl_easy_perform, curl_easy_recv, curl_easy_reset, curl_easy_send, curl_easy_setopt, curl_easy_strerror, curl_easy_unescape, curl_free, \
          curl_getdate, curl_global_cleanup, curl_global_init, curl_multi_add_handle, curl_multi_assign, \
          curl_multi_cleanup, curl_multi_info_read, curl_multi_init, curl_multi_perform, curl_multi_poll, \
          curl_multi_remove_handle, curl_multi_setopt, curl_multi_socket_action, curl_multi_strerror, \
          curl_slist_append, curl_slist_free_all, curl_url, curl_url_cleanup, curl_url_get, curl_url_set, \
          curl_url_strerror, curl_version_info)
