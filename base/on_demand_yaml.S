/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml, which reads recipes and lists of targets. */
#include "base/on_demand_call.h"

ON_DEMAND("libyaml-0.so.2", \
          yaml_event_delete, yaml_parser_delete, yaml_parser_initialize, yaml_parser_parse, \
          yaml_parser_set_input_string)
