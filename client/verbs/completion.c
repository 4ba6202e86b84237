/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profctl completion SHELL` prints the script of a shell; the scripts call `profctl __complete`, which prints
 * what may stand for the last word of a command line: a candidate and a description on each line, separated by
 * a tab, then a line of flags for the shell: ":f" files, ":d" directories, ":c" commands, "n" no space after
 * the word.
 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/completion_bash.h"
#include "client/completion_fish.h"
#include "client/completion_zsh.h"
#include "client/query/named_queries.h"
#include "client/transport/contexts.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "trace/export/export.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <unistd.h>

/* Completion gives up on a profd that hangs. */
#define PATIENCE_S 3

struct completing {
    struct client *c;
    const struct verb_entry *entry; /* NULL: the verb itself is missing */
    char *current;                  /* the word under the cursor, or what follows its "=" */
    const char *prefix;             /* what stands before that */
    const char *flags;
    bool of_contexts; /* the word is the name of a context */
};

/* -- Candidates --------------------------------------------------------------------------------------- */

static void offer(const struct completing *k, const char *word, const char *description)
{
    if (!starts_with(word, k->current))
        return;
    _cleanup_(freep) char *clean_word = text_clean(word, false), *clean = text_clean(description, false);
    fprintf(k->c->out.file, "%s%s%s%s\n", k->prefix, clean_word, clean && *clean ? "\t" : "",
            clean ? clean : "");
}

/* Words separated by spaces. */
static void offer_words(const struct completing *k, const char *words)
{
    _cleanup_(freep) char *list = xstrdup(words);
    char *rest = NULL;

    for (char *word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        offer(k, word, NULL);
}

static void offer_list(const struct completing *k, const char *path, const char *list, const char *id,
                       const char *description)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ answer = NULL;
    size_t i;
    json_t *item;

    /* Completion never starts a profd: ids are those of one that answers. */
    if (connection_call(k->c->connection, "GET", path, NULL, NULL, &answer, &p) < 0)
        return;
    json_array_foreach(json_object_get(answer, list), i, item) {
        const json_t *number = json_object_get(item, id);
        const char *name = json_get_str(item, "name"), *about = json_get_str(item, description);
        char run[24];
        snprintf(run, sizeof(run), "r%lld", (long long)json_integer_value(number));
        /* The last of a list, as of "r3,r4". */
        const char *comma = strrchr(k->current, ',');
        _cleanup_(freep) char *word =
            xasprintf("%.*s%s", comma ? (int)(comma + 1 - k->current) : 0, k->current,
                      json_is_string(number) ? json_string_value(number) : run);
        /* The shell puts the word into the line as it is: a response that is no id could be a command. */
        const char *text = json_is_integer(number) ? run : json_string_value(number);
        if (text && text[0] >= 'a' && text[0] <= 'z' && text[1] &&
            strspn(text + 1, "0123456789") == strlen(text + 1))
            offer(k, word, name ? name : about);
    }
}

/* Kinds of words, by the letters of struct verb_entry: ids come from profd, files from the shell. */
static const struct {
    char letter;
    const char *flags, *path, *list, *id, *description;
} word_kinds[] = {
    {'s', NULL, "/v1/sessions", "sessions", "session", "state"},
    {'t', NULL, "/v1/traces", "traces", "trace", "worker"},
    {'r', NULL, "/v1/runs", "runs", "run", "model"},
    {'f', "f"},
    {'d', "d"},
    {'c', "c"},
};

static void offer_kind(struct completing *k, char letter)
{
    for (size_t i = 0; i < ARRAY_SIZE(word_kinds); i++) {
        if (word_kinds[i].letter != letter)
            continue;
        if (word_kinds[i].path)
            offer_list(k, word_kinds[i].path, word_kinds[i].list, word_kinds[i].id,
                       word_kinds[i].description);
        else
            k->flags = word_kinds[i].flags;
    }
}

static void offer_verbs(const struct completing *k)
{
    const struct verb_entry *e;

    for (size_t g = 0; g < n_verb_groups; g++)
        for (size_t i = 0; (e = verb_entry_at(&verb_groups[g], i)); i++)
            offer(k, e->verb->name, e->verb->summary);
}

#define SETS_MAX (VERB_SETS_MAX + 1)

/* The tables of options that the line may have; returns their number. */
static size_t completing_options(const struct completing *k, struct option_set ret[static SETS_MAX])
{
    size_t n = k->entry ? verb_option_sets(k->entry->verb, ret) : 0;

    ret[n] = (struct option_set){.defs = global_options, .n = n_global_options};
    return n + 1;
}

/* -- Values of options -------------------------------------------------------------------------------- */

static void offer_reports(const struct completing *k)
{
    const char *comma = strrchr(k->current, ',');

    for (const struct report *const *r = reports; *r; r++) {
        _cleanup_(freep) char *name =
            xasprintf("%.*s%s", comma ? (int)(comma + 1 - k->current) : 0, k->current, (*r)->name);
        offer(k, name, (*r)->title);
    }
}

static void offer_named(const struct completing *k)
{
    offer(k, "list", "print all names");
    for (size_t i = 0; i < named_queries_count; i++)
        offer(k, named_queries[i].name, named_queries[i].about);
}

static void offer_export_formats(const struct completing *k)
{
    offer(k, "list", "print all names");
    for (size_t i = 0; i < export_formats_count; i++)
        offer(k, export_formats[i].name, export_formats[i].what);
}

static void offer_contexts(const struct completing *k)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ contexts = NULL;
    const char *name;
    json_t *context;

    if (contexts_read(&contexts, &p) < 0)
        return;
    offer(k, CONTEXT_DEFAULT, "the profd of this machine");
    json_object_foreach(json_object_get(contexts, "contexts"), name, context)
        offer(k, name, json_get_str(context, "host"));
}

static const struct {
    const char *verb; /* NULL: of every verb that has no line of its own before */
    const char *option;
    const char *words; /* the choices, or: */
    void (*offer)(const struct completing *k);
    char kind; /* of offer_kind() */
    const char *flags;
} option_values[] = {
    {"diff", "report", "measures kernels ops"},
    {NULL, "report", .offer = offer_reports},
    {NULL, "named", .offer = offer_named},
    {"export", "format", .offer = offer_export_formats},
    {NULL, "format", "table wide csv tsv json"},
    {NULL, "session", .kind = 's'},
    {NULL, "context", .offer = offer_contexts},
    {"token", "role", "read operate admin peer"},
    {NULL, "role", "prefill decode regular encode"},
    {"nsys-command", "mode", "prefill decode aggregated"},
    {"torch-command", "mode", "prefill decode aggregated"},
    {NULL, "mode", "default prefill decode rtp-llm complete"},
    {NULL, "phase", "prefill decode mixed training"},
    {NULL, "state",
     "active requested starting recording stopping collecting complete partial failed cancelled"},
    {NULL, "align", "auto wall collectives start"},
    {NULL, "api", "auto completions chat generate rtp-llm template"},
    {NULL, "arrival", "poisson constant gamma closed"},
    {NULL, "through", "router workers"},
    {NULL, "save-as", "vllm-bench aiperf"},
    {NULL, "sweep", "concurrency= rate= isl= osl=", .flags = "n"},
    {NULL, "activities", "cpu cuda mem cuda-profiler"},
    {NULL, "by", "op stack kernel"},
    {NULL, "sort", "ttot tsub ncall tavg"},
    {NULL, "profiler", "nsys none"},
    {NULL, "bus", "system session"},
};

/* The kind of an argument by its name, for options without a line above. */
static const struct {
    const char *argument;
    char kind;
} arguments[] = {{"FILE", 'f'}, {"FILE|URL", 'f'}, {"PATH", 'f'}, {"DIR", 'd'}, {"s7", 's'}};

static void offer_value(struct completing *k, const struct option_def *def)
{
    const char *verb = k->entry ? k->entry->verb->name : "";

    for (size_t i = 0; i < ARRAY_SIZE(option_values); i++) {
        if (!streq(option_values[i].option, def->name) ||
            (option_values[i].verb && !streq(option_values[i].verb, verb)))
            continue;
        if (option_values[i].words)
            offer_words(k, option_values[i].words);
        else if (option_values[i].offer)
            option_values[i].offer(k);
        else
            offer_kind(k, option_values[i].kind);
        if (option_values[i].flags)
            k->flags = option_values[i].flags;
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
        if (streq(arguments[i].argument, def->argument))
            offer_kind(k, arguments[i].kind);
}

/* -- The line ----------------------------------------------------------------------------------------- */

/* The option that a word names and that takes a value, be it the verb's or one of all verbs. */
static const struct option_def *completing_option(const struct completing *k, const char *word)
{
    const struct option_def *def = NULL;
    const char *name = word + strspn(word, "-");
    struct option_set sets[SETS_MAX];
    size_t n = word[0] == '-' && *name ? completing_options(k, sets) : 0;

    for (size_t i = 0; i < n && !def; i++)
        def = option_find(sets[i].defs, sets[i].n, name);
    return def && def->argument ? def : NULL;
}

static void offer_option_names(const struct completing *k)
{
    struct option_set sets[SETS_MAX];
    size_t n = completing_options(k, sets);

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < sets[i].n; j++) {
            _cleanup_(freep) char *name = xasprintf("--%s", sets[i].defs[j].name);
            if (sets[i].defs[j].name)
                offer(k, name, sets[i].defs[j].help);
        }
}

static void offer_word(struct completing *k)
{
    if (!k->entry) {
        offer_verbs(k);
        return;
    }
    if (k->of_contexts)
        offer_contexts(k);
    else if (k->entry->words)
        offer_words(k, k->entry->words);
    for (const char *kind = k->entry->takes; kind && *kind; kind++)
        if (*kind == 'v')
            offer_verbs(k);
        else
            offer_kind(k, *kind);
}

/* "--host=URL" is one word for zsh and fish, and three for bash: "--host", "=", "URL". */
static int complete_run(struct client *c, const void *options, int n_words, char **words)
{
    struct completing k = {
        .c = c, .current = n_words > 0 ? words[n_words - 1] : (char *)"", .prefix = "", .flags = ""};
    _cleanup_(freep) char *before = NULL;
    const struct option_def *awaited = NULL;
    bool only_words = false;

    alarm(PATIENCE_S);
    c->quiet = true;
    if (streq(k.current, "="))
        k.current = (char *)"";
    for (int i = 0; i + 1 < n_words; i++) {
        const char *word = words[i];
        if (streq(word, "="))
            continue;
        if (awaited)
            awaited = NULL;
        else if (streq(word, "--"))
            only_words = true;
        else if (*word != '-' && !k.entry)
            k.entry = verb_find(word);
        else if (k.entry && k.entry->verb == &verb_context &&
                 (streq(word, "use") || streq(word, "show") || streq(word, "rm")))
            k.of_contexts = true;
        else if (!only_words && !strchr(word, '=')) {
            awaited = completing_option(&k, word);
            if (awaited && awaited->argument[0] == '[' && !streq(words[i + 1], "="))
                awaited = NULL;
        }
    }
    char *equals = *k.current == '-' ? strchr(k.current, '=') : NULL;
    if (equals) {
        _cleanup_(freep) char *option = xstrndup(k.current, (size_t)(equals - k.current));
        awaited = completing_option(&k, option);
        before = xasprintf("%s=", option);
        k.prefix = before;
        k.current = equals + 1;
    }
    if (awaited)
        offer_value(&k, awaited);
    else if (only_words && k.entry)
        k.flags = "c";
    else if (*k.current == '-' && !only_words)
        offer_option_names(&k);
    else
        offer_word(&k);
    fprintf(c->out.file, ":%s\n", k.flags);
    return EXIT_DONE;
}

/* -- Verbs ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *shell, *script;
} scripts[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

static int completion_run(struct client *c, const void *values, int n_words, char **words)
{
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
        if (streq(scripts[i].shell, words[0])) {
            fputs(scripts[i].script, c->out.file);
            return EXIT_DONE;
        }
    _cleanup_(freep) char *clean = text_clean(words[0], false);
    return client_refuse(c, "Shells: bash, zsh, fish.", "no completion for shell '%s'", clean);
}

const struct verb verb_completion = {
    .name = "completion",
    .summary = "Print the completion script of a shell",
    .details = "The package installs the scripts; print one for a shell that does not find them. Completes "
               "verbs, options, their values, and ids of sessions, traces and benchmark runs.",
    .words = "bash|zsh|fish",
    .min_words = 1,
    .max_words = 1,
    .is_offline = true,
    .run = completion_run,
};

const struct verb verb_complete = {
    .name = "__complete",
    .words = "-- [WORD...]",
    .summary = "Print what completes a command line",
    .max_words = WORDS_UNLIMITED,
    .run = complete_run,
};
