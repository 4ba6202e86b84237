/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/functions.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "proto/names.h"
#include <errno.h>
#include <fcntl.h>

#define BASELINE_BYTES_MAX (64 << 20)

static int baseline_path(const char *name, char **ret_dir, char **ret_path, struct problem *p)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(name, allowed);
    int64_t id;

    if (n == 0 || name[n] || n > BASELINE_NAME_MAX || name[0] == '.' || name[0] == '-' ||
        parse_ref(name, 's', &id)) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "'%s' is not a name of a profile", name);
        problem_remedy(p, "Use up to %d letters, digits and . _ -, as in before-sets.", BASELINE_NAME_MAX);
        return -EINVAL;
    }
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state && *state == '/';
    if (!has_state && (!home || *home != '/'))
        return problem_set(p, -ENOENT, PROBLEM_BAD_REQUEST, "$XDG_STATE_HOME and $HOME are not set");
    *ret_dir = xasprintf("%s%s/profd/functions", has_state ? state : home, has_state ? "" : "/.local/state");
    *ret_path = xasprintf("%s/%s.json", *ret_dir, name);
    return 0;
}

static int baseline_write(const char *path, const char *text)
{
    _cleanup_(freep) char *part = xasprintf("%s.%d.part", path, (int)getpid());
    _cleanup_(closep) int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : write_all(fd, text, strlen(text));

    if (r == 0 && (fsync(fd) < 0 || rename(part, path) < 0))
        r = -errno;
    if (r < 0)
        unlink(part);
    return r;
}

int baseline_save(const char *name, const json_t *answer, struct problem *p)
{
    _cleanup_(freep) char *dir = NULL;
    _cleanup_(freep) char *path = NULL;
    int r = baseline_path(name, &dir, &path, p);

    if (r < 0)
        return r;
    _cleanup_(freep) char *text = json_dumps(answer, JSON_COMPACT);
    r = make_dirs(dir, 0700);
    if (r == 0)
        r = baseline_write(path, text);
    return r < 0 ? problem_set(p, r, PROBLEM_STORAGE, "cannot write %s: %s", path, strerror(-r)) : 0;
}

int baseline_load(const char *name, json_t **ret, struct problem *p)
{
    _cleanup_(freep) char *dir = NULL;
    _cleanup_(freep) char *path = NULL;
    _cleanup_(freep) char *text = NULL;
    char error[200];
    size_t size;
    int r = baseline_path(name, &dir, &path, p);

    if (r < 0)
        return r;
    r = read_file(AT_FDCWD, path, BASELINE_BYTES_MAX, &text, &size);
    if (r == -ENOENT) {
        problem_set(p, r, PROBLEM_NOT_FOUND, "there is no profile saved as '%s'", name);
        problem_remedy(p, "profctl functions --session s7 --save %s saves one; %s contains all.", name, dir);
        return r;
    }
    if (r < 0)
        return problem_set(p, r, PROBLEM_STORAGE, "cannot read %s: %s", path, strerror(-r));
    json_t *j = json_parse(text, size, error);
    if (!j || !json_is_array(json_object_get(j, "functions"))) {
        json_decref(j);
        return problem_set(p, -EPROTO, PROBLEM_STORAGE, "%s is not a saved profile", path);
    }
    *ret = j;
    return 0;
}
