/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/options.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/uuid.h"
#include "client/cli/text.h"
#include "proto/names.h"
#include <errno.h>
#include <getopt.h>

#define HELP_COLUMN 28
#define HELP_WIDTH  80
/* Values that getopt_long returns for options without a letter. */
#define CODE_BASE 0x100
#define NAMES_MAX 256

static void *option_member(const struct option_set *set, const struct option_def *def)
{
    return (char *)set->values + def->offset;
}

void options_init(const struct option_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->defs[i].name && set->defs[i].kind >= OPTION_COUNT)
            *(int64_t *)option_member(set, &set->defs[i]) = OPTION_ABSENT;
}

void options_done(const struct option_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->defs[i].name && set->defs[i].kind == OPTION_LIST)
            free(((struct option_list *)option_member(set, &set->defs[i]))->items);
}

static int parse_number(const char *s, int64_t *ret)
{
    if (!*s || strspn(s, "0123456789") != strlen(s) || strlen(s) > 18)
        return -EINVAL;
    *ret = atoll(s);
    return 0;
}

static int parse_count(const char *s, int64_t *ret)
{
    int64_t n;

    if (parse_number(s, &n) < 0 || n < 1)
        return -EINVAL;
    *ret = n;
    return 0;
}

static int parse_real(const char *s, double *ret)
{
    size_t n = strspn(s, "0123456789");

    if (s[n] == '.')
        n += 1 + strspn(s + n + 1, "0123456789");
    if (n != strlen(s) || n > 18 || strtod(s, NULL) <= 0)
        return -EINVAL;
    *ret = strtod(s, NULL);
    return 0;
}

static int parse_ahead(const char *s, int64_t *ret)
{
    return parse_time(s, wall_ns(), 0, ret);
}

static int parse_ago(const char *s, int64_t *ret)
{
    return parse_time(s, wall_ns(), 1, ret);
}

static const struct {
    int (*parse)(const char *s, int64_t *ret);
    const char *expected;
} number_kinds[] = {
    [OPTION_COUNT] = {parse_count, "a number of at least 1"},
    [OPTION_NUMBER] = {parse_number, "a number"},
    [OPTION_DURATION] = {parse_duration, "a duration such as 5s, 250ms or 1h30min"},
    [OPTION_SIZE] = {parse_size, "a size such as 20G, 512M or bytes"},
    [OPTION_TIME] = {parse_ahead, "a time such as +10s, 14:02 or \"2026-11-20 14:02:11\""},
    [OPTION_AGO] = {parse_ago, "a time such as 1h (ago), 14:02 or \"2026-11-20 14:02:11\""},
};

static int option_store(const struct option_set *set, const struct option_def *def, const char *value,
                        struct problem *p)
{
    void *m = option_member(set, def);
    struct option_list *list = m;
    int64_t number;

    switch (def->kind) {
    case OPTION_FLAG:
        *(bool *)m = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)m = value ? value : "";
        return 0;
    case OPTION_LIST:
        VEC_GROW(list->items, list->n, list->cap);
        list->items[list->n++] = value;
        return 0;
    case OPTION_SESSION:
        if (parse_ref(value, 's', &number) != 's' && !uuid_is_prefix(value))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s: '%s' is not a session, such as s7",
                               def->name, value);
        *(const char **)m = value;
        return 0;
    case OPTION_REAL:
        if (parse_real(value, m) == 0)
            return 0;
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s: '%s' is not a number above 0", def->name,
                           value);
    default:
        if (number_kinds[def->kind].parse(value, m) == 0)
            return 0;
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s: '%s' is not %s", def->name, value,
                           number_kinds[def->kind].expected);
    }
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static json_t *option_list_json(const struct option_list *list)
{
    json_t *texts = list->n > 0 ? json_array() : NULL;

    for (size_t i = 0; i < list->n; i++)
        json_array_append_new(texts, json_text(list->items[i]));
    return texts;
}

