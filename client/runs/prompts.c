/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/prompts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"
#include <errno.h>
#include <stdarg.h>

#define VALUES_OF_ENTRY_MAX 100000

struct prompt_reader {
    FILE *in;
    const char *name;
    enum prompts_format format;
    int64_t limit, bytes;
    size_t entry; /* the line, or the position in the list, from 1 */
    char *text;   /* of the entry */
    size_t size, cap;
    json_t *prompts;
    bool is_timed; /* prompts have timestamps: all, or none */
};

static _printf_(3, 4) int prompt_refuse(const struct prompt_reader *r, struct problem *p, const char *format,
                                        ...)
{
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *why = xvasprintf(format, ap);
    va_end(ap);
    return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "%s, %s %zu: %s", r->name,
                       r->format == PROMPTS_JSON ? "element" : "line", r->entry, why);
}

/* -- Entries ------------------------------------------------------------------------------------------ */

static int reader_put(struct prompt_reader *r, int c, struct problem *p)
{
    if (r->size >= PROMPT_ENTRY_MAX)
        return prompt_refuse(r, p, "it is longer than %d MiB", PROMPT_ENTRY_MAX >> 20);
    VEC_GROW(r->text, r->size, r->cap);
    r->text[r->size++] = (char)c;
    return 0;
}

/* Each of these reads the next entry: 1, 0 at the end, or the problem. */
static int reader_next_line(struct prompt_reader *r, struct problem *p)
{
    int c = getc(r->in), err = 0;

    if (c == EOF)
        return 0;
    r->size = 0;
    r->entry++;
    for (; c != EOF && c != '\n' && err == 0; c = getc(r->in))
        err = reader_put(r, c, p);
    if (r->size > 0 && r->text[r->size - 1] == '\r')
        r->size--;
    return err < 0 ? err : 1;
}

static int reader_skip_space(FILE *in)
{
    int c;
    while ((c = getc(in)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        ;
    return c;
}

/* The text of a value up to the comma or bracket that ends it; it is parsed later. */
static int reader_take_element(struct prompt_reader *r, int c, struct problem *p)
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
        if ((err = reader_put(r, c, p)) < 0)
            return err;
    }
    return prompt_refuse(r, p, "the list does not end");
}

static int reader_next_element(struct prompt_reader *r, struct problem *p)
{
    int c = reader_skip_space(r->in);

    r->size = 0;
    if (r->entry == 0) {
        if (c == EOF)
            return 0;
        if (c != '[')
            return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST,
                               "%s is not a list in JSON; values on lines of their own make a .jsonl",
                               r->name);
        c = reader_skip_space(r->in);
        if (c == ']')
            return 0;
    } else if (c == ']') {
        return 0;
    } else if (c == ',') {
        c = reader_skip_space(r->in);
    }
    r->entry++;
    int err = reader_take_element(r, c, p);
    return err < 0 ? err : 1;
}

/* -- Prompts ------------------------------------------------------------------------------------------ */

static const struct {
    const char *role, *from; /* of messages (OpenAI), of conversations (ShareGPT) */
} speakers[] = {{"user", "human"},
                {"user", "user"},
                {"assistant", "gpt"},
                {"assistant", "assistant"},
                {"system", "system"}};

/* The role of a turn of ShareGPT's; NULL for an unknown speaker. */
static const char *conversation_role(const json_t *turn)
{
    for (size_t i = 0; i < ARRAY_SIZE(speakers); i++)
        if (streq(speakers[i].from, json_get_str(turn, "from")))
            return speakers[i].role;
    return NULL;
}

/*
 * A conversation of ShareGPT's, as vLLM's and SGLang's clients read it: the first text of a person is the
 * prompt, and the length of its answer the output length. A system prompt before it is kept.
 */
static int prompt_take_conversation(const struct prompt_reader *r, const json_t *turns, json_t *entry,
                                    struct problem *p)
{
    const char *system = NULL, *question = NULL, *answer = NULL;
    size_t i;
    json_t *turn;

    json_array_foreach(turns, i, turn) {
        const char *role = conversation_role(turn), *text = json_get_str(turn, "value");
        if (!role || !text)
            return prompt_refuse(
                r, p, "turn %zu of its conversation has no known speaker (from) or no text (value)", i + 1);
        if (question && streq(role, "assistant")) {
            answer = text;
            break;
        }
        if (!question && streq(role, "system"))
            system = text;
        else if (!question && streq(role, "user"))
            question = text;
    }
    if (!question || !*question)
        return 0;
    if (system)
        json_object_set_new(entry, "messages",
                            json_pack("[{ssss} {ssss}]", "role", "system", "content", system, "role", "user",
                                      "content", question));
    else
        json_put_str(entry, "prompt", question);
    if (answer && *answer)
        json_put_str(entry, "answer", answer);
    return 1;
}

