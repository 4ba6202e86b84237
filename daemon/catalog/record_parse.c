/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records from JSON that fields_put_json() rendered, by this profd or another one, and that anybody may have changed since. A
 * member of another type than it has, or out of bounds, is left out; texts lose hidden characters. What no JSON has (ids, what only the
 * kernel of that boot knows, routers) stays as in an empty record.
 */
#include "daemon/catalog/internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>

#define PARSED_TEXT_MAX 65536
#define PARSED_JSON_MAX (1 << 20)
/* Two of them can be added. */
#define PARSED_NUMBER_MAX   (INT64_MAX / 2)
#define PARSED_RANK_MAX     (1 << 24)

#define AT(type, record, f) (*(type *)((char *)(record) + (f)->offset))

/* NULL: it is absent, or too long. */
static char *parsed_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && json_string_length(value) <= PARSED_TEXT_MAX ? text_clean(text, true) : NULL;
}

static char *parsed_json(const json_t *value, bool is_object)
{
    if (is_object ? !json_is_object(value) : !json_is_array(value))
        return NULL;
    char *text = json_dumps(value, JSON_COMPACT);
    if (text && strlen(text) > PARSED_JSON_MAX)
        free(TAKE_PTR(text));
    return text;
}

static bool number_is_sound(enum record_field_type type, int64_t n)
{
    if (type == FIELD_RANK)
        return n >= 0 && n <= PARSED_RANK_MAX;
    return n >= (type == FIELD_COUNT ? 0 : -PARSED_NUMBER_MAX) && n <= PARSED_NUMBER_MAX;
}

/* Whether the record can have the value; an unknown word is an error, as no state is a default. */
static bool field_parse_value(const struct record_field *f, const json_t *object, void *record)
{
    const json_t *holder = f->type == FIELD_RANK ? json_object_get(object, "ranks") : object;
    const json_t *value = json_object_get(holder, f->name);
    const char *word = json_string_value(value);
    int number = -1;

    switch (f->type) {
    case FIELD_NUMBER:
    case FIELD_COUNT:
    case FIELD_RANK:
        if (json_is_integer(value) && number_is_sound(f->type, json_integer_value(value)))
            AT(int64_t, record, f) = json_integer_value(value);
        return true;
    case FIELD_BOOL:
        AT(bool, record, f) = json_is_true(value);
        return true;
    case FIELD_TEXT:
        AT(char *, record, f) = parsed_text(value);
        return true;
    case FIELD_OBJECT:
    case FIELD_ARRAY:
        AT(char *, record, f) = parsed_json(value, f->type == FIELD_OBJECT);
        return true;
    case FIELD_STATE:
    case FIELD_TRACE_STATE:
    case FIELD_TRACE_KIND:
        number = !word                          ? -1
                 : f->type == FIELD_STATE       ? state_from_name(word)
                 : f->type == FIELD_TRACE_STATE ? trace_state_from_name(word)
                                                : trace_kind_from_name(word);
        AT(int, record, f) = MAX(number, 0);
        return number >= 0;
    default:
        return true;
    }
}

/* -EINVAL after the record was emptied. */
static int fields_parse(const struct record_fields *l, const json_t *object, void *record)
{
    bool is_sound = json_is_object(object);

    for (size_t i = 0; i < l->n && is_sound; i++)
        is_sound = field_parse_value(&l->fields[i], object, record);
    if (!is_sound)
        fields_done(l, record);
    return is_sound ? 0 : -EINVAL;
}

int session_record_parse(const json_t *object, struct session_record *ret)
{
    session_record_init(ret);
    int r = fields_parse(session_fields(), object, ret);
    free(TAKE_PTR(ret->router));
    return r;
}

int target_record_parse(const json_t *object, struct target_record *ret)
{
    target_record_init(ret);
    return fields_parse(target_fields(), object, ret);
}

int trace_record_parse(const json_t *object, struct trace_record *ret)
{
    trace_record_init(ret);
    return fields_parse(trace_fields(), object, ret);
}
