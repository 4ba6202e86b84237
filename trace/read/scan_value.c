/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_state.h"

static bool is_word(struct raw value)
{
    static const char *const words[] = {"null", "true", "false"};
    size_t size = (size_t)(value.end - value.p);

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strlen(words[i]) == size && memcmp(words[i], value.p, size) == 0)
            return true;
    return false;
}

/* NUMBER_NONE for what does not pretend to be one; what does, and is none, is noted. */
static enum number_kind read_number(struct scanner *s, struct raw value, int decimals, int64_t *ret)
{
    struct slice text = slice_unquoted((struct slice){value.p, value.end});
    enum number_kind kind;

    if (value.p == value.end || *value.p == '{' || *value.p == '[' || is_word(value))
        return NUMBER_NONE;
    kind = number_scaled(text.p, text.end, decimals, ret);
    if (kind == NUMBER_NONE)
        s->found.flaws |= 1u << DEFECT_bad_number;
    return kind;
}

bool scan_value_number(struct scanner *s, struct raw value, int decimals, int64_t *ret)
{
    int64_t number;
    enum number_kind kind = read_number(s, value, decimals, &number);

    /* Decimals that are not wanted make another number of it. */
    if (kind == NUMBER_TOO_LARGE || (kind == NUMBER_ROUNDED && decimals == 0)) {
        s->found.flaws |= 1u << DEFECT_bad_number;
        return false;
    }
    if (kind != NUMBER_NONE)
        *ret = number;
    return kind != NUMBER_NONE;
}

bool scan_value_real(struct scanner *s, struct raw value)
{
    int64_t ignored;

    return read_number(s, value, 0, &ignored) != NUMBER_NONE;
}

void scan_value_check(struct scanner *s, struct raw value)
{
    int64_t ignored;

    read_number(s, value, 0, &ignored);
}
