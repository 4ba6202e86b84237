/* SPDX-License-Identifier: Apache-2.0 */
/* `profctl launch`: runs a worker under nsys, and imports its report after its end. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/spawning.h"
#include "client/cli/text.h"
#include "client/local/program.h"
#include "client/local/systemd.h"
#include "client/verbs/verbs.h"
#include "extras/nsys/nsys.h"
#include <errno.h>
#include <fcntl.h>
#include <time.h>

struct launch_options {
    const char *profiler, *mode, *unit, *directory;
    struct option_list environment, extra, labels;
    bool user, plain;
};

#define AT(member) offsetof(struct launch_options, member)

/* clang-format off */
static const struct option_def launch_options[] = {
    OPTION_GROUP("Recording"),
    {"mode", 0, "MODE", OPTION_TEXT, AT(mode), "Options of nsys: default, prefill, decode, rtp-llm, or complete to record the entire command"},
    {"profiler", 0, "NAME", OPTION_TEXT, AT(profiler), "Profiler: nsys or none (default: nsys)"},
    {"nsys-option", 0, "WORD", OPTION_LIST, AT(extra), "Additional word for nsys profile (repeatable)"},
    OPTION_GROUP("Process"),
    {"unit", 0, "NAME", OPTION_TEXT, AT(unit), "Name of the systemd unit (default: profctl-launch-TIME-PID)"},
    {"user", 0, NULL, OPTION_FLAG, AT(user), "Use your own systemd, also as root"},
    {"plain", 0, NULL, OPTION_FLAG, AT(plain), "Run a child of profctl instead of a unit"},
    {"setenv", 'E', "NAME[=VALUE]", OPTION_LIST, AT(environment), "Variable for the command, readable by every user of the host (repeatable)"},
    OPTION_GROUP("Output"),
    {"directory", 'd', "DIR", OPTION_TEXT, AT(directory), "Directory for the report (default: the working directory)"},
    {"label", 0, "KEY=VALUE", OPTION_LIST, AT(labels), "Label to store with the traces (repeatable)"},
};
/* clang-format on */

struct launch_run {
    const struct launch_options *o;
    const struct nsys_mode *mode;       /* NULL: no profiler */
    char *nsys, *program, *unit, *base; /* base: absolute, without a suffix */
    char **argv;
    int status; /* the command's */
};

static void launch_run_done(struct launch_run *r)
{
    free(r->nsys);
    free(r->program);
    free(r->unit);
    free(r->base);
    free(r->argv);
}

static int launch_choose_profiler(struct launch_run *r, struct problem *p)
{
    const char *profiler = r->o->profiler ? r->o->profiler : "nsys";

    if (!streq(profiler, "nsys") && !streq(profiler, "none"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--profiler: '%s' is neither nsys nor none",
                           profiler);
    if (streq(profiler, "none") && (r->o->mode || r->o->extra.n > 0))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--mode and --nsys-option are for nsys");
    if (streq(profiler, "none"))
        return 0;
    r->mode = nsys_mode_find(r->o->mode ? r->o->mode : "default", p);
    r->nsys = r->mode ? nsys_find("; --profiler none runs the command without it", p) : NULL;
    return r->nsys ? 0 : -EINVAL;
}

static int launch_choose_names(struct launch_run *r, struct problem *p)
{
    const time_t now = (time_t)(wall_ns() / NS_PER_S);
    struct tm tm;
    char stamp[32] = "";
    _cleanup_(freep) char *directory = realpath(r->o->directory ? r->o->directory : ".", NULL);
    const char *unit = r->o->unit, *suffix = unit && ends_with(unit, ".service") ? "" : ".service";

    strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
    if (!directory || access(directory, W_OK | X_OK) < 0)
        return problem_set(p, -errno, PROBLEM_STORAGE, "cannot write to %s: %s",
                           r->o->directory ? r->o->directory : "the working directory", strerror(errno));
    r->unit = unit ? xasprintf("%s%s", unit, suffix)
                   : xasprintf("profctl-launch-%s-%d.service", stamp, (int)getpid());
    if (strchr(r->unit, '/'))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--unit: '%s' is not the name of a unit", unit);
    if (r->mode)
        r->base = xasprintf("%s/%.*s-%s-%s", directory, (int)(strlen(r->unit) - strlen(".service")), r->unit,
                            r->mode->name, stamp);
    return 0;
}

static int launch_compose(struct launch_run *r, int n_words, char **words, struct problem *p)
{
    r->program = program_in_path(words[0]);
    if (!r->program) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "there is no command %s", words[0]);
        problem_remedy(p, "Commands are searched in PATH; or name its absolute path.");
        return -ENOENT;
    }
    words[0] = r->program;
    if (r->mode) {
        r->argv = nsys_wrap(r->mode, r->nsys, r->base, (int)r->o->extra.n, r->o->extra.items, n_words, words);
        return 0;
    }
    r->argv = xcalloc((size_t)n_words + 1, sizeof(*r->argv));
    memcpy(r->argv, words, (size_t)n_words * sizeof(*words));
    return 0;
}

