/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/traces/exporting.h"
#include "client/traces/ranks.h"
#include "client/verbs/verbs.h"
#include <errno.h>

struct options {
    const char *session, *output, *align;
    struct exporting exporting;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"session", 's', "s7", OPTION_TEXT, AT(session), "all ranks of a session"},
    {"output", 'o', "FILE", OPTION_TEXT, AT(output),
     "compressed where it ends in .gz; default standard output"},
    {"align", 0, "HOW", OPTION_TEXT, AT(align), "clocks by: auto, wall, collectives, start; default auto"},
    EXPORTING_OPTIONS(struct options, exporting),
};

static int check(struct client *c, const struct named_ranks *ranks, int n_words, const char *session)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (n_words == 0 && !session) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "merge needs traces");
        problem_remedy(&p, "profctl merge --session s7 -o all-ranks.json.gz, or name traces: t12 t13");
    } else if (ranks->n + ranks->n_left_out == 0) {
        problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "%s has no trace that can be merged", session);
    } else {
        return EXIT_DONE;
    }
    return client_fail(c, &p);
}

/* A terminal gets no megabytes of JSON. */
static char *choose_output(const struct options *o)
{
    if (o->output || !isatty(STDOUT_FILENO))
        return xstrdup(o->output ? o->output : "-");
    return xasprintf("%s.json.gz", o->session ? o->session : "merged");
}

static int write_merged(struct client *c, const struct options *o, struct named_ranks *ranks)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    _cleanup_(freep) char *path = choose_output(o);
    struct export_options selected;
    int64_t slices;

    if (exporting_selection(&o->exporting, &selected, &p) < 0 || output_open(path, &out, &p) < 0)
        return client_fail(c, &p);
    int r = ranks_export(ranks, &selected, out.file, &slices);
    if (r < 0)
        return exporting_failed(c, out.path ? out.path : "the traces", r);
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    _cleanup_(freep) char *count = text_count((int64_t)ranks->n, "trace");
    _cleanup_(freep) char *more = xasprintf("; %s on one clock", count);
    if (out.path)
        exporting_say(c, out.path, slices, more);
    return EXIT_DONE;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(ranks_done) struct named_ranks ranks = {0};
    int status = EXIT_DONE;

    client_hold_signals();
    if (o->session)
        status = ranks_add_session(c, o->session, &ranks);
    if (n_words > RANKS_MAX)
        return ranks_too_many(c);
    for (int i = 0; i < n_words && status == EXIT_DONE; i++)
        status = ranks_add_word(c, words[i], &ranks);
    if (status == EXIT_DONE)
        status = check(c, &ranks, n_words, o->session);
    if (status == EXIT_DONE)
        status = ranks_settle(c, o->exporting.memory_limit, &ranks);
    if (status != EXIT_DONE)
        return status;
    client_release_profd(c);
    status = ranks_align(c, o->align ? o->align : "auto", &ranks);
    return status == EXIT_DONE ? ranks_status(&ranks, write_merged(c, o, &ranks)) : status;
}

const struct verb verb_merge = {
    .name = "merge",
    .words = "[TRACE...]",
    .summary = "Write several traces as one, ranks as processes",
    .details =
        "For ui.perfetto.dev and chrome://tracing. Clocks are aligned by wall-clock time; where collectives\n"
        "show that a host's clock is off by more than a millisecond, it is moved, and that is said.",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
