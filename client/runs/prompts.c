/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/prompts.h"

#include "base/alloc.h"
#include <errno.h>
#include <stdarg.h>

#define VALUES_OF_ENTRY_MAX 100000

struct reader {
    FILE *in;
    const char *name;
    enum prompts_format format;
    int64_t limit, bytes;
    size_t entry; /* the line, or the place in the list, from 1 */
    char *text;   /* of the entry */
    size_t size, room;
    json_t *prompts;
};

static _printf_(3, 4) int refuse(const struct reader *r, struct problem *p, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *why = xvasprintf(format, ap);
    va_end(ap);
    return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "%s, %s %zu: %s", r->name,
                       r->format == PROMPTS_JSON ? "element" : "line", r->entry, why);
}

/* -- Entries ------------------------------------------------------------------------------------------ */

static int put(struct reader *r, int c, struct problem *p)
{
    if (r->size >= PROMPT_ENTRY_MAX)
        return refuse(r, p, "it is longer than %d MiB", PROMPT_ENTRY_MAX >> 20);
    VEC_GROW(r->text, r->size, r->room);
    r->text[r->size++] = (char)c;
    return 0;
}

/* Each of these reads the next entry: 1, 0 where there is none, or the problem. */
static int next_line(struct reader *r, struct problem *p)
{
    int c = getc(r->in), err = 0;

    if (c == EOF)
        return 0;
    r->size = 0;
    r->entry++;
    for (; c != EOF && c != '\n' && err == 0; c = getc(r->in))
        err = put(r, c, p);
    if (r->size > 0 && r->text[r->size - 1] == '\r')
        r->size--;
    return err < 0 ? err : 1;
}

static int skip_space(FILE *in)
{
    int c;
    while ((c = getc(in)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        ;
    return c;
}

/* The text of a value up to the comma or bracket that ends it; whether it is JSON is seen later. */
static int take_element(struct reader *r, int c, struct problem *p)
{
    int depth = 0, err = 0;
    bool quoted = false, escaped = false;

    for (; c != EOF; c = getc(r->in)) {
        if (!quoted && depth == 0 && (c == ',' || c == ']')) {
            ungetc(c, r->in);
            return 0;
        }
        if (!quoted)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c == '"' && !escaped)
            quoted = !quoted;
        escaped = quoted && c == '\\' && !escaped;
        if ((err = put(r, c, p)) < 0)
            return err;
    }
    return refuse(r, p, "the list does not end");
}

static int next_element(struct reader *r, struct problem *p)
{
    int c = skip_space(r->in);

    r->size = 0;
    if (r->entry == 0) {
        if (c == EOF)
            return 0;
        if (c != '[')
            return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST,
                               "%s is not a list in JSON; values on lines of their own make a .jsonl",
                               r->name);
        c = skip_space(r->in);
        if (c == ']')
            return 0;
    } else if (c == ']') {
        return 0;
    } else if (c == ',') {
        c = skip_space(r->in);
    }
    r->entry++;
    int err = take_element(r, c, p);
    return err < 0 ? err : 1;
}

/* -- Prompts ------------------------------------------------------------------------------------------ */

static const char *text_of_message(const json_t *message, const char *who, const char *person,
                                   const char *what)
{
    const char *from = json_get_str(message, who);
    return streq(from, person) || streq(from, "user") ? json_get_str(message, what) : NULL;
}

/* What a person says first. */
static const char *text_of_list(const json_t *list, const char *who, const char *person, const char *what)
{
    const char *text = NULL;
    size_t i;
    json_t *message;

    json_array_foreach(list, i, message)
    {
        if (!text)
            text = text_of_message(message, who, person, what);
    }
    return text;
}

/* NULL and *ret_passed where a conversation is empty. */
static const char *text_of(const json_t *value, bool *ret_passed)
{
    static const struct {
        const char *key, *who, *person, *what; /* who NULL: the text itself */
    } shapes[] = {
        {"prompt", NULL, NULL, NULL},
        {"text", NULL, NULL, NULL},
        {"messages", "role", "user", "content"},
        {"conversations", "from", "human", "value"},
        {"conversation", "from", "human", "value"},
    };

    if (json_is_string(value))
        return json_string_value(value);
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        const json_t *member = json_object_get(value, shapes[i].key);
        if (json_is_string(member) && !shapes[i].who)
            return json_string_value(member);
        if (!json_is_array(member) || !shapes[i].who)
            continue;
        const char *text = text_of_list(member, shapes[i].who, shapes[i].person, shapes[i].what);
        *ret_passed = !text;
        return text;
    }
    return NULL;
}

