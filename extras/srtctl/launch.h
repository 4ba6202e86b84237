/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that starts a worker of a recipe so that it can be profiled, as srtctl composes it: nsys around
 * it, or a directory for torch's traces. Pure; nothing is run.
 *
 * Recipes whose load is in profiling or its phases (until January 2026) are started as srtctl did then:
 * sglang.launch_server, alone.
 */
#pragma once

#include "extras/srtctl/recipe.h"

struct launch_target {
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
struct recipe_launch {
    struct launch_word *environment; /* "NAME=VALUE" */
    size_t n_environment, cap_environment;
    struct launch_word *words;
    size_t n_words, cap_words;
};

/* command: what is wrapped; none: the recipe's own worker. -EINVAL where the recipe is of another type, or
 * the command of its worker cannot be derived. */
int launch_nsys(const struct recipe *r, const struct launch_target *target, int n_command,
                char *const *command, struct recipe_launch *ret, struct problem *p);
int launch_torch(const struct recipe *r, const struct launch_target *target, struct recipe_launch *ret,
                 struct problem *p);
void launch_done(struct recipe_launch *l);
/* One line for a shell. The caller frees it. */
char *launch_text(const struct recipe_launch *l);
/* {"environment": {NAME: VALUE}, "command": [...]}, variables not expanded. */
json_t *launch_json(const struct recipe_launch *l);

/* For launch.c and worker.c: words, options with their value, and variables, which replace one of that name. */
void launch_add(struct recipe_launch *l, const char *format, ...) _printf_(2, 3);
void launch_add_expanding(struct recipe_launch *l, const char *format, ...) _printf_(2, 3);
void launch_add_option(struct recipe_launch *l, const char *option, const char *format, ...) _printf_(3, 4);
/* As options in order of their names; those of `dropped` (with dashes, NULL at the end) are left out. */
void launch_add_flags(struct recipe_launch *l, const json_t *config, const char *const *dropped);
void launch_set(struct recipe_launch *l, const char *name, const char *format, ...) _printf_(3, 4);
void launch_set_value(struct recipe_launch *l, const char *name, const char *value, bool expands);
/* TensorRT-LLM's executor calls cudaProfilerStart and Stop at these steps; others do not know the variables. */
void launch_set_steps(const struct recipe_phase *phase, struct recipe_launch *l);
int launch_check_variable(const struct recipe *r, const char *where, const char *name, struct problem *p);
/* The command cannot be derived from the recipe. Returns -EINVAL. */
int launch_refuse_command(const struct recipe *r, const struct launch_target *target, const char *why,
                          struct problem *p);

/* The value of --profiler-config for the first step and the number of steps. */
#define RECIPE_VLLM_WINDOW                                                                                   \
    "{\"profiler\": \"cuda\", \"delay_iterations\": %" PRId64 ", \"max_iterations\": %" PRId64 "}"

/* worker.c: the worker that srtctl builds today. -EINVAL with a problem where profd cannot. */
int worker_check_target(const struct recipe *r, const struct launch_target *target, struct problem *p);
/* Its GPUs on each of its nodes: "0,1,2,3". The caller frees it. */
char *worker_gpu_list(const struct recipe *r, const struct launch_target *target, char separator);
int worker_set_environment(const struct recipe *r, const struct launch_target *target,
                           struct recipe_launch *l, struct problem *p);
int worker_add_command(const struct recipe *r, const struct launch_target *target, struct recipe_launch *l,
                       struct problem *p);
