/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_info.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>

#define PROC_PATH_MAX   64
#define PASSWD_TEXT_MAX 4096

const char *string_list_next(const struct string_list *s, const char *previous)
{
    if (!s->data)
        return NULL;
    const char *next = previous ? previous + strlen(previous) + 1 : s->data;
    return next < s->data + s->size ? next : NULL;
}

const char *env_value(const struct string_list *env, const char *name)
{
    size_t n = strlen(name);
    for (const char *e = string_list_next(env, NULL); e; e = string_list_next(env, e))
        if (strncmp(e, name, n) == 0 && e[n] == '=')
            return e + n + 1;
    return NULL;
}

/* What follows the flag's name in an argument: "" or "=value"; NULL where it is another argument. */
static const char *flag_after_name(const char *arg, const char *flag)
{
    for (; *flag; arg++, flag++)
        if ((*arg == '_' ? '-' : *arg) != *flag)
            return NULL;
    return *arg == '\0' || *arg == '=' ? arg : NULL;
}

bool flag_is_there(const struct string_list *args, const char *flag)
{
    for (const char *arg = string_list_next(args, NULL); arg; arg = string_list_next(args, arg))
        if (flag_after_name(arg, flag))
            return true;
    return false;
}

const char *flag_value(const struct string_list *args, const char *flag)
{
    const char *value = NULL;
    for (const char *arg = string_list_next(args, NULL); arg; arg = string_list_next(args, arg)) {
        const char *rest = flag_after_name(arg, flag);
        if (rest)
            value = *rest == '=' ? rest + 1 : string_list_next(args, arg);
    }
    return value;
}

/* The text after "Name:" at the start of a line. */
static const char *process_status_field(const char *data, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = data; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            return line + n + 1;
    }
    return NULL;
}

/* Reads the next number of the line at *text and moves *text after it. */
static bool process_next_number(const char **text, int base, uint64_t *ret)
{
    const char *s = *text;
    while (*s == ' ' || *s == '\t')
        s++;
    if (!isxdigit((unsigned char)*s))
        return false;
    char *end;
    *ret = strtoull(s, &end, base);
    if (end == s)
        return false;
    *text = end;
    return true;
}

static uint64_t process_status_number(const char *data, const char *name, unsigned column, int base)
{
    const char *text = process_status_field(data, name);
    uint64_t value = 0;
    for (unsigned i = 0; i <= column; i++)
        if (!text || !process_next_number(&text, base, &value))
            return 0;
    return value;
}

/* Columns of "Uid:" and "Gid:" are real, effective, saved and file system's. */
#define COLUMN_FILE_SYSTEM 3

static bool process_ids_are_equal(const char *data, const char *name)
{
    const char *text = process_status_field(data, name);
    uint64_t first, next;

    if (!text || !process_next_number(&text, 10, &first))
        return false;
    for (unsigned i = 0; i < COLUMN_FILE_SYSTEM; i++)
        if (!process_next_number(&text, 10, &next) || next != first)
            return false;
    return true;
}

int process_status_parse(const char *data, size_t size, struct process_status *ret)
{
    _cleanup_(freep) char *text = strndup(data, size);
    uint64_t value;

    if (!text)
        return -ENOMEM;
    const char *groups = process_status_field(text, "Groups"), *inner = process_status_field(text, "NSpid");
    if (!process_status_field(text, "Uid") || !process_status_field(text, "PPid"))
        return -EBADMSG;
    *ret = (struct process_status){
        .parent = (pid_t)process_status_number(text, "PPid", 0, 10),
        .uid = (uid_t)process_status_number(text, "Uid", COLUMN_FILE_SYSTEM, 10),
        .gid = (gid_t)process_status_number(text, "Gid", COLUMN_FILE_SYSTEM, 10),
        .is_one_user = process_ids_are_equal(text, "Uid") && process_ids_are_equal(text, "Gid"),
        .capabilities = process_status_number(text, "CapEff", 0, 16),
    };
    while (inner && process_next_number(&inner, 10, &value)) {
        ret->inner_pid = (pid_t)value;
        ret->pid_namespaces++;
    }
    while (groups && process_next_number(&groups, 10, &value)) {
        if (ret->n_groups == PROCESS_GROUPS_MAX) {
            ret->groups_cut = true;
            break;
        }
        ret->groups[ret->n_groups++] = (gid_t)value;
    }
    return 0;
}

/* Fields of /proc/PID/stat after the name, which may contain any byte and ends at the last parenthesis. */
#define STAT_STATE   0
#define STAT_PARENT  1
#define STAT_STARTED 19

int process_stat_parse(const char *data, size_t size, struct process_stat *ret)
{
    const char *name_end = memrchr(data, ')', size);
    if (!name_end)
        return -EBADMSG;
    _cleanup_(freep) char *text = strndup(name_end + 1, (size_t)(data + size - name_end - 1));
    struct process_stat stat = {0};
    char *saved = NULL, *field = text ? strtok_r(text, " ", &saved) : NULL;

    for (int i = 0; field; i++, field = strtok_r(NULL, " ", &saved)) {
        if (i == STAT_STATE)
            stat.is_zombie = *field == 'Z' || *field == 'X';
        if (i == STAT_PARENT)
            stat.parent = (pid_t)strtoul(field, NULL, 10);
        if (i == STAT_STARTED) {
            stat.started = strtoull(field, NULL, 10);
            *ret = stat;
            return 0;
        }
    }
    return -EBADMSG;
}

