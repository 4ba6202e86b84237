/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/listing.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/cli/text.h"
#include "client/views/session.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>

/* Indent of the table of the workers of a session. */
#define SESSION_INDENT 2

#define AT(member)     offsetof(struct listing_options, member)

/* clang-format off */
const struct option_def listing_option_defs[] = {
    OPTION_GROUP("Output"),
    {"format", 0, "FORMAT", OPTION_TEXT, AT(format), "Format: table, wide (all columns, nothing shortened), csv, tsv or json (default: table)"},
    {"columns", 0, "LIST", OPTION_TEXT, AT(columns), "Columns to print, in this order, separated by commas"},
    {"csv", 0, NULL, OPTION_FLAG, AT(csv), "Short for --format csv (RFC 4180)"},
    {"tsv", 0, NULL, OPTION_FLAG, AT(tsv), "Short for --format tsv"},
};
/* clang-format on */
const size_t n_listing_option_defs = ARRAY_SIZE(listing_option_defs);

static const char *const format_names[_TABLE_FORMAT_MAX] = {
    [TABLE_FITTED] = "table", [TABLE_WIDE] = "wide", [TABLE_CSV] = "csv",
    [TABLE_TSV] = "tsv",      [TABLE_JSON] = "json",
};

static int parse_format(const char *name, enum table_format *ret, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(format_names); i++)
        if (streq(name, format_names[i])) {
            *ret = (enum table_format)i;
            return 0;
        }
    _cleanup_(freep) char *remedy =
        did_you_mean(name, format_names, ARRAY_SIZE(format_names), "Formats: table, wide, csv, tsv, json.");
    problem_remedy(p, "%s", remedy);
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--format: unknown format '%s'", name);
}

int listing_take(struct client *c, const struct listing_options *o, struct problem *p)
{
    const struct {
        bool is_given;
        enum table_format format;
    } flags[] = {{o->csv, TABLE_CSV}, {o->tsv, TABLE_TSV}, {c->json, TABLE_JSON}};
    unsigned n = 0;

    c->format = TABLE_FITTED;
    if (o->format) {
        if (parse_format(o->format, &c->format, p) < 0)
            return -EINVAL;
        n++;
    }
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        if (!flags[i].is_given || (o->format && c->format == flags[i].format))
            continue;
        c->format = flags[i].format;
        n++;
    }
    c->json = c->format == TABLE_JSON;
    c->columns = o->columns;
    if (n > 1)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "--format, --csv, --tsv and --json exclude each other");
    if (c->json && o->columns) {
        problem_remedy(p, "JSON is complete; select members with jq.");
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--columns does not apply to JSON");
    }
    return 0;
}

/* -- Columns ------------------------------------------------------------------------------------------ */

/* In lower case, with '_' between words. */
static char *folded(const char *name)
{
    char *text = xstrdup(name);

    for (char *p = text; *p; p++)
        *p = *p == '-' || *p == ' ' ? '_' : (char)tolower((unsigned char)*p);
    return text;
}

/* "mean" is "mean_ns" if there is no column "mean". */
static size_t find_column(const char *name, const char *const *keys, size_t n)
{
    static const char *const units[] = {"_ns", "_ms", "_share", "_bytes", "_per_s"};
    _cleanup_(freep) char *wanted = folded(name);

    for (size_t i = 0; i < n; i++)
        if (streq(wanted, keys[i]))
            return i;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(units); k++) {
            _cleanup_(freep) char *longer = xasprintf("%s%s", wanted, units[k]);
            if (streq(longer, keys[i]))
                return i;
        }
    return n;
}

static int unknown_column(struct client *c, const char *name, const char *const *keys, size_t n)
{
    _cleanup_(freep) char *wanted = folded(name), *names = NULL;

    for (size_t i = 0; i < n; i++)
        append_str(&names, "%s%s", i > 0 ? ", " : "Columns: ", keys[i]);
    _cleanup_(freep) char *remedy = did_you_mean(wanted, keys, n, names ? names : "");
    return client_refuse(c, remedy, "--columns: unknown column '%s'", name);
}