static void launch_note_begin(struct client *c, const struct launch_run *r, bool in_unit, bool is_user)
{
    if (in_unit)
        client_note(c, "%s runs as %s", r->program, r->unit);
    if (r->mode && r->mode->waits_for_range && in_unit)
        client_note(c, "  To record: profctl start %s %s --activities cuda-profiler --wait",
                    is_user ? "--user-unit" : "--unit", r->unit);
    else if (r->mode && r->mode->waits_for_range)
        client_note(c, "  To record: profctl start --worker URL --activities cuda-profiler --wait");
}

/* Where there is no systemd to ask, a child does as well, unless a unit was asked for. */
static int launch_execute(struct client *c, struct launch_run *r, struct problem *p)
{
    const struct run_order order = {.unit = r->unit, .argv = r->argv, .environment = &r->o->environment};
    _cleanup_(systemd_done) struct systemd systemd = {0};
    bool is_user = r->o->user || geteuid() != 0;
    bool must_be_unit = r->o->unit || r->o->user;
    int err = r->o->plain ? -ENOTSUP : systemd_open(is_user, &systemd, must_be_unit ? p : NULL);

    if (err < 0 && must_be_unit && !r->o->plain)
        return err;
    client_hold_signals();
    fflush(c->out.file);
    launch_note_begin(c, r, err >= 0, is_user);
    if (err >= 0)
        return run_in_unit(c, &systemd, &order, &r->status, p);
    if (!r->o->plain)
        client_note(c, "no systemd on the %s bus: %s runs as a child of profctl, and ends with it",
                    is_user ? "user's" : "system", r->program);
    return run_as_child(c, &order, &r->status, p);
}

static int launch_no_report(struct client *c, const struct launch_run *r)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "nsys wrote no report to %s.nsys-rep", r->base);
    if (r->mode->waits_for_range)
        problem_remedy(
            &p, "It writes one for the time between cudaProfilerStart and cudaProfilerStop: profctl start "
                "--activities cuda-profiler while the command runs, or --mode complete.");
    client_fail(c, &p);
    return EXIT_PARTIAL;
}

/* Takes each report into the catalog, by what nsys exports of it. */
static int launch_collect(struct client *c, const struct launch_run *r)
{
    _cleanup_(nsys_reports_done) struct nsys_reports reports = {0}, databases = {0};
    _cleanup_(freep) char *unit = xasprintf("run.unit=%s", r->unit),
                          *mode = xasprintf("run.mode=%s", r->mode->name),
                          *status = xasprintf("run.status=%d", r->status);
    struct ingest_options o = {0};
    const char *own[] = {unit, mode, status};
    int worst = EXIT_DONE;

    nsys_reports_find(r->base, &reports);
    if (reports.n == 0)
        return launch_no_report(c, r);
    for (size_t i = 0; i < reports.n; i++) {
        _cleanup_(problem_done) struct problem p = {0};
        VEC_GROW(databases.items, databases.n, databases.cap);
        if (nsys_export(r->nsys, reports.items[i], &databases.items[databases.n], &p) < 0)
            worst = client_fail(c, &p);
        else
            databases.n++;
    }
    o.labels.items = xcalloc(ARRAY_SIZE(own) + r->o->labels.n, sizeof(*o.labels.items));
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        o.labels.items[o.labels.n++] = own[i];
    for (size_t i = 0; i < r->o->labels.n; i++)
        o.labels.items[o.labels.n++] = r->o->labels.items[i];
    int status_of_ingest =
        databases.n > 0 ? ingest_words(c, &o, (int)databases.n, databases.items) : EXIT_DONE;
    free(o.labels.items);
    client_note(c, "%s", reports.n == 1 ? reports.items[0] : r->base);
    return worst == EXIT_DONE && status_of_ingest == EXIT_DONE ? EXIT_DONE : EXIT_PARTIAL;
}

static int launch_run(struct client *c, const void *values, int n_words, char **words)
{
    _cleanup_(launch_run_done) struct launch_run r = {.o = values};
    _cleanup_(problem_done) struct problem p = {0};

    if (launch_choose_profiler(&r, &p) < 0 || launch_choose_names(&r, &p) < 0 ||
        launch_compose(&r, n_words, words, &p) < 0 || launch_execute(c, &r, &p) < 0)
        return client_fail(c, &p);
    if (r.status != 0)
        client_note(c, "%s ended with status %d", r.program, r.status);
    int collected = r.mode ? launch_collect(c, &r) : EXIT_DONE;
    return r.status != 0 ? r.status : collected;
}

const struct verb verb_launch = {
    .name = "launch",
    .summary = "Run a worker under nsys and import its report",
    .details =
        "Runs the command as a transient unit of systemd with your rights, until it ends or Ctrl-C ends it. "
        "The exit status is the command's, or 3 if it succeeded but its report could not be imported.",
    .words = "-- COMMAND...",
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(launch_options, struct launch_options),
    .run = launch_run,
};
