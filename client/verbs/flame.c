/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/flame.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/output.h"
#include "client/cli/text.h"
#include "client/traces/analyzing.h"
#include "client/verbs/verbs.h"
#include "client/views/flame_svg.h"
#include <errno.h>

struct flame_options {
    const char *by, *diff, *output;
    struct analyzing analyzing;
};

#define AT(member) offsetof(struct flame_options, member)

/* clang-format off */
static const struct option_def flame_options[] = {
    OPTION_GROUP("Output"),
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "File to write, - for standard output (default: named after the trace)"},
    {"by", 0, "FRAMES", OPTION_TEXT, AT(by), "Frames: op for operators, stack for Python frames too, kernel for kinds of kernels (default: op)"},
    {"diff", 0, "TRACE", OPTION_TEXT, AT(diff), "Color frames by their change since this trace or session"},
    OPTION_GROUP("Selection"),
    ANALYZING_OPTIONS(struct flame_options, analyzing),
};
/* clang-format on */

static int flame_failed(struct client *c, int r, const char *what)
{
    if (r == -ENODATA)
        return client_error(
            c, PROBLEM_NOT_FOUND,
            "Try another --by (op, stack, kernel); profctl analyze shows the contents of the trace.",
            "%s: the selection contains no time to draw", what);
    return client_error(c, PROBLEM_INTERNAL, NULL, "cannot draw %s: %s", what, strerror(-r));
}

/* "trace.json.gz" of "/data/trace.json.gz" */
static const char *flame_base_name(const char *word)
{
    const char *slash = strrchr(word, '/');

    return slash && slash[1] ? slash + 1 : word;
}

static int flame_write(struct client *c, const struct flame_options *o, const struct flame *f,
                       const char *word)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    const char *base = flame_base_name(word);
    int n = (int)strcspn(base, "./");
    /* "trace.svg" of "/data/trace.json.gz" */
    _cleanup_(freep) char *named =
                              xasprintf("%.*s.svg", n > 0 ? n : (int)strlen("flame"), n > 0 ? base : "flame"),
                          *path = output_path(o->output, named);
    char total[UNIT_TEXT_MAX];
    _cleanup_(freep) char *clean = text_clean(base, false),
                          *before = o->diff ? text_clean(flame_base_name(o->diff), false) : NULL;
    _cleanup_(freep) char *title =
        xasprintf("%s · %s%s%s", clean, format_duration(total, f->frames[FLAME_ROOT].total),
                  before ? " · compared with " : "", before ? before : "");
    struct flame_picture picture = {.title = title, .is_difference = o->diff};

    if (output_open(path, &out, &p) < 0)
        return client_fail(c, &p);
    int r = flame_svg_write(f, &picture, out.file);
    if (r < 0)
        return flame_failed(c, r, word);
    _cleanup_(freep) char *name = out.path ? xstrdup(out.path) : NULL;
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    if (name)
        client_note(c, "%s: %zu frames of %s", name, f->n - (size_t)picture.frames_left_out, total);
    return EXIT_DONE;
}

/* Adds the trace of a word; analyzed stays open because frames borrow its names. */
static int flame_add_word(struct client *c, const struct flame_options *o, enum flame_by by, char *word,
                          bool is_before, struct analyzed *analyzed, struct flame *f)
{
    int status = analyzed_open(c, &o->analyzing, 1, &word, analyzed);

    if (status != EXIT_DONE)
        return status;
    int r = flame_add(f, &analyzed->analysis, by, is_before);
    if (r >= 0 && !is_before && f->frames[FLAME_ROOT].total == 0)
        r = -ENODATA;
    return r < 0 ? flame_failed(c, r, word) : EXIT_DONE;
}

static int flame_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct flame_options *o = values;
    _cleanup_(analyzed_done) struct analyzed analyzed = {0}, before = {0};
    _cleanup_(flame_done) struct flame f = {0};
    enum flame_by by = o->by ? flame_by_find(o->by) : FLAME_BY_OP;

    if (by == _FLAME_BY_MAX)
        return client_refuse(c, "Pass --by op, --by stack or --by kernel.",
                             "--by is op, stack or kernel, not %s", o->by);
    client_hold_signals();
    int status = flame_add_word(c, o, by, words[0], false, &analyzed, &f);
    if (status == EXIT_DONE && o->diff)
        status = flame_add_word(c, o, by, (char *)o->diff, true, &before, &f);
    if (status == EXIT_DONE)
        status = flame_write(c, o, &f, words[0]);
    return ranks_status(&analyzed.ranks, ranks_status(&before.ranks, status));
}

const struct verb verb_flame = {
    .name = "flame",
    .summary = "Draw a flame graph of GPU time by launching call",
    .details = "An SVG file for any browser: click a frame to zoom, search by regular expression, list names "
               "by self time. A trace without GPU activity shows host time.",
    .words = "TRACE",
    .default_kind = 't',
    .min_words = 1,
    .max_words = 1,
    VERB_OPTIONS(flame_options, struct flame_options),
    .run = flame_run,
};
