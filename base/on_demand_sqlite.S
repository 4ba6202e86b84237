/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite, which answers queries of traces. */
#include "base/on_demand_call.h"

ON_DEMAND("libsqlite3.so.0", \
          sqlite3_close, sqlite3_column_blob, sqlite3_column_bytes, sqlite3_column_count, sqlite3_column_decltype, \
          sqlite3_column_double, sqlite3_column_name, sqlite3_column_text, sqlite3_column_type, sqlite3_complete, \
          sqlite3_create_function_v2, sqlite3_create_module_v2, sqlite3_db_config, sqlite3_declare_vtab, \
          sqlite3_errmsg, sqlite3_error_offset, sqlite3_exec, sqlite3_finalize, sqlite3_free, sqlite3_get_auxdata, \
          sqlite3_hard_heap_limit64, sqlite3_keyword_count, sqlite3_keyword_name, sqlite3_limit, sqlite3_mprintf, \
          sqlite3_open_v2, sqlite3_prepare_v2, sqlite3_progress_handler, sqlite3_result_double, \
          sqlite3_result_error, sqlite3_result_error_nomem, sqlite3_result_int, sqlite3_result_int64, \
          sqlite3_result_text, sqlite3_result_text64, sqlite3_set_authorizer, sqlite3_set_auxdata, \
          sqlite3_snprintf, sqlite3_sql, sqlite3_step, sqlite3_str_append, sqlite3_str_appendall, \
          sqlite3_str_appendchar, sqlite3_str_appendf, sqlite3_str_finish, sqlite3_str_new, sqlite3_user_data, \
          sqlite3_value_bytes, sqlite3_value_double, sqlite3_value_int64, sqlite3_value_numeric_type, \
          sqlite3_value_text, sqlite3_value_type, sqlite3_vtab_collation, sqlite3_vtab_config, \
          sqlite3_vtab_distinct, sqlite3_vtab_in, sqlite3_vtab_in_first, sqlite3_vtab_in_next)
