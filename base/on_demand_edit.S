/* SPDX-License-Identifier: Apache-2.0 */
/* libedit, which edits the lines of profctl query without a statement. */
#include "base/on_demand_call.h"

ON_DEMAND("libedit.so.2", \
          el_deletestr, el_end, el_get, el_gets, el_init, el_insertstr, el_line, el_reset, el_set, el_source, \
          el_wset, history, history_end, history_init)
