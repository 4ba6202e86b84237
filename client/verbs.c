/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs.h"

#include "base/alloc.h"
#include "client/text/text.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>

#define USAGE_COLUMNS 26 /* of the list of verbs: where summaries begin */

static const struct verb verb_help_page;

/* clang-format off */
const struct verb *const verbs[] = {
    &verb_list_workers,
    &verb_doctor,
    &verb_start,
    &verb_timeline,
    &verb_run,
    &verb_nsys_command,
    &verb_torch_command,
    &verb_status,
    &verb_stop,
    &verb_list_sessions,
    &verb_bench,
    &verb_list_runs,
    &verb_audit,
    &verb_compare,
    &verb_list_traces,
    &verb_ingest,
    &verb_query,
    &verb_export,
    &verb_merge,
    &verb_analyze,
    &verb_flame,
    &verb_diff,
    &verb_functions,
    &verb_reports,
    &verb_show,
    &verb_get,
    &verb_open,
    &verb_rm,
    &verb_pin,
    &verb_unpin,
    &verb_du,
    &verb_vacuum,
    &verb_events,
    &verb_token,
    &verb_help_page,
    NULL,
};
/* clang-format on */

const struct verb *verb_find(const char *name)
{
    for (const struct verb *const *v = verbs; *v; v++)
        if (streq((*v)->name, name))
            return *v;
    return NULL;
}

void verb_help(FILE *out, const struct verb *v)
{
    fprintf(out, "profctl %s [OPTION...]%s%s\n\n%s.\n", v->name, *v->words ? " " : "", v->words, v->summary);
    if (v->details)
        fprintf(out, "\n%s\n", v->details);
    if (v->n_options > 0)
        fputs("\nOptions:\n", out);
    options_help(out, &(struct option_set){.defs = v->options, .n = v->n_options});
    fputs("\nOptions of every verb:\n", out);
    options_help(out, &(struct option_set){.defs = global_options, .n = n_global_options});
}

void verbs_help(FILE *out)
{
    fputs("profctl [OPTION...] VERB [OPTION...] [WORD...]\n\n"
          "Record LLM inference workers together, and get at their traces.\n\nVerbs:\n",
          out);
    for (const struct verb *const *v = verbs; *v; v++) {
        _cleanup_(freep) char *usage = xasprintf("%s%s%s", (*v)->name, *(*v)->words ? " " : "", (*v)->words);
        if (strlen(usage) < USAGE_COLUMNS)
            fprintf(out, "  %-*s%s\n", USAGE_COLUMNS, usage, (*v)->summary);
        else
            fprintf(out, "  %s\n  %*s%s\n", usage, USAGE_COLUMNS, "", (*v)->summary);
    }
    fputs("\nOptions of every verb:\n", out);
    options_help(out, &(struct option_set){.defs = global_options, .n = n_global_options});
    fputs("\nIds carry their kind: s7 is a session, t12 a trace, r3 a run.\n"
          "Exit status: 0 done, 1 failed, 2 usage, 3 partial, 4 not found, 5 a condition holds.\n"
          "See profctl(1).\n",
          out);
}

static int run_help(struct client *c, const void *options, int n_words, char **words)
{
    const struct verb *v = n_words > 0 ? verb_find(words[0]) : NULL;

    if (n_words > 0 && !v)
        return verb_unknown(c, words[0]);
    if (v)
        verb_help(c->out.file, v);
    else
        verbs_help(c->out.file);
    return EXIT_DONE;
}

static const struct verb verb_help_page = {
    .name = "help",
    .words = "[VERB]",
    .summary = "Say what profctl or a verb of it does",
    .max_words = 1,
    .run = run_help,
};

int verb_unknown(struct client *c, const char *name)
{
    _cleanup_(freep) char *clean = text_clean(name, false);
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "there is no verb '%s'", clean);
    for (const struct verb *const *v = verbs; *v; v++)
        if (*name && (strstr((*v)->name, name) || starts_with(name, (*v)->name))) {
            problem_remedy(&p, "Is it %s? profctl help lists them all.", (*v)->name);
            return client_fail(c, &p);
        }
    problem_remedy(&p, "profctl help lists them.");
    return client_fail(c, &p);
}

