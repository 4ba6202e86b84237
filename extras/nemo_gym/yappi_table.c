/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "extras/nemo_gym/yappi_internal.h"
#include "extras/nemo_gym/yappi_text.h"
#include <errno.h>

#define CLOCK_TYPE "Clock type: "

static const struct {
    const char *word;
    enum function_clock clock;
} clocks[] = {
    {"CPU", FUNCTION_CLOCK_CPU},
    {"WALL", FUNCTION_CLOCK_WALL},
};

/* The last word, which goes from the line. */
static struct piece take_last_word(struct piece *line)
{
    struct piece word;

    *line = piece_trim(*line);
    word = (struct piece){line->end, line->end};
    while (word.p > line->p && word.p[-1] != ' ')
        word.p--;
    line->end = word.p;
    return word;
}

/* "0.000123", as nanoseconds. What is finer than these is cut. */
static bool read_seconds(struct piece s, int64_t *ret)
{
    bool minus = piece_take_minus(&s);
    const char *point = memchr(s.p, '.', piece_size(s));
    int64_t whole, part = 0, unit = NS_PER_S;

    if (!piece_number((struct piece){s.p, point ? point : s.end}, &whole) ||
        whole > YAPPI_COUNT_MAX / NS_PER_S)
        return false;
    for (const char *p = point ? point + 1 : s.end; p < s.end; p++) {
        if (!piece_is_digit(*p))
            return false;
        unit /= 10;
        part += unit * (*p - '0');
    }
    *ret = (whole * NS_PER_S + part) * (minus ? -1 : 1);
    return true;
}

/* Of "12/3" the 12: calls with those that recur. */
static bool read_calls(struct piece s, int64_t *ret)
{
    const char *slash = memchr(s.p, '/', piece_size(s));
    return piece_number((struct piece){s.p, slash ? slash : s.end}, ret);
}

/* "/app/app.py:12 verify"; what is built in, "builtins.sorted", has no line. */
static void add_function(struct function_list *l, struct piece full, int64_t calls, int64_t tsub,
                         int64_t ttot)
{
    for (const char *colon = full.p; (colon = memchr(colon, ':', (size_t)(full.end - colon))); colon++) {
        struct piece digits = {colon + 1, colon + 1};
        int64_t line;
        while (digits.end < full.end && piece_is_digit(*digits.end))
            digits.end++;
        if (digits.end == full.end || *digits.end != ' ' || !piece_number(digits, &line))
            continue;
        function_list_add(l, digits.end + 1, (size_t)(full.end - digits.end - 1), full.p,
                          (size_t)(colon - full.p), line, calls, tsub, ttot);
        return;
    }
    function_list_add(l, full.p, piece_size(full), "", 0, 0, calls, tsub, ttot);
}

static void take_row(struct function_list *l, struct piece line)
{
    int64_t calls, tsub, ttot, average;
    struct piece tavg_word = take_last_word(&line), ttot_word = take_last_word(&line),
                 tsub_word = take_last_word(&line), calls_word = take_last_word(&line),
                 full = piece_trim(line);

    if (full.p == full.end || l->n == FUNCTIONS_MAX || !read_seconds(tavg_word, &average) ||
        !read_seconds(ttot_word, &ttot) || !read_seconds(tsub_word, &tsub) ||
        !read_calls(calls_word, &calls) || ttot < 0)
        l->n_unreadable++;
    else
        add_function(l, full, calls, tsub, ttot);
}

int yappi_table_parse(const char *text, size_t size, struct function_list **ret)
{
    _cleanup_(function_list_freep) struct function_list *l = xcalloc(1, sizeof(*l));
    struct piece rest = {text, text + size}, line;
    bool past_heading = false;

    while (piece_line(&rest, &line)) {
        line = piece_trim(line);
        if (past_heading && line.p < line.end)
            take_row(l, line);
        for (size_t i = 0; !past_heading && i < ARRAY_SIZE(clocks); i++)
            if (piece_starts(line, CLOCK_TYPE) &&
                piece_starts((struct piece){line.p + strlen(CLOCK_TYPE), line.end}, clocks[i].word))
                l->clock = clocks[i].clock;
        past_heading = past_heading || piece_starts(line, "name ");
    }
    if (!past_heading)
        return -EBADMSG;
    *ret = TAKE_PTR(l);
    return 0;
}
