/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/query.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "client/cli/text.h"
#include <ctype.h>
#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#define HISTORY_LINES 1000
/* Limit of SQLite. */
#define STATEMENT_MAX 1000000

struct repl {
    struct query *q;
    EditLine *el;
    History *history;
    char *history_path;
    char *prompt, *more_prompt;
    int signal_fd;
    char *sql; /* the lines of a statement so far */
    bool is_interrupted, is_over;
    const char *commands[COMMANDS_MAX];
    size_t n_commands;
};

/* -- Names for completion ----------------------------------------------------------------------------- */

/* Completions: commands at the beginning of a statement, names elsewhere. */
static const char *const *repl_candidates(const struct repl *r, const LineInfo *line, const char *prefix,
                                          size_t *ret_n)
{
    if (*prefix == '.' && prefix == line->buffer && !r->sql) {
        *ret_n = r->n_commands;
        return r->commands;
    }
    *ret_n = r->q->schema->n_words;
    return r->q->schema->words;
}

static void repl_print_names(const struct repl *r, const char **matches, size_t n)
{
    const struct screen *s = &r->q->c->err;
    unsigned widest = 0, width = screen_text_width(s), used = 0;

    for (size_t i = 0; i < n; i++)
        widest = MAX(widest, text_columns(matches[i]) + 2);
    fputc('\n', s->file);
    for (size_t i = 0; i < n; i++) {
        if (used + widest > width) {
            fputc('\n', s->file);
            used = 0;
        }
        fprintf(s->file, "%-*s", (int)widest, matches[i]);
        used += widest;
    }
    fputc('\n', s->file);
}

/* Bytes that all matches have in common. */
static size_t repl_common_prefix(const char **matches, size_t n)
{
    size_t size = strlen(matches[0]);

    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < size; k++)
            if (tolower((unsigned char)matches[i][k]) != tolower((unsigned char)matches[0][k]))
                size = k;
    return size;
}

/* Keywords are completed in the case of their first letters. */
static void repl_insert(struct repl *r, const char *word, size_t size, const char *prefix, size_t prefix_size,
                        bool is_complete)
{
    _cleanup_(freep) char *text = xasprintf("%.*s%s", (int)size, word, is_complete ? " " : "");
    bool lower = prefix_size > 0 && islower((unsigned char)prefix[prefix_size - 1]);

    for (char *p = text; *p && lower; p++)
        *p = (char)tolower((unsigned char)*p);
    el_deletestr(r->el, (int)prefix_size);
    el_insertstr(r->el, text);
}

static unsigned char repl_complete(EditLine *el, int key)
{
    struct repl *r = NULL;
    const LineInfo *line = el_line(el);
    const char *begin = line->cursor;
    size_t n, n_matches = 0;

    el_get(el, EL_CLIENTDATA, &r);
    while (begin > line->buffer &&
           (isalnum((unsigned char)begin[-1]) || begin[-1] == '_' || begin[-1] == '.'))
        begin--;
    /* A column follows the alias of a table. */
    for (const char *p = begin; p < line->cursor; p++)
        if (*p == '.' && p > begin)
            begin = p + 1;
    size_t size = (size_t)(line->cursor - begin);
    const char *const *words = repl_candidates(r, line, begin, &n);
    _cleanup_(freep) const char **matches = xcalloc(n + 1, sizeof(*matches));
    for (size_t i = 0; i < n; i++)
        if (strncasecmp(words[i], begin, size) == 0)
            matches[n_matches++] = words[i];
    if (n_matches == 0 || size == 0)
        return CC_REFRESH_BEEP;
    size_t agreed = repl_common_prefix(matches, n_matches);
    _cleanup_(freep) char *prefix = xstrndup(begin, size);
    if (agreed > size || n_matches == 1) {
        repl_insert(r, matches[0], agreed, prefix, size, n_matches == 1);
        return CC_REFRESH;
    }
    repl_print_names(r, matches, n_matches);
    return CC_REDISPLAY;
}

/* -- Lines -------------------------------------------------------------------------------------------- */

/* Receives a signal; false: none is pending. */
static bool repl_take_signal(struct repl *r)
{
    struct signalfd_siginfo info;

    if (read(r->signal_fd, &info, sizeof(info)) != sizeof(info))
        return false;
    r->is_interrupted = true;
    r->is_over |= info.ssi_signo == SIGTERM;
    return true;
}

/* One character; 0 at the end, -1 if a signal is received first. */
static int repl_read_char(EditLine *el, wchar_t *ret)
{
    struct repl *r = NULL;
    mbstate_t state = {0};

    el_get(el, EL_CLIENTDATA, &r);
    for (;;) {
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = r->signal_fd, .events = POLLIN}};
        char byte;
        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            return -1;
        if (fds[1].revents && repl_take_signal(r)) {
            errno = EINTR;
            return -1;
        }
        if (!fds[0].revents)
            continue;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0 && errno != EINTR)
            return (int)n;
        size_t k = mbrtowc(ret, &byte, 1, &state);
        if (k == (size_t)-1)
            state = (mbstate_t){0};
        else if (k != (size_t)-2)
            return 1;
    }
}

