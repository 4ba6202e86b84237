/* SPDX-License-Identifier: Apache-2.0 */
#include "base/runtime_paths.h"

#include "base/alloc.h"

#define JOB_DIGITS_MAX 20
/* Slurm's own steps, such as the script and the shell, have numbers from 4294967290 on. */
#define STEP_DIGITS_MAX 9

static const char *slurm_number(const char *variable, size_t digits_max)
{
    const char *id = getenv(variable);
    size_t n = id ? strspn(id, "0123456789") : 0;

    return n > 0 && n <= digits_max && id[n] == '\0' ? id : NULL;
}

/* Digits only, since the id becomes a part of a path. */
const char *slurm_job(void)
{
    return slurm_number("SLURM_JOB_ID", JOB_DIGITS_MAX);
}

const char *slurm_step(void)
{
    return slurm_job() ? slurm_number("SLURM_STEP_ID", STEP_DIGITS_MAX) : NULL;
}

char *user_jobs_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        return xstrdup(SYSTEM_STATE_DIR);
    if (state && *state == '/')
        return xasprintf("%s/profd", state);
    return home && *home == '/' ? xasprintf("%s/.local/state/profd", home) : NULL;
}

char *user_state_dir(void)
{
    _cleanup_(freep) char *state = user_jobs_dir();

    return state && slurm_job() ? xasprintf("%s/" JOB_DIR_PREFIX "%s", state, slurm_job()) : TAKE_PTR(state);
}

char *user_socket(const char *state_dir)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (!slurm_job() && geteuid() == 0)
        return xstrdup(SYSTEM_SOCKET);
    if (!slurm_job() && runtime && *runtime == '/')
        return xasprintf("%s/profd/profd.sock", runtime);
    return xasprintf("%s/profd.sock", state_dir);
}

char *user_kineto_dir(const char *state_dir)
{
    _cleanup_(freep) char *socket = user_socket(state_dir);
    const char *slash = strrchr(socket, '/');

    return xasprintf("%.*s/kineto", (int)(slash - socket), socket);
}