/* A chat up to the last message of a person or a tool; the answer of the model to it is not sent. */
static int prompt_take_messages(const struct prompt_reader *r, const json_t *messages, json_t *entry,
                                struct problem *p)
{
    size_t n = json_array_size(messages), i;
    json_t *message;

    json_array_foreach(messages, i, message) {
        if (!json_get_str(message, "role"))
            return prompt_refuse(r, p, "message %zu has no role", i + 1);
    }
    while (n > 0 && streq(json_get_str(json_array_get(messages, n - 1), "role"), "assistant"))
        n--;
    if (n == 0)
        return 0;
    json_t *kept = json_array();
    for (i = 0; i < n; i++)
        json_array_append(kept, json_array_get(messages, i));
    json_object_set_new(entry, "messages", kept);
    return 1;
}

/* Members that change a request and are not sent are refused; others (ids, labels, sources) are ignored. */
static const struct {
    const char *name, *remedy;
} unsupported[] = {
    {"max_tokens", "it is a limit, not an output length: name it osl, or give --osl N"},
    {"max_completion_tokens", "it is a limit, not an output length: name it osl, or give --osl N"},
    {"turns", "sessions of several turns are not replayed: give each turn as messages with its history"},
    {"texts", "one prompt in each element: text or prompt"},
    {"image", "images are not sent: give messages with image_url parts"},
    {"images", "images are not sent: give messages with image_url parts"},
    {"audio", "audio is not sent: give messages with input_audio parts"},
    {"audios", "audio is not sent: give messages with input_audio parts"},
    {"multi_modal_data", "images are not sent: give messages with image_url parts"},
    {"tools", "tools are not sent: use --template with a body that has them"},
    {"functions", "functions are not sent: use --template with a body that has them"},
    {"delay", "delays between turns are not kept: give each prompt a timestamp, in milliseconds"},
};

static int prompt_refuse_unsupported(const struct prompt_reader *r, const json_t *value, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(unsupported); i++) {
        const json_t *member = json_object_get(value, unsupported[i].name);
        if (!member || json_is_null(member) ||
            ((json_is_array(member) || json_is_object(member)) &&
             json_array_size(member) + json_object_size(member) == 0))
            continue;
        prompt_refuse(r, p, "%s is not supported", unsupported[i].name);
        problem_remedy(p, "Remove %s; %s.", unsupported[i].name, unsupported[i].remedy);
        return -EBADMSG;
    }
    if (!json_object_get(value, "hash_ids") && !json_object_get(value, "input_length"))
        return 0;
    prompt_refuse(
        r, p, "the trace has lengths and hashes of its prompts (input_length, hash_ids), not their texts");
    problem_remedy(p, "Send synthetic prompts of such lengths: --isl N --osl N, with --rate.");
    return -EBADMSG;
}

/* Output length and timestamp, by the names in data sets: profd's own, vLLM's custom data set, Mooncake's
 * traces and AIPerf. */
static const struct {
    const char *name, *member;
    double least, most;
    bool is_integer;
} numbers[] = {
    {"osl", "osl", 1, PROMPT_TOKENS_MAX, true},
    {"output_tokens", "osl", 1, PROMPT_TOKENS_MAX, true},
    {"output_length", "osl", 1, PROMPT_TOKENS_MAX, true},
    {"output_len", "osl", 1, PROMPT_TOKENS_MAX, true},
    {"expected_output_len", "osl", 1, PROMPT_TOKENS_MAX, true},
    {"timestamp", "at_ms", 0, PROMPT_MS_MAX, false},
};

static int prompt_take_numbers(const struct prompt_reader *r, const json_t *value, json_t *entry,
                               struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const json_t *number = json_object_get(value, numbers[i].name);
        double n = json_number_value(number);
        if (!number || json_is_null(number) || json_object_get(entry, numbers[i].member))
            continue;
        if (!(numbers[i].is_integer ? json_is_integer(number) : json_is_number(number)) ||
            !(n >= numbers[i].least) || n > numbers[i].most)
            return prompt_refuse(r, p, "%s is not a %snumber from %.0f to %.0f", numbers[i].name,
                                 numbers[i].is_integer ? "whole " : "", numbers[i].least, numbers[i].most);
        json_object_set(entry, numbers[i].member, (json_t *)number);
    }
    if (json_object_get(entry, "osl"))
        json_object_del(entry, "answer");
    return 0;
}

