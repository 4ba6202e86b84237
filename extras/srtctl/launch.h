/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that starts a worker of a recipe so that it can be profiled, as srtctl composes it: nsys around
 * it, or a directory for torch's traces. Pure; nothing is run.
 *
 * Recipes whose load stands in profiling or its phases (until January 2026) are started as srtctl did then:
 * sglang.launch_server, alone.
 */
#pragma once

#include "extras/srtctl/recipe.h"

struct launch_place {
    enum recipe_mode mode;
    int64_t worker;   /* which of the mode's workers, from 0 */
    int64_t rank;     /* of the worker's nodes, from 0 */
    const char *node; /* its host's name, NULL: the shell's $SLURMD_NODENAME */
};

/* Words of a shell. Those that expand hold some of launch_variables ("${LEADER_IP}"). */
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

/* For launch.c and worker.c: words are taken over. */
void launch_put(struct launch *l, char *take_text, bool expands);
/* One that is there already is replaced. */
void launch_put_variable(struct launch *l, const char *name, char *take_value, bool expands);
/* As options in order of their names; those of `dropped` (with dashes, NULL at the end) are left out. */
void launch_put_flags(struct launch *l, const json_t *config, const char *const *dropped);
int launch_check_variable(const struct recipe *r, const char *where, const char *name, struct problem *p);

/* worker.c: the worker that srtctl builds today. -EINVAL with a problem where profd cannot. */
int worker_check_place(const struct recipe *r, const struct launch_place *place, struct problem *p);
/* Its GPUs on each of its nodes: the first, and how many. */
void worker_gpus(const struct recipe *r, const struct launch_place *place, int64_t *ret_first,
                 int64_t *ret_n);
int worker_put_environment(const struct recipe *r, const struct launch_place *place, struct launch *l,
                           struct problem *p);
int worker_put_command(const struct recipe *r, const struct launch_place *place, struct launch *l,
                       struct problem *p);
