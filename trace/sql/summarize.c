/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/summarize.h"

#include "base/array.h"
#include "trace/sql/sums.h"
#include "trace/sql/tables.h"
#include <ctype.h>

/* -- Words ---------------------------------------------------------------------------------------------- */

enum clause {
    CLAUSE_SELECT,
    CLAUSE_FROM,
    CLAUSE_WHERE,
    CLAUSE_GROUP,
    CLAUSE_HAVING,
    CLAUSE_ORDER,
    CLAUSE_LIMIT
};

/* By enum clause. */
static const char *const clause_words[] = {"select", "from", "where", "group", "having", "order", "limit"};

/* Words of expressions; after some of them an operand is complete. */
static const struct {
    const char *word;
    bool is_operand;
} expression_words[] = {
    {"and", false},    {"or", false},   {"not", false},     {"in", false},   {"is", false},
    {"null", true},    {"like", false}, {"glob", false},    {"case", false}, {"when", false},
    {"then", false},   {"else", false}, {"between", false}, {"end", true},   {"asc", true},
    {"desc", true},    {"nulls", true}, {"first", true},    {"last", true},  {"isnull", true},
    {"notnull", true},
};

/* Functions whose result depends on nothing but their arguments, and that are no aggregates. */
static const char *const functions[] = {
    "round",  "abs",    "ifnull",    "coalesce", "nullif",  "iif",  "lower", "upper",
    "length", "substr", "substring", "instr",    "replace", "trim", "ltrim", "rtrim",
};

static const char *const key_words[] = {
    "name", "category", "cat", "track_id", "depth", "trace_id", "rank", "instance", "worker",
};

/* Compared with in WHERE. */
static const char *const condition_words[] = {"ts", "dur"};

#define COUNT_OF(key)                                                                                        \
    {                                                                                                        \
        "count", key, "coalesce(sum(\"slice count\") filter (where " key " is not null), 0)"                 \
    }

static const struct aggregate {
    const char *function, *argument, *sql;
} aggregates[] = {
    {"count", "*", "coalesce(sum(\"slice count\"), 0)"},
    COUNT_OF("name"),
    COUNT_OF("category"),
    COUNT_OF("cat"),
    COUNT_OF("track_id"),
    {"count", "dur", "coalesce(sum(\"dur count\"), 0)"},
    {"sum", "dur", "sum(\"dur sum\")"},
    {"total", "dur", "total(\"dur sum\")"},
    {"avg", "dur", "(sum(\"dur sum\") * 1.0 / sum(\"dur count\"))"},
    {"min", "dur", "min(\"dur min\")"},
    {"max", "dur", "max(\"dur max\")"},
    {"min", "ts", "min(\"ts min\")"},
    {"max", "ts", "max(\"ts max\")"},
};

/* -- Tokens --------------------------------------------------------------------------------------------- */

enum token_type {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_NUMBER,
    TOKEN_TEXT,
    TOKEN_SIGN, /* one of ( ) , + - * / % & or a run of < > = ! | */
    TOKEN_OTHER,
};

struct sql_token {
    enum token_type type;
    const char *p;
    size_t size;
};

static bool summarize_is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static size_t sql_token_number_size(const char *p)
{
    static const char digits[] = "0123456789";
    size_t n = strspn(p, digits);

    if (p[n] == '.')
        n += 1 + strspn(p + n + 1, digits);
    if (p[n] == 'e' || p[n] == 'E') {
        size_t exponent = strspn(p + n + 1, "+-") == 1 ? 2 : 1;

        n += strspn(p + n + exponent, digits) > 0 ? exponent + strspn(p + n + exponent, digits) : 0;
    }
    return n;
}

/* The size of a text with its quotes, 0 if it does not end. */
static size_t sql_token_text_size(const char *p)
{
    for (size_t n = 1; p[n]; n++) {
        if (p[n] != '\'')
            continue;
        if (p[n + 1] != '\'')
            return n + 1;
        n++;
    }
    return 0;
}

static struct sql_token sql_token_read(const char *p)
{
    struct sql_token t = {TOKEN_OTHER, p + strspn(p, " \t\r\n\f"), 0};
    char c = t.p[0];

