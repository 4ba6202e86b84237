/* SPDX-License-Identifier: Apache-2.0 */
/* `profctl check-recipe`: job files of srtctl checked without a fleet, and the jobs in each listed. */
#include "base/alloc.h"
#include "base/fs.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "extras/srtctl/recipe.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

struct check_recipe_options {
    const char *variant;
};

/* clang-format off */
static const struct option_def check_recipe_options[] = {
    {"variant", 0, "NAME", OPTION_TEXT, offsetof(struct check_recipe_options, variant), "Check only this job of the file"},
};
/* clang-format on */

struct recipe_checking {
    struct client *c;
    const char *path;
    struct table *table;
    json_t *list;
    bool refused;
};

/* The steps of each phase that is recorded, as JSON and for people. The caller owns both. */
static json_t *checking_phases(const struct recipe *r, char **ret_text)
{
    json_t *phases = json_object();

    *ret_text = xstrdup("");
    for (int m = 0; m < _RECIPE_MODE_MAX; m++) {
        const struct recipe_phase *phase = &r->phases[m];
        const char *name = recipe_mode_name((enum recipe_mode)m);
        if (!phase->present || r->type == RECIPE_NONE || r->type == RECIPE_NSYS_TIME)
            continue;
        json_object_set_new(phases, name,
                            json_pack("{s: I, s: I}", "start_step", (json_int_t)phase->start_step,
                                      "stop_step", (json_int_t)phase->stop_step));
        append_str(ret_text, "%s%s %" PRId64 "-%" PRId64, **ret_text ? ", " : "", name, phase->start_step,
                   phase->stop_step);
    }
    return phases;
}

/* "sa-bench 1024/128 c=4,8". The caller frees it. */
static char *checking_load(const struct recipe *r)
{
    const struct recipe_phase *phase = &r->phases[r->disaggregated ? RECIPE_PREFILL : RECIPE_AGGREGATED];
    char *text = xstrdup(r->benchmark);

    if (!phase->isl || !phase->osl || !phase->concurrency)
        return text;
    append_str(&text, " %" PRId64 "/%" PRId64 " c=%" PRId64, phase->isl, phase->osl,
               r->n_concurrencies > 0 ? r->concurrencies[0] : phase->concurrency);
    for (size_t i = 1; i < r->n_concurrencies; i++)
        append_str(&text, ",%" PRId64, r->concurrencies[i]);
    return text;
}

static void check_variant(struct recipe_checking *k, const struct recipe_variant *v)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(problem_done) struct problem broken = {0};
    _cleanup_(recipe_done) struct recipe r = {0};

    if (recipe_from_variant(k->path, v, &r, &p) < 0 ||
        recipe_check(&r, RECIPE_ANY_WORKERS | RECIPE_ANY_LOAD, &p) < 0) {
        client_fail(k->c, &p);
        k->refused = true;
        return;
    }
    recipe_check(&r, RECIPE_ANY_WORKERS, &broken);
    _cleanup_(freep) char *phases = NULL, *load = checking_load(&r);
    json_t *one = json_pack("{s: s, s: o}", "file", k->path, "phases", checking_phases(&r, &phases));
    const char *const texts[][2] = {{"variant", v->name},       {"name", r.name},
                                    {"backend", r.backend},     {"frontend", r.frontend},
                                    {"benchmark", r.benchmark}, {"profiling", recipe_type_name(r.type)},
                                    {"reason", broken.what},    {"remedy", broken.remedy}};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        json_put_str(one, texts[i][0], texts[i][1]);
    json_put_bool(one, "runs", broken.what == NULL);
    json_object_set(one, "recipe", v->root);
    json_array_append_new(k->list, one);
    table_add(k->table, (const char *const[]){v->name, broken.what ? "no" : "yes", recipe_type_name(r.type),
                                              phases, load, r.backend, r.name, k->path});
    if (broken.what)
        client_note(k->c, "%s\n  %s", broken.what, broken.remedy);
}

static void check_file(struct recipe_checking *k, const char *variant)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_variants_done) struct recipe_variants variants = {0};
    _cleanup_(freep) char *data = NULL;
    const struct recipe_variant *only = NULL;
    size_t size;
    int err = read_file(AT_FDCWD, k->path, RECIPE_BYTES_MAX, &data, &size);

    if (err < 0) {
        problem_set(&p, err, PROBLEM_BAD_REQUEST, "cannot read %s: %s", k->path, strerror(-err));
        problem_remedy(&p, "Check the path; check-recipe takes job files of srtctl in YAML.");
    } else {
        err = recipe_variants_read(k->path, data, size, &variants, &p);
    }
    if (err == 0 && variant && !(only = recipe_variants_find(&variants, k->path, variant, &p)))
        err = -EINVAL;
    if (err < 0) {
        client_fail(k->c, &p);
        k->refused = true;
        return;
    }
    for (size_t i = 0; i < variants.n; i++)
        if (only ? only == &variants.items[i] : !variants.items[i].by_name_only)
            check_variant(k, &variants.items[i]);
}

static int check_recipe_run(struct client *c, const void *values, int n_words, char **words)
{
    static const struct table_column columns[] = {
        {"VARIANT", COLUMN_SHORTEN, IMPORTANCE_KEY, .least = 16},
        {"RUNS", 0, IMPORTANCE_KEY},
        {"PROFILING", 0},
        {"STEPS", COLUMN_SHORTEN},
        {"LOAD", COLUMN_SHORTEN, .least = 20},
        {"BACKEND", 0, IMPORTANCE_EXTRA},
        {"NAME", COLUMN_SHORTEN, IMPORTANCE_EXTRA},
        {"FILE", COLUMN_PATH | COLUMN_SHORTEN, IMPORTANCE_EXTRA},
    };
    const struct check_recipe_options *o = values;
    _cleanup_json_ list = json_array();
    _cleanup_(table_freep) struct table *table = NULL;
    int status = listing_table(c, columns, ARRAY_SIZE(columns), &table);
    struct recipe_checking k = {.c = c, .table = table, .list = list};

    if (status != EXIT_DONE)
        return status;
    for (int i = 0; i < n_words; i++) {
        k.path = words[i];
        check_file(&k, o->variant);
    }
    if (c->json)
        client_print_json(c, list);
    else if (json_array_size(list) > 0)
        listing_print(c, table);
    return k.refused ? EXIT_FAILED : EXIT_DONE;
}

const struct verb verb_check_recipe = {
    .name = "check-recipe",
    .details = "Resolves base, override_NAME, zip_override_NAME and sweep, and checks keys, types and "
               "srtctl's rules. RUNS shows whether profctl start --recipe can send the load. With --json "
               "prints each resolved job. The exit status is 1 if srtctl would refuse a job.",
    .words = "FILE...",
    .summary = "Check job files of srtctl and list their variants",
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    .has_listing = true,
    VERB_OPTIONS(check_recipe_options, struct check_recipe_options),
    .run = check_recipe_run,
};
