/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/screen.h"
#include "client/local/worker_options.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "extras/nemo_gym/functions.h"
#include <errno.h>

#define TOP_DEFAULT         20
#define INTERVAL_DEFAULT_NS (2 * NS_PER_S)
#define INTERVAL_MIN_NS     (100 * NS_PER_MS)
#define LONGEST_DEFAULT_NS  (600 * NS_PER_S)
/* Lines of the terminal that are not for functions: title, heading, "more", help, the cursor's. */
#define LINES_RESERVED 6

struct functions_options {
    struct source source;
    const char *session, *save, *sort, *workload, *agent, *output;
    int64_t top, interval_ns, limit, concurrency, duration_ns;
    bool live, diff;
};

#define AT(member) offsetof(struct functions_options, member)
/* clang-format off */
static const struct option_def functions_options[] = {
    SOURCE_OPTIONS(struct functions_options),
    OPTION_GROUP("Selection"),
    {"session", 's', "SESSION", OPTION_TEXT, AT(session), "Functions that ran while this session recorded (default: since the launch)"},
    {"sort", 0, "KEY", OPTION_TEXT, AT(sort), "Sort key: " FUNCTION_SORT_KEYS " (default: ttot)"},
    {"top", 0, "N", OPTION_NUMBER, AT(top), "Number of functions, 0 for all (default: 20, in JSON, CSV and TSV all)"},
    {"live", 0, NULL, OPTION_FLAG, AT(live), "Refresh until q or Ctrl-C"},
    {"interval", 0, "DURATION", OPTION_DURATION, AT(interval_ns), "Refresh interval of --live (default: 2s)"},
    {"save", 0, "NAME", OPTION_TEXT, AT(save), "Save the result under a name, for --diff"},
    {"diff", 0, NULL, OPTION_FLAG, AT(diff), "Compare two saved results or sessions: --diff baseline s9"},
    OPTION_GROUP("Load"),
    {"workload", 0, "FILE", OPTION_TEXT, AT(workload), "Rollouts to run, in a JSONL file, while a session records"},
    {"agent", 0, "NAME", OPTION_TEXT, AT(agent), "Agent for lines of --workload that name none"},
    {"limit", 0, "N", OPTION_COUNT, AT(limit), "Maximum number of lines of --workload, from the first"},
    {"concurrency", 0, "N", OPTION_COUNT, AT(concurrency), "Maximum lines of --workload in flight (default: 8)"},
    {"duration", 0, "DURATION", OPTION_DURATION, AT(duration_ns), "Maximum recording time with --workload (default: 10min)"},
    OPTION_GROUP("Output"),
    {"output", 'o', "FILE", OPTION_TEXT, AT(output), "File for the responses to --workload, in JSONL"},
};
/* clang-format on */

static const char *functions_sort_key(const struct functions_options *o)
{
    return o->sort ? o->sort : "ttot";
}

static size_t functions_top(const struct client *c, const struct functions_options *o)
{
    return o->top != OPTION_ABSENT ? (size_t)o->top : !listing_is_text(c) ? 0 : TOP_DEFAULT;
}

static int functions_of_session(struct client *c, const char *word, json_t **ret)
{
    char ref[REF_TEXT_MAX];

    if (client_parse_ref(c, word, 's', "s", ref) < 0)
        return EXIT_USAGE;
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s/functions", ref);
    return client_get(c, path, NULL, ret);
}

static int functions_live_path(struct client *c, const struct functions_options *o, char **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    char *path = xstrdup("/v1/functions");

    if (source_to_query(c, &o->source, &path, &p) < 0) {
        free(path);
        return client_fail(c, &p);
    }
    *ret = path;
    return EXIT_DONE;
}

static int functions_get(struct client *c, const struct functions_options *o, json_t **ret)
{
    _cleanup_(freep) char *path = NULL;

    if (o->session)
        return functions_of_session(c, o->session, ret);
    int status = functions_live_path(c, o, &path);
    return status == EXIT_DONE ? client_get(c, path, "asking for its functions", ret) : status;
}