    if (c == '\0' || c == ';') {
        t.type = TOKEN_END;
    } else if (isdigit((unsigned char)c)) {
        t.size = sql_token_number_size(t.p);
        t.type = summarize_is_word_char(t.p[t.size]) ? TOKEN_OTHER : TOKEN_NUMBER;
    } else if (summarize_is_word_char(c)) {
        while (summarize_is_word_char(t.p[t.size]))
            t.size++;
        /* A quote makes it the beginning of a blob. */
        t.type = t.p[t.size] == '\'' ? TOKEN_OTHER : TOKEN_WORD;
    } else if (c == '\'') {
        t.size = sql_token_text_size(t.p);
        t.type = t.size > 0 ? TOKEN_TEXT : TOKEN_OTHER;
    } else if (strchr("<>=!|", c)) {
        t.size = strspn(t.p, "<>=!|");
        t.type = TOKEN_SIGN;
    } else if (strchr("(),+-*/%&", c) && memcmp(t.p, "--", 2) != 0 && memcmp(t.p, "->", 2) != 0 &&
               memcmp(t.p, "/*", 2) != 0) {
        t.size = 1;
        t.type = TOKEN_SIGN;
    }
    return t;
}

static bool sql_token_is(struct sql_token t, const char *text)
{
    return t.size == strlen(text) && strncasecmp(t.p, text, t.size) == 0;
}

static bool sql_token_is_in(struct sql_token t, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sql_token_is(t, words[i]))
            return true;
    return false;
}

/* -- The statement -------------------------------------------------------------------------------------- */

#define ALIASES_MAX 64

struct summarizing {
    const char *at;
    struct sql_token token;
    sqlite3_str *out;
    const char *const *names;
    size_t n_names, item;
    enum clause clause;
    int nesting;        /* open parentheses */
    bool after_operand; /* of the last token, where no other operand may follow */
    bool item_has_name, has_aggregate;
    unsigned bare, groups; /* keys outside of aggregates, and of GROUP BY, a bit for each */
    struct sql_token aliases[ALIASES_MAX];
    size_t n_aliases;
};

static void summarize_advance(struct summarizing *s)
{
    s->token = sql_token_read(s->at);
    s->at = s->token.p + s->token.size;
}

static void summarize_copy(struct summarizing *s)
{
    sqlite3_str_appendchar(s->out, 1, ' ');
    sqlite3_str_append(s->out, s->token.p, (int)s->token.size);
}

static struct sql_token summarize_peek(const struct summarizing *s)
{
    return sql_token_read(s->at);
}

/* Ends an item of SELECT with the name that it has in the original. */
static bool summarize_end_item(struct summarizing *s)
{
    if (s->item == s->n_names)
        return false;
    if (!s->item_has_name)
        sqlite3_str_appendf(s->out, " as \"%w\"", s->names[s->item]);
    s->item++;
    s->item_has_name = false;
    return true;
}

/* The name of a column anywhere in the tables of slices. */
static bool summarize_is_column(struct sql_token t)
{
    static const char *const others[] = {"rowid", "oid", "_rowid_"};

    for (size_t i = 0; i < sql_tables_count; i++) {
        for (size_t k = 0; sums_has_table(&sql_tables[i]) && k < sql_tables[i].n_columns; k++)
            if (sql_token_is(t, sql_tables[i].columns[k].name))
                return true;
    }
    return sql_token_is_in(t, key_words, ARRAY_SIZE(key_words)) ||
           sql_token_is_in(t, others, ARRAY_SIZE(others));
}

static bool summarize_is_expression_word(struct sql_token t)
{
    for (size_t i = 0; i < ARRAY_SIZE(expression_words); i++)
        if (sql_token_is(t, expression_words[i].word))
            return true;
    return false;
}

/* AS and the name of an item. */
static bool summarize_take_alias(struct summarizing *s)
{
    if (s->clause != CLAUSE_SELECT || s->nesting > 0 || s->item_has_name || s->n_aliases == ALIASES_MAX)
        return false;
    summarize_copy(s);
    summarize_advance(s);
    if (s->token.type != TOKEN_WORD || summarize_is_column(s->token) ||
        summarize_is_expression_word(s->token))
        return false;
    summarize_copy(s);
    s->aliases[s->n_aliases++] = s->token;
    s->item_has_name = s->after_operand = true;
    return true;
}

