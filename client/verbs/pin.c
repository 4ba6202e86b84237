/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/verbs/verbs.h"

static int pin_all(struct client *c, const char *method, const char *done, int n_words, char **words)
{
    for (int i = 0; i < n_words; i++) {
        char ref[REF_TEXT_MAX];
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_json_ answer = NULL;
        if (client_parse_ref(c, words[i], 't', "st", ref) < 0)
            return EXIT_USAGE;
        _cleanup_(freep) char *path = xasprintf("/v1/%s/%s/pin", ref[0] == 's' ? "sessions" : "traces", ref);
        if (connection_call(c->connection, method, path, NULL, NULL, &answer, &p) < 0)
            return client_fail(c, &p);
        if (c->json)
            client_print_json(c, answer);
        else
            client_note(c, "%s %s", done, ref);
    }
    return EXIT_DONE;
}

static int run_pin(struct client *c, const void *values, int n_words, char **words)
{
    return pin_all(c, "PUT", "pinned", n_words, words);
}

static int run_unpin(struct client *c, const void *values, int n_words, char **words)
{
    return pin_all(c, "DELETE", "unpinned", n_words, words);
}

const struct verb verb_pin = {
    .name = "pin",
    .words = "t12|s7...",
    .summary = "Exempt traces from automatic removal",
    .default_kind = 't',
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    .needs_only_catalog = true,
    .run = run_pin,
};

const struct verb verb_unpin = {
    .name = "unpin",
    .words = "t12|s7...",
    .summary = "Allow automatic removal again",
    .default_kind = 't',
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    .needs_only_catalog = true,
    .run = run_unpin,
};
