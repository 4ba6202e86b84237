/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/profiler_config.h"

#include "base/alloc.h"
#include "daemon/fleet/engine.h"

void profiler_launch_done(struct profiler_launch *p)
{
    free(p->setup.kind);
    free(p->setup.activities);
    free(p->dir);
    free(p->server);
    free(p->error);
    *p = (struct profiler_launch){0};
}

const char *launch_variable(const struct worker_launch *launch, const char *name)
{
    const char *value = env_value(&launch->env, name);
    return value && *value ? value : NULL;
}

int launch_size(const struct worker_launch *launch, const char *flag, const char *other)
{
    const char *text = flag_value(&launch->args, flag);

    if (!text && other)
        text = flag_value(&launch->args, other);
    if (!text || !*text || strspn(text, "0123456789") != strlen(text))
        return 0;
    long n = strtol(text, NULL, 10);
    return n <= GROUP_SIZE_MAX ? (int)n : 0;
}

void profiler_launch_read(enum engine engine, const char *version, const struct worker_launch *launch,
                          struct profiler_launch *ret)
{
    const struct engine_ops *ops = engine_ops(engine);
    struct worker unknown;

    worker_init(&unknown);
    *ret = (struct profiler_launch){.setup = unknown.setup};
    if (ops && ops->read_launch)
        ops->read_launch(version, launch, ret);
}

bool path_is_uri(const char *path)
{
    const char *mark = strstr(path, "://");
    return mark && mark - path > 1 && !memchr(path, '/', (size_t)(mark - path));
}

/* Takes ".", ".." and doubled slashes out of an absolute path, in place. */
static void path_squeeze(char *path)
{
    char *out = path;
    for (const char *in = path; *in;) {
        const char *part = in + strspn(in, "/");
        size_t n = strcspn(part, "/");
        in = part + n;
        if (n == 0 || (n == 1 && part[0] == '.'))
            continue;
        if (n == 2 && part[0] == '.' && part[1] == '.') {
            while (out > path && *--out != '/')
                ;
            continue;
        }
        *out++ = '/';
        memmove(out, part, n);
        out += n;
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

char *path_absolute(const char *path, const char *cwd, const char *home)
{
    char *absolute;
    if (path[0] == '/')
        absolute = xstrdup(path);
    else if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        absolute = home && home[0] == '/' ? xasprintf("%s/%s", home, path + 1) : NULL;
    else
        absolute = cwd && cwd[0] == '/' ? xasprintf("%s/%s", cwd, path) : NULL;
    if (absolute)
        path_squeeze(absolute);
    return absolute;
}
