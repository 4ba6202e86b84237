/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/screen.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <stdarg.h>
#include <sys/ioctl.h>

#define WIDTH_FALLBACK  80
#define HEIGHT_FALLBACK 24
#define SIZE_LARGEST    10000

static const char *const escapes[_COLOUR_MAX] = {
    [COLOUR_NONE] = "",        [COLOUR_GOOD] = "\033[32m", [COLOUR_WARN] = "\033[33m",
    [COLOUR_BAD] = "\033[31m", [COLOUR_DIM] = "\033[2m",   [COLOUR_BOLD] = "\033[1m",
};

void screen_init(struct screen *s, FILE *file, bool want_colour)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool dumb = !term || streq(term, "dumb");

    *s = (struct screen){.file = file};
    s->is_tty = isatty(fileno(file));
    s->is_terminal = !dumb && s->is_tty;
    s->has_colour = s->is_terminal && want_colour && !(no_colour && *no_colour);
}

void screen_printf(const struct screen *s, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap), *clean = text_clean(text, true);
    va_end(ap);
    fputs(clean, s->file);
}

void screen_json(const struct screen *s, const json_t *value, size_t flags)
{
    if (!s->is_tty) {
        json_dumpf(value, s->file, flags | JSON_ENCODE_ANY);
        return;
    }
    _cleanup_(freep) char *text = text_json(value, flags);
    fputs(text, s->file);
}

static struct winsize size_of(const struct screen *s)
{
    struct winsize w = {.ws_col = (unsigned short)s->paged_width, .ws_row = (unsigned short)s->paged_height};
    if (s->paged_width == 0 && (ioctl(fileno(s->file), TIOCGWINSZ, &w) < 0 || w.ws_col == 0))
        w = (struct winsize){.ws_col = WIDTH_FALLBACK, .ws_row = HEIGHT_FALLBACK};
    return w;
}

/* A number of the environment that can be a size, else 0. */
static unsigned size_from(const char *variable)
{
    const char *value = getenv(variable);
    char *end;
    long n = value && *value ? strtol(value, &end, 10) : 0;

    return n > 0 && n <= SIZE_LARGEST && *end == '\0' ? (unsigned)n : 0;
}

unsigned screen_width(const struct screen *s)
{
    unsigned columns = s->is_terminal ? size_from("COLUMNS") : 0;

    return columns || !s->is_terminal ? columns : size_of(s).ws_col;
}

unsigned screen_height(const struct screen *s)
{
    return s->is_terminal ? MAX(size_of(s).ws_row, 1) : 0;
}

unsigned screen_text_width(const struct screen *s)
{
    unsigned width = screen_width(s);
    return width ? MIN(width, (unsigned)SCREEN_WIDTH_MAX) : SCREEN_WIDTH_MAX;
}

const char *screen_colour(const struct screen *s, enum colour c)
{
    return s->has_colour ? escapes[c] : "";
}

const char *screen_plain(const struct screen *s)
{
    return s->has_colour ? "\033[0m" : "";
}

void screen_settle(struct screen *s)
{
    s->lines_drawn = 0;
}

void screen_clear(struct screen *s)
{
    if (s->lines_drawn > 0)
        fprintf(s->file, "\r\033[%uA\033[J", s->lines_drawn);
    s->lines_drawn = 0;
    fflush(s->file);
}

void screen_draw(struct screen *s, const char *text)
{
    unsigned width = MIN(screen_width(s), (unsigned)size_of(s).ws_col), lines = 0;

    if (s->lines_drawn > 0)
        fprintf(s->file, "\r\033[%uA", s->lines_drawn);
    while (*text) {
        size_t n = strcspn(text, "\n");
        _cleanup_(freep) char *line = xstrndup(text, n);
        if (text_columns(line) > width)
            fprintf(s->file, "%.*s" TEXT_ELLIPSIS "%s\033[K\n", (int)text_fit(line, MAX(width, 1u) - 1), line,
                    screen_plain(s));
        else
            fprintf(s->file, "%s\033[K\n", line);
        lines++;
        text += n + (text[n] == '\n');
    }
    fputs("\033[J", s->file);
    fflush(s->file);
    s->lines_drawn = lines;
}
