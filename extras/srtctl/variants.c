/* SPDX-License-Identifier: Apache-2.0 */
/* After srt-slurm: src/srtctl/core/config.py (deep_merge, generate_override_configs) and core/sweep.py. */

#include "extras/srtctl/recipe.h"

#include "base/alloc.h"
#include "base/yaml_json.h"
#include "client/cli/text.h"
#include <errno.h>
#include <inttypes.h>

#define OVERRIDE "override_"
#define ZIP      "zip_override_"

char *recipe_value_text(const json_t *v)
{
    if (json_is_string(v))
        return xstrdup(json_string_value(v));
    if (json_is_boolean(v))
        return xstrdup(json_is_true(v) ? "True" : "False");
    return json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
}

static int variants_compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **recipe_sorted_keys(const json_t *section, size_t *ret_n)
{
    const char **keys = xcalloc(json_object_size(section) + 1, sizeof(*keys)), *key;
    size_t n = 0;
    json_t *value;

    json_object_foreach((json_t *)section, key, value)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), variants_compare_keys);
    *ret_n = n;
    return keys;
}

struct variants_reading {
    const char *path;
    json_t *root, *lines, *columns; /* of the file */
    struct recipe_variants *variants;
    struct problem *p;
    size_t size;  /* of the file */
    size_t *left; /* bytes that its variants may still have */
};

static int variants_refuse(const struct variants_reading *r, const char *pointer, const char *remedy,
                           const char *format, ...) _printf_(4, 5);
static int variants_refuse(const struct variants_reading *r, const char *pointer, const char *remedy,
                           const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    problem_set(r->p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%" PRId64 ":%" PRId64 ": %s", r->path,
                json_get_int(r->lines, pointer, 1), json_get_int(r->columns, pointer, 1), text);
    problem_remedy(r->p, "%s", remedy);
    return -EINVAL;
}

/* A value of a sweep may consist of other placeholders, and a large base may be that of 1000 variants. */
static bool variants_spend(const struct variants_reading *r, size_t bytes)
{
    bool fits = bytes < *r->left;

    *r->left = fits ? *r->left - bytes : 0;
    return fits;
}

static int variants_add(const struct variants_reading *r, const struct recipe_variant *take)
{
    struct recipe_variants *v = r->variants;

    VEC_GROW(v->items, v->n, v->cap);
    v->items[v->n++] = *take;
    if (v->n > RECIPE_VARIANTS_MAX)
        return variants_refuse(r, "", "Split the file.", "more than %d variants", RECIPE_VARIANTS_MAX);
    if (*r->left == 0)
        return variants_refuse(r, "", "Split the file.", "all variants together are larger than %d MiB",
                               RECIPE_VARIANTS_BYTES_MAX >> 20);
    return 0;
}

/* -- Merging ------------------------------------------------------------------------------------------ */

/* Sections are merged, all else replaces, and null removes. */
static void variants_merge(json_t *into, const json_t *from)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)from, key, value) {
        json_t *old = json_object_get(into, key);
        if (json_is_null(value))
            json_object_del(into, key);
        else if (json_is_object(value) && json_is_object(old))
            variants_merge(old, value);
        else
            json_object_set_new(into, key, json_deep_copy(value));
    }
}

/* The locations of the keys below one, as they are once it is the document. */
static void variants_take_locations(json_t *into, const json_t *locations, const char *below)
{
    const char *pointer;
    json_t *location;
    size_t n = strlen(below);

    json_object_foreach((json_t *)locations, pointer, location)
        if (strncmp(pointer, below, n) == 0 && (pointer[n] == '/' || !pointer[n]))
            json_object_set(into, pointer + n, location);
}

static json_t *variants_merge_locations(const json_t *locations, const char *override)
{
    _cleanup_(freep) char *below = xasprintf("/%s", override);
    json_t *merged = json_object();

    variants_take_locations(merged, locations, "/base");
    if (*override)
        variants_take_locations(merged, locations, below);
    return merged;
}

