/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/process_mounts.h"

#include "base/alloc.h"

struct mount {
    char *device; /* "254:0" */
    char *root;   /* the directory of the device's file system that is mounted */
    char *point;  /* where */
};

static void mount_done(struct mount *m)
{
    free(m->device);
    free(m->root);
    free(m->point);
    *m = (struct mount){0};
}

static bool is_octal(const char *s)
{
    return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' && s[2] <= '7';
}

/* A field up to the next space, with \040 and its like decoded. */
static char *take_field(const char **cursor, const char *end)
{
    const char *s = *cursor, *stop = memchr(s, ' ', (size_t)(end - s));
    if (!stop)
        stop = end;
    char *text = xcalloc((size_t)(stop - s) + 1, 1), *out = text;
    while (s < stop) {
        if (*s == '\\' && stop - s >= 4 && is_octal(s + 1)) {
            *out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 4;
        } else {
            *out++ = *s++;
        }
    }
    *cursor = stop < end ? stop + 1 : end;
    return text;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime ..." */
static bool parse_line(const char *line, const char *end, struct mount *ret)
{
    for (int i = 0; i < 2; i++)
        free(take_field(&line, end));
    ret->device = take_field(&line, end);
    ret->root = take_field(&line, end);
    ret->point = take_field(&line, end);
    if (ret->root[0] == '/' && ret->point[0] == '/')
        return true;
    mount_done(ret);
    return false;
}

/* What is left of path below the directory, from its slash on; NULL where it is not below. */
static const char *below(const char *path, const char *directory)
{
    size_t n = streq(directory, "/") ? 0 : strlen(directory);
    if (strncmp(path, directory, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path + n;
}

static char *join(const char *directory, const char *rest)
{
    if (streq(directory, "/"))
        return xstrdup(*rest ? rest : "/");
    return xasprintf("%s%s", directory, streq(rest, "/") ? "" : rest);
}

static const char *next_line(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    return newline ? newline : end;
}

/* The mount that covers the path: the deepest, and of equal ones the last, which lies on top. */
static bool covering_mount(const char *table, size_t size, const char *path, struct mount *ret)
{
    const char *end = table + size;
    bool found = false;

    for (const char *line = table; line < end; line = next_line(line, end) + 1) {
        struct mount m;
        if (!parse_line(line, next_line(line, end), &m))
            continue;
        if (!below(path, m.point) || (found && strlen(m.point) < strlen(ret->point))) {
            mount_done(&m);
            continue;
        }
        if (found)
            mount_done(ret);
        *ret = m;
        found = true;
    }
    return found;
}

/* Whether path (in this table) is the place `inside` of the device's file system. */
static bool leads_to(const char *table, size_t size, const char *path, const char *device, const char *inside)
{
    struct mount m;
    if (!covering_mount(table, size, path, &m))
        return false;
    _cleanup_(freep) char *there = join(m.root, below(path, m.point));
    bool same = streq(m.device, device) && streq(there, inside);
    mount_done(&m);
    return same;
}

char *mounts_translate(const char *theirs, size_t theirs_size, const char *ours, size_t ours_size,
                       const char *path)
{
    _cleanup_(mount_done) struct mount source = {0};
    const char *end = ours + ours_size;

    if (!covering_mount(theirs, theirs_size, path, &source))
        return NULL;
    _cleanup_(freep) char *inside = join(source.root, below(path, source.point));
    if (leads_to(ours, ours_size, path, source.device, inside))
        return xstrdup(path);
    for (const char *line = ours; line < end; line = next_line(line, end) + 1) {
        _cleanup_(mount_done) struct mount m = {0};
        if (!parse_line(line, next_line(line, end), &m))
            continue;
        const char *rest = streq(m.device, source.device) ? below(inside, m.root) : NULL;
        if (!rest)
            continue;
        _cleanup_(freep) char *here = join(m.point, rest);
        if (leads_to(ours, ours_size, here, source.device, inside))
            return TAKE_PTR(here);
    }
    return NULL;
}
