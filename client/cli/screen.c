/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/screen.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/spawning.h"
#include "client/cli/text.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define WIDTH_FALLBACK  80
#define HEIGHT_FALLBACK 24
#define SIZE_LARGEST    10000

static const char *const escapes[_COLOUR_MAX] = {
    [COLOUR_NONE] = "",        [COLOUR_GOOD] = "\033[32m", [COLOUR_WARN] = "\033[33m",
    [COLOUR_BAD] = "\033[31m", [COLOUR_DIM] = "\033[2m",   [COLOUR_BOLD] = "\033[1m",
};

void screen_init(struct screen *s, FILE *file, bool want_colour)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool dumb = !term || streq(term, "dumb");

    *s = (struct screen){.file = file};
    s->is_tty = isatty(fileno(file));
    s->is_terminal = !dumb && s->is_tty;
    s->has_colour = s->is_terminal && want_colour && !(no_colour && *no_colour);
}

void screen_printf(const struct screen *s, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap), *clean = text_clean(text, true);
    va_end(ap);
    fputs(clean, s->file);
}

void screen_json(const struct screen *s, const json_t *value, size_t flags)
{
    if (!s->is_tty) {
        json_dumpf(value, s->file, flags | JSON_ENCODE_ANY);
        return;
    }
    _cleanup_(freep) char *text = text_json(value, flags);
    fputs(text, s->file);
}

static struct winsize screen_size(const struct screen *s)
{
    struct winsize w = {.ws_col = (unsigned short)s->paged_width, .ws_row = (unsigned short)s->paged_height};
    if (s->paged_width == 0 && (ioctl(fileno(s->file), TIOCGWINSZ, &w) < 0 || w.ws_col == 0))
        w = (struct winsize){.ws_col = WIDTH_FALLBACK, .ws_row = HEIGHT_FALLBACK};
    return w;
}

/* A number of the environment that can be a size, else 0. */
static unsigned screen_size_from(const char *variable)
{
    const char *value = getenv(variable);
    char *end;
    long n = value && *value ? strtol(value, &end, 10) : 0;

    return n > 0 && n <= SIZE_LARGEST && *end == '\0' ? (unsigned)n : 0;
}

unsigned screen_width(const struct screen *s)
{
    unsigned columns = s->is_terminal ? screen_size_from("COLUMNS") : 0;

    return columns || !s->is_terminal ? columns : screen_size(s).ws_col;
}

unsigned screen_height(const struct screen *s)
{
    return s->is_terminal ? MAX(screen_size(s).ws_row, 1) : 0;
}

unsigned screen_text_width(const struct screen *s)
{
    unsigned width = screen_width(s);
    return width ? MIN(width, (unsigned)SCREEN_WIDTH_MAX) : SCREEN_WIDTH_MAX;
}

const char *screen_colour(const struct screen *s, enum colour c)
{
    return s->has_colour ? escapes[c] : "";
}

const char *screen_plain(const struct screen *s)
{
    return s->has_colour ? "\033[0m" : "";
}

void screen_settle(struct screen *s)
{
    s->lines_drawn = 0;
}

void screen_clear(struct screen *s)
{
    if (s->lines_drawn > 0)
        fprintf(s->file, "\r\033[%uA\033[J", s->lines_drawn);
    s->lines_drawn = 0;
    fflush(s->file);
}

void screen_draw(struct screen *s, const char *text)
{
    unsigned width = MIN(screen_width(s), (unsigned)screen_size(s).ws_col), lines = 0;

    if (s->lines_drawn > 0)
        fprintf(s->file, "\r\033[%uA", s->lines_drawn);
    while (*text) {
        size_t n = strcspn(text, "\n");
        _cleanup_(freep) char *line = xstrndup(text, n);
        if (text_columns(line) > width)
            fprintf(s->file, "%.*s" TEXT_ELLIPSIS "%s\033[K\n", (int)text_fit(line, MAX(width, 1u) - 1), line,
                    screen_plain(s));
        else
            fprintf(s->file, "%s\033[K\n", line);
        lines++;
        text += n + (text[n] == '\n');
    }
    fputs("\033[J", s->file);
    fflush(s->file);
    s->lines_drawn = lines;
}

/* -- Fields ------------------------------------------------------------------------------------------- */