static struct recipe_variant variants_merge_base(const struct variants_reading *r, const char *key,
                                                 const json_t *override, char *take_name)
{
    if (!variants_spend(r, r->size))
        return (struct recipe_variant){.name = take_name, .root = json_object()};
    struct recipe_variant v = {.name = take_name,
                               .root = json_deep_copy(json_object_get(r->root, "base")),
                               .lines = variants_merge_locations(r->lines, key),
                               .columns = variants_merge_locations(r->columns, key)};
    variants_merge(v.root, override);
    return v;
}

static void variants_name_after_base(const struct variants_reading *r, struct recipe_variant *v)
{
    const char *base = json_get_str(json_object_get(r->root, "base"), "name");
    _cleanup_(freep) char *name = xasprintf("%s_%s", base ? base : "unnamed", v->name);

    json_put_str(v->root, "name", name);
}

static int variants_add_override(const struct variants_reading *r, const char *key, const json_t *override)
{
    struct recipe_variant v = variants_merge_base(r, key, override, xstrdup(key + strlen(OVERRIDE)));

    if (!json_object_get(override, "name"))
        variants_name_after_base(r, &v);
    return variants_add(r, &v);
}

/* -- Zips --------------------------------------------------------------------------------------------- */

struct zip_size {
    size_t n; /* of the longest list so far */
    bool has_lists;
};

/* How long the lists of a section are; those of one element are repeated. */
static int zip_measure(const struct variants_reading *r, const json_t *section, const char *pointer,
                       struct zip_size *zip)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)section, key, value) {
        _cleanup_(freep) char *below = xasprintf("%s/%s", pointer, key);
        size_t n = json_array_size(value);
        int err = 0;
        if (json_is_object(value))
            err = zip_measure(r, value, below, zip);
        else if (json_is_array(value) && n == 0)
            err = variants_refuse(r, below, "Give it elements, or remove it.",
                                  "zip_override contains an empty list — cannot zip zero-length lists");
        else if (json_is_array(value) && n > 1 && zip->n > 1 && n != zip->n)
            err = variants_refuse(
                r, below, "A list that is the value of each variant goes into a list: [[1, 2]].",
                "Incompatible zip lengths %zu and %zu. All lists must have the same length or length "
                "1 (broadcast).",
                zip->n, n);
        if (err < 0)
            return err;
        if (json_is_array(value)) {
            zip->has_lists = true;
            zip->n = MAX(zip->n, n);
        }
    }
    return 0;
}

static json_t *zip_slice(const json_t *section, size_t i)
{
    json_t *sliced = json_object();
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)section, key, value) {
        if (json_is_array(value))
            json_object_set_new(sliced, key,
                                json_deep_copy(json_array_get(value, json_array_size(value) == 1 ? 0 : i)));
        else if (json_is_object(value))
            json_object_set_new(sliced, key, zip_slice(value, i));
        else
            json_object_set_new(sliced, key, json_deep_copy(value));
    }
    return sliced;
}

static int variants_add_zip(const struct variants_reading *r, const char *key, const json_t *override)
{
    _cleanup_(freep) char *pointer = xasprintf("/%s", key);
    struct zip_size zip = {0};
    int err = zip_measure(r, override, pointer, &zip);

    if (err < 0)
        return err;
    if (!zip.has_lists)
        return variants_refuse(r, pointer, "Call it override_NAME, or make lists of the values that differ.",
                               "zip_override section contains no list values — nothing to zip");
    for (size_t i = 0; i < zip.n && err == 0; i++) {
        _cleanup_json_ sliced = zip_slice(override, i);
        struct recipe_variant v =
            variants_merge_base(r, key, sliced, xasprintf("%s_%zu", key + strlen(ZIP), i));
        if (!json_is_array(json_object_get(override, "name")))
            variants_name_after_base(r, &v);
        err = variants_add(r, &v);
    }
    return err;
}

