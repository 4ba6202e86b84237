/* SPDX-License-Identifier: Apache-2.0 */
#include "client/query/schema.h"

#include "base/alloc.h"
#include "trace/sql/query.h"

#define FUNCTIONS "SELECT DISTINCT name FROM pragma_function_list WHERE name GLOB '[a-z]*'"

/* -- Words -------------------------------------------------------------------------------------------- */

struct word_list {
    char **items;
    size_t n, cap;
};

static void words_add(struct word_list *w, const char *word, size_t size)
{
    VEC_GROW(w->items, w->n, w->cap);
    w->items[w->n++] = xstrndup(word, size);
}

static int compare_words(const void *a, const void *b)
{
    return strcasecmp(*(char *const *)a, *(char *const *)b);
}

static void words_sort(struct word_list *w)
{
    size_t n = 0;

    if (w->n > 0)
        qsort(w->items, w->n, sizeof(*w->items), compare_words);
    for (size_t i = 0; i < w->n; i++)
        if (n == 0 || strcasecmp(w->items[n - 1], w->items[i]) != 0)
            w->items[n++] = w->items[i];
        else
            free(w->items[i]);
    w->n = n;
}

/* The first column of all rows of a statement. */
static void words_add_answers(struct word_list *w, sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK)
        while (sqlite3_step(statement) == SQLITE_ROW) {
            const char *word = (const char *)sqlite3_column_text(statement, 0);
            if (word)
                words_add(w, word, strlen(word));
        }
    sqlite3_finalize(statement);
}

static void words_add_keywords(struct word_list *w)
{
    const char *word;
    int size;

    for (int i = 0; i < sqlite3_keyword_count(); i++)
        if (sqlite3_keyword_name(i, &word, &size) == SQLITE_OK)
            words_add(w, word, (size_t)size);
}

/* -- Tables ------------------------------------------------------------------------------------------- */

static bool schema_read_table(sqlite3 *db, const char *name, struct schema_table *ret)
{
    _cleanup_(freep) char *sql = xasprintf("SELECT * FROM \"%s\"", name);
    sqlite3_stmt *statement = NULL;
    bool is_table = sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK;

    if (is_table) {
        ret->name = xstrdup(name);
        ret->n_columns = (size_t)sqlite3_column_count(statement);
        ret->columns = xcalloc(ret->n_columns, sizeof(*ret->columns));
        ret->types = xcalloc(ret->n_columns, sizeof(*ret->types));
        for (size_t i = 0; i < ret->n_columns; i++) {
            const char *type = sqlite3_column_decltype(statement, (int)i);
            ret->columns[i] = xstrdup(sqlite3_column_name(statement, (int)i));
            ret->types[i] = xstrdup(type ? type : "");
        }
    }
    sqlite3_finalize(statement);
    return is_table;
}

/* ----------------------------------------------------------------------------------------------------- */

static void schema_gather_words(struct schema *s, sqlite3 *db)
{
    struct word_list w = {0};

    words_add_keywords(&w);
    words_add_answers(&w, db, FUNCTIONS);
    for (size_t i = 0; i < s->n_tables; i++) {
        words_add(&w, s->tables[i].name, strlen(s->tables[i].name));
        for (size_t k = 0; k < s->tables[i].n_columns; k++)
            words_add(&w, s->tables[i].columns[k], strlen(s->tables[i].columns[k]));
    }
    words_sort(&w);
    s->words = (const char **)w.items;
    s->n_words = w.n;
}

struct schema *schema_read(sqlite3 *db)
{
    struct schema *s = xcalloc(1, sizeof(*s));
    size_t cap = 0;

    for (size_t i = 0; sql_table_name(i); i++) {
        VEC_GROW(s->tables, s->n_tables, cap);
        s->n_tables += schema_read_table(db, sql_table_name(i), &s->tables[s->n_tables]);
    }
    schema_gather_words(s, db);
    return s;
}

struct schema *schema_free(struct schema *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_tables; i++) {
        for (size_t k = 0; k < s->tables[i].n_columns; k++) {
            free(s->tables[i].columns[k]);
            free(s->tables[i].types[k]);
        }
        free(s->tables[i].name);
        free(s->tables[i].columns);
        free(s->tables[i].types);
    }
    for (size_t i = 0; i < s->n_words; i++)
        free((char *)s->words[i]);
    free(s->tables);
    free(s->words);
    free(s);
    return NULL;
}

const struct schema_table *schema_find(const struct schema *s, const char *name)
{
    for (size_t i = 0; i < s->n_tables; i++)
        if (strcasecmp(s->tables[i].name, name) == 0)
            return &s->tables[i];
    return NULL;
}
