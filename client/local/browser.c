/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/browser.h"

#include "base/alloc.h"
#include "base/spawning.h"
#include <fcntl.h>

extern char **environ;

static bool environment_has(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* A helper that $BROWSER names, as editors set it that run on another machine, needs no display. */
static bool browser_is_here(void)
{
    if (environment_has("DISPLAY") || environment_has("WAYLAND_DISPLAY"))
        return environment_has("BROWSER") || !environment_has("SSH_CONNECTION");
    return environment_has("BROWSER") && geteuid() != 0;
}

/* Of a list such as "firefox:lynx" the first; arguments such as "%s" are left out. */
static char *browser_name(void)
{
    const char *value = getenv("BROWSER");

    return value && *value ? xstrndup(value, strcspn(value, ": ")) : xstrdup("xdg-open");
}

static void browser_open(struct client *c, const char *url)
{
    _cleanup_(freep) char *name = browser_name(), *program = program_in_path(name);
    char *const argv[] = {name, (char *)url, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;

    if (!program)
        return;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (spawn_clean(program, &actions, argv, environ, 0, &pid) == 0)
        client_note(c, "opening the browser");
    posix_spawn_file_actions_destroy(&actions);
}

void browser_show(struct client *c, const char *url, int port, bool may_open)
{
    char host[256] = "HOST";

    if (may_open && browser_is_here()) {
        browser_open(c, url);
    } else if (environment_has("SSH_CONNECTION")) {
        gethostname(host, sizeof(host) - 1);
        client_note(c, "on the machine with the browser, first run: ssh -L %d:127.0.0.1:%d %s", port, port,
                    host);
    }
}
