/* SPDX-License-Identifier: Apache-2.0 */
/* libsystemd for D-Bus. It brings four other libraries. */
#include "base/on_demand_call.h"

ON_DEMAND("libsystemd.so.0", \
          sd_bus_call, sd_bus_call_async, sd_bus_call_method, sd_bus_error_free, sd_bus_error_has_names_sentinel, \
          sd_bus_flush_close_unref, sd_bus_get_events, sd_bus_get_fd, sd_bus_get_property, \
          sd_bus_get_property_string, sd_bus_get_property_trivial, sd_bus_match_signal, sd_bus_message_append, \
          sd_bus_message_append_basic, sd_bus_message_append_strv, sd_bus_message_at_end, \
          sd_bus_message_close_container, sd_bus_message_enter_container, sd_bus_message_exit_container, \
          sd_bus_message_get_error, sd_bus_message_has_signature, sd_bus_message_is_method_error, \
          sd_bus_message_new_method_call, sd_bus_message_open_container, sd_bus_message_peek_type, \
          sd_bus_message_read, sd_bus_message_read_basic, sd_bus_message_ref, \
          sd_bus_message_set_allow_interactive_authorization, sd_bus_message_skip, sd_bus_message_unref, \
          sd_bus_open_system, sd_bus_open_user, sd_bus_path_encode, sd_bus_process, \
          sd_bus_set_method_call_timeout, sd_bus_slot_unref, sd_bus_wait)