static int functions_print(struct client *c, const struct functions_options *o, json_t *answer)
{
    _cleanup_(function_rows_done) struct function_rows rows = {0};
    size_t top = functions_top(c, o);

    function_rows_take(answer, &rows);
    function_rows_sort(&rows, functions_sort_key(o));
    if (c->json) {
        _cleanup_json_ out = json_copy(answer);
        json_object_set_new(out, "functions", function_rows_to_json(&rows, top));
        json_object_set_new(out, "findings", function_findings_to_json(&rows));
        return client_print_json(c, out);
    }
    if (listing_is_separated(c))
        return function_rows_print(c, &rows, top);
    function_reasons_print(c, answer);
    if (rows.n == 0) {
        client_note(c, "No function ran, or none was counted.");
        return EXIT_DONE;
    }
    int status = function_rows_print(c, &rows, top);
    if (status == EXIT_DONE && !c->no_legend)
        function_findings_print(c, &rows, answer);
    return status;
}

static int functions_save(struct client *c, const struct functions_options *o, const json_t *answer)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (json_array_size(json_object_get(answer, "functions")) == 0)
        return client_refuse(c, "Record while the server works.", "there is no function to be saved");
    if (baseline_save(o->save, answer, &p) < 0)
        return client_fail(c, &p);
    client_note(c, "Saved as %s. Next: profctl functions --diff %s OTHER", o->save, o->save);
    return EXIT_DONE;
}

/* -- Live -- */

static char *functions_live_text(struct client *c, const struct functions_options *o,
                                 const struct function_rows *rows, const char *name)
{
    char at[UNIT_TEXT_MAX], total[UNIT_TEXT_MAX];
    unsigned height = screen_height(&c->out);
    size_t top = o->top != OPTION_ABSENT   ? (size_t)o->top
                 : height > LINES_RESERVED ? height - LINES_RESERVED
                                           : TOP_DEFAULT;
    if (c->out.is_terminal && height > LINES_RESERVED)
        top = top == 0 ? height - LINES_RESERVED : MIN(top, (size_t)(height - LINES_RESERVED));
    _cleanup_(freep) char *table = function_table_text(c, rows, top);
    int64_t own = 0;
    for (size_t i = 0; i < rows->n; i++)
        own = MIN(own, INT64_MAX - rows->items[i].tsub_ns) + rows->items[i].tsub_ns;

    return xasprintf("%s  %s  since the launch: %s in %zu functions\n%s%s", name, format_time(at, wall_ns()),
                     format_duration(total, own), rows->n, table, c->out.is_terminal ? "q ends\n" : "\n");
}

/* *ret_left: Ctrl-C came while profd was asked. */
static int functions_redraw(struct client *c, const struct functions_options *o, const char *path,
                            const char *name, bool *ret_left)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ answer = NULL;
    _cleanup_(function_rows_done) struct function_rows rows = {0};
    int r = connection_call(c->connection, "GET", path, NULL, NULL, &answer, &p), status = EXIT_DONE;

    *ret_left = r == -EINTR;
    if (r < 0)
        return *ret_left ? EXIT_DONE : client_fail(c, &p);
    function_rows_take(answer, &rows);
    function_rows_sort(&rows, functions_sort_key(o));
    if (!listing_is_text(c)) {
        status = functions_print(c, o, answer);
    } else {
        _cleanup_(freep) char *text = functions_live_text(c, o, &rows, name);
        if (c->out.is_terminal)
            screen_draw(&c->out, text);
        else
            fputs(text, c->out.file);
    }
    return fflush(c->out.file) == 0 ? status : EXIT_FAILED;
}

static int functions_live(struct client *c, const struct functions_options *o)
{
    _cleanup_(freep) char *path = NULL;
    _cleanup_(freep) char *name =
        o->source.workers.n == 1 ? xstrdup(o->source.workers.items[0]) : source_name(&o->source);
    int64_t interval =
        o->interval_ns == OPTION_ABSENT ? INTERVAL_DEFAULT_NS : MAX(o->interval_ns, INTERVAL_MIN_NS);
    struct keys keys;
    int status = functions_live_path(c, o, &path);
    bool left = false;

    if (status != EXIT_DONE)
        return status;
    c->may_page = false;
    keys_open(&keys);
    for (int64_t next = mono_ns(); status == EXIT_DONE && !left;) {
        status = functions_redraw(c, o, path, name, &left);
        next = MAX(next + interval, mono_ns());
        while (status == EXIT_DONE && !left && mono_ns() < next) {
            int key = keys_wait(&keys, next);
            left = key == KEY_END || key == 'q';
        }
    }
    keys_close(&keys);
    screen_settle(&c->out);
    return status;
}

/* -- Two profiles -- */