/* 1 with the content in entry, 0 for a conversation without a question, which data sets have. */
static int prompt_take_content(const struct prompt_reader *r, const json_t *value, json_t *entry,
                               struct problem *p)
{
    static const struct {
        const char *name;
        int (*take)(const struct prompt_reader *r, const json_t *list, json_t *entry,
                    struct problem *p); /* NULL: a text */
    } contents[] = {
        {"prompt"},
        {"text"},
        {"messages", prompt_take_messages},
        {"conversations", prompt_take_conversation},
        {"conversation", prompt_take_conversation},
    };

    for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
        const json_t *member = json_object_get(value, contents[i].name);
        if (contents[i].take && json_is_array(member))
            return contents[i].take(r, member, entry, p);
        if (!contents[i].take && json_string_length(member) > 0) {
            json_put_str(entry, "prompt", json_string_value(member));
            return 1;
        }
    }
    int err = prompt_refuse_unsupported(r, value, p);
    if (err < 0)
        return err;
    prompt_refuse(r, p, "it contains no prompt");
    problem_remedy(p, "A prompt is a text, or a member prompt, text, messages or conversations.");
    return -EBADMSG;
}

static int prompts_add(struct prompt_reader *r, json_t *entry, struct problem *p)
{
    /* Most prompts are only a text. */
    json_t *text = json_object_size(entry) == 1 ? json_object_get(entry, "prompt") : NULL;
    _cleanup_json_ value = json_incref(text ? text : entry);

    json_decref(entry);
    r->bytes += (int64_t)json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    if (r->bytes > PROMPTS_BYTES_MAX || json_array_size(r->prompts) >= PROMPTS_MAX) {
        problem_set(p, -E2BIG, PROBLEM_TOO_LARGE, "%s has more than the %d MiB or %d prompts of one run",
                    r->name, PROMPTS_BYTES_MAX >> 20, PROMPTS_MAX);
        problem_remedy(p, "--requests N reads the first N prompts only.");
        return -E2BIG;
    }
    json_array_append(r->prompts, value);
    return 0;
}

static int prompts_add_text(struct prompt_reader *r, struct problem *p)
{
    if (r->size > 0 && memchr(r->text, '\0', r->size))
        return prompt_refuse(r, p, "it contains a zero byte, so it is not text");
    _cleanup_(freep) char *text = xstrndup(r->text, r->size);
    json_t *valid = json_string(text);
    return valid ? prompts_add(r, json_pack("{so}", "prompt", valid), p)
                 : prompt_refuse(r, p, "it is not UTF-8");
}

static int prompts_add_value(struct prompt_reader *r, struct problem *p)
{
    char error[200];
    _cleanup_json_ value = json_parse_bounded(r->text, r->size, VALUES_OF_ENTRY_MAX, error);
    _cleanup_json_ entry = json_object();

    if (!value)
        return prompt_refuse(r, p, "not JSON: %s", error);
    if (json_string_length(value) > 0) {
        json_object_set(entry, "prompt", value);
    } else {
        /* A line of OpenAI's batches is a request around its body. */
        const json_t *body = json_object_get(value, "body"), *request = json_is_object(body) ? body : value;
        int err = prompt_take_content(r, request, entry, p);
        if (err <= 0)
            return err;
        err = prompt_refuse_unsupported(r, request, p);
        if (err == 0)
            err = prompt_take_numbers(r, request, entry, p);
        if (err < 0)
            return err;
    }
    bool is_timed = json_object_get(entry, "at_ms") != NULL;
    if (json_array_size(r->prompts) > 0 && is_timed != r->is_timed)
        return prompt_refuse(r, p, "some prompts have a timestamp and others have none");
    r->is_timed = is_timed;
    return prompts_add(r, TAKE_PTR(entry), p);
}

static bool entry_is_blank(const struct prompt_reader *r)
{
    for (size_t i = 0; i < r->size; i++)
        if (r->text[i] != ' ' && r->text[i] != '\t')
            return false;
    return true;
}

