/* SPDX-License-Identifier: Apache-2.0 */
/* `profctl completion SHELL`, the script of a shell, and `profctl __complete`, which that script asks. */
#include "client/cli/text.h"
#include "client/completion/complete.h"
#include "client/completion_bash.h"
#include "client/completion_fish.h"
#include "client/completion_zsh.h"
#include "client/verbs.h"
#include <errno.h>

static const struct {
    const char *shell, *script;
} scripts[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

static int run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(problem_done) struct problem p = {0};

    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
        if (streq(scripts[i].shell, words[0])) {
            fputs(scripts[i].script, c->out.file);
            return EXIT_DONE;
        }
    _cleanup_(freep) char *clean = text_clean(words[0], false);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "no completion for shell '%s'", clean);
    problem_remedy(&p, "There are bash, zsh and fish.");
    return client_fail(c, &p);
}

const struct verb verb_completion = {
    .name = "completion",
    .words = "bash|zsh|fish",
    .summary = "Print the completion script of a shell",
    .details =
        "The package installs the scripts; this is for shells that do not find them. Verbs, options, their\n"
        "values and the ids of sessions, traces and runs are completed.",
    .min_words = 1,
    .max_words = 1,
    .is_offline = true,
    .run = run,
};

static int run_complete(struct client *c, const void *values, int n_words, char **words)
{
    return completion_print(c, n_words, words);
}

const struct verb verb_complete = {
    .name = "__complete",
    .words = "-- [WORD...]",
    .summary = "Print what completes a command line",
    .max_words = WORDS_UNLIMITED,
    .run = run_complete,
};
