/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/analyzing.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/local/user_profd.h"
#include "client/traces/exporting.h"
#include "client/traces/instances.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define CLASSES_BYTES_MAX (1 << 20)

/* Numbers and names in a remedy; more are shown as a range. */
#define NUMBERS_SHOWN    8
#define NUMBERS_TEXT_MAX 256

/* A line of a class without a pattern, or of an unknown class. */
static int refuse_class(struct client *c, const char *path, const char *text, size_t line)
{
    _cleanup_(freep) char *names = NULL;
    bool is_known = false;

    for (size_t i = 1; i < line; i++)
        text += strcspn(text, "\n") + 1;
    text += strspn(text, " \t\r");
    _cleanup_(freep) char *word = xstrndup(text, strcspn(text, " \t\r\n"));
    _cleanup_(freep) char *clean = text_clean(word, false);
    for (int i = 0; i < _KERNEL_CLASS_MAX; i++) {
        const char *name = kernel_class_name((enum kernel_class)i);
        is_known = is_known || streq(name, word);
        append_str(&names, "%s%s", i > 0 ? ", " : "", name);
    }
    const char *remedy = "Write a class and a pattern on each line: attention *my_attn*.";
    return is_known ? client_refuse(c, remedy, "%s, line %zu: class '%s' has no pattern", path, line, clean)
                    : client_refuse(c, remedy, "%s, line %zu: unknown class '%s'; classes: %s", path, line,
                                    clean, names);
}

static int read_classes(struct client *c, const char *path, struct kernel_patterns *ret)
{
    _cleanup_(freep) char *text = NULL;
    size_t line;
    int r = read_file(AT_FDCWD, path, CLASSES_BYTES_MAX, &text, NULL);

    if (r < 0) {
        return client_error(c, PROBLEM_STORAGE,
                            "Name a file with lines of a class and a pattern: attention *my_attn*.",
                            "cannot read the classes in %s: %s", path, strerror(-r));
    }
    r = kernel_patterns_parse(text, ret, &line);
    if (r >= 0)
        return EXIT_DONE;
    if (r == -EINVAL)
        return refuse_class(c, path, text, line);
    return client_refuse(c, "Write fewer lines, each with a class and a pattern: attention *my_attn*.",
                         "%s, line %zu: %s", path, line, strerror(-r));
}

/* The session that a trace is of, and with it all other ranks. */
static int add_session_of(struct client *c, const struct analyzing *o, int64_t id, struct named_ranks *ranks)
{
    _cleanup_json_ trace = NULL;
    _cleanup_(freep) char *path = xasprintf("/v1/traces/t%" PRId64, id);
    int status = client_need_profd(c);

    if (status == EXIT_DONE)
        status = client_get(c, path, "reading the trace", &trace);
    if (status != EXIT_DONE)
        return status;
    const char *session = json_get_str(trace, "session");
    if (!session)
        return client_refuse(c, "profctl analyze t12 t13 names them one by one.",
                             "t%" PRId64 " is of no session", id);
    return ranks_add_session(c, session, ranks);
}

/* With --all-ranks, a file stands for its directory. */
static int add_word(struct client *c, const struct analyzing *o, char *word, struct named_ranks *ranks)
{
    bool is_path = access(word, F_OK) == 0;
    int64_t id = 0;
    char kind = is_path ? 0 : parse_ref(word, 't', &id);

    if (kind == 's')
        return ranks_add_session(c, word, ranks);
    if (kind == 't' && o->all_ranks)
        return add_session_of(c, o, id, ranks);
    if (!o->all_ranks || !is_path)
        return ranks_add_word(c, word, ranks);
    _cleanup_(freep) char *directory = xstrdup(word);
    char *slash = strrchr(directory, '/');
    struct stat st;
    if (stat(word, &st) == 0 && S_ISDIR(st.st_mode))
        return ranks_add_word(c, word, ranks);
    if (slash)
        *slash = '\0';
    return ranks_add_word(c, slash ? directory : (char *)".", ranks);
}

static int open_ranks(struct client *c, const struct analyzing *o, int n_words, char **words,
                      struct named_ranks *ret)
{
    int status = EXIT_DONE;

    if (n_words > RANKS_MAX)
        return ranks_too_many(c);
    for (int i = 0; i < n_words && status == EXIT_DONE; i++)
        status = add_word(c, o, words[i], ret);
    if (status == EXIT_DONE && ret->n + ret->n_left_out == 0)
        return client_error(c, PROBLEM_UNSUPPORTED, "profctl list-traces lists all traces.",
                            "%s has no trace that was read", words[0]);
    if (status == EXIT_DONE)
        status = ranks_settle(c, o->memory_limit, ret);
    client_release_profd(c);
    return status;
}

/* -- Selections without events ------------------------------------------------------------------------ */

