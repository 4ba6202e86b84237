/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nsys/nsys.h"

#include "base/alloc.h"
#include "base/spawning.h"
#include "client/local/program.h"
#include <errno.h>
#include <glob.h>
#include <sys/wait.h>

#define REPORT_SUFFIX ".nsys-rep"

extern char **environ;

/* Kernels of CUDA graphs one by one, from the first cudaProfilerStart to its stop: for fleets of SGLang, vLLM and
 * TensorRT-LLM. */
static const char *const range_options[] = {
    "-t",   "cuda,nvtx", "--cuda-graph-trace=node", "-c", "cudaProfilerApi", "--capture-range-end",
    "stop", NULL};
/* RTP-LLM's own: its workers are forked, and profiled again and again. */
static const char *const rtp_options[] = {"-c",
                                          "cudaProfilerApi",
                                          "-b",
                                          "none",
                                          "--wait=primary",
                                          "--cpuctxsw=none",
                                          "--sample=none",
                                          "--trace=cuda,nvtx",
                                          "--trace-fork-before-exec=true",
                                          NULL};
static const char *const complete_options[] = {"-t", "cuda,nvtx", "--cuda-graph-trace=node", NULL};

static const struct nsys_mode modes[] = {
    {"default", range_options, true}, {"prefill", range_options, true},      {"decode", range_options, true},
    {"rtp-llm", rtp_options, true},   {"complete", complete_options, false},
};

const struct nsys_mode *nsys_mode_find(const char *name, struct problem *p)
{
    _cleanup_(freep) char *names = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
        if (streq(modes[i].name, name))
            return &modes[i];
        append_str(&names, "%s%s", i > 0 ? ", " : "", modes[i].name);
    }
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "there is no mode '%s'", name);
    problem_remedy(p, "The modes are %s.", names);
    return NULL;
}

/* The newest of several versions is the last by name. */
static char *nsys_find_installed(void)
{
    static const char *const patterns[] = {"/usr/local/cuda/bin/nsys",
                                           "/opt/nvidia/nsight-systems/*/bin/nsys",
                                           "/opt/nvidia/nsight-systems-cli/*/bin/nsys"};
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
        glob_t found = {0};
        char *path = NULL;
        if (glob(patterns[i], 0, NULL, &found) == 0 && access(found.gl_pathv[found.gl_pathc - 1], X_OK) == 0)
            path = xstrdup(found.gl_pathv[found.gl_pathc - 1]);
        globfree(&found);
        if (path)
            return path;
    }
    return NULL;
}

char *nsys_find(const char *instead, struct problem *p)
{
    char *path = program_in_path("nsys");

    path = path ? path : nsys_find_installed();
    if (!path) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                    "there is no nsys in PATH, /usr/local/cuda or /opt/nvidia");
        problem_remedy(
            p, "Install NVIDIA's package nsight-systems-cli, which is also part of the CUDA toolkit%s.",
            instead);
    }
    return path;
}

char **nsys_wrap(const struct nsys_mode *mode, const char *nsys, const char *base, int n_extra,
                 const char *const *extra, int n_words, char *const *words)
{
    size_t n = 0, n_options = 0;

    while (mode->options[n_options])
        n_options++;
    char **argv = xcalloc(4 + n_options + (size_t)n_extra + (size_t)n_words + 1, sizeof(*argv));
    argv[n++] = (char *)nsys;
    argv[n++] = (char *)"profile";
    for (size_t i = 0; i < n_options; i++)
        argv[n++] = (char *)mode->options[i];
    argv[n++] = (char *)"-o";
    argv[n++] = (char *)base;
    for (int i = 0; i < n_extra; i++)
        argv[n++] = (char *)extra[i];
    for (int i = 0; i < n_words; i++)
        argv[n++] = words[i];
    return argv;
}

/* So that glob(3) takes no character of the directory for a pattern. */
static char *glob_quote(const char *text)
{
    char *quoted = xcalloc(2 * strlen(text) + 1, 1), *end = quoted;

    for (; *text; text++) {
        if (strchr("*?[\\", *text))
            *end++ = '\\';
        *end++ = *text;
    }
    return quoted;
}

void nsys_reports_find(const char *base, struct nsys_reports *ret)
{
    _cleanup_(freep) char *quoted = glob_quote(base), *pattern = xasprintf("%s*" REPORT_SUFFIX, quoted);
    glob_t found = {0};

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            VEC_GROW(ret->items, ret->n, ret->cap);
            ret->items[ret->n++] = xstrdup(found.gl_pathv[i]);
        }
    globfree(&found);
}

void nsys_reports_done(struct nsys_reports *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->items[i]);
    free(r->items);
    *r = (struct nsys_reports){0};
}

bool nsys_is_report(const char *path)
{
    return ends_with(path, REPORT_SUFFIX);
}

static int nsys_run_export(const char *nsys, const char *report, const char *database)
{
    char *argv[] = {(char *)nsys,       (char *)"export", (char *)"--type", (char *)"sqlite",
                    (char *)"--output", (char *)database, (char *)report,   NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    int r = program_spawn(nsys, &actions, argv, environ, &pid);
    posix_spawn_file_actions_destroy(&actions);
    if (r < 0)
        return r;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

int nsys_export(const char *nsys, const char *report, char **ret, struct problem *p)
{
    size_t n = strlen(report) - strlen(REPORT_SUFFIX);
    _cleanup_(freep) char *database = xasprintf("%.*s.sqlite", (int)n, report);
    int r = access(database, F_OK) == 0 ? 0 : nsys_run_export(nsys, report, database);

    if (r == 0 && access(database, R_OK) < 0)
        r = -errno;
    if (r < 0) {
        problem_set(p, r, PROBLEM_INTERNAL, "cannot export %s: nsys export failed", report);
        problem_remedy(
            p,
            "The report is complete: export it with the nsys that wrote it (nsys export --type sqlite), "
            "then profctl ingest %s.",
            database);
        return r;
    }
    *ret = TAKE_PTR(database);
    return 0;
}
