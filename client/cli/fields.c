/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/fields.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <stdarg.h>

#define VALUE_COLUMN 14

void field_print_at(const struct screen *s, unsigned column, const char *name, const char *value)
{
    if (!value)
        return;
    _cleanup_(freep) char *clean = text_clean(value, true);
    _cleanup_(freep) char *wrapped = text_wrap(clean, column, screen_text_width(s));
    fprintf(s->file, "%s%*s%s  %s\n", screen_colour(s, COLOUR_DIM), (int)column - 2, name, screen_plain(s),
            wrapped);
}

void field_print(const struct screen *s, const char *name, const char *value)
{
    field_print_at(s, VALUE_COLUMN, name, value);
}

void field_printf(const struct screen *s, const char *name, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *value = xvasprintf(format, ap);
    va_end(ap);
    field_print(s, name, value);
}