static int variants_refuse_key(const struct variants_reading *r, const char *key)
{
    static const char *const starts[] = {"base", OVERRIDE, ZIP, "lock"};
    _cleanup_(freep) char *pointer = xasprintf("/%s", key), *start = xstrdup(key);
    char *underscore = strrchr(start, '_');

    if (underscore)
        underscore[1] = '\0';
    const char *nearest = nearest_name(start, starts, ARRAY_SIZE(starts));
    int err =
        variants_refuse(r, pointer, "A file with base has only base, override_NAME and zip_override_NAME.",
                        "%s: next to base srtctl ignores such a key", key);
    if (nearest) {
        free(r->p->remedy);
        r->p->remedy = NULL;
        problem_remedy(r->p, "Did you mean %s%s?", nearest,
                       nearest[strlen(nearest) - 1] == '_' ? "NAME" : "");
    }
    return err;
}

/* In srtctl's order: overrides, then zips, each by name. */
static int variants_read_overrides(const struct variants_reading *r)
{
    size_t n;
    _cleanup_(freep) const char **keys = recipe_sorted_keys(r->root, &n);
    const char *key;
    json_t *value;
    int err = 0;

    json_object_foreach(r->root, key, value) {
        _cleanup_(freep) char *pointer = xasprintf("/%s", key);
        if (!streq(key, "base") && !streq(key, "lock") && !starts_with(key, OVERRIDE) &&
            !starts_with(key, ZIP))
            return variants_refuse_key(r, key);
        if (!json_is_object(value) && !streq(key, "lock"))
            return variants_refuse(r, pointer, "Indent its keys below it.", "%s must be a section", key);
    }
    struct recipe_variant base = variants_merge_base(r, "", NULL, xstrdup("base"));
    base.by_name_only = true;
    err = variants_add(r, &base);
    for (size_t i = 0; i < n && err == 0; i++)
        if (starts_with(keys[i], OVERRIDE))
            err = variants_add_override(r, keys[i], json_object_get(r->root, keys[i]));
    for (size_t i = 0; i < n && err == 0; i++)
        if (starts_with(keys[i], ZIP))
            err = variants_add_zip(r, keys[i], json_object_get(r->root, keys[i]));
    return err;
}

/* -- Sweeps ------------------------------------------------------------------------------------------- */

static char *sweep_value_text(const json_t *v)
{
    size_t i;
    json_t *item;
    char *text = NULL;
    size_t size;

    if (json_is_null(v))
        return xstrdup("None");
    if (!json_is_array(v))
        return recipe_value_text(v);
    FILE *out = xmemstream(&text, &size);
    json_array_foreach((json_t *)v, i, item) {
        _cleanup_(freep) char *one = sweep_value_text(item);
        fprintf(out, "%s%s", i > 0 ? "," : "", one);
    }
    fclose(out);
    return text;
}

static char *sweep_replace(const struct variants_reading *r, const char *text, const char *what,
                           const char *with)
{
    char *result = NULL;
    size_t size, n = strlen(with);
    FILE *out = xmemstream(&result, &size);

    while (*text)
        if (*text == *what && starts_with(text, what) && variants_spend(r, n)) {
            fputs(with, out);
            text += strlen(what);
        } else {
            fputc(*text++, out);
        }
    fclose(out);
    return result;
}

static json_t *sweep_copy_value(const struct variants_reading *r, const json_t *value)
{
    return variants_spend(r, json_dumpb(value, NULL, 0, JSON_ENCODE_ANY)) ? json_deep_copy(value)
                                                                          : json_null();
}

