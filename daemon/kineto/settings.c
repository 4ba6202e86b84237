/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/settings.h"

#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>

/* Why Kineto and profd would not mean the same directory; NULL: they would. */
static const char *settings_wrong_dir(const char *dir)
{
    if (dir[0] != '/')
        return "must be \"" KINETO_ABSTRACT "\" or an absolute directory";
    if (strlen(dir) > KINETO_DIR_MAX)
        return "must have at most 54 bytes: a longer one overruns a buffer of Kineto";
    if (ends_with(dir, "/"))
        return "must not end in \"/\": Kineto compares it with KINETO_IPC_SOCKET_DIR as text";
    if (strstr(dir, "//"))
        return "must not contain \"//\": Kineto compares it with KINETO_IPC_SOCKET_DIR as text";
    if (strstr(dir, "/./") || strstr(dir, "/../") || ends_with(dir, "/.") || ends_with(dir, "/.."))
        return "must not contain \".\" or \"..\" as a component";
    return NULL;
}

static const char *settings_add(struct kineto_listen *l, const char *word)
{
    if (streq(word, KINETO_ABSTRACT)) {
        l->abstract = true;
        return NULL;
    }
    const char *reason = settings_wrong_dir(word);
    if (reason)
        return reason;
    for (size_t i = 0; i < l->n_dirs; i++)
        if (streq(l->dirs[i], word))
            return NULL;
    if (l->n_dirs == KINETO_DIRS_MAX)
        return "is one directory too many: at most 16 are possible";
    l->dirs[l->n_dirs++] = xstrdup(word);
    return NULL;
}

int kineto_listen_parse(const char *text, struct kineto_listen *ret, char **ret_reason)
{
    struct kineto_listen l = {0};
    const char *rest = text, *at;
    size_t n;

    while ((n = words_next(&rest, &at)) > 0) {
        _cleanup_(freep) char *word = xstrndup(at, n);
        const char *reason = settings_add(&l, word);
        if (reason) {
            *ret_reason = xasprintf("%s: %s", word, reason);
            kineto_listen_done(&l);
            return -EINVAL;
        }
    }
    if (ret)
        *ret = l;
    else
        kineto_listen_done(&l);
    return 0;
}

void kineto_listen_done(struct kineto_listen *l)
{
    for (size_t i = 0; i < l->n_dirs; i++)
        free(l->dirs[i]);
    *l = (struct kineto_listen){0};
}
