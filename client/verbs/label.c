/* SPDX-License-Identifier: Apache-2.0 */
/* label: changes the labels of traces, sessions and benchmark runs. */
#include "base/alloc.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"

/* "KEY=VALUE" or "KEY-"; the rest are ids, none of which has either. */
static bool label_is_change(const char *word)
{
    const char *equals = strchr(word, '=');
    return equals ? equals > word : strlen(word) > 1 && word[strlen(word) - 1] == '-';
}

static json_t *label_changes(int n_words, char **words)
{
    json_t *changes = json_object();

    for (int i = 0; i < n_words; i++) {
        const char *equals = strchr(words[i], '=');
        if (!label_is_change(words[i]))
            continue;
        _cleanup_(freep) char *key =
            xstrndup(words[i], equals ? (size_t)(equals - words[i]) : strlen(words[i]) - 1);
        json_object_set_new(changes, key, equals ? json_text(equals + 1) : json_null());
    }
    return changes;
}

static int label_one(struct client *c, const char *word, const json_t *changes)
{
    char ref[REF_TEXT_MAX];
    _cleanup_json_ answer = NULL;

    if (client_parse_ref(c, word, 't', "str", ref) < 0)
        return EXIT_USAGE;
    _cleanup_(freep) char *of_ref = ref_path(ref), *path = xasprintf("%s/labels", of_ref);
    int status = client_call(c, "PUT", path, changes, NULL, &answer);
    if (status != EXIT_DONE)
        return status;
    if (c->json)
        return client_print_json(c, answer);
    _cleanup_(freep) char *text = labels_text(json_object_get(answer, "labels"));
    client_note(c, "%s: %s", ref, text ? text : "no labels");
    return EXIT_DONE;
}

static int label_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_json_ changes = label_changes(n_words, words);
    int worst = EXIT_DONE, n_refs = n_words;

    for (int i = 0; i < n_words; i++)
        n_refs -= label_is_change(words[i]);
    if (n_refs == 0 || n_refs == n_words)
        return client_refuse(c, "Write profctl label t12 team=rl, or profctl label t12 team- to remove it.",
                             "%s", n_refs == 0 ? "name what is labelled" : "name the labels to change");
    for (int i = 0; i < n_words; i++) {
        int status = label_is_change(words[i]) ? EXIT_DONE : label_one(c, words[i], changes);
        if (status == EXIT_USAGE)
            return status;
        worst = status != EXIT_DONE ? status : worst;
    }
    return worst;
}

const struct verb verb_label = {
    .name = "label",
    .words = "TRACE|SESSION|RUN... KEY=VALUE|KEY-...",
    .summary = "Change the labels of traces, sessions or runs",
    .details = "KEY=VALUE sets a label, KEY- removes it. Lists are selected by labels with --label.",
    .default_kind = 't',
    .min_words = 2,
    .max_words = WORDS_UNLIMITED,
    .needs_only_catalog = true,
    .run = label_run,
};
