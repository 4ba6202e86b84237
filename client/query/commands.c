/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/commands.h"

#include "base/alloc.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/query/named_queries.h"
#include <errno.h>

static int refuse(struct query *q, char *what)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "%s", what);
    free(what);
    return client_fail(q->c, &p);
}

static void print_table_of(struct query *q, const struct schema_table *t)
{
    static const struct table_column columns[] = {{"COLUMN", 0}, {"TYPE", 0}};
    _cleanup_(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns), true);

    for (size_t i = 0; i < t->n_columns; i++)
        table_add(table, (const char *const[]){t->columns[i], t->types[i]});
    table_print(table, &q->c->out);
}

static void print_named(const struct screen *out)
{
    _cleanup_(table_freep) struct table *table = table_new(named_query_columns, N_NAMED_QUERY_COLUMNS, true);

    named_queries_add(table);
    table_print(table, out);
}

static void print_line_of(struct query *q, const struct schema_table *t)
{
    const struct screen *out = &q->c->out;
    _cleanup_(freep) char *text = xasprintf("%s(", t->name);

    for (size_t i = 0; i < t->n_columns; i++) {
        char *more = xasprintf("%s%s%s", text, i > 0 ? ", " : "", t->columns[i]);
        free(text);
        text = more;
    }
    _cleanup_(freep) char *line = xasprintf("%s)", text),
                          *wrapped = text_wrap(line, 4, screen_text_width(out));
    fprintf(out->file, "%s\n", wrapped);
}

static int run_schema(struct query *q, const char *word)
{
    const struct schema_table *t = *word ? schema_find(q->schema, word) : NULL;

    if (*word && !t)
        return refuse(q, xasprintf("there is no table %s; .tables lists them", word));
    if (t)
        print_table_of(q, t);
    for (size_t i = 0; !t && i < q->schema->n_tables; i++)
        print_line_of(q, &q->schema->tables[i]);
    return EXIT_DONE;
}

static int run_tables(struct query *q, const char *word)
{
    for (size_t i = 0; i < q->schema->n_tables; i++)
        fprintf(q->c->out.file, "%s\n", q->schema->tables[i].name);
    return EXIT_DONE;
}

static int run_named(struct query *q, const char *word)
{
    const struct named_query *n = *word ? named_query_find(word) : NULL;

    if (n)
        return query_statements(q, n->sql, NULL);
    if (!*word) {
        print_named(&q->c->out);
        return EXIT_DONE;
    }
    const char *near = named_query_nearest(word);
    return refuse(q, near ? xasprintf("there is no query named %s; is it %s?", word, near)
                          : xasprintf("there is no query named %s; .named lists them", word));
}

static int run_quit(struct query *q, const char *word)
{
    q->is_over = true;
    return EXIT_DONE;
}

static int run_help(struct query *q, const char *word);

static const struct command {
    const char *name, *word, *about;
    int (*run)(struct query *q, const char *word);
} command_table[] = {
    {".schema", "[TABLE]", "columns of a table, or of all", run_schema},
    {".tables", "", "tables", run_tables},
    {".named", "[NAME]", "run a query that has a name, or list them", run_named},
    {".help", "", "this text", run_help},
    {".quit", "", "leave, as Ctrl-D does", run_quit},
};

_Static_assert(ARRAY_SIZE(command_table) <= COMMANDS_MAX, "completion has room for them");

static int run_help(struct query *q, const char *word)
{
    FILE *out = q->c->out.file;

    fputs("SQL runs at ';'. Ctrl-C ends a statement, Tab completes a name.\n", out);
    for (size_t i = 0; i < ARRAY_SIZE(command_table); i++) {
        _cleanup_(freep) char *usage = xasprintf("%s %s", command_table[i].name, command_table[i].word);
        fprintf(out, "  %-18s%s\n", usage, command_table[i].about);
    }
    return EXIT_DONE;
}

size_t command_names(const char **ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(command_table); i++)
        ret[i] = command_table[i].name;
    return ARRAY_SIZE(command_table);
}

int command_run(struct query *q, const char *line)
{
    static const char gap[] = " \t\r;";
    size_t n = strcspn(line, gap);
    const char *begin = line + n + strspn(line + n, gap), *names[COMMANDS_MAX];
    _cleanup_(freep) char *name = xstrndup(line, n), *word = xstrndup(begin, strcspn(begin, gap));

    for (size_t i = 0; i < ARRAY_SIZE(command_table); i++)
        if (streq(command_table[i].name, name))
            return command_table[i].run(q, word);
    const char *near = nearest_name(name, names, command_names(names));
    return refuse(q, near ? xasprintf("there is no command %s; is it %s?", name, near)
                          : xasprintf("there is no command %s; .help lists them", name));
}