static int add(struct reader *r, const char *text, json_int_t osl, struct problem *p)
{
    r->bytes += (int64_t)strlen(text);
    if (r->bytes > PROMPTS_BYTES_MAX || json_array_size(r->prompts) >= PROMPTS_MAX) {
        problem_set(p, -E2BIG, PROBLEM_TOO_LARGE, "%s has more than the %d MiB or %d prompts of one run",
                    r->name, PROMPTS_BYTES_MAX >> 20, PROMPTS_MAX);
        problem_remedy(p, "--requests N reads the first N prompts only.");
        return -E2BIG;
    }
    json_array_append_new(r->prompts,
                          osl > 0 ? json_pack("{s:s,s:I}", "prompt", text, "osl", osl) : json_string(text));
    return 0;
}

static int add_text(struct reader *r, struct problem *p)
{
    if (r->size > 0 && memchr(r->text, '\0', r->size))
        return refuse(r, p, "it has a byte of zero, so it is no text");
    _cleanup_(freep) char *text = xstrndup(r->text, r->size);
    _cleanup_json_ valid = json_string(text);
    return valid ? add(r, text, 0, p) : refuse(r, p, "it is not UTF-8");
}

static int add_value(struct reader *r, struct problem *p)
{
    char error[200];
    bool passed = false;
    _cleanup_json_ value = json_parse_bounded(r->text, r->size, VALUES_OF_ENTRY_MAX, error);

    if (!value)
        return refuse(r, p, "not JSON: %s", error);
    const char *text = text_of(value, &passed);
    const json_t *osl = json_object_get(value, "osl");
    if (passed)
        return 0;
    if (!text || !*text) {
        refuse(r, p, "there is no prompt in it");
        problem_remedy(p, "A prompt is a text, or a member prompt, text, messages or conversations.");
        return -EBADMSG;
    }
    if (osl && json_integer_value(osl) < 1)
        return refuse(r, p, "osl is not a number of at least 1");
    return add(r, text, json_integer_value(osl), p);
}

static bool is_blank(const struct reader *r)
{
    for (size_t i = 0; i < r->size; i++)
        if (r->text[i] != ' ' && r->text[i] != '\t')
            return false;
    return true;
}

static int read_all(struct reader *r, struct problem *p)
{
    static const struct {
        int (*next)(struct reader *r, struct problem *p);
        int (*add)(struct reader *r, struct problem *p);
    } formats[] = {
        [PROMPTS_TEXT] = {next_line, add_text},
        [PROMPTS_JSONL] = {next_line, add_value},
        [PROMPTS_JSON] = {next_element, add_value},
    };
    int err = 0;

    while (r->limit == 0 || (int64_t)json_array_size(r->prompts) < r->limit) {
        err = formats[r->format].next(r, p);
        if (err <= 0)
            break;
        if (r->format != PROMPTS_JSON && is_blank(r))
            continue;
        err = formats[r->format].add(r, p);
        if (err < 0)
            break;
    }
    if (err >= 0 && ferror(r->in))
        return problem_set(p, -EIO, PROBLEM_STORAGE, "cannot read %s: %s", r->name, strerror(errno));
    return err;
}

int prompts_parse(FILE *in, enum prompts_format format, const char *name, int64_t limit, json_t **ret,
                  struct problem *p)
{
    struct reader r = {.in = in, .name = name, .format = format, .limit = limit, .prompts = json_array()};
    int err = read_all(&r, p);

    if (err >= 0 && json_array_size(r.prompts) == 0) {
        err = problem_set(p, -ENODATA, PROBLEM_BAD_REQUEST, "%s has no prompt", name);
        problem_remedy(p,
                       "One prompt a line, JSON lines (.jsonl) or a list (.json); or leave it out and give "
                       "--isl for synthetic prompts.");
    }
    free(r.text);
    if (err >= 0)
        *ret = TAKE_PTR(r.prompts);
    json_decref(r.prompts);
    return err < 0 ? err : 0;
}

enum prompts_format prompts_format_of(const char *path)
{
    if (ends_with(path, ".jsonl") || ends_with(path, ".ndjson"))
        return PROMPTS_JSONL;
    return ends_with(path, ".json") ? PROMPTS_JSON : PROMPTS_TEXT;
}

int prompts_read(const char *path, int64_t limit, json_t **ret, struct problem *p)
{
    bool is_stdin = streq(path, "-");
    _cleanup_(fclosep) FILE *file = is_stdin ? NULL : fopen(path, "re");

    if (!is_stdin && !file)
        return problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot read prompts of %s: %s", path,
                           strerror(errno));
    return prompts_parse(is_stdin ? stdin : file, prompts_format_of(path), is_stdin ? "standard input" : path,
                         limit, ret, p);
}