/* A function's name, at which the summary is. */
static bool summarize_take_call(struct summarizing *s)
{
    struct sql_token function = s->token, argument;

    if (sql_token_is_in(function, functions, ARRAY_SIZE(functions))) {
        summarize_copy(s);
        return true;
    }
    summarize_advance(s);
    summarize_advance(s);
    argument = s->token;
    summarize_advance(s);
    for (size_t i = 0; i < ARRAY_SIZE(aggregates) && sql_token_is(s->token, ")"); i++) {
        struct sql_token next = summarize_peek(s);

        if (!sql_token_is(function, aggregates[i].function) ||
            !sql_token_is(argument, aggregates[i].argument))
            continue;
        if (sql_token_is(next, "filter") || sql_token_is(next, "over") || s->clause == CLAUSE_WHERE)
            return false;
        sqlite3_str_appendf(s->out, " %s", aggregates[i].sql);
        s->has_aggregate = s->has_aggregate || s->clause == CLAUSE_SELECT;
        s->after_operand = true;
        return true;
    }
    return false;
}

static bool summarize_take_name(struct summarizing *s)
{
    bool is_late = s->clause == CLAUSE_HAVING || s->clause == CLAUSE_ORDER;

    summarize_copy(s);
    s->after_operand = true;
    for (size_t i = 0; i < ARRAY_SIZE(key_words); i++) {
        if (!sql_token_is(s->token, key_words[i]))
            continue;
        if (s->clause != CLAUSE_WHERE)
            s->bare |= 1u << i;
        return true;
    }
    if (s->clause == CLAUSE_WHERE)
        return sql_token_is_in(s->token, condition_words, ARRAY_SIZE(condition_words));
    for (size_t i = 0; i < s->n_aliases && is_late; i++)
        if (s->token.size == s->aliases[i].size &&
            strncasecmp(s->token.p, s->aliases[i].p, s->token.size) == 0)
            return true;
    return false;
}

static bool summarize_take_word(struct summarizing *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(expression_words); i++) {
        if (!sql_token_is(s->token, expression_words[i].word))
            continue;
        summarize_copy(s);
        s->after_operand = expression_words[i].is_operand;
        /* Otherwise a table may follow. */
        return !sql_token_is(s->token, "in") || sql_token_is(summarize_peek(s), "(");
    }
    if (sql_token_is(s->token, "as"))
        return summarize_take_alias(s);
    /* A name without AS. */
    if (s->after_operand)
        return false;
    return sql_token_is(summarize_peek(s), "(") ? summarize_take_call(s) : summarize_take_name(s);
}

static bool summarize_take_sign(struct summarizing *s)
{
    char sign = s->token.p[0];

    /* All columns. */
    if (sign == '*' && !s->after_operand)
        return false;
    s->nesting += sign == '(' ? 1 : sign == ')' ? -1 : 0;
    if (s->nesting < 0)
        return false;
    if (sign == ',' && s->nesting == 0 && s->clause == CLAUSE_SELECT && !summarize_end_item(s))
        return false;
    summarize_copy(s);
    s->after_operand = sign == ')';
    return true;
}

static bool summarize_take_from(struct summarizing *s)
{
    for (size_t i = 0; i < sql_tables_count; i++) {
        if (!sums_has_table(&sql_tables[i]) || !sql_token_is(s->token, sql_tables[i].name))
            continue;
        sqlite3_str_appendf(s->out, " \"" SUMS_PREFIX "%w\"", sql_tables[i].name);
        summarize_advance(s);
        return true;
    }
    return false;
}

/* BY and keys; leaves the summary at the token after them. */
static bool summarize_take_groups(struct summarizing *s)
{
    if (!sql_token_is(s->token, "by"))
        return false;
    do {
        size_t key = 0;

        summarize_copy(s);
        summarize_advance(s);
        while (key < ARRAY_SIZE(key_words) && !sql_token_is(s->token, key_words[key]))
            key++;
        if (key == ARRAY_SIZE(key_words))
            return false;
        summarize_copy(s);
        s->groups |= 1u << key;
        summarize_advance(s);
    } while (sql_token_is(s->token, ","));
    return true;
}

