/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/program.h"

#include "base/alloc.h"
#include "base/spawning.h"
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static const struct {
    const char *name, *purpose;
    const char *beside[2]; /* from profctl's directory */
    const char *installed;
} programs[_PROGRAM_MAX] = {
    [PROGRAM_PROFD] = {"profd", "keeps the catalog", {"profd", "../daemon/profd"}, PROFD_BINDIR "/profd"},
    [PROGRAM_INGEST] = {"profd-ingest",
                        "reads trace files",
                        {"../libexec/profd/profd-ingest", "../daemon/ingest/profd-ingest"},
                        PROFD_LIBEXECDIR "/profd-ingest"},
    [PROGRAM_ONNX_WORKER] = {"profd-onnx-worker",
                             "serves models for profctl audit",
                             {"../libexec/profd/profd-onnx-worker", "profd-onnx-worker"},
                             PROFD_LIBEXECDIR "/profd-onnx-worker"},
};

char *program_find(enum program program, struct problem *p)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[MAX(n, 0)] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < ARRAY_SIZE(programs[program].beside); i++) {
        char *path = xasprintf("%.*s/%s", (int)(slash - exe), exe, programs[program].beside[i]);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    if (access(programs[program].installed, X_OK) == 0)
        return xstrdup(programs[program].installed);
    problem_set(p, -errno, PROBLEM_INTERNAL, "cannot use %s, which %s: %s", programs[program].installed,
                programs[program].purpose, strerror(errno));
    problem_remedy(p, "It is installed with profctl; install both anew.");
    return NULL;
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *program_in_path(const char *name)
{
    const char *path = getenv("PATH");

    if (strchr(name, '/')) {
        _cleanup_(freep) char *absolute = realpath(name, NULL);
        return absolute && is_program(absolute) ? TAKE_PTR(absolute) : NULL;
    }
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; p;) {
        size_t n = strcspn(p, ":");
        _cleanup_(freep) char *candidate = xasprintf("%.*s/%s", (int)n, p, name);
        if (n > 0 && *p == '/' && is_program(candidate))
            return TAKE_PTR(candidate);
        p = p[n] ? p + n + 1 : NULL;
    }
    return NULL;
}

int program_spawn(const char *path, const posix_spawn_file_actions_t *actions, char *const argv[],
                  char *const environment[], pid_t *ret)
{
    return spawn_clean(path, actions, argv, environment, POSIX_SPAWN_SETPGROUP, ret);
}

int program_spawn_apart(const char *path, const posix_spawn_file_actions_t *actions, char *const argv[],
                        char *const environment[], pid_t *ret)
{
    return spawn_clean(path, actions, argv, environment, POSIX_SPAWN_SETSID, ret);
}