/* The value of an option as a member of a request; NULL: not given. */
static json_t *option_json(const struct option_set *set, const struct option_def *def)
{
    const void *m = option_member(set, def);
    const char *text =
        def->kind == OPTION_TEXT || def->kind == OPTION_SESSION ? *(const char *const *)m : NULL;
    int64_t number = def->kind >= OPTION_COUNT ? *(const int64_t *)m : OPTION_ABSENT;

    if (def->kind == OPTION_LIST)
        return option_list_json(m);
    if (def->kind == OPTION_FLAG)
        return *(const bool *)m ? json_true() : NULL;
    if (text && def->kind == OPTION_SESSION && parse_ref(text, 's', &number))
        return json_sprintf("s%lld", (long long)number);
    if (number == OPTION_ABSENT)
        return text ? json_text(text) : NULL;
    return json_integer(number);
}

void options_to_json(const struct option_set *set, json_t *request)
{
    for (size_t i = 0; i < set->n; i++) {
        json_t *value = set->defs[i].member ? option_json(set, &set->defs[i]) : NULL;
        if (value)
            json_object_set_new(request, set->defs[i].member, value);
    }
}

/* -- Parsing ------------------------------------------------------------------------------------------ */

/* The tables in the form that getopt_long takes. */
struct getopt_spec {
    struct option *longs;
    char *shorts;
};

static void getopt_spec_done(struct getopt_spec *s)
{
    free(s->longs);
    free(s->shorts);
}

static int argument_of(const struct option_def *def)
{
    if (!def->argument)
        return no_argument;
    return def->argument[0] == '[' ? optional_argument : required_argument;
}

static struct getopt_spec getopt_spec_make(const struct option_set *sets, size_t n_sets, bool stop_at_word)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < n_sets; i++)
        n += sets[i].n;
    struct getopt_spec s = {.longs = xcalloc(n + 1, sizeof(*s.longs)), .shorts = xcalloc(2 * n + 3, 1)};
    char *letter = stpcpy(s.shorts, stop_at_word ? "+:" : ":");

    for (size_t i = 0; i < n_sets; i++) {
        for (size_t j = 0; j < sets[i].n; j++) {
            const struct option_def *def = &sets[i].defs[j];
            int code = CODE_BASE + (int)k;
            if (!def->name)
                continue;
            s.longs[k++] = (struct option){def->name, argument_of(def), NULL, code};
            if (!def->letter)
                continue;
            *letter++ = def->letter;
            if (def->argument)
                *letter++ = ':';
        }
    }
    return s;
}

static const struct option_def *option_of_code(const struct option_set *sets, size_t n_sets, int code,
                                               const struct option_set **ret_set)
{
    int k = CODE_BASE;
    for (size_t i = 0; i < n_sets; i++)
        for (size_t j = 0; j < sets[i].n; j++) {
            const struct option_def *def = &sets[i].defs[j];
            if (!def->name)
                continue;
            if (code == k++ || (code < CODE_BASE && code == def->letter)) {
                *ret_set = &sets[i];
                return def;
            }
        }
    return NULL;
}

/* A long option that is unknown or an ambiguous abbreviation. */
static int option_refuse_name(const struct option_set *sets, size_t n_sets, const char *word,
                              struct problem *p)
{
    const char *name = word + strspn(word, "-"), *names[NAMES_MAX];
    _cleanup_(freep) char *fitting = NULL;
    size_t n = 0, n_fitting = 0;

    for (size_t i = 0; i < n_sets; i++)
        for (size_t k = 0; k < sets[i].n && n < NAMES_MAX; k++) {
            if (!sets[i].defs[k].name)
                continue;
            names[n++] = sets[i].defs[k].name;
            if (!*name || !starts_with(names[n - 1], name))
                continue;
            append_str(&fitting, "%s--%s", n_fitting++ > 0 ? ", " : "", names[n - 1]);
        }
    if (n_fitting > 1) {
        problem_remedy(p, "It could be %s.", fitting);
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "ambiguous option %s", word);
    }
    const char *near = nearest_name(name, names, n);
    if (near)
        problem_remedy(p, "Did you mean --%s?", near);
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "unknown option %s", word);
}

