/* SPDX-License-Identifier: Apache-2.0 */
/* libevent, which serves reports to a browser and waits for several things at the same time. */
#include "base/on_demand_call.h"

ON_DEMAND("libevent-2.1.so.7", \
          evbuffer_add_file, evbuffer_free, evbuffer_new, event_add, event_base_dispatch, event_base_free, \
          event_base_loopbreak, event_base_loopexit, event_base_new, event_free, event_new, evhttp_add_header, \
          evhttp_bind_socket, evhttp_find_header, evhttp_free, evhttp_new, evhttp_request_get_command, \
          evhttp_request_get_input_headers, evhttp_request_get_output_headers, evhttp_request_get_uri, \
          evhttp_request_set_on_complete_cb, evhttp_send_error, evhttp_send_reply, evhttp_set_allowed_methods, \
          evhttp_set_gencb, evhttp_set_max_body_size, evhttp_set_max_headers_size)