/* The words that begin a clause. */
static bool summarize_begin_clause(struct summarizing *s, enum clause clause)
{
    /* WITH, UNION and subqueries have words that are nowhere in the tables, or a second SELECT. */
    if (clause <= s->clause || s->nesting > 0 || (clause == CLAUSE_HAVING && s->clause != CLAUSE_GROUP))
        return false;
    if (s->clause == CLAUSE_SELECT && (clause != CLAUSE_FROM || !summarize_end_item(s)))
        return false;
    s->clause = clause;
    s->after_operand = false;
    summarize_copy(s);
    summarize_advance(s);
    if (clause == CLAUSE_FROM)
        return summarize_take_from(s);
    if (clause == CLAUSE_GROUP)
        return summarize_take_groups(s);
    if (clause == CLAUSE_ORDER) {
        bool is_by = sql_token_is(s->token, "by");

        summarize_copy(s);
        summarize_advance(s);
        return is_by;
    }
    return true;
}

static bool summarize_take_limit(struct summarizing *s)
{
    if (s->token.type != TOKEN_NUMBER && !sql_token_is(s->token, "offset") && !sql_token_is(s->token, ","))
        return false;
    summarize_copy(s);
    return true;
}

static bool summarize_take_token(struct summarizing *s)
{
    /* Of tables and groups, everything was taken when the clause began. */
    if (s->clause == CLAUSE_FROM || s->clause == CLAUSE_GROUP)
        return false;
    if (s->clause == CLAUSE_LIMIT)
        return summarize_take_limit(s);
    switch (s->token.type) {
    case TOKEN_WORD:
        return summarize_take_word(s);
    case TOKEN_NUMBER:
    case TOKEN_TEXT:
        if (s->after_operand)
            return false;
        summarize_copy(s);
        s->after_operand = true;
        return true;
    case TOKEN_SIGN:
        return summarize_take_sign(s);
    default:
        return false;
    }
}

static bool summarize_take_clauses(struct summarizing *s)
{
    while (s->token.type != TOKEN_END) {
        enum clause clause = CLAUSE_FROM;

        while (clause <= CLAUSE_LIMIT && !sql_token_is(s->token, clause_words[clause]))
            clause++;
        if (clause <= CLAUSE_LIMIT) {
            if (!summarize_begin_clause(s, clause))
                return false;
            continue;
        }
        if (!summarize_take_token(s))
            return false;
        summarize_advance(s);
    }
    return true;
}

char *summarize(const char *sql, const char *const *names, size_t n)
{
    struct summarizing s = {.at = sql, .names = names, .n_names = n, .out = sqlite3_str_new(NULL)};
    bool taken;

    summarize_advance(&s);
    taken = sql_token_is(s.token, clause_words[CLAUSE_SELECT]);
    if (taken) {
        summarize_copy(&s);
        summarize_advance(&s);
        taken = summarize_take_clauses(&s) && s.clause > CLAUSE_SELECT && s.item == n && s.nesting == 0 &&
                s.has_aggregate && (s.bare & ~s.groups) == 0;
    }
    char *text = sqlite3_str_finish(s.out);
    if (!taken)
        sqlite3_free(TAKE_PTR(text));
    return text;
}

sqlite3_stmt *sql_prepare_faster(sqlite3 *db, sqlite3_stmt *statement)
{
    const char *names[SQL_COLUMNS_MAX] = {NULL};
    size_t n = (size_t)sqlite3_column_count(statement);
    sqlite3_stmt *faster = NULL;
    char *sql;

    if (n > ARRAY_SIZE(names))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        names[i] = sqlite3_column_name(statement, (int)i);
        if (!names[i])
            return NULL;
    }
    sql = summarize(sqlite3_sql(statement), names, n);
    if (sql)
        sqlite3_prepare_v2(db, sql, -1, &faster, NULL);
    sqlite3_free(sql);
    return faster;
}
