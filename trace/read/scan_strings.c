/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that the scanner meets for the first time, or that must be cleaned, into the intake's strings. */
#include "trace/read/scan_state.h"
#include "trace/read/scan_text.h"
#include <errno.h>

static uint32_t no_memory(struct scanner *s)
{
    if (!s->intake->error)
        s->intake->error = -ENOMEM;
    return STRINGS_NONE;
}

uint32_t scan_intern(struct scanner *s, const char *p, size_t size, struct cached_text *c)
{
    uint32_t number = strings_intern(s->intake->strings, p, size);
    size_t kept_size;

    if (number == STRINGS_NONE)
        return no_memory(s);
    const char *kept = strings_get(s->intake->strings, number, &kept_size);
    *c = (struct cached_text){.text = kept, .size = (uint32_t)size, .number = number};
    return number;
}

uint32_t scan_intern_text(struct scanner *s, const char *p, size_t size)
{
    uint32_t number = strings_intern(s->intake->strings, p, size);

    return number == STRINGS_NONE ? no_memory(s) : number;
}

bool scan_make_room(struct scanner *s, size_t size)
{
    if (size <= s->room_size)
        return true;
    char *room = realloc(s->room, size);
    if (!room) {
        no_memory(s);
        return false;
    }
    s->room = room;
    s->room_size = size;
    return true;
}

static uint32_t intern_cleaned(struct scanner *s, const char *p, size_t size,
                               size_t (*clean)(const char *p, size_t size, char *out, uint32_t *ret_flaws))
{
    if (!scan_make_room(s, size * SCAN_TEXT_GROWTH + INTERN_BEHIND))
        return STRINGS_NONE;
    size = clean(p, size, s->room, &s->found.flaws);
    memset(s->room + size, 0, INTERN_BEHIND);
    return scan_intern_text(s, s->room, size);
}

uint32_t scan_intern_unescaped(struct scanner *s, const char *p, size_t size)
{
    return intern_cleaned(s, p, size, scan_text_unescape);
}

uint32_t scan_intern_repaired(struct scanner *s, const char *p, size_t size)
{
    return intern_cleaned(s, p, size, scan_text_repair);
}

bool scan_check_text(struct scanner *s, const char *p, size_t size)
{
    uint32_t flaws = 0;

    if (!scan_make_room(s, size * SCAN_TEXT_GROWTH))
        return false;
    scan_text_unescape(p, size, s->room, &flaws);
    s->found.flaws |= flaws;
    return flaws == 0;
}

void scan_set_category(struct scanner *s, uint32_t string)
{
    struct found *f = &s->found;
    size_t size;
    const char *text;

    f->category = CATEGORY_NONE;
    f->class = CLASS_UNLISTED;
    if (string == 0 || string == STRINGS_NONE)
        return;
    text = strings_get(s->intake->strings, string, &size);
    f->category = intake_category(s->intake, string);
    f->class = (uint8_t)arg_class_of_category(text, size);
}
