/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/local/worker_options.h"
#include "client/verbs/verbs.h"

struct options {
    struct source source;
};

static const struct option_def options[] = {
    SOURCE_OPTIONS(struct options),
};

/* Longer than "ok", "warn" and "FAIL", and not so long as "unknown", which is rare. */
#define TEXT_COLUMN 6

static const struct {
    const char *result, *shown;
    enum colour colour;
} results[] = {
    {"ok", "ok", COLOUR_GOOD},
    {"warn", "warn", COLOUR_WARN},
    {"fail", "FAIL", COLOUR_BAD},
    {"unknown", "unknown", COLOUR_WARN},
};

/* "on http://a, http://b and 58 more": a long list is in --json. */
#define NAMED_MAX 8

static void print_workers(struct client *c, const json_t *urls, unsigned width)
{
    size_t n = json_array_size(urls), size;
    char *list = NULL;

    if (n < 2)
        return;
    FILE *out = xmemstream(&list, &size);
    if (!out)
        return;
    for (size_t i = 0; i < MIN(n, (size_t)NAMED_MAX); i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "on ", json_string_value(json_array_get(urls, i)));
    if (n > NAMED_MAX)
        fprintf(out, " and %zu more (--json lists all)", n - NAMED_MAX);
    fclose(out);
    _cleanup_(freep) char *clean = text_clean(list, false), *wrapped = text_wrap(clean, TEXT_COLUMN, width);
    fprintf(c->out.file, "%*s%s\n", TEXT_COLUMN, "", wrapped);
    free(list);
}

static void print_check(struct client *c, const json_t *check)
{
    const char *result = json_get_str(check, "result"), *shown = result ? result : "unknown";
    const char *text = json_get_str(check, "text"), *worker = json_get_str(check, "worker");
    enum colour colour = COLOUR_NONE;
    unsigned width = screen_text_width(&c->out);
    const json_t *urls = json_object_get(check, "urls");
    bool names_worker = worker && text && json_array_size(urls) < 2 && !strstr(text, worker);

    for (size_t i = 0; i < ARRAY_SIZE(results); i++)
        if (streq(results[i].result, result)) {
            shown = results[i].shown;
            colour = results[i].colour;
        }
    _cleanup_(freep) char *line =
        xasprintf("%s%s%s", names_worker ? worker : "", names_worker ? ": " : "", text ? text : "");
    _cleanup_(freep) char *clean = text_clean(line, true), *wrapped = text_wrap(clean, TEXT_COLUMN, width);
    _cleanup_(freep) char *tag = text_clean(shown, false);
    int pad = MAX(TEXT_COLUMN - (int)strlen(tag), 2);
    fprintf(c->out.file, "%s%s%s%*s%s\n", screen_colour(&c->out, colour), tag, screen_plain(&c->out), pad, "",
            wrapped);

    print_workers(c, urls, width);
    _cleanup_(freep) char *remedy = text_clean(json_get_str(check, "remedy"), true);
    if (!remedy)
        return;
    _cleanup_(freep) char *wrapped_remedy = text_wrap(remedy, TEXT_COLUMN, width);
    fprintf(c->out.file, "%*s%s\n", TEXT_COLUMN, "", wrapped_remedy);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/doctor"), *name = source_name(&o->source);
    _cleanup_(freep) char *doing = xasprintf("examining %s", name);
    _cleanup_json_ answer = NULL;

    if (source_to_query(c, &o->source, &path, &p) < 0)
        return client_fail(c, &p);
    int status = client_get(c, path, doing, &answer);
    if (status != EXIT_DONE)
        return status;
    int64_t n_problems = json_get_int(answer, "problems", 0),
            n_warnings = json_get_int(answer, "warnings", 0);
    if (c->json) {
        client_print_json(c, answer);
        return n_problems > 0 ? EXIT_FAILED : EXIT_DONE;
    }
    size_t i;
    json_t *check;
    json_array_foreach(json_object_get(answer, "checks"), i, check)
        print_check(c, check);
    _cleanup_(freep) char *problems = text_count(n_problems, "problem"),
                          *warnings = text_count(n_warnings, "warning");
    if (!c->no_legend)
        fprintf(c->out.file, "%s, %s\n", problems, warnings);
    return n_problems > 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .words = "",
    .summary = "Check router, workers, profilers and disk, with remedies",
    .details = "Exit status 1 where a check failed.",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
