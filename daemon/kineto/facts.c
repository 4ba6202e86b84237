/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/facts.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/kineto/config_text.h"
#include <errno.h>

#define CGROUP_MAX (64 << 10)
#define RANK_MAX   10000000

static int facts_number(const struct string_list *env, const char *name)
{
    const char *value = env_value(env, name);
    size_t digits = value ? strspn(value, "0123456789") : 0;

    return digits > 0 && digits < 9 && value[digits] == '\0' && atoi(value) <= RANK_MAX ? atoi(value) : -1;
}

/* NULL where it is not set, empty or too long. */
static char *facts_text(const struct string_list *env, const char *name)
{
    const char *value = env_value(env, name);

    return value && *value && strlen(value) <= KINETO_FACT_MAX ? text_clean(value, false) : NULL;
}

/* Where the ranks of torch.distributed meet. */
static char *facts_master(const struct string_list *env)
{
    _cleanup_(freep) char *host = facts_text(env, "MASTER_ADDR");
    int port = facts_number(env, "MASTER_PORT");

    return host && port > 0 ? xasprintf("%s:%d", host, port) : NULL;
}

void kineto_facts_environ(const struct string_list *env, struct kineto_process *ret)
{
    const char *root = env_value(env, KINETO_TRACE_DIR_VARIABLE);

    ret->environ_known = true;
    ret->rank = facts_number(env, "RANK");
    ret->local_rank = facts_number(env, "LOCAL_RANK");
    ret->world_size = facts_number(env, "WORLD_SIZE");
    ret->gpus = facts_text(env, "CUDA_VISIBLE_DEVICES");
    ret->master = facts_master(env);
    ret->socket_dir = facts_text(env, "KINETO_IPC_SOCKET_DIR");
    if (!root || !*root)
        ret->trace_root = xstrdup(KINETO_TRACE_DIR_DEFAULT);
    else if (strlen(root) <= KINETO_FACT_MAX)
        ret->trace_root = xstrdup(root);
}

static bool facts_is_unit(const char *part)
{
    return ends_with(part, ".service") || ends_with(part, ".scope") || ends_with(part, ".slice");
}

char *kineto_facts_unit(const char *cgroup)
{
    const char *line = strstr(cgroup, "0::/");
    char *unit = NULL;

    if (!line || (line != cgroup && line[-1] != '\n'))
        return NULL;
    const char *part = line + strlen("0::/");
    const char *end = part + strcspn(part, "\n");
    while (part < end) {
        size_t n = strcspn(part, "/\n");
        _cleanup_(freep) char *word = xstrndup(part, n);
        if (facts_is_unit(word))
            replace_str(&unit, word);
        part += n + (part[n] == '/');
    }
    return unit;
}

static void facts_read_command(pid_t pid, struct kineto_process *p)
{
    _cleanup_(freep) char *data = NULL, *text = NULL;
    char name[PROCESS_NAME_MAX];
    size_t size = 0;

    if (process_read(pid, "cmdline", PROCESS_CMDLINE_MAX, &data, &size) < 0 || size == 0) {
        p->command = xstrdup(process_name(pid, name));
        return;
    }
    while (size > 0 && data[size - 1] == '\0')
        size--;
    size = MIN(size, (size_t)KINETO_FACT_MAX);
    for (size_t i = 0; i < size; i++)
        if (data[i] == '\0')
            data[i] = ' ';
    text = xstrndup(data, size);
    p->command = text_clean(text, false);
}

static void facts_read_rest(struct kineto_facts *f)
{
    struct kineto_process *p = &f->process;
    _cleanup_(freep) char *cgroup = NULL, *env = NULL;
    size_t size;

    facts_read_command(f->pid, p);
    if (process_read(f->pid, "cgroup", CGROUP_MAX, &cgroup, NULL) >= 0)
        p->unit = kineto_facts_unit(cgroup);
    if (process_read(f->pid, "environ", PROCESS_ENVIRON_MAX, &env, &size) >= 0)
        kineto_facts_environ(&(struct string_list){env, size}, p);
    if (f->torch_version)
        p->pytorch_version = f->torch_version(f->pid);
}

/* Whether the process had started when its poll was received; the kernel rounds to ticks. */
static bool facts_is_sender(const struct kineto_facts *f, const struct process_stat *stat)
{
    return process_started_boot_ns(stat) <= f->received_boot_ns + NS_PER_S / sysconf(_SC_CLK_TCK);
}

void kineto_facts_read(struct kineto_facts *f)
{
    struct kineto_process *p = &f->process;
    struct process_stat before = {0}, after = {0};
    struct process_status status;

    *p =
        (struct kineto_process){.pid = f->pid, .uid = f->uid, .rank = -1, .local_rank = -1, .world_size = -1};
    f->err = process_stat_read(f->pid, &before);
    if (f->err >= 0)
        f->err = process_status_read(f->pid, &status);
    if (f->err < 0) {
        f->err = f->err == -ENOENT ? -ESRCH : f->err;
        return;
    }
    if (!facts_is_sender(f, &before)) {
        f->err = -ESRCH;
        return;
    }
    if (status.uid != f->uid) {
        f->err = -EPERM;
        return;
    }
    p->gid = status.gid;
    p->inner_pid = status.inner_pid;
    p->start_ticks = before.started;
    facts_read_rest(f);
    /* All of it is of one process if the last look finds the same one. */
    if (process_stat_read(f->pid, &after) < 0 || after.started != before.started)
        f->err = -ESRCH;
}

void kineto_process_done(struct kineto_process *p)
{
    free(p->command);
    free(p->unit);
    free(p->gpus);
    free(p->master);
    free(p->socket_dir);
    free(p->trace_root);
    free(p->pytorch_version);
    *p = (struct kineto_process){0};
}