#define VALUE_COLUMN 14

void field_print_at(const struct screen *s, unsigned column, const char *name, const char *value)
{
    if (!value)
        return;
    _cleanup_(freep) char *clean = text_clean(value, true);
    _cleanup_(freep) char *wrapped = text_wrap(clean, column, screen_text_width(s));
    fprintf(s->file, "%s%*s%s  %s\n", screen_colour(s, COLOUR_DIM), (int)column - 2, name, screen_plain(s),
            wrapped);
}

void field_print(const struct screen *s, const char *name, const char *value)
{
    field_print_at(s, VALUE_COLUMN, name, value);
}

void field_printf(const struct screen *s, const char *name, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *value = xvasprintf(format, ap);
    va_end(ap);
    field_print(s, name, value);
}

/* -- Pager -------------------------------------------------------------------------------------------- */

#define DEFAULT_PAGER "less"
/* As git sets it: end where it fits on one screen, keep colours, leave the screen as it is. */
#define LESS_OPTIONS "FRX"
/* Exit statuses of a shell that has not found the command, or may not execute it. */
#define STATUS_NOT_RUN 126

extern char **environ;

static const char *pager_command(void)
{
    static const char *const variables[] = {"PROFCTL_PAGER", "PAGER"};

    for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
        const char *command = getenv(variables[i]);
        if (command)
            return *command && !streq(command, "cat") ? command : NULL;
    }
    return DEFAULT_PAGER;
}

/* A command with arguments, or with anything else that is a shell's, is run by one. */
static int pager_spawn(const char *command, int fd, pid_t *ret)
{
    bool is_plain = !strpbrk(command, " \t\n|&;<>()$`\\\"'*?[#~=%");
    _cleanup_(freep) char *path = program_in_path(is_plain ? command : "sh");
    char *plain[] = {(char *)command, NULL}, *shell[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    posix_spawn_file_actions_t actions;

    if (!path)
        return -ENOENT;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    int r = spawn_clean(path, &actions, is_plain ? plain : shell, environ, 0, ret);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

void pager_start(struct pager *p, struct screen *s)
{
    const char *command = pager_command();
    int fds[2];

    if (p->pid > 0 || !s->is_terminal || !command)
        return;
    unsigned width = screen_width(s), height = screen_height(s);
    fflush(s->file);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    setenv("LESS", LESS_OPTIONS, 0);
    if (pager_spawn(command, fds[0], &p->pid) == 0 && dup2(fds[1], fileno(s->file)) >= 0) {
        s->paged_width = width;
        s->paged_height = height;
        signal(SIGINT, SIG_IGN);
        signal(SIGQUIT, SIG_IGN);
    }
    close(fds[0]);
    close(fds[1]);
}

int pager_wait(struct pager *p)
{
    int status = 0;

    if (p->pid <= 0)
        return 0;
    fclose(stdout);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) >= STATUS_NOT_RUN ? WEXITSTATUS(status) : 0;
}

/* -- Keys and signals --------------------------------------------------------------------------------- */

sigset_t screen_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void keys_open(struct keys *k)
{
    sigset_t set = screen_signals();

    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *k = (struct keys){.fd = -1, .signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    /* A background process may not change the modes, and would be stopped for the attempt. */
    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &k->before) < 0)
        return;
    struct termios single = k->before;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0)
        k->fd = STDIN_FILENO;
}

void keys_close(struct keys *k)
{
    if (k->fd >= 0)
        tcsetattr(k->fd, TCSANOW, &k->before);
    closep(&k->signal_fd);
    k->fd = -1;
}

int keys_wait(struct keys *k, int64_t deadline_ns)
{
    struct pollfd fds[] = {{k->signal_fd, POLLIN, 0}, {k->fd, POLLIN, 0}};
    struct timeval left = timeval_until(deadline_ns);
    int n = poll(fds, ARRAY_SIZE(fds), (int)(left.tv_sec * 1000 + (left.tv_usec + 999) / 1000));
    unsigned char key;

    if (n <= 0)
        return n < 0 && errno != EINTR ? KEY_END : KEY_NONE;
    if (fds[0].revents)
        return KEY_END;
    return read(k->fd, &key, 1) == 1 ? key : KEY_END;
}
