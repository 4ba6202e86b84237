/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a worker's profiler was set at its launch, read from the command line, the configuration file and the
 * environment of its process, by the rules of the engine's own argument parser. Pure functions over text
 * that anybody may have written.
 */
#pragma once

#include "base/process_info.h"
#include "daemon/fleet/worker.h"

#define ENGINE_CONFIG_MAX (256 << 10) /* of a --config file */

/* All borrowed; texts with data NULL could not be read. */
struct worker_launch {
    struct string_list args, env;
    const char *config; /* content of the --config file; NULL: there is none */
    size_t config_size;
    const char *config_error; /* why the --config file was not read; NULL: it was, or there is none */
};

struct profiler_launch {
    struct profiler_setup setup; /* all unknown where nothing was found */
    struct parallel sizes;       /* that its launch names; 0 unknown */
    char *dir;                   /* as written: relative, with ~, or a URI; NULL: none */
    const char *source;          /* where it was set: "--profiler-config"; NULL: nowhere */
    char *server;                /* its name among the servers of its launch; NULL: none */
    char *error;                 /* why something that is there could not be understood */
};
void profiler_launch_done(struct profiler_launch *p);

/* A variable of its environment; NULL where it is not set, or empty. */
const char *launch_variable(const struct worker_launch *launch, const char *name);

/* The size of a parallel group by an option with two names (the second may be NULL); 0: not given, or nonsense. */
int launch_size(const struct worker_launch *launch, const char *flag, const char *other);

/* A switch or count of the setup, for tables of the engines. */
static inline int64_t *setup_value(struct profiler_setup *setup, size_t offset)
{
    return (int64_t *)(void *)((char *)setup + offset);
}

/* version is the engine's, NULL unknown: old variables are honoured only by old engines. Asks read_launch() of
 * struct engine_ops. */
void profiler_launch_read(enum engine engine, const char *version, const struct worker_launch *launch,
                          struct profiler_launch *ret);

/* True for "s3://bucket/dir", which no directory of a host is. */
bool path_is_uri(const char *path);
/*
 * The absolute path that the engine makes of one: ~ is the home, relative is to cwd, "." and ".." are taken
 * out. NULL where home or cwd are needed and not known (NULL).
 */
char *path_absolute(const char *path, const char *cwd, const char *home);
