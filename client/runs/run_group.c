/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/run_group.h"

#include "base/alloc.h"
#include "base/text.h"
#include "client/cli/text.h"
#include "client/runs/benchmark.h"
#include "client/views/run.h"

#include <errno.h>

#define PAGE_ROWS 100

static bool has_figures(const json_t *run)
{
    return json_is_object(json_object_get(run, "metrics"));
}

/* -- By ids ------------------------------------------------------------------------------------------- */

static bool runs_contain(const json_t *runs, const char *ref)
{
    char known[RUN_REF_MAX];
    const json_t *run;
    size_t i;

    json_array_foreach(runs, i, run)
        if (streq(run_ref(known, run), ref))
            return true;
    return false;
}

static int runs_add(struct client *c, const char *word, json_t *runs)
{
    _cleanup_json_ run = NULL;
    char ref[REF_TEXT_MAX];

    if (client_parse_ref(c, word, 'r', "r", ref) < 0)
        return EXIT_USAGE;
    if (runs_contain(runs, ref))
        return client_refuse(c, "Name each run once.", "%s is listed twice", ref);
    if (json_array_size(runs) == RUN_GROUP_MAX)
        return client_refuse(c, "Name fewer runs.", "%s is one run too many", ref);
    int status = client_get_ref(c, ref, &run);
    if (status != EXIT_DONE)
        return status;
    if (has_figures(run)) {
        json_array_append(runs, run);
        return EXIT_DONE;
    }
    return client_error(c, PROBLEM_CONFLICT, "profctl show prints the state of a run.",
                        "%s has no measurements to compare", ref);
}

static int runs_get_by_refs(struct client *c, const char *word, json_t *runs)
{
    const char *rest = word, *start;
    int status = EXIT_DONE;

    for (size_t size; status == EXIT_DONE && (size = words_next(&rest, &start)) > 0;) {
        _cleanup_(freep) char *one = xstrndup(start, size);
        status = runs_add(c, one, runs);
    }
    return status == EXIT_DONE && json_array_size(runs) == 0 ? runs_add(c, word, runs) : status;
}

/* -- By labels ---------------------------------------------------------------------------------------- */

static bool json_has_text(const json_t *value, const char *wanted)
{
    _cleanup_(freep) char *text =
        json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    return streq(json_is_string(value) ? json_string_value(value) : text, wanted);
}

/* All of "key=value,key=value". */
static bool run_matches(const json_t *run, const char *word)
{
    const char *rest = word, *start;

    for (size_t size; (size = words_next(&rest, &start)) > 0;) {
        _cleanup_(freep) char *one = xstrndup(start, size);
        char *value = strchr(one, '=');
        if (!value)
            return false;
        *value++ = '\0';
        const json_t *label = json_object_get(json_object_get(run, "labels"), one);
        if (!json_has_text(label ? label : json_object_get(json_object_get(run, "workload"), one), value))
            return false;
    }
    return true;
}

static int runs_get_by_labels(struct client *c, const char *word, json_t *runs)
{
    char last[RUN_REF_MAX] = "";

    for (;;) {
        _cleanup_(freep) char *path = xstrdup("/v1/runs");
        _cleanup_json_ answer = NULL;
        size_t i;
        json_t *run;
        url_add_int(&path, "limit", PAGE_ROWS);
        url_add(&path, "before", *last ? last : NULL);
        int status = client_get(c, path, "listing runs", &answer);
        if (status != EXIT_DONE)
            return status;
        const json_t *page = json_object_get(answer, "runs");
        json_array_foreach(page, i, run) {
            char ref[RUN_REF_MAX];
            /* A page that repeats runs must not loop forever. */
            if (has_figures(run) && run_matches(run, word) && !runs_contain(runs, run_ref(ref, run)) &&
                json_array_size(runs) < RUN_GROUP_MAX)
                json_array_insert(runs, 0, run);
        }
        char next[RUN_REF_MAX];
        run_ref(next, json_array_get(page, json_array_size(page) - 1));
        if (json_array_size(page) < PAGE_ROWS || streq(next, last))
            break;
        strcpy(last, next);
    }
    if (json_array_size(runs) > 0)
        return EXIT_DONE;
    return client_error(c, PROBLEM_NOT_FOUND, "profctl list-runs prints the labels of runs.",
                        "no run with figures has %s", word);
}

/* ----------------------------------------------------------------------------------------------------- */

/* The first member in which the workloads of two runs differ, or NULL. */
static const char *workload_difference(const json_t *run_a, const json_t *run_b)
{
    json_t *a = json_object_get(run_a, "workload"), *b = json_object_get(run_b, "workload"), *value;
    const char *member;

    if (!streq(json_get_str(run_a, "model"), json_get_str(run_b, "model")))
        return "model";
    json_object_foreach(a, member, value)
        if (!json_equal(value, json_object_get(b, member)))
            return member;
    json_object_foreach(b, member, value)
        if (!json_object_get(a, member))
            return member;
    return NULL;
}

static int runs_check_workloads(struct client *c, const char *word, const json_t *runs)
{
    const json_t *first = json_array_get(runs, 0), *run;
    const char *member;
    char refs[2][RUN_REF_MAX];
    size_t i;

    json_array_foreach(runs, i, run)
        if ((member = workload_difference(first, run)))
            return client_error(c, PROBLEM_CONFLICT,
                                "Choose runs of one workload: r3,r4,r5, or a label and a member of the "
                                "workload, as job=nightly,concurrency=8.",
                                "the runs of '%s' have different workloads: %s of %s and %s", word, member,
                                run_ref(refs[0], first), run_ref(refs[1], run));
    return EXIT_DONE;
}

int run_group_get(struct client *c, const char *word, json_t **ret)
{
    _cleanup_json_ runs = json_array();
    int status = strchr(word, '=') ? runs_get_by_labels(c, word, runs) : runs_get_by_refs(c, word, runs);

    if (status == EXIT_DONE)
        status = runs_check_workloads(c, word, runs);
    if (status == EXIT_DONE)
        *ret = TAKE_PTR(runs);
    return status;
}

static char *runs_join(const json_t *runs, const char *separator)
{
    char ref[RUN_REF_MAX], *text = xstrdup("");
    const json_t *run;
    size_t i;

    json_array_foreach(runs, i, run)
        append_str(&text, "%s%s", i ? separator : "", run_ref(ref, run));
    return text;
}

char *run_group_text(const json_t *runs)
{
    return runs_join(runs, ", ");
}

char *run_group_words(const json_t *runs)
{
    return runs_join(runs, ",");
}