static int option_refuse(const struct option_set *sets, size_t n_sets, int code, const char *word,
                         struct problem *p)
{
    const struct option_set *set;
    const struct option_def *def = optopt ? option_of_code(sets, n_sets, optopt, &set) : NULL;

    if (code == ':' && def)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s needs a value: %s", def->name,
                           def->argument);
    if (def)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--%s takes no value", def->name);
    if (optopt)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "unknown option -%c",
                           optopt > ' ' && optopt < 0x7f ? optopt : '?');
    _cleanup_(freep) char *text = text_clean(word, false);
    _cleanup_(freep) char *name = xstrndup(text, strcspn(text, "="));
    return option_refuse_name(sets, n_sets, name, p);
}

int options_parse(const struct option_set *sets, size_t n_sets, int argc, char **argv, bool stop_at_word,
                  struct problem *p)
{
    _cleanup_(getopt_spec_done) struct getopt_spec spec = getopt_spec_make(sets, n_sets, stop_at_word);

    opterr = 0;
    optind = 0;
    for (;;) {
        const struct option_set *set = NULL;
        int code = getopt_long(argc, argv, spec.shorts, spec.longs, NULL);
        if (code == -1)
            return optind;
        if (code == '?' || code == ':')
            return option_refuse(sets, n_sets, code, argv[optind - 1], p);
        const struct option_def *def = option_of_code(sets, n_sets, code, &set);
        if (!def)
            return option_refuse(sets, n_sets, code, argv[optind - 1], p);
        int r = option_store(set, def, optarg, p);
        if (r < 0)
            return r;
    }
}

/* -- Help --------------------------------------------------------------------------------------------- */

const struct option_def *option_find(const struct option_def *defs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (streq(defs[i].name, name) || (defs[i].letter && name[0] == defs[i].letter && !name[1]))
            return &defs[i];
    return NULL;
}

static const char *group_at(const struct option_set *set, size_t i)
{
    while (i > 0 && set->defs[i].name)
        i--;
    return set->defs[i].name ? "Options" : set->defs[i].help;
}

/* Whether no option before (set, i) has that heading. */
static bool is_first_of_group(const struct option_set *sets, size_t set, size_t i, const char *group)
{
    for (size_t k = 0; k <= set; k++)
        for (size_t j = 0; j < (k < set ? sets[k].n : i); j++)
            if (sets[k].defs[j].name && streq(group_at(&sets[k], j), group))
                return false;
    return true;
}

static void print_option(FILE *out, const struct option_def *def)
{
    _cleanup_(freep) char *help = text_wrap(def->help, HELP_COLUMN, HELP_WIDTH);
    char letter[8] = "    ";

    if (def->letter)
        snprintf(letter, sizeof(letter), "-%c, ", def->letter);
    int n = fprintf(out, "  %s--%s%s%s", letter, def->name, argument_of(def) == required_argument ? " " : "",
                    def->argument ? def->argument : "");
    if (n > HELP_COLUMN - 2)
        fprintf(out, "\n%*s%s\n", HELP_COLUMN, "", help);
    else
        fprintf(out, "%*s%s\n", HELP_COLUMN - n, "", help);
}

void options_help(FILE *out, const struct option_set *sets, size_t n_sets)
{
    for (size_t s = 0; s < n_sets; s++)
        for (size_t i = 0; i < sets[s].n; i++) {
            const char *group = group_at(&sets[s], i);
            if (!sets[s].defs[i].name || !is_first_of_group(sets, s, i, group))
                continue;
            fprintf(out, "\n%s:\n", group);
            for (size_t k = s; k < n_sets; k++)
                for (size_t j = 0; j < sets[k].n; j++)
                    if (sets[k].defs[j].name && streq(group_at(&sets[k], j), group))
                        print_option(out, &sets[k].defs[j]);
        }
}
