/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/mount_table.h"

#include "base/alloc.h"

void mount_done(struct mount *m)
{
    free(m->device);
    free(m->root);
    free(m->point);
    free(m->type);
    free(m->source);
    *m = (struct mount){0};
}

static bool is_octal(const char *s)
{
    return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' && s[2] <= '7';
}

/* A field up to the next space, with \040 and its like decoded. */
static char *mount_take_field(const char **cursor, const char *end)
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

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime shared:1 - ext4 /dev/sda1 rw": between the options and the dash there may be more. */
bool mount_parse(const char *line, const char *end, struct mount *ret)
{
    *ret = (struct mount){0};
    for (int i = 0; i < 2; i++)
        free(mount_take_field(&line, end));
    ret->device = mount_take_field(&line, end);
    ret->root = mount_take_field(&line, end);
    ret->point = mount_take_field(&line, end);
    const char *dash = memmem(line, (size_t)(end - line), " - ", 3);
    if (dash) {
        line = dash + 3;
        ret->type = mount_take_field(&line, end);
        ret->source = mount_take_field(&line, end);
    }
    if (ret->root[0] == '/' && ret->point[0] == '/')
        return true;
    mount_done(ret);
    return false;
}

const char *mount_path_below(const char *path, const char *directory)
{
    size_t n = streq(directory, "/") ? 0 : strlen(directory);
    if (strncmp(path, directory, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path + n;
}

char *mount_path_join(const char *directory, const char *rest)
{
    if (streq(directory, "/"))
        return xstrdup(*rest ? rest : "/");
    return xasprintf("%s%s", directory, streq(rest, "/") ? "" : rest);
}

const char *mounts_next_line(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    return newline ? newline : end;
}

bool mounts_cover(const char *table, size_t size, const char *path, struct mount *ret)
{
    const char *end = table + size;
    bool found = false;

    for (const char *line = table; line < end; line = mounts_next_line(line, end) + 1) {
        struct mount m;
        if (!mount_parse(line, mounts_next_line(line, end), &m))
            continue;
        if (!mount_path_below(path, m.point) || (found && strlen(m.point) < strlen(ret->point))) {
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

/* Whether path (in this table) is the directory `inside` of the device's file system. */
static bool leads_to(const char *table, size_t size, const char *path, const char *device, const char *inside)
{
    struct mount m;
    if (!mounts_cover(table, size, path, &m))
        return false;
    _cleanup_(freep) char *there = mount_path_join(m.root, mount_path_below(path, m.point));
    bool same = streq(m.device, device) && streq(there, inside);
    mount_done(&m);
    return same;
}

char *mounts_translate(const char *theirs, size_t theirs_size, const char *ours, size_t ours_size,
                       const char *path)
{
    _cleanup_(mount_done) struct mount source = {0};
    const char *end = ours + ours_size;

    if (!mounts_cover(theirs, theirs_size, path, &source))
        return NULL;
    _cleanup_(freep) char *inside = mount_path_join(source.root, mount_path_below(path, source.point));
    if (leads_to(ours, ours_size, path, source.device, inside))
        return xstrdup(path);
    for (const char *line = ours; line < end; line = mounts_next_line(line, end) + 1) {
        _cleanup_(mount_done) struct mount m = {0};
        if (!mount_parse(line, mounts_next_line(line, end), &m))
            continue;
        const char *rest = streq(m.device, source.device) ? mount_path_below(inside, m.root) : NULL;
        if (!rest)
            continue;
        _cleanup_(freep) char *here = mount_path_join(m.point, rest);
        if (leads_to(ours, ours_size, here, source.device, inside))
            return TAKE_PTR(here);
    }
    return NULL;
}
