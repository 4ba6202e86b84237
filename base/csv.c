/* SPDX-License-Identifier: Apache-2.0 */
#include "base/csv.h"

#include <string.h>

void csv_write_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void csv_write(FILE *out, const char *text)
{
    if (*text && !strpbrk(text, ",\"\r\n"))
        fputs(text, out);
    else
        csv_write_quoted(out, text);
}