static const char *kinds_in_words(const char *kinds)
{
    static const struct {
        const char *kinds, *words;
    } table[] = {
        {"s", "a session, such as s7"},
        {"t", "a trace, such as t12"},
        {"r", "a run, such as r3"},
        {"sr", "a session or a run, such as s7 or r3"},
        {"str", "a trace, a session or a run, such as t12, s7 or r3"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (streq(table[i].kinds, kinds))
            return table[i].words;
    return "a session or a trace, such as s7 or t12";
}

char *verb_ref_path(const char *ref)
{
    return xasprintf("/v1/%s/%s", ref[0] == 's' ? "sessions" : ref[0] == 'r' ? "runs" : "traces", ref);
}

int verb_ref(struct client *c, const char *word, char own_kind, const char *kinds, char *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    int64_t id;
    char kind = parse_ref(word, own_kind, &id);

    if (kind && strchr(kinds, kind)) {
        snprintf(ret, REF_TEXT_MAX, "%c%lld", kind, (long long)id);
        return 0;
    }
    _cleanup_(freep) char *clean = text_clean(word, false);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "'%s' is not %s", clean, kinds_in_words(kinds));
    if (strchr(kinds, 't') && access(word, F_OK) == 0)
        problem_remedy(&p, "profctl query %s asks that file, profctl ingest %s takes it into the catalog.",
                       clean, clean);
    else
        problem_remedy(&p, "profctl list-sessions, list-traces and list-runs show the ids.");
    client_fail(c, &p);
    return -EINVAL;
}

static int exit_status_of(enum problem_kind kind)
{
    switch (kind) {
    case PROBLEM_BAD_REQUEST:
        return EXIT_USAGE;
    case PROBLEM_NOT_FOUND:
    case PROBLEM_GONE:
        return EXIT_NOT_FOUND;
    default:
        return EXIT_FAILED;
    }
}

/* Where nobody looks, a line stays a line, for grep. */
static char *wrap(const struct screen *s, const char *text, unsigned indent)
{
    return text_wrap(text, indent, s->is_terminal ? screen_text_width(s) : UINT_MAX);
}

int client_fail(struct client *c, const struct problem *p)
{
    FILE *err = c->err.file;
    _cleanup_(freep) char *what = text_clean(p->what, false), *remedy = text_clean(p->remedy, true);

    _cleanup_(freep) char *line = xasprintf("profctl: %s", what ? what : "failed"),
                          *wrapped_line = wrap(&c->err, line, 4);
    fprintf(err, "%s%s%s\n", screen_colour(&c->err, COLOUR_BAD), wrapped_line, screen_plain(&c->err));
    if (remedy) {
        _cleanup_(freep) char *wrapped = wrap(&c->err, remedy, 2);
        fprintf(err, "  %s\n", wrapped);
    }
    return exit_status_of(p->kind);
}

void client_say(struct client *c, const char *format, ...)
{
    if (c->quiet)
        return;
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap), *clean = text_clean(text, true);
    va_end(ap);
    size_t indent = strspn(clean, " ");
    _cleanup_(freep) char *wrapped = wrap(&c->err, clean + indent, (unsigned)indent);
    /* In the order in which it was said, where both are one terminal. */
    fflush(c->out.file);
    fprintf(c->err.file, "%*s%s\n", (int)indent, "", wrapped);
}

int client_print_json(struct client *c, const json_t *j)
{
    /* Escapes what could steer a terminal; still the same JSON. */
    size_t flags = c->out.is_terminal ? JSON_INDENT(2) | JSON_ENSURE_ASCII : JSON_COMPACT;
    json_dumpf(j, c->out.file, flags | JSON_ENCODE_ANY);
    fputc('\n', c->out.file);
    return EXIT_DONE;
}

int client_get(struct client *c, const char *path, const char *doing, json_t **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    json_t *j = NULL;

    if (door_call(c->door, "GET", path, NULL, doing, &j, &p) < 0)
        return client_fail(c, &p);
    *ret = j;
    return EXIT_DONE;
}
