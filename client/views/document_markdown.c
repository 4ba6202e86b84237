/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown as CommonMark and GitHub read it. Plots are left out: tables have their figures.
 *
 * Names and responses are text: nothing in them becomes markup, HTML or a link.
 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/views/document.h"

/* GitHub and others make links of addresses and mentions of names, without any markup; escaping does not prevent
 * all of these. */
static bool becomes_link(const char *word)
{
    return strstr(word, "://") || strcasestr(word, "www.") || strchr(word, '@');
}

/* Code is never a link. Characters that end code or a cell of a table cannot be escaped in it. */
static void put_code(FILE *out, const char *word)
{
    putc('`', out);
    for (const char *c = word; *c; c++)
        putc(strchr("`|\\", *c) ? '?' : *c, out);
    putc('`', out);
}

/* Escapes every character that can begin markup within a line, or HTML. */
static void put_escaped(FILE *out, const char *word)
{
    for (const char *c = word; *c; c++) {
        if (strchr("\\`*_[]<>|#&~$", *c))
            putc('\\', out);
        putc(*c, out);
    }
}

/* "-", "+", "---", "===", "1.", "1)": at the beginning of a block, an item, a line or a heading. */
static bool begins_block(const char *word)
{
    size_t n = strlen(word), n_digits = strspn(word, "0123456789");
    bool is_number = n_digits > 0 && n == n_digits + 1 && strchr(".)", word[n_digits]);

    return n > 0 && (is_number || streq(word, "+") || strspn(word, "-") == n || strspn(word, "=") == n);
}

static void put_words(FILE *out, char *rest)
{
    for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
        (becomes_link(word) ? put_code : put_escaped)(out, word);
        if (rest)
            putc(' ', out);
    }
}

static void put_text(FILE *out, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);
    put_words(out, clean);
}

/* The beginning of a line, or of an item. */
static void put_paragraph(FILE *out, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);
    char *rest = clean + strspn(clean, " ");
    _cleanup_(freep) char *first = xstrndup(rest, strcspn(rest, " "));

    if (begins_block(first)) {
        /* Escapes the character after the digits of a number. */
        size_t n_digits = strspn(first, "0123456789");
        fprintf(out, "%.*s\\%s", (int)n_digits, first, first + n_digits);
        rest += strlen(first);
    }
    put_words(out, rest);
}

static void put_table(const struct table *t, FILE *out)
{
    size_t n = table_columns(t);

    for (size_t i = 0; i < n; i++) {
        fputs(i == 0 ? "| " : " | ", out);
        put_text(out, table_column(t, i)->name);
    }
    fputs(" |\n", out);
    for (size_t i = 0; i < n; i++)
        fputs(table_column(t, i)->flags & COLUMN_RIGHT ? "| ---: " : "| --- ", out);
    fputs("|\n", out);
    for (size_t row = 0; row < table_rows(t); row++) {
        for (size_t i = 0; i < n; i++) {
            const char *cell = table_cell(t, row, i);
            fputs(i == 0 ? "| " : " | ", out);
            put_text(out, cell ? cell : "-");
        }
        fputs(" |\n", out);
    }
    putc('\n', out);
}

/* next: the kind of the block after it: lists end with an empty line. */
static void put_block(const struct document_block *b, enum block_kind next, FILE *out)
{
    switch (b->kind) {
    case BLOCK_HEADING:
        fputs("## ", out);
        put_text(out, b->text ? b->text : b->name);
        fputs("\n\n", out);
        break;
    case BLOCK_TEXT:
    case BLOCK_NOTE:
        put_paragraph(out, b->text);
        fputs("\n\n", out);
        break;
    case BLOCK_ITEM:
        fputs("- ", out);
        put_paragraph(out, b->text);
        fputs(next == BLOCK_ITEM ? "\n" : "\n\n", out);
        break;
    case BLOCK_FIELD:
        fputs("- ", out);
        put_paragraph(out, b->name);
        fputs(*b->name ? ": " : "", out);
        put_text(out, b->text);
        fputs(next == BLOCK_FIELD ? "\n" : "\n\n", out);
        break;
    case BLOCK_STATE:
        put_paragraph(out, b->name);
        fputs(" is ", out);
        put_text(out, b->state.state);
        put_text(out, b->text);
        fputs("\n\n", out);
        break;
    case BLOCK_PROBLEM:
        put_paragraph(out, b->text);
        if (b->problem.remedy) {
            fputs("\n\n", out);
            put_paragraph(out, b->problem.remedy);
        }
        fputs("\n\n", out);
        break;
    case BLOCK_TABLE:
        put_table(b->table, out);
        break;
    default:
        break;
    }
}

int document_markdown(const struct document *d, FILE *out)
{
    fputs("# ", out);
    put_text(out, d->title);
    fputs("\n\n", out);
    for (size_t i = 0; i < d->n; i++)
        put_block(&d->blocks[i], i + 1 < d->n ? d->blocks[i + 1].kind : BLOCK_HEADING, out);
    return 0;
}
