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

struct options {
    const char *by, *diff, *output;
    struct analyzing analyzing;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def options[] = {
    {"by", 0, "WHAT", OPTION_TEXT, AT(by),
     "op: operators; stack: Python frames too; kernel: kinds of kernels; default op"},
    {"diff", 0, "TRACE", OPTION_TEXT, AT(diff), "colour by how much longer than in this trace or session"},
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "default: NAME.svg here; - is standard output"},
    ANALYZING_OPTIONS(struct options, analyzing),
};

static int failed(struct client *c, int r, const char *what)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (r == -ENODATA) {
        problem_set(&p, r, PROBLEM_NOT_FOUND, "%s has no time to draw in what was selected", what);
        problem_remedy(
            &p, "--by op, stack and kernel draw different things; profctl analyze shows what there is.");
    } else {
        problem_set(&p, r, PROBLEM_INTERNAL, "cannot draw %s: %s", what, strerror(-r));
    }
    return client_fail(c, &p);
}

/* "trace.json.gz" of "/data/trace.json.gz" */
static const char *base_name(const char *word)
{
    const char *slash = strrchr(word, '/');

    return slash && slash[1] ? slash + 1 : word;
}

/* "trace.svg" of "/data/trace.json.gz" */
static char *default_output(const char *word)
{
    const char *base = base_name(word);
    size_t n = strcspn(base, "./");

    return n > 0 ? xasprintf("%.*s.svg", (int)n, base) : xstrdup("flame.svg");
}

static int write_picture(struct client *c, const struct options *o, const struct flame *f, const char *word)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    _cleanup_(freep) char *path = o->output               ? xstrdup(o->output)
                                  : isatty(STDOUT_FILENO) ? default_output(word)
                                                          : xstrdup("-");
    char total[UNIT_TEXT_MAX];
    _cleanup_(freep) char *clean = text_clean(base_name(word), false),
                          *before = o->diff ? text_clean(base_name(o->diff), false) : NULL;
    _cleanup_(freep) char *title =
        xasprintf("%s · %s%s%s", clean, format_duration(total, f->frames[FLAME_ROOT].total),
                  before ? " · compared with " : "", before ? before : "");
    struct flame_picture picture = {.title = title, .is_difference = o->diff};

    if (output_open(path, &out, &p) < 0)
        return client_fail(c, &p);
    int r = flame_svg_write(f, &picture, out.file);
    if (r < 0)
        return failed(c, r, word);
    _cleanup_(freep) char *name = out.path ? xstrdup(out.path) : NULL;
    if (output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    if (name)
        client_note(c, "%s: %zu frames of %s", name, f->n - (size_t)picture.frames_left_out, total);
    return EXIT_DONE;
}

/* Adds what words name; analyzed stays open, because names of frames are its traces'. */
static int add(struct client *c, const struct options *o, enum flame_by by, char *word, bool is_before,
               struct analyzed *analyzed, struct flame *f)
{
    int status = analyzed_open(c, &o->analyzing, 1, &word, analyzed);

    if (status != EXIT_DONE)
        return status;
    int r = flame_add(f, &analyzed->analysis, by, is_before);
    if (r >= 0 && !is_before && f->frames[FLAME_ROOT].total == 0)
        r = -ENODATA;
    return r < 0 ? failed(c, r, word) : EXIT_DONE;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(analyzed_done) struct analyzed analyzed = {0}, before = {0};
    _cleanup_(flame_done) struct flame f = {0};
    enum flame_by by = o->by ? flame_by_find(o->by) : FLAME_BY_OP;

    if (by == _FLAME_BY_MAX) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--by is op, stack or kernel, not %s", o->by);
        return client_fail(c, &p);
    }
    client_hold_signals();
    int status = add(c, o, by, words[0], false, &analyzed, &f);
    if (status == EXIT_DONE && o->diff)
        status = add(c, o, by, (char *)o->diff, true, &before, &f);
    if (status == EXIT_DONE)
        status = write_picture(c, o, &f, words[0]);
    return ranks_status(&analyzed.ranks, ranks_status(&before.ranks, status));
}

const struct verb verb_flame = {
    .name = "flame",
    .words = "TRACE",
    .summary = "Draw a flame graph of GPU time by the calls that launched it",
    .details =
        "An SVG file for any browser. A click on a frame makes it as wide as the picture, the search field\n"
        "marks frames and sums up their share, \"Self time\" lists names by their own time. A trace without\n"
        "GPU activity is drawn by the host's time.",
    .default_kind = 't',
    .min_words = 1,
    .max_words = 1,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .run = run,
};