static json_t *sweep_fill_text(const struct variants_reading *r, const char *text, const json_t *values)
{
    _cleanup_(freep) char *filled = xstrdup(text);
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)values, name, value) {
        if (!variants_spend(r, 1))
            break;
        _cleanup_(freep) char *placeholder = xasprintf("{%s}", name);
        if (!strstr(filled, placeholder))
            continue;
        /* Where nothing else is in the text, it is the value: a list, or a number as it is. */
        if (streq(filled, placeholder) && (json_is_array(value) || json_is_number(value)))
            return sweep_copy_value(r, value);
        _cleanup_(freep) char *as_text = sweep_value_text(value);
        char *more =
            variants_spend(r, strlen(as_text)) ? sweep_replace(r, filled, placeholder, as_text) : xstrdup("");
        free(filled);
        filled = more;
    }
    return json_text(filled);
}

/* "{name}", and what YAML makes of it without quotes: {name: null}. */
static json_t *sweep_fill(const struct variants_reading *r, const json_t *template, const json_t *values)
{
    const char *key = json_object_iter_key(json_object_iter((json_t *)template));
    size_t i;
    json_t *value, *filled;

    if (json_is_string(template))
        return sweep_fill_text(r, json_string_value(template), values);
    if (json_is_array(template)) {
        filled = json_array();
        json_array_foreach((json_t *)template, i, value)
            json_array_append_new(filled, sweep_fill(r, value, values));
        return filled;
    }
    if (!json_is_object(template))
        return json_deep_copy(template);
    if (json_object_size(template) == 1 && json_is_null(json_object_get(template, key)) &&
        json_object_get(values, key))
        return sweep_copy_value(r, json_object_get(values, key));
    filled = json_object();
    json_object_foreach((json_t *)template, key, value)
        json_object_set_new(filled, key, sweep_fill(r, value, values));
    return filled;
}

static int sweep_add(const struct variants_reading *r, const json_t *template, const json_t *values)
{
    const char *name, *key;
    json_t *value;
    char *suffix = xstrdup("");

    json_object_foreach((json_t *)values, key, value) {
        _cleanup_(freep) char *text = sweep_value_text(value);
        append_str(&suffix, "%s%s%s", *suffix ? "_" : "", key, text);
    }
    struct recipe_variant v = {
        .name = suffix,
        .root = variants_spend(r, r->size + strlen(suffix)) ? sweep_fill(r, template, values) : json_object(),
        .lines = json_incref(r->lines),
        .columns = json_incref(r->columns)};
    name = json_get_str(v.root, "name");
    _cleanup_(freep) char *full = xasprintf("%s_%s", name ? name : "unnamed", suffix);
    json_put_str(v.root, "name", full);
    return variants_add(r, &v);
}

/* All combinations, the last parameter fastest. */
static int sweep_combine(const struct variants_reading *r, const json_t *template, const json_t *sweep,
                         void *at, json_t *values)
{
    size_t i;
    json_t *value;
    int err = 0;

    if (!at)
        return sweep_add(r, template, values);
    const char *key = json_object_iter_key(at);
    json_array_foreach(json_object_iter_value(at), i, value) {
        json_object_set(values, key, value);
        err = sweep_combine(r, template, sweep, json_object_iter_next((json_t *)sweep, at), values);
        if (err < 0)
            return err;
    }
    json_object_del(values, key);
    return 0;
}

static int variants_read_sweep(const struct variants_reading *r)
{
    json_t *sweep = json_object_get(r->root, "sweep");
    const char *key;
    json_t *value;
    size_t n = 1;

    if (!json_is_object(sweep) || json_object_size(sweep) == 0)
        return variants_refuse(r, "/sweep", "For example: sweep: {concurrency: [128, 256]}.",
                               "sweep must be a section of parameters and their values");
    json_object_foreach(sweep, key, value) {
        _cleanup_(freep) char *pointer = xasprintf("/sweep/%s", key);
        if (!json_is_array(value) || json_array_size(value) == 0)
            return variants_refuse(r, pointer, "Put its values into [ ].",
                                   "sweep.%s must be a list of values", key);
        n *= json_array_size(value);
        if (n > RECIPE_VARIANTS_MAX)
            return variants_refuse(r, pointer, "Give fewer values.", "sweep has more than %d combinations",
                                   RECIPE_VARIANTS_MAX);
    }
    _cleanup_json_ template = json_copy(r->root);
    _cleanup_json_ values = json_object();
    json_object_del(template, "sweep");
    return sweep_combine(r, template, sweep, json_object_iter(sweep), values);
}