static char *repl_prompt(EditLine *el)
{
    struct repl *r = NULL;
    el_get(el, EL_CLIENTDATA, &r);
    return r->sql ? r->more_prompt : r->prompt;
}

static void repl_open_history(struct repl *r)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    _cleanup_(freep) char *directory = state && *state == '/' ? xasprintf("%s/profd", state)
                                       : home && *home == '/' ? xasprintf("%s/.local/state/profd", home)
                                                              : NULL;
    HistEvent event;

    history(r->history, &event, H_SETSIZE, HISTORY_LINES);
    history(r->history, &event, H_SETUNIQUE, 1);
    if (!directory || make_dirs(directory, 0700) < 0)
        return;
    r->history_path = xasprintf("%s/query_history", directory);
    history(r->history, &event, H_LOAD, r->history_path);
}

static int repl_open(struct repl *r)
{
    FILE *err = r->q->c->err.file;
    const sigset_t set = screen_signals();

    r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    r->el = el_init("profctl", stdin, err, err);
    r->history = history_init();
    if (!r->el || !r->history || r->signal_fd < 0)
        return -ENOMEM;
    unsigned width = text_columns(r->q->name);
    r->prompt = xasprintf("%s> ", r->q->name);
    r->more_prompt = xasprintf("%*s-> ", (int)(width > 0 ? width - 1 : 0), "");
    repl_open_history(r);
    el_set(r->el, EL_CLIENTDATA, r);
    el_set(r->el, EL_GETCFN, repl_read_char);
    el_set(r->el, EL_PROMPT, repl_prompt);
    el_set(r->el, EL_HIST, history, r->history);
    el_set(r->el, EL_EDITOR, "emacs");
    el_set(r->el, EL_SIGNAL, 1);
    /* The narrow call keeps copies of both texts, which are never freed. */
    el_wset(r->el, EL_ADDFN, L"complete", L"Complete a name", repl_complete);
    el_set(r->el, EL_BIND, "^I", "complete", NULL);
    el_set(r->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(r->el, NULL);
    return 0;
}

static void repl_close(struct repl *r)
{
    HistEvent event;

    if (r->history && r->history_path)
        history(r->history, &event, H_SAVE, r->history_path);
    if (r->el)
        el_end(r->el);
    if (r->history)
        history_end(r->history);
    closep(&r->signal_fd);
    free(r->history_path);
    free(r->prompt);
    free(r->more_prompt);
    free(r->sql);
}

/* ----------------------------------------------------------------------------------------------------- */

/* As one line, unless it contains a comment, which ends with its line. */
static void repl_add_history(struct repl *r, const char *statement)
{
    _cleanup_(freep) char *text = xstrdup(statement);
    HistEvent event;

    for (char *p = text; *p && !strstr(text, "--"); p++)
        if (*p == '\n')
            *p = p[1] ? ' ' : '\0';
    history(r->history, &event, H_ENTER, text);
}

static void repl_take_line(struct repl *r, const char *text)
{
    static const char *const farewells[] = {"quit", "exit", "quit;", "exit;"};
    size_t n = strlen(text);
    int number = 0;

    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    _cleanup_(freep) char *line = xstrndup(text, n);
    for (size_t i = 0; i < ARRAY_SIZE(farewells); i++)
        r->is_over |= !r->sql && strcasecmp(line, farewells[i]) == 0;
    if (r->is_over)
        return;
    bool is_command = *line == '.' && !r->sql;
    char *sql = xasprintf("%s%s\n", r->sql ? r->sql : "", line);
    free(r->sql);
    r->sql = sql;
    if (!sql[sql_blank(sql)]) {
        free(TAKE_PTR(r->sql));
        return;
    }
    if (!is_command && !sqlite3_complete(r->sql) && strlen(r->sql) <= STATEMENT_MAX)
        return;
    _cleanup_(freep) char *statement = TAKE_PTR(r->sql);
    repl_add_history(r, statement);
    query_run(r->q, statement, NULL, &number);
    r->is_over |= number == SIGTERM || r->q->is_over;
}

static int repl_loop(struct repl *r)
{
    while (!r->is_over) {
        int n = 0;
        r->is_interrupted = false;
        const char *line = el_gets(r->el, &n);
        if (r->is_interrupted) {
            free(TAKE_PTR(r->sql));
            el_reset(r->el);
            fputs("^C\n", r->q->c->err.file);
            continue;
        }
        if (!line || n <= 0) {
            fputc('\n', r->q->c->err.file);
            break;
        }
        repl_take_line(r, line);
        fflush(r->q->c->out.file);
    }
    return EXIT_DONE;
}

int repl_run(struct query *q)
{
    _cleanup_(repl_close) struct repl r = {.q = q, .signal_fd = -1};

    if (repl_open(&r) < 0)
        return client_error(q->c, PROBLEM_INTERNAL, "profctl query TRACE \"SQL\" needs no terminal.",
                            "cannot use this terminal");
    r.n_commands = command_names(r.commands);
    client_note(q->c, "SQL ends with ';'. .schema lists tables, .named lists named queries, .help prints "
                      "all commands.");
    return repl_loop(&r);
}
