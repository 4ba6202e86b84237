/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/contexts.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "client/cli/text.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (1 << 20)
#define VALUES_MAX     10000
#define NAME_BYTES_MAX 64
#define NAME_BYTES     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define NAMES_MAX      256

#define AT(member)     offsetof(struct connection_options, member)

const struct context_member context_members[N_CONTEXT_MEMBERS] = {
    {"host", "Host:", AT(host)},
    {"socket", "Socket:", AT(socket)},
    {"token_file", "Token file:", AT(credentials.token_file)},
    {"cacert", "CA file:", AT(credentials.cacert)},
    {"cert", "Certificate:", AT(credentials.cert)},
    {"key", "Key:", AT(credentials.key)},
};

/* -- Parsing ------------------------------------------------------------------------------------------ */

bool context_name_is_valid(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= NAME_BYTES_MAX && strspn(name, NAME_BYTES) == n && name[0] != '.' &&
           name[0] != '-' && !streq(name, CONTEXT_DEFAULT);
}

static bool context_is_valid(const json_t *context)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)context, name, value) {
        bool is_known = streq(name, "plain_http") && json_is_boolean(value);
        for (size_t i = 0; i < N_CONTEXT_MEMBERS; i++)
            is_known |=
                streq(context_members[i].key, name) && json_is_string(value) && json_string_length(value) > 0;
        if (!is_known)
            return false;
    }
    return json_is_object(context) && !json_get_str(context, "host") != !json_get_str(context, "socket");
}

static int contexts_damaged(const char *path, const char *why, struct problem *p)
{
    problem_remedy(
        p, "Correct the file, or delete it and add the contexts again: profctl context add NAME --host URL");
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "cannot read the contexts in %s: %s", path, why);
}

int contexts_parse(const char *text, size_t size, const char *path, json_t **ret, struct problem *p)
{
    char error[200];
    _cleanup_json_ j = json_parse_bounded(text, size, VALUES_MAX, error);
    const json_t *list = json_object_get(j, "contexts"), *current = json_object_get(j, "current");
    const char *name;
    json_t *context;

    if (!j)
        return contexts_damaged(path, error, p);
    if (!json_is_object(list) || (current && !json_is_string(current)))
        return contexts_damaged(path, "\"contexts\" must be an object, and \"current\" a name", p);
    json_object_foreach((json_t *)list, name, context) {
        _cleanup_(freep) char *why =
            xasprintf("context '%s' must have a valid name, a \"host\" or a \"socket\", and paths", name);
        if (!context_name_is_valid(name) || !context_is_valid(context))
            return contexts_damaged(path, why, p);
    }
    *ret = TAKE_PTR(j);
    return 0;
}

/* -- The file ----------------------------------------------------------------------------------------- */

static bool is_home_of_user(void)
{
    const char *home = getenv("HOME");
    struct stat st;

    return home && stat(home, &st) == 0 && st.st_uid == geteuid();
}

int contexts_read(json_t **ret, struct problem *p)
{
    _cleanup_(freep) char *path = config_file_path("contexts.json"), *text = NULL;
    _cleanup_(closep) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    size_t size;

    /* sudo and setpriv may leave another user's home in $HOME: it has no contexts of this user. */
    if (fd < 0 && (!path || errno == ENOENT || (errno == EACCES && !is_home_of_user()))) {
        *ret = json_pack("{s:{}}", "contexts");
        return 0;
    }
    if (fd < 0)
        return contexts_damaged(path, strerror(errno), p);
    int r = config_file_check_mode(path, path, p);
    if (r < 0)
        return r;
    r = read_file(AT_FDCWD, path, FILE_BYTES_MAX, &text, &size);
    return r < 0 ? contexts_damaged(path, strerror(-r), p) : contexts_parse(text, size, path, ret, p);
}

/* A file that only its owner can read, written atomically. */
static int contexts_write_private(const char *path, const char *text, struct problem *p)
{
    _cleanup_(freep) char *directory = xstrdup(path);
    char *slash = strrchr(directory, '/');
    int r;

    *slash = '\0';
    /* Names of contexts begin with no dot. */
    _cleanup_(freep) char *part = xasprintf("%s/.%s.part", directory, slash + 1);
    r = make_dirs(directory, 0700);
    unlink(part);
    _cleanup_(closep) int fd =
        r < 0 ? -1 : open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r >= 0 && fd < 0)
        r = -errno;
    if (r >= 0)
        r = write_all(fd, text, strlen(text));
    if (r >= 0 && (fsync(fd) < 0 || rename(part, path) < 0))
        r = -errno;
    if (r >= 0)
        return 0;
    unlink(part);
    problem_set(p, r, PROBLEM_STORAGE, "cannot write %s: %s", path, strerror(-r));
    return r;
}

