/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others in pages and pictures (HTML, SVG): it is shown, and never markup. */
#pragma once

#include "base/util.h"

/* Cleans as for a terminal, and escapes what HTML and XML would take for their own. */
void markup_put(FILE *out, const char *text);
