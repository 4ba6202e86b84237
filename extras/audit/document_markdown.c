/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markdown as CommonMark and GitHub read it. Plots are left out: their figures stand in tables.
 *
 * Names and answers of others are text: nothing in them becomes markup, HTML or a link.
 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "extras/audit/document.h"

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

/* "-", "+", "---", "===", "1.", "1)": at the beginning of a block, an item, a line or a heading. */
static bool begins_block(const char *word)
{
    size_t n = strlen(word), n_digits = strspn(word, "0123456789");
    bool is_number = n_digits > 0 && n == n_digits + 1 && strchr(".)", word[n_digits]);

    return n > 0 && (is_number || streq(word, "+") || strspn(word, "-") == n || strspn(word, "=") == n);
}

/* Of a number, what follows its digits is escaped. */
static void put_no_block(FILE *out, const char *word)
{
    size_t n_digits = strspn(word, "0123456789");
    fprintf(out, "%.*s\\%s", (int)n_digits, word, word + n_digits);
}

static void put_words(FILE *out, char *rest)
{
    for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
        (becomes_link(word) ? put_code : put_escaped)(out, word);
        if (rest)
            putc(' ', out);
    }
}

static void put(FILE *out, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);
    put_words(out, clean);
}

/* What stands at the beginning of a line, or of an item. */
static void put_paragraph(FILE *out, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);
    char *rest = clean + strspn(clean, " ");
    _cleanup_(freep) char *first = xstrndup(rest, strcspn(rest, " "));

    if (begins_block(first)) {
        put_no_block(out, first);
        rest += strlen(first);
    }
    put_words(out, rest);
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
        put_paragraph(out, b->text);
        fputs("\n\n", out);
        break;
    case BLOCK_ITEM:
        fputs("- ", out);
        put_paragraph(out, b->text);
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