static int compare_numbers(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* "Available ranks: 0 to 7.", "Available steps: 3, 9, 12."; NULL for none. Sorts the numbers. */
static char *numbers_text(char buf[NUMBERS_TEXT_MAX], const char *what, int64_t *numbers, size_t n)
{
    size_t used, kept = 0;

    if (n == 0)
        return NULL;
    qsort(numbers, n, sizeof(*numbers), compare_numbers);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || numbers[i] != numbers[kept - 1])
            numbers[kept++] = numbers[i];
    used = (size_t)snprintf(buf, NUMBERS_TEXT_MAX, "Available %s%s: %" PRId64, what, kept > 1 ? "s" : "",
                            numbers[0]);
    if (kept > 2 && (numbers[kept - 1] - numbers[0] == (int64_t)kept - 1 || kept > NUMBERS_SHOWN))
        used += (size_t)snprintf(buf + used, NUMBERS_TEXT_MAX - used, " to %" PRId64, numbers[kept - 1]);
    else
        for (size_t i = 1; i < kept; i++)
            used += (size_t)snprintf(buf + used, NUMBERS_TEXT_MAX - used, ", %" PRId64, numbers[i]);
    snprintf(buf + used, NUMBERS_TEXT_MAX - used, ".");
    return buf;
}

/* Times are counted from the first slice of each trace. An empty result would look like a healthy trace. */
static int check_times(struct client *c, const struct analysis *a)
{
    char from[UNIT_TEXT_MAX], length[UNIT_TEXT_MAX];
    int64_t longest = -1;

    for (size_t i = 0; i < a->n; i++)
        longest = MAX(longest, analysis_since_first(a, i, columns_meta(a->ranks[i].columns, META_last_ns)));
    if (longest < 0 || a->view.from <= longest)
        return EXIT_DONE;
    return client_error(c, PROBLEM_NOT_FOUND, "--from and --to count from the first slice of the trace.",
                        "--from %s is after the end of the trace, which is %s long",
                        format_duration(from, a->view.from), format_duration(length, longest));
}

/* The steps of all ranks. */
struct known_steps {
    int64_t *numbers;
    size_t n, n_in_view;
    bool phases[_STEP_PHASE_MAX];
};

static void known_steps_done(struct known_steps *known)
{
    free(known->numbers);
}

static int known_steps_gather(struct analysis *a, struct known_steps *ret)
{
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct steps *steps;
        int r = analysis_steps(a, rank, &steps);
        if (r < 0)
            return r;
        int64_t *more = reallocarray(ret->numbers, ret->n + steps->n + 1, sizeof(*more));
        if (!more)
            return -ENOMEM;
        ret->numbers = more;
        for (size_t i = 0; i < steps->n; i++) {
            ret->numbers[ret->n++] = steps->items[i].index;
            ret->phases[steps->items[i].phase] = true;
            ret->n_in_view += analysis_has_step(a, rank, &steps->items[i]);
        }
    }
    return 0;
}

/* "Available phases: prefill, decode."; NULL if there are no steps. The caller frees it. */
static char *phases_text(const struct known_steps *known)
{
    char *text = NULL;

    for (int i = 0; i < _STEP_PHASE_MAX; i++)
        if (known->phases[i] && *step_phase_name((enum step_phase)i))
            append_str(&text, "%s%s",
                       text ? ", " : "Available phases: ", step_phase_name((enum step_phase)i));
    if (text)
        append_str(&text, ".");
    return text || known->n == 0 ? text : xstrdup("No step of the trace has a phase.");
}

/* An empty result would look like a healthy trace. */
static int check_steps(struct client *c, struct analysis *a)
{
    _cleanup_(known_steps_done) struct known_steps known = {0};
    const struct analysis_view *view = &a->view;
    char buf[NUMBERS_TEXT_MAX];

    if (view->step == COLUMN_NULL && !view->phase)
        return EXIT_DONE;
    /* An error that prevents reading steps also prevents reports, which print it. */
    if (known_steps_gather(a, &known) < 0 || known.n_in_view > 0)
        return EXIT_DONE;
    bool by_phase = view->step == COLUMN_NULL;
    _cleanup_(freep) char *phases = by_phase ? phases_text(&known) : NULL;
    const char *there = by_phase ? phases : numbers_text(buf, "step", known.numbers, known.n);
    _cleanup_(freep) char *remedy =
        there ? xasprintf("%s profctl analyze --report steps lists steps with phase and begin.", there)
              : xstrdup("The trace has no steps: no range has the name of a step, and none repeats. "
                        "Select a time with --from and --to.");
    if (by_phase)
        return client_error(c, PROBLEM_NOT_FOUND, remedy, "no steps of phase %s%s", view->phase,
                            view->from > VIEW_ALL.from || view->to < VIEW_ALL.to ? " in the selected part"
                                                                                 : "");
    return client_error(c, PROBLEM_NOT_FOUND, remedy, "the selected part has no step %" PRId64 "%s%s",
                        view->step, view->phase ? " of phase " : "", view->phase ? view->phase : "");
}

/* The index of the instance of that name; n_instances: unknown. */
static size_t find_instance(const struct named_ranks *ranks, const char *name)
{
    size_t i = 0;

    while (i < ranks->n_instances && !streq(ranks->instances[i].name, name))
        i++;
    return i;
}