int process_read(pid_t pid, const char *name, size_t max, char **ret, size_t *ret_size)
{
    char path[PROC_PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return read_file(AT_FDCWD, path, max, ret, ret_size);
}

int process_status_read(pid_t pid, struct process_status *ret)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;
    int r = process_read(pid, "status", PROCESS_STATUS_MAX, &data, &size);
    return r < 0 ? r : process_status_parse(data, size, ret);
}

int process_stat_read(pid_t pid, struct process_stat *ret)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;
    int r = process_read(pid, "stat", PROCESS_STATUS_MAX, &data, &size);
    return r < 0 ? r : process_stat_parse(data, size, ret);
}

bool process_has_ended(pid_t pid, uint64_t started)
{
    struct process_stat stat;
    int r = process_stat_read(pid, &stat);

    return r < 0 ? r == -ENOENT || r == -ESRCH : stat.started != started || stat.is_zombie;
}

int process_link(pid_t pid, const char *name, char **ret)
{
    char path[PROC_PATH_MAX], target[PATH_MAX];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    ssize_t n = readlink(path, target, sizeof(target));
    if (n < 0)
        return -errno;
    if ((size_t)n == sizeof(target))
        return -ENAMETOOLONG;
    *ret = xstrndup(target, (size_t)n);
    return 0;
}

char *process_name(pid_t pid, char buf[static PROCESS_NAME_MAX])
{
    _cleanup_(freep) char *name = NULL;
    if (process_read(pid, "comm", PROCESS_NAME_MAX, &name, NULL) < 0)
        name = xstrdup("?");
    snprintf(buf, PROCESS_NAME_MAX, "%.*s", (int)strcspn(name, "\n"), name);
    for (char *c = buf; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    return buf;
}

char *process_user_name(uid_t uid)
{
    struct passwd entry, *found = NULL;
    char text[PASSWD_TEXT_MAX];
    if (getpwuid_r(uid, &entry, text, sizeof(text), &found) == 0 && found)
        return xstrdup(found->pw_name);
    return xasprintf("user %u", (unsigned)uid);
}

static int process_compare_ids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return x < y ? -1 : x > y;
}

size_t process_list(pid_t **ret)
{
    pid_t *pids = NULL;
    size_t n = 0, cap = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        VEC_GROW(pids, n, cap);
        pids[n++] = (pid_t)strtoul(entry->d_name, NULL, 10);
    }
    if (proc)
        closedir(proc);
    if (n > 0)
        qsort(pids, n, sizeof(*pids), process_compare_ids);
    *ret = pids;
    return n;
}

int64_t process_started_boot_ns(const struct process_stat *s)
{
    return (int64_t)s->started * (NS_PER_S / sysconf(_SC_CLK_TCK));
}

size_t process_ancestors(pid_t pid, pid_t *ret, size_t max)
{
    struct process_stat stat;
    size_t n = 0;

    while (n < max && process_stat_read(pid, &stat) >= 0 && stat.parent > 1)
        pid = ret[n++] = stat.parent;
    return n;
}

size_t process_tree(pid_t pid, pid_t *ret, size_t max)
{
    _cleanup_(freep) pid_t *pids = NULL;
    size_t n_pids = process_list(&pids), n = 0;
    _cleanup_(freep) pid_t *parents = xcalloc(n_pids, sizeof(*parents));
    struct process_stat stat;

    if (max == 0 || process_stat_read(pid, &stat) < 0)
        return 0;
    for (size_t i = 0; i < n_pids; i++)
        parents[i] = process_stat_read(pids[i], &stat) < 0 ? 0 : stat.parent;
    ret[n++] = pid;
    for (size_t done = 0; done < n; done++)
        for (size_t i = 0; i < n_pids && n < max; i++)
            if (parents[i] == ret[done])
                ret[n++] = pids[i];
    return n;
}

/* The permission bits of the link itself show how the file was opened, so only files open for writing are looked
 * up. */
static bool process_is_open_for_writing(int fd_dir, const char *name, struct stat *ret)
{
    return isdigit((unsigned char)name[0]) && fstatat(fd_dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0 &&
           (ret->st_mode & S_IWUSR) && fstatat(fd_dir, name, ret, 0) == 0 && S_ISREG(ret->st_mode);
}

static size_t process_files_of(pid_t pid, struct open_file *ret, size_t max)
{
    char path[PROC_PATH_MAX];
    struct dirent *entry;
    struct stat st;
    size_t n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    while (n < max && (entry = readdir(dir)))
        if (process_is_open_for_writing(dirfd(dir), entry->d_name, &st))
            ret[n++] = (struct open_file){st.st_dev, st.st_ino};
    closedir(dir);
    return n;
}

size_t process_open_files(const pid_t *pids, size_t n, struct open_file *ret, size_t max)
{
    size_t n_files = 0;

    for (size_t i = 0; i < n; i++)
        n_files += process_files_of(pids[i], ret + n_files, max - n_files);
    return n_files;
}

pid_t process_inner_pid(pid_t pid)
{
    struct process_status status;
    return process_status_read(pid, &status) < 0 ? 0 : status.inner_pid;
}

#define STATM_MAX 256

int process_own_memory(struct process_own_memory *ret)
{
    _cleanup_(freep) char *text = NULL;
    int64_t pages[3], page_bytes = sysconf(_SC_PAGESIZE);
    int r = read_file(AT_FDCWD, "/proc/self/statm", STATM_MAX, &text, NULL);

    *ret = (struct process_own_memory){0};
    if (r < 0)
        return r;
    if (sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNd64, &pages[0], &pages[1], &pages[2]) != 3)
        return -EBADMSG;
    *ret = (struct process_own_memory){pages[0] * page_bytes, pages[1] * page_bytes, pages[2] * page_bytes};
    return 0;
}
