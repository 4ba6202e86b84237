/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown as CommonMark and GitHub read it. Plots are left out: their figures stand in tables.
 *
 * Names and answers of others are text: nothing in them becomes markup, HTML or a link.
 */
#include "client/audit/document.h"
#include "client/text/text.h"

/* What GitHub and others make a link of without any markup, or a message to somebody. Escaping does not stop
 * all of them. */
static bool becomes_link(const char *word)
{
    return strstr(word, "://") || strcasestr(word, "www.") || strchr(word, '@');
}

/* Code is never a link. What would end it, or a cell of a table, cannot be escaped there. */
static void put_code(FILE *out, const char *word)
{
    putc('`', out);
    for (const char *c = word; *c; c++)
        putc(strchr("`|\\", *c) ? '?' : *c, out);
    putc('`', out);
}

/* Whatever could begin markup inside of a line, or HTML, is escaped. */
static void put_escaped(FILE *out, const char *word)
{
    for (const char *c = word; *c; c++) {
        if (strchr("\\`*_[]<>|#&~$", *c))
            putc('\\', out);
        putc(*c, out);
    }
}

static void put(FILE *out, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);
    char *rest = clean;

    for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
        (becomes_link(word) ? put_code : put_escaped)(out, word);
        if (rest)
            putc(' ', out);
    }
}

static void put_table(const struct table_block *t, FILE *out)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        fputs(i == 0 ? "| " : " | ", out);
        put(out, t->headings[i]);
    }
    fputs(" |\n", out);
    for (size_t i = 0; i < t->n_columns; i++)
        fputs(t->is_text[i] ? "| --- " : "| ---: ", out);
    fputs("|\n", out);
    for (size_t row = 0; row < t->n_rows; row++) {
        for (size_t i = 0; i < t->n_columns; i++) {
            fputs(i == 0 ? "| " : " | ", out);
            put(out, t->cells[row * t->n_columns + i]);
        }
        fputs(" |\n", out);
    }
    putc('\n', out);
}

static void put_block(const struct block *b, bool next_is_item, FILE *out)
{
    switch (b->kind) {
    case BLOCK_HEADING:
        fputs("## ", out);
        put(out, b->text);
        fputs("\n\n", out);
        break;
    case BLOCK_TEXT:
        put(out, b->text);
        fputs("\n\n", out);
        break;
    case BLOCK_ITEM:
        fputs("- ", out);
        put(out, b->text);
        fputs(next_is_item ? "\n" : "\n\n", out);
        break;
    case BLOCK_TABLE:
        put_table(&b->table, out);
        break;
    case BLOCK_PLOT:
        break;
    }
}

void document_markdown(const struct document *d, FILE *out)
{
    fputs("# ", out);
    put(out, d->title);
    fputs("\n\n", out);
    for (size_t i = 0; i < d->n; i++)
        put_block(&d->blocks[i], i + 1 < d->n && d->blocks[i + 1].kind == BLOCK_ITEM, out);
}
