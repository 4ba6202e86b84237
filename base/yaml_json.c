/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_json.h"

#include "base/alloc.h"
#include <errno.h>
#include <yaml.h>

struct yaml_reader {
    yaml_parser_t parser;
    unsigned n_nodes;
    char *error;
    json_t *lines, *columns; /* NULL: not asked for */
};

static void yaml_set_error(struct yaml_reader *r, const char *text)
{
    if (r->error[0])
        return;
    const yaml_mark_t *mark = r->parser.problem ? &r->parser.problem_mark : &r->parser.mark;
    snprintf(r->error, 200, "%s (line %zu)", text, mark->line + 1);
}

static bool yaml_next_event(struct yaml_reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event))
        return true;
    yaml_set_error(r, r->parser.problem ? r->parser.problem : "not YAML");
    return false;
}

static json_t *yaml_plain_number(const char *text)
{
    char *end;
    if (!*text || strspn(text, "+-.0123456789eE") != strlen(text))
        return NULL;
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    if (!*end && errno == 0)
        return json_integer(integer);
    double real = strtod(text, &end);
    return *end || errno ? NULL : json_real(real);
}

static json_t *yaml_plain_scalar(const char *text)
{
    static const struct {
        const char *word;
        char value;
    } words[] = {{"true", 't'}, {"yes", 't'}, {"on", 't'},   {"false", 'f'}, {"no", 'f'},
                 {"off", 'f'},  {"~", 'n'},   {"null", 'n'}, {"", 'n'}};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasecmp(text, words[i].word) == 0)
            return words[i].value == 'n' ? json_null() : json_boolean(words[i].value == 't');
    json_t *number = yaml_plain_number(text);
    return number ? number : json_text(text);
}

static json_t *yaml_read_value(struct yaml_reader *r, const yaml_event_t *event, const char *pointer,
                               unsigned depth);

/* The JSON pointer of a member of a value; NULL if no lines are asked for. */
static char *yaml_pointer_below(const struct yaml_reader *r, const char *pointer, const char *key)
{
    return r->lines ? xasprintf("%s/%s", pointer, key) : NULL;
}

/* False if the key is a duplicate. pointer: NULL if no lines are asked for. */
static bool yaml_note_line(struct yaml_reader *r, const char *pointer, const yaml_event_t *key)
{
    if (!pointer)
        return true;
    if (strlen(pointer) > YAML_POINTER_MAX) {
        yaml_set_error(r, "a key is too long");
        return false;
    }
    if (json_object_get(r->lines, pointer)) {
        snprintf(r->error, 200, "duplicate key %.80s (line %zu)", key->data.scalar.value,
                 key->start_mark.line + 1);
        return false;
    }
    json_object_set_new(r->lines, pointer, json_integer((json_int_t)key->start_mark.line + 1));
    json_object_set_new(r->columns, pointer, json_integer((json_int_t)key->start_mark.column + 1));
    return true;
}

static json_t *yaml_read_sequence(struct yaml_reader *r, const char *pointer, unsigned depth)
{
    _cleanup_json_ array = json_array();
    for (;;) {
        _cleanup_(yaml_event_delete) yaml_event_t event = {0};
        if (!yaml_next_event(r, &event))
            return NULL;
        if (event.type == YAML_SEQUENCE_END_EVENT)
            return TAKE_PTR(array);
        char index[24];
        snprintf(index, sizeof(index), "%zu", json_array_size(array));
        _cleanup_(freep) char *below = yaml_pointer_below(r, pointer, index);
        json_t *item = yaml_read_value(r, &event, below, depth);
        if (!item)
            return NULL;
        json_array_append_new(array, item);
    }
}

static json_t *yaml_read_mapping(struct yaml_reader *r, const char *pointer, unsigned depth)
{
    _cleanup_json_ object = json_object();
    for (;;) {
        _cleanup_(yaml_event_delete) yaml_event_t key = {0};
        _cleanup_(yaml_event_delete) yaml_event_t event = {0};
        if (!yaml_next_event(r, &key))
            return NULL;
        if (key.type == YAML_MAPPING_END_EVENT)
            return TAKE_PTR(object);
        if (key.type != YAML_SCALAR_EVENT) {
            yaml_set_error(r, "a key is not plain text");
            return NULL;
        }
        const char *name = (const char *)key.data.scalar.value;
        _cleanup_(freep) char *below = yaml_pointer_below(r, pointer, name);
        if (!yaml_note_line(r, below, &key) || !yaml_next_event(r, &event))
            return NULL;
        json_t *value = yaml_read_value(r, &event, below, depth);
        if (!value)
            return NULL;
        /* A key that is not UTF-8 is dropped: it cannot be a known one. */
        json_object_set_new(object, name, value);
    }
}

static json_t *yaml_read_value(struct yaml_reader *r, const yaml_event_t *event, const char *pointer,
                               unsigned depth)
{
    if (depth >= YAML_DEPTH_MAX || ++r->n_nodes > YAML_NODES_MAX) {
        yaml_set_error(r, "nested too deeply or too long");
        return NULL;
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE
                   ? yaml_plain_scalar((const char *)event->data.scalar.value)
                   : json_text((const char *)event->data.scalar.value);
    case YAML_SEQUENCE_START_EVENT:
        return yaml_read_sequence(r, pointer, depth + 1);
    case YAML_MAPPING_START_EVENT:
        return yaml_read_mapping(r, pointer, depth + 1);
    case YAML_ALIAS_EVENT:
        yaml_set_error(r, "aliases are not supported");
        return NULL;
    default:
        yaml_set_error(r, "no value");
        return NULL;
    }
}

static json_t *yaml_read_document(struct yaml_reader *r)
{
    for (;;) {
        _cleanup_(yaml_event_delete) yaml_event_t event = {0};
        if (!yaml_next_event(r, &event))
            return NULL;
        if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT)
            return yaml_read_value(r, &event, "", 0);
    }
}

static json_t *yaml_read(const char *data, size_t size, json_t *lines, json_t *columns,
                         char error[static 200])
{
    struct yaml_reader r = {.error = error, .lines = lines, .columns = columns};

    error[0] = '\0';
    if (!yaml_parser_initialize(&r.parser)) {
        snprintf(error, 200, "out of memory");
        return NULL;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)data, size);
    json_t *root = yaml_read_document(&r);
    yaml_parser_delete(&r.parser);
    return root;
}

json_t *yaml_parse(const char *data, size_t size, char error[static 200])
{
    return yaml_read(data, size, NULL, NULL, error);
}

json_t *yaml_parse_with_lines(const char *data, size_t size, char error[static 200], json_t **ret_lines,
                              json_t **ret_columns)
{
    _cleanup_json_ lines = json_object();
    _cleanup_json_ columns = json_object();
    json_t *root = yaml_read(data, size, lines, columns, error);

    if (root)
        *ret_lines = TAKE_PTR(lines);
    if (root && ret_columns)
        *ret_columns = TAKE_PTR(columns);
    return root;
}