static int contexts_no_home(struct problem *p)
{
    problem_remedy(p, "Set HOME, or XDG_CONFIG_HOME.");
    return problem_set(p, -ENXIO, PROBLEM_STORAGE, "no directory for contexts: $HOME is not set");
}

int contexts_write(const json_t *contexts, struct problem *p)
{
    _cleanup_(freep) char *path = config_file_path("contexts.json");
    _cleanup_(freep) char *text = json_dumps(contexts, JSON_INDENT(2) | JSON_SORT_KEYS);

    return path ? contexts_write_private(path, text, p) : contexts_no_home(p);
}

/* Names of contexts begin with no dot. */
char *context_token_path(const char *name, const char *suffix)
{
    _cleanup_(freep) char *file =
        suffix ? xasprintf("tokens/.%s.%s", name, suffix) : xasprintf("tokens/%s", name);
    return config_file_path(file);
}

int context_keep_token(const char *name, const char *token, struct problem *p)
{
    _cleanup_(freep) char *path = context_token_path(name, CONTEXT_TOKEN_NEW);
    return path ? contexts_write_private(path, token, p) : contexts_no_home(p);
}

/* A token is never stored for another host: if this is interrupted, the context has no token. */
int contexts_write_with_token(const json_t *contexts, const char *name, struct problem *p)
{
    _cleanup_(freep) char *path = context_token_path(name, NULL),
                          *new = context_token_path(name, CONTEXT_TOKEN_NEW),
                          *old = context_token_path(name, "old");

    if (!path || !new || !old)
        return contexts_no_home(p);
    unlink(old);
    bool had = rename(path, old) == 0;
    int r = contexts_write(contexts, p);
    if (r < 0 && had)
        rename(old, path);
    else if (r == 0 && access(new, F_OK) == 0 && rename(new, path) < 0)
        r = problem_set(p, -errno, PROBLEM_STORAGE, "cannot write %s: %s", path, strerror(errno));
    unlink(new);
    unlink(old);
    return r;
}

void context_forget_token(const char *name, const char *suffix)
{
    _cleanup_(freep) char *path = context_token_path(name, suffix);
    if (path)
        unlink(path);
}

/* -- Choosing one ------------------------------------------------------------------------------------- */

const json_t *contexts_find(const json_t *contexts, const char *name)
{
    return json_object_get(json_object_get(contexts, "contexts"), name);
}

int contexts_unknown(const json_t *contexts, const char *name, struct problem *p)
{
    const char *names[NAMES_MAX] = {CONTEXT_DEFAULT}, *one;
    size_t n = 1;
    json_t *context;

    json_object_foreach(json_object_get(contexts, "contexts"), one, context)
        if (n < NAMES_MAX)
            names[n++] = one;
    problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "unknown context '%s'", name);
    _cleanup_(freep) char *remedy = did_you_mean(name, names, n,
                                                 n > 1 ? "profctl context list shows all contexts."
                                                       : "Add one: profctl context add NAME --host URL");
    problem_remedy(p, "%s", remedy);
    return -ENOENT;
}

int connection_options_complete(struct connection_options *at, json_t **ret_contexts, const char **ret_name,
                                struct problem *p)
{
    const char *environment = getenv("PROFD_CONTEXT"), *socket = getenv("PROFD_SOCKET");
    const char *name = at->context ? at->context : environment && *environment ? environment : NULL;
    bool is_named = at->socket || at->host || at->bus;

    *ret_name = NULL;
    *ret_contexts = NULL;
    if (at->context && is_named)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--context excludes --socket, --host and --bus");
    if (is_named || (!name && socket && *socket) || streq(name, CONTEXT_DEFAULT))
        return 0;
    int r = contexts_read(ret_contexts, p);
    if (r < 0)
        return r;
    if (!name)
        name = json_get_str(*ret_contexts, "current");
    if (!name || streq(name, CONTEXT_DEFAULT))
        return 0;
    const json_t *context = contexts_find(*ret_contexts, name);
    if (!context)
        return contexts_unknown(*ret_contexts, name, p);
    for (size_t i = 0; i < N_CONTEXT_MEMBERS; i++) {
        const char **value = (const char **)((char *)at + context_members[i].offset);
        *value = *value ? *value : json_get_str(context, context_members[i].key);
    }
    at->credentials.plain_http |= json_get_bool(context, "plain_http", false);
    *ret_name = name;
    return 0;
}