int listing_select(struct client *c, const char *const *keys, size_t n, size_t **ret, size_t *ret_n)
{
    _cleanup_(freep) char *list = xstrdup(c->columns);
    _cleanup_(freep) size_t *chosen = xcalloc((list ? strlen(list) : n) + 1, sizeof(*chosen));
    size_t n_chosen = 0;
    char *rest = list;

    for (size_t i = 0; !list && i < n; i++)
        chosen[n_chosen++] = i;
    for (char *name; rest && (name = strsep(&rest, ","));) {
        name += strspn(name, " ");
        size_t column = find_column(name, keys, n);
        if (column == n)
            return unknown_column(c, name, keys, n);
        chosen[n_chosen++] = column;
    }
    *ret = TAKE_PTR(chosen);
    *ret_n = n_chosen;
    return EXIT_DONE;
}

int listing_table(struct client *c, const struct table_column *columns, size_t n, struct table **ret)
{
    _cleanup_(table_freep) struct table *table = table_new(columns, n, !c->no_legend);

    if (c->columns) {
        char **keys = xcalloc(n, sizeof(*keys));
        _cleanup_(freep) size_t *chosen = NULL;
        size_t n_chosen;
        for (size_t i = 0; i < n; i++)
            keys[i] = table_column_key(&columns[i]);
        int status = listing_select(c, (const char *const *)keys, n, &chosen, &n_chosen);
        for (size_t i = 0; i < n; i++)
            free(keys[i]);
        free(keys);
        if (status != EXIT_DONE)
            return status;
        table_select(table, chosen, n_chosen);
    }
    *ret = TAKE_PTR(table);
    return EXIT_DONE;
}

/* -- Output ------------------------------------------------------------------------------------------- */

bool listing_is_separated(const struct client *c)
{
    return c->format == TABLE_CSV || c->format == TABLE_TSV;
}

bool listing_is_text(const struct client *c)
{
    return !c->json && !listing_is_separated(c);
}

bool listing_has_legend(const struct client *c)
{
    return listing_is_text(c) && !c->no_legend;
}

void listing_print(struct client *c, struct table *table)
{
    client_page(c);
    table_print_as(table, &c->out, c->format);
}

int listing_print_workers(struct client *c, const json_t *session)
{
    struct table *table;
    int64_t now = wall_ns();
    int status = listing_table(c, session_columns(session), N_SESSION_COLUMNS, &table);

    if (status != EXIT_DONE)
        return status;
    table_indent(table, SESSION_INDENT);
    session_add_workers(table, session, now);
    listing_print(c, table);
    table_free(table);
    if (listing_is_text(c)) {
        _cleanup_(freep) char *progress = session_progress(session, now);
        fprintf(c->out.file, "%*s%s%s%s\n", SESSION_INDENT, "", screen_colour(&c->out, COLOUR_DIM), progress,
                screen_plain(&c->out));
    }
    return EXIT_DONE;
}

void listing_title(struct client *c, const char *title)
{
    unsigned width = screen_width(&c->out);
    _cleanup_(freep) char *wrapped = text_wrap(title, 2, width ? width : UINT_MAX);

    fprintf(c->out.file, "%s\n", wrapped);
}

int listing_refuse(struct client *c, const char *what, const char *remedy)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (!listing_is_separated(c) && !c->columns)
        return EXIT_DONE;
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "%s %s",
                c->columns               ? "--columns"
                : c->format == TABLE_CSV ? "--csv"
                                         : "--tsv",
                what);
    problem_remedy(&p, "%s", remedy);
    return client_fail(c, &p);
}

/* -- Labels --------------------------------------------------------------------------------------------- */

int labels_to_json(const struct option_list *list, json_t *request, struct problem *p)
{
    if (list->n == 0)
        return 0;
    json_t *labels = json_object();

    json_object_set_new(request, "labels", labels);
    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i])
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--label: '%s' is not KEY=VALUE",
                               list->items[i]);
        _cleanup_(freep) char *key = xstrndup(list->items[i], (size_t)(equals - list->items[i]));
        json_put_str(labels, key, equals + 1);
    }
    return 0;
}

char *labels_text(const json_t *labels)
{
    const char *key;
    json_t *value;
    char *text = NULL;

    json_object_foreach((json_t *)labels, key, value) {
        const char *word = json_string_value(value);
        append_str(&text, "%s%s=%s", text ? " " : "", key, word ? word : "");
    }
    return text;
}
