/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that starts a worker of a recipe so that it can be profiled, as srtctl composes it: nsys around
 * it, or sglang.launch_server with a directory for torch's traces. Pure; nothing is run.
 */
#pragma once

#include "client/recipe/recipe.h"

struct launch_place {
    enum recipe_mode mode;
    int64_t worker;   /* which of the mode's workers, from 0 */
    int64_t rank;     /* of the worker's nodes, from 0 */
    const char *node; /* its host's name, NULL: the shell's $SLURMD_NODENAME */
};

/* Words of a shell. Those that expand hold variables and stand in double quotes. */
struct launch_word {
    char *text;
    bool expands;
};
struct launch {
    struct launch_word *environment; /* "NAME=VALUE" */
    size_t n_environment, cap_environment;
    struct launch_word *words;
    size_t n_words, cap_words;
};

/* command: what is wrapped; none: the recipe's own worker. -EINVAL where the recipe is of another type, or
 * its worker's command cannot be told. */
int launch_nsys(const struct recipe *r, const struct launch_place *place, int n_command, char *const *command,
                struct launch *ret, struct problem *p);
int launch_torch(const struct recipe *r, const struct launch_place *place, struct launch *ret,
                 struct problem *p);
void launch_done(struct launch *l);
/* One line for a shell. The caller frees it. */
char *launch_text(const struct launch *l);
/* {"environment": {NAME: VALUE}, "command": [...]}, variables not expanded. */
json_t *launch_json(const struct launch *l);