static int reader_read_all(struct prompt_reader *r, struct problem *p)
{
    static const struct {
        int (*next)(struct prompt_reader *r, struct problem *p);
        int (*prompts_add)(struct prompt_reader *r, struct problem *p);
    } formats[] = {
        [PROMPTS_TEXT] = {reader_next_line, prompts_add_text},
        [PROMPTS_JSONL] = {reader_next_line, prompts_add_value},
        [PROMPTS_JSON] = {reader_next_element, prompts_add_value},
    };
    int err = 0;

    while (r->limit == 0 || (int64_t)json_array_size(r->prompts) < r->limit) {
        err = formats[r->format].next(r, p);
        if (err <= 0)
            break;
        if (r->format != PROMPTS_JSON && entry_is_blank(r))
            continue;
        err = formats[r->format].prompts_add(r, p);
        if (err < 0)
            break;
    }
    if (err >= 0 && ferror(r->in))
        return problem_set(p, -EIO, PROBLEM_STORAGE, "cannot read %s: %s", r->name, strerror(errno));
    return err;
}

/* Data sets are sorted by user as often as by time. */
static void prompts_sort_by_time(json_t *prompts)
{
    size_t n = json_array_size(prompts);
    _cleanup_(freep) struct sort_item *keys = xcalloc(n + 1, sizeof(*keys));
    _cleanup_json_ unsorted = json_copy(prompts);

    for (size_t i = 0; i < n; i++)
        keys[i] = (struct sort_item){
            (int64_t)(json_get_number(json_array_get(prompts, i), "at_ms", 0) * (double)NS_PER_MS), i};
    sort_items(keys, n);
    json_array_clear(prompts);
    for (size_t i = 0; i < n; i++)
        json_array_append(prompts, json_array_get(unsorted, keys[i].item));
}

int prompts_parse(FILE *in, enum prompts_format format, const char *name, int64_t limit, json_t **ret,
                  struct problem *p)
{
    struct prompt_reader r = {
        .in = in, .name = name, .format = format, .limit = limit, .prompts = json_array()};
    int err = reader_read_all(&r, p);

    if (err >= 0 && json_array_size(r.prompts) == 0) {
        err = problem_set(p, -ENODATA, PROBLEM_BAD_REQUEST, "%s contains no prompt", name);
        problem_remedy(p,
                       "One prompt a line, JSON lines (.jsonl) or a list (.json); or leave it out and give "
                       "--isl for synthetic prompts.");
    }
    free(r.text);
    if (err >= 0 && r.is_timed)
        prompts_sort_by_time(r.prompts);
    if (err >= 0)
        *ret = TAKE_PTR(r.prompts);
    json_decref(r.prompts);
    return err < 0 ? err : 0;
}

/* Formats that are not prompts, and commands that convert them. */
static const struct {
    const char *ending, *convert;
} convertible[] = {
    {".csv", "python3 -c 'import csv, json, sys; [print(json.dumps({\"prompt\": r[\"prompt\"]})) for r in "
             "csv.DictReader(sys.stdin)]' <FILE.csv >FILE.jsonl"},
    {".tsv", "python3 -c 'import csv, json, sys; [print(json.dumps({\"prompt\": r[\"prompt\"]})) for r in "
             "csv.DictReader(sys.stdin, delimiter=\"\\t\")]' <FILE.tsv >FILE.jsonl"},
    {".parquet", "python3 -c 'import pandas; pandas.read_parquet(\"FILE.parquet\").to_json(\"FILE.jsonl\", "
                 "orient=\"records\", lines=True)'"},
    {".arrow", "python3 -c 'import pandas; pandas.read_feather(\"FILE.arrow\").to_json(\"FILE.jsonl\", "
               "orient=\"records\", lines=True)'"},
    {".gz", "gzip -dc FILE.gz >FILE"},
    {".zst", "zstd -dc FILE.zst >FILE"},
    {".xlsx", "save it as .csv, then convert that to .jsonl"},
};

static int prompts_refuse_format(const char *path, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(convertible); i++)
        if (ends_with(path, convertible[i].ending)) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                        "cannot read prompts from %s: %s is not a format of prompts", path,
                        convertible[i].ending);
            problem_remedy(p, "Convert it, with the column that contains the prompts: %s",
                           convertible[i].convert);
            return -EINVAL;
        }
    return 0;
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
    int r = prompts_refuse_format(path, p);
    if (r < 0)
        return r;
    _cleanup_(fclosep) FILE *file = is_stdin ? NULL : fopen(path, "re");

    if (!is_stdin && !file)
        return problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot read prompts from %s: %s", path,
                           strerror(errno));
    return prompts_parse(is_stdin ? stdin : file, prompts_format_of(path), is_stdin ? "standard input" : path,
                         limit, ret, p);
}