/* -- The file ----------------------------------------------------------------------------------------- */

int recipe_variants_read(const char *path, const char *data, size_t size, struct recipe_variants *ret,
                         struct problem *p)
{
    char error[200];
    _cleanup_json_ root = NULL;
    _cleanup_json_ lines = NULL;
    _cleanup_json_ columns = NULL;
    _cleanup_(recipe_variants_done) struct recipe_variants variants = {0};
    _cleanup_(problem_done) struct problem unwanted = {0};
    size_t left = RECIPE_VARIANTS_BYTES_MAX;

    root = yaml_parse_with_lines(data, size, error, &lines, &columns);
    if (!root)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s: %s", path, error);
    struct variants_reading r = {.path = path,
                                 .root = root,
                                 .lines = lines,
                                 .columns = columns,
                                 .variants = &variants,
                                 .size = size,
                                 .left = &left,
                                 .p = p ? p : &unwanted};
    int err = 0;
    if (!json_is_object(root)) {
        err = variants_refuse(&r, "", "See examples/ of srt-slurm.",
                              "this is no job of srtctl: its sections are missing");
    } else if (json_object_get(root, "base")) {
        err = variants_read_overrides(&r);
    } else if (json_object_get(root, "sweep")) {
        err = variants_read_sweep(&r);
    } else {
        struct recipe_variant only = {
            .root = json_incref(root), .lines = json_incref(lines), .columns = json_incref(columns)};
        err = variants_add(&r, &only);
    }
    if (err < 0)
        return err;
    *ret = variants;
    variants = (struct recipe_variants){0};
    return 0;
}

/* "zip_override_tp[0]" as "tp_0"; the caller frees it. */
static char *variant_plain_name(const char *name)
{
    size_t skip = starts_with(name, ZIP) ? strlen(ZIP) : starts_with(name, OVERRIDE) ? strlen(OVERRIDE) : 0;
    char *plain = xstrdup(name + skip), *bracket = strchr(plain, '[');
    size_t n = strlen(plain);

    if (bracket && plain[n - 1] == ']') {
        plain[n - 1] = '\0';
        *bracket = '_';
    }
    return plain;
}

const struct recipe_variant *recipe_variants_find(const struct recipe_variants *v, const char *path,
                                                  const char *name, struct problem *p)
{
    _cleanup_(freep) char *plain = name ? variant_plain_name(name) : NULL, *all = NULL;
    const struct recipe_variant *only = NULL;
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        if (name && streq(v->items[i].name, plain))
            return &v->items[i];
        if (!v->items[i].by_name_only) {
            only = &v->items[i];
            n++;
        }
    }
    if (!name && n == 1)
        return only;
    if (v->n == 1 && !v->items[0].name) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s has no variants", path);
        problem_remedy(p, "Leave --variant out: the file is one job.");
        return NULL;
    }
    for (size_t i = 0; i < v->n; i++)
        append_str(&all, "%s%s", i > 0 ? ", " : "", v->items[i].name);
    if (name) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s has no variant '%s'", path, name);
        problem_remedy(p, "Its variants are %s.", all);
    } else {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s describes %zu jobs", path, n);
        problem_remedy(p, "Choose one by --variant: %s.", all);
    }
    return NULL;
}

void recipe_variants_done(struct recipe_variants *v)
{
    for (size_t i = 0; i < v->n; i++) {
        free(v->items[i].name);
        json_decref(v->items[i].root);
        json_decref(v->items[i].lines);
        json_decref(v->items[i].columns);
    }
    free(v->items);
    *v = (struct recipe_variants){0};
}