static int functions_load(struct client *c, const char *word, json_t **ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    int64_t id;

    if (parse_ref(word, 0, &id) == 's')
        return functions_of_session(c, word, ret);
    return baseline_load(word, ret, &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int functions_diff(struct client *c, const struct functions_options *o, char **words)
{
    _cleanup_json_ before = NULL;
    _cleanup_json_ after = NULL;
    _cleanup_(function_rows_done) struct function_rows a = {0};
    _cleanup_(function_rows_done) struct function_rows b = {0};
    _cleanup_(function_changes_done) struct function_changes changes = {0};
    int status = functions_load(c, words[0], &before);

    if (status == EXIT_DONE)
        status = functions_load(c, words[1], &after);
    if (status != EXIT_DONE)
        return status;
    function_rows_take(before, &a);
    function_rows_take(after, &b);
    function_changes_make(&a, &b, &changes);
    if (c->json) {
        _cleanup_json_ j = function_changes_to_json(&changes, words[0], words[1], functions_top(c, o));
        return client_print_json(c, j);
    }
    return function_changes_print(c, &changes, words[0], words[1], functions_top(c, o));
}

static int64_t functions_given(int64_t value, int64_t fallback)
{
    return value == OPTION_ABSENT ? fallback : value;
}

static int functions_check(struct client *c, const struct functions_options *o, int n_words)
{
    struct function_rows none = {0};

    if (o->diff ? n_words != 2 : n_words != 0)
        return client_refuse(c, "profctl functions --diff baseline optimized", "%s",
                             o->diff ? "--diff compares two profiles"
                                     : "functions takes words only with --diff");
    if (o->diff + o->live + !!o->session + !!o->workload > 1)
        return client_refuse(c, "profctl functions --help",
                             "--diff, --live, --session and --workload exclude each other");
    if (!o->workload && (o->agent || o->output || functions_given(o->limit, 0) ||
                         functions_given(o->concurrency, 0) || functions_given(o->duration_ns, 0)))
        return client_refuse(c, "Name a JSONL file of rollouts with --workload.",
                             "--agent, --limit, --concurrency, --duration and --output are for --workload");
    if (o->live && o->save)
        return client_refuse(c, "Leave --live out, or save what a session recorded.", "--live saves nothing");
    if (function_rows_sort(&none, functions_sort_key(o)) < 0)
        return client_refuse(c, "It takes: " FUNCTION_SORT_KEYS ".", "there is no such key for --sort");
    return EXIT_DONE;
}

/* A session of its own, and what ran in it. */
static int functions_run_workload(struct client *c, const struct functions_options *o, json_t **ret)
{
    const struct rollout_options rollouts = {.file = o->workload,
                                             .agent = o->agent,
                                             .output = o->output,
                                             .limit = functions_given(o->limit, 0),
                                             .at_once = functions_given(o->concurrency, ROLLOUTS_AT_ONCE),
                                             .longest_ns =
                                                 functions_given(o->duration_ns, LONGEST_DEFAULT_NS)};
    char session[REF_TEXT_MAX];
    int status = rollout_session(c, &o->source, &rollouts, session);

    if (status != EXIT_DONE && status != EXIT_PARTIAL)
        return status;
    int got = functions_of_session(c, session, ret);
    return got != EXIT_DONE ? got : status;
}

static int functions_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct functions_options *o = values;
    _cleanup_json_ answer = NULL;
    int status = functions_check(c, o, n_words);

    if (status != EXIT_DONE)
        return status;
    if (o->diff)
        return functions_diff(c, o, words);
    if (o->live)
        return functions_live(c, o);
    status = o->workload ? functions_run_workload(c, o, &answer) : functions_get(c, o, &answer);
    if (!answer)
        return status;
    int shown = o->save ? functions_save(c, o, answer) : functions_print(c, o, answer);
    return shown != EXIT_DONE ? shown : status;
}

const struct verb verb_functions = {
    .name = "functions",
    .summary = "Show the slowest functions of NeMo Gym's servers",
    .details = "Servers count from their launch; a session counts only what runs while it records. With "
               "--diff, NAMEs are names given by --save, or sessions.",
    .words = "[NAME NAME]",
    .default_kind = 's',
    .max_words = 2,
    VERB_OPTIONS(functions_options, struct functions_options),
    .has_listing = true,
    .needs_only_catalog = true,
    .run = functions_run,
};