static int no_such_instance(struct client *c, const struct named_ranks *ranks, const char *name)
{
    _cleanup_(freep) const char **names = xcalloc(ranks->n_instances + 1, sizeof(*names));
    _cleanup_(freep) char *all = xstrdup("Instances: ");

    for (size_t i = 0; i < ranks->n_instances; i++) {
        names[i] = ranks->instances[i].name;
        if (i <= NUMBERS_SHOWN)
            append_str(&all, "%s%s", i ? ", " : "", i < NUMBERS_SHOWN ? names[i] : "...");
    }
    _cleanup_(freep) char *remedy = did_you_mean(name, names, ranks->n_instances, all);
    return client_error(c, PROBLEM_NOT_FOUND, remedy, "there is no engine instance %s", name);
}

/* Keeps the selected ranks, and the instances that have any. */
static int choose_ranks(struct client *c, const struct analyzing *o, struct analyzed *a)
{
    struct named_ranks *ranks = &a->ranks;
    struct analysis *analysis = &a->analysis;
    _cleanup_(freep) int64_t *numbers = xcalloc(ranks->n, sizeof(*numbers));
    char buf[NUMBERS_TEXT_MAX];
    size_t chosen = o->instance ? find_instance(ranks, o->instance) : ranks->n_instances, n_numbers = 0;

    if (o->instance && chosen == ranks->n_instances)
        return no_such_instance(c, ranks, o->instance);
    a->instances = xcalloc(ranks->n_instances, sizeof(*a->instances));
    analysis->instances = a->instances;
    analysis->n = 0;
    for (size_t i = 0; i < ranks->n_instances; i++) {
        struct engine_instance instance = ranks->instances[i];
        size_t first = analysis->n;
        for (size_t k = instance.first; k < instance.first + instance.n; k++) {
            const struct named_rank *named = &ranks->items[k];
            struct rank *rank = &analysis->ranks[analysis->n];
            bool is_of_it = !o->instance || i == chosen;
            if (is_of_it)
                numbers[n_numbers++] = named->number;
            if (is_of_it && (o->rank == OPTION_ABSENT || o->rank == named->number)) {
                *rank = (struct rank){.columns = named->columns,
                                      .label = named->label,
                                      .number = named->number,
                                      .shift_ns = named->shift_ns,
                                      .known = {[RANK_GPU] = analysis->ranks[k].known[RANK_GPU]},
                                      .gpu = analysis->ranks[k].gpu};
                analysis->n++;
            } else {
                analysis_done(&(struct analysis){.ranks = &analysis->ranks[k], .n = 1});
            }
        }
        instance.first = first;
        instance.n = analysis->n - first;
        if (instance.n > 0)
            a->instances[analysis->n_instances++] = instance;
    }
    if (analysis->n > 0)
        return EXIT_DONE;
    return client_error(c, PROBLEM_NOT_FOUND, numbers_text(buf, "rank", numbers, n_numbers),
                        "there is no rank %" PRId64, o->rank);
}

static int choose_view(struct client *c, const struct analyzing *o, struct analysis_view *ret)
{
    _cleanup_(problem_done) struct problem p = {0};

    *ret = VIEW_ALL;
    if (o->from != OPTION_ABSENT)
        ret->from = o->from;
    if (o->to != OPTION_ABSENT)
        ret->to = o->to;
    if (o->step != OPTION_ABSENT)
        ret->step = o->step;
    ret->phase = o->phase;
    if (exporting_check_times(ret->from, ret->to, &p) < 0)
        return client_fail(c, &p);
    if (o->phase && step_phase_find(o->phase) == _STEP_PHASE_MAX)
        return client_refuse(c, "profctl analyze TRACE --report steps shows the phase of each step.",
                             "--phase is prefill, decode, mixed or training, not %s", o->phase);
    return EXIT_DONE;
}

int analyzed_open(struct client *c, const struct analyzing *options, int n_words, char **words,
                  struct analyzed *ret)
{
    *ret = (struct analyzed){0};
    int status = choose_view(c, options, &ret->analysis.view);

    if (status == EXIT_DONE && options->classes)
        status = read_classes(c, options->classes, &ret->patterns);
    if (status == EXIT_DONE)
        status = open_ranks(c, options, n_words, words, &ret->ranks);
    ret->analysis.patterns = &ret->patterns;
    ret->analysis.hta = options->hta;
    /* Holistic Trace Analysis takes all traces for ranks of one job. */
    if (status == EXIT_DONE)
        status = ranks_find_instances(c, &ret->ranks, &ret->patterns, options->hta, &ret->analysis.ranks);
    if (status == EXIT_DONE)
        ret->analysis.n = ret->ranks.n;
    if (status == EXIT_DONE && ret->ranks.n > 1)
        status = ranks_align(c, "auto", &ret->ranks);
    if (status == EXIT_DONE)
        status = choose_ranks(c, options, ret);
    if (status == EXIT_DONE)
        status = check_times(c, &ret->analysis);
    return status == EXIT_DONE ? check_steps(c, &ret->analysis) : status;
}

void analyzed_done(struct analyzed *a)
{
    analysis_done(&a->analysis);
    free(a->analysis.ranks);
    free(a->instances);
    kernel_patterns_done(&a->patterns);
    ranks_done(&a->ranks);
}
