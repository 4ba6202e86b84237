/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/client.h"

#include "base/alloc.h"
#include "base/uuid.h"
#include "client/cli/text.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>

/* Lines that no terminal shows are not wrapped, so that grep finds them in one piece. */
static char *wrap_message(const struct screen *s, const char *text, unsigned indent)
{
    return text_wrap(text, indent, s->is_terminal ? screen_text_width(s) : UINT_MAX);
}

/* While a pager has the terminal, messages go through the pager. */
static FILE *message_file(const struct client *c)
{
    return c->pager.pid > 0 && c->err.is_terminal ? c->out.file : c->err.file;
}

int client_fail(struct client *c, const struct problem *p)
{
    FILE *err = message_file(c);
    _cleanup_(freep) char *what = text_clean(p->what, false), *remedy = text_clean(p->remedy, true);
    _cleanup_(freep) char *line = xasprintf("profctl: %s", what ? what : "failed");
    _cleanup_(freep) char *wrapped_line = wrap_message(&c->err, line, 4);

    fprintf(err, "%s%s%s\n", screen_colour(&c->err, COLOUR_BAD), wrapped_line, screen_plain(&c->err));
    if (remedy) {
        _cleanup_(freep) char *wrapped = wrap_message(&c->err, remedy, 2);
        fprintf(err, "  %s\n", wrapped);
    }
    return p->kind == PROBLEM_BAD_REQUEST                            ? EXIT_USAGE
           : p->kind == PROBLEM_NOT_FOUND || p->kind == PROBLEM_GONE ? EXIT_NOT_FOUND
                                                                     : EXIT_FAILED;
}

int client_error(struct client *c, enum problem_kind kind, const char *remedy, const char *format, ...)
{
    _cleanup_(problem_done) struct problem p = {0};
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *what = xvasprintf(format, ap);
    va_end(ap);
    problem_set(&p, -EINVAL, kind, "%s", what);
    if (remedy)
        problem_remedy(&p, "%s", remedy);
    return client_fail(c, &p);
}

void client_note(struct client *c, const char *format, ...)
{
    if (c->quiet)
        return;
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap), *clean = text_clean(text, true);
    va_end(ap);
    size_t indent = strspn(clean, " ");
    _cleanup_(freep) char *wrapped = wrap_message(&c->err, clean + indent, (unsigned)indent);
    /* stdout first, so that both appear in order on one terminal. */
    fflush(c->out.file);
    fprintf(message_file(c), "%*s%s\n", (int)indent, "", wrapped);
}

bool client_can_ask(const struct client *c)
{
    return isatty(STDIN_FILENO) && c->err.is_terminal;
}

bool client_confirm(struct client *c, const char *format, ...)
{
    char answer[16];

    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap), *clean = text_clean(text, false);
    va_end(ap);
    fflush(c->out.file);
    fprintf(c->err.file, "%s [y/N] ", clean);
    fflush(c->err.file);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

void client_page(struct client *c)
{
    if (c->may_page)
        pager_start(&c->pager, &c->out);
}

int client_print_json(struct client *c, const json_t *j)
{
    client_page(c);
    screen_json(&c->out, j, c->out.is_terminal ? JSON_INDENT(2) : JSON_COMPACT);
    fputc('\n', c->out.file);
    return EXIT_DONE;
}

void client_hold_signals(void)
{
    const sigset_t set = screen_signals();

    sigprocmask(SIG_BLOCK, &set, NULL);
}

static const char *describe_kinds(const char *kinds)
{
    static const struct {
        const char *kinds, *words;
    } table[] = {
        {"s", "a session, such as s7"},
        {"t", "a trace, such as t12"},
        {"r", "a benchmark run, such as r3"},
        {"sr", "a session or a benchmark run, such as s7 or r3"},
        {"str", "a trace, a session or a benchmark run, such as t12, s7 or r3"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (streq(table[i].kinds, kinds))
            return table[i].words;
    return "a session or a trace, such as s7 or t12";
}

int client_parse_ref(struct client *c, const char *word, char default_kind, const char *kinds, char *ret)
{
    int64_t id;
    char kind = parse_ref(word, default_kind, &id);

    if (kind && strchr(kinds, kind)) {
        snprintf(ret, REF_TEXT_MAX, "%c%lld", kind, (long long)id);
        return 0;
    }
    _cleanup_(freep) char *clean = text_clean(word, false);
    _cleanup_(freep) char *of_file =
        xasprintf("profctl query %s queries that file; profctl ingest %s imports it.", clean, clean);
    bool is_file = strchr(kinds, 't') && access(word, F_OK) == 0;
    const char *remedy = is_file ? of_file
                         : uuid_is_too_short(word)
                             ? "Of a UUID, give the first 8 characters or more."
                             : "profctl list-sessions, list-traces and list-runs show the ids.";
    client_refuse(c, remedy, "'%s' is not %s", clean, describe_kinds(kinds));
    return -EINVAL;
}
