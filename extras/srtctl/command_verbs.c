/* SPDX-License-Identifier: Apache-2.0 */
/* `profctl nsys-command` and `profctl torch-command`: how a worker of a recipe is started so that it can be
 * profiled. Prints the line; runs nothing, and asks no profd. */
#include "extras/srtctl/launch.h"

#include "base/alloc.h"
#include "client/verbs/verbs.h"
#include <errno.h>

struct command_options {
    const char *recipe, *variant, *mode, *node;
    int64_t rank, worker;
    bool any_workers;
};

#define AT(member) offsetof(struct command_options, member)

/* clang-format off */
static const struct option_def command_options[] = {
    {"recipe", 0, "FILE", OPTION_TEXT, AT(recipe), "Job file of srtctl (required)"},
    {"mode", 0, "MODE", OPTION_TEXT, AT(mode), "Role of the worker: prefill, decode or aggregated (required)"},
    {"variant", 0, "NAME", OPTION_TEXT, AT(variant), "Job of the file; profctl check-recipe lists them"},
    {"rank", 0, "N", OPTION_NUMBER, AT(rank), "Node of the worker, from 0 (default: 0)"},
    {"worker-index", 0, "N", OPTION_NUMBER, AT(worker), "Worker of the mode, from 0 (default: 0)"},
    {"node", 0, "NAME", OPTION_TEXT, AT(node), "Host name for the name of the report (default: $SLURMD_NODENAME of the shell)"},
    {"no-single-worker-limit", 0, NULL, OPTION_FLAG, AT(any_workers), "Allow several workers of a role"},
};
/* clang-format on */

/* n_command: words that nsys wraps. -EINVAL with the problem. */
static int command_compose(const struct command_options *o, bool is_nsys, int n_command, char **command,
                           struct recipe_launch *ret, struct problem *p)
{
    const unsigned lifted = RECIPE_ANY_LOAD | (o->any_workers ? RECIPE_ANY_WORKERS : 0);
    int mode = o->mode ? recipe_mode_from_name(o->mode) : -EINVAL;
    const struct launch_target target = {
        .mode = (enum recipe_mode)mode,
        .rank = o->rank == OPTION_ABSENT ? 0 : o->rank,
        .worker = o->worker == OPTION_ABSENT ? 0 : o->worker,
        .node = o->node,
    };
    _cleanup_(recipe_done) struct recipe r = {0};

    if (!o->recipe || mode < 0) {
        if (o->recipe && o->mode)
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--mode: there is no mode '%s'", o->mode);
        else
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--recipe FILE and --mode MODE are needed");
        problem_remedy(p, "The modes are prefill, decode and aggregated.");
        return -EINVAL;
    }
    if (recipe_read(o->recipe, o->variant, lifted, &r, p) < 0)
        return -EINVAL;
    return is_nsys ? launch_nsys(&r, &target, n_command, command, ret, p) : launch_torch(&r, &target, ret, p);
}

static int command_print(struct client *c, const void *values, bool is_nsys, int n_words, char **words)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0};

    if (command_compose(values, is_nsys, n_words, words, &l, &p) < 0)
        return client_fail(c, &p);
    if (c->json) {
        _cleanup_json_ j = launch_json(&l);
        return client_print_json(c, j);
    }
    _cleanup_(freep) char *text = launch_text(&l);
    fprintf(c->out.file, "%s\n", text);
    return EXIT_DONE;
}

static int nsys_command_run(struct client *c, const void *values, int n_words, char **words)
{
    return command_print(c, values, true, n_words, words);
}

static int torch_command_run(struct client *c, const void *values, int n_words, char **words)
{
    return command_print(c, values, false, n_words, words);
}

const struct verb verb_nsys_command = {
    .name = "nsys-command",
    .details = "The recipe is a job file of srtctl whose profiling.type is nsys or nsys-time. Default for "
               "COMMAND: the recipe's own worker.",
    .words = "[-- COMMAND [ARGUMENT...]]",
    .summary = "Print the command of a recipe's worker under nsys",
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(command_options, struct command_options),
    .run = nsys_command_run,
};

const struct verb verb_torch_command = {
    .name = "torch-command",
    .summary = "Print the command of a recipe's worker for torch",
    .details = "The recipe is a job file of srtctl whose profiling.type is torch. srtctl starts the worker "
               "with the same command: dynamo.sglang, or sglang.launch_server with frontend.type sglang.",
    .words = "",
    VERB_OPTIONS(command_options, struct command_options),
    .run = torch_command_run,
};
