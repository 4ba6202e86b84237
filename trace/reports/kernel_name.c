/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/kernel_name.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <sys/resource.h>

/* -- Glob ------------------------------------------------------------------------------------------------ */

bool glob_matches(const char *glob, const char *text)
{
    /* Where to go on when what follows the last * does not fit: only that one ever needs another try. */
    const char *behind_star = NULL, *tried = NULL;

    for (;;) {
        if (*glob == '*') {
            while (*glob == '*')
                glob++;
            if (!*glob)
                return true;
            behind_star = glob;
            tried = text;
        } else if (*text && (*glob == *text || *glob == '?')) {
            glob++;
            text++;
            continue;
        } else if (!*glob && !*text) {
            return true;
        } else if (!behind_star || !*tried) {
            return false;
        } else {
            tried++;
        }
        if (*behind_star != '?')
            tried = strchr(tried, *behind_star);
        if (!tried)
            return false;
        glob = behind_star;
        text = tried;
    }
}

/* -- Kernel parts ---------------------------------------------------------------------------------------- */

#define DEPTH_MAX 64

static const struct {
    char open, close;
} brackets[] = {{'<', '>'}, {'(', ')'}, {'{', '}'}};

/* Brackets within which a position of the name lies. A > closes only a <, so that (8)>(0) is a comparison. */
struct nesting {
    char close[DEPTH_MAX];
    size_t depth; /* may exceed DEPTH_MAX: then nothing closes until the end */
};

static void kernel_part_step(struct nesting *n, char c)
{
    for (size_t i = 0; i < ARRAY_SIZE(brackets); i++)
        if (c == brackets[i].open) {
            if (n->depth < DEPTH_MAX)
                n->close[n->depth] = brackets[i].close;
            n->depth++;
            return;
        }
    if (n->depth > 0 && n->depth <= DEPTH_MAX && c == n->close[n->depth - 1])
        n->depth--;
}

static bool kernel_part_begins(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);

    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0;
}

/* Of the types of the parameters: the first ( outside of all brackets that belongs to no name. */
static size_t find_parameters(const char *name, size_t size)
{
    struct nesting n = {.depth = 0};

    for (size_t i = 0; i < size; i++) {
        if (n.depth == 0 && i > 0 && name[i] == '(' &&
            !kernel_part_begins(name + i, name + size, "(anonymous namespace)"))
            return i;
        kernel_part_step(&n, name[i]);
    }
    return size;
}

static char kernel_part_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

void kernel_lower(const char *name, size_t size, char *buf)
{
    size_t n = MIN(size, KERNEL_PARTS_MAX - 1);

    for (size_t i = 0; i < n; i++)
        buf[i] = kernel_part_lower(name[i]);
    buf[n] = '\0';
}

void kernel_template(const char *name, size_t size, char *buf)
{
    kernel_lower(name, find_parameters(name, MIN(size, KERNEL_PARTS_MAX - 1)), buf);
}

void kernel_function(const char *name, size_t size, char *buf)
{
    size_t end = find_parameters(name, MIN(size, KERNEL_PARTS_MAX - 1)), n = 0;
    struct nesting nesting = {.depth = 0};

    for (size_t i = 0; i < end; i++) {
        bool outside = nesting.depth == 0;
        kernel_part_step(&nesting, name[i]);
        if (!outside || nesting.depth > 0)
            continue;
        if (name[i] == ' ' && end < size)
            n = 0; /* the type of the result stood before it */
        else
            buf[n++] = kernel_part_lower(name[i]);
    }
    buf[n] = '\0';
}

/* -- Kernel name ----------------------------------------------------------------------------------------- */

/* What the library takes at most for each byte of a symbol that is nothing but nested pointers is 180. */
#define STACK_PER_BYTE 256

/* -- Demangling --------------------------------------------------------------------------------------- */

struct demangling {
    jmp_buf too_long;
    size_t size;
    char text[KERNEL_DEMANGLED_MAX];
};

static void demangling_append(const char *part, size_t size, void *arg)
{
    struct demangling *d = arg;

    if (size > sizeof(d->text) - d->size)
        longjmp(d->too_long, 1);
    memcpy(d->text + d->size, part, size);
    d->size += size;
}

/*
 * A symbol of a kilobyte can stand for a name of more bytes than there is memory, as substitutions may double
 * with each level. The library has no limit but its caller: with a callback it keeps everything on the stack,
 * so that leaving it by longjmp() leaks nothing.
 */
__attribute__((noinline)) static bool demangle_symbol(const char *symbol, struct demangling *d)
{
    if (setjmp(d->too_long) != 0)
        return false;
    return cplus_demangle_v3_callback(symbol, DMGL_PARAMS | DMGL_TYPES | DMGL_NO_RECURSE_LIMIT,
                                      demangling_append, d) != 0;
}

/* The library recurses as deeply as a symbol is nested; threads have stacks of the same limit. */
static bool has_stack_for(size_t symbol_size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_STACK, &limit) == 0 && symbol_size * STACK_PER_BYTE <= limit.rlim_cur / 2;
}

/* Nothing that is freed here is a variable of the function that setjmp() returns to twice. */
char *kernel_name_demangle(struct text name)
{
    _cleanup_(freep) char *symbol = NULL;
    _cleanup_(freep) struct demangling *d = NULL;

    if (!kernel_name_is_mangled(name) || name.size > KERNEL_SYMBOL_MAX || !has_stack_for(name.size))
        return NULL;
    symbol = strndup(name.p, name.size);
    d = malloc(sizeof(*d));
    if (!symbol || !d)
        return NULL;
    d->size = 0;
    return demangle_symbol(symbol, d) ? strndup(d->text, d->size) : NULL;
}

/* -- Comparing ---------------------------------------------------------------------------------------- */

/* A number inside a word is a size or a type (bf16, 64x128); one that stands alone is a version or a counter.
 */
static size_t kernel_name_skip_number(const char *p, size_t n, size_t at)
{
    size_t end = at;

    if (at > 0 && p[at - 1] != '_' && p[at - 1] != '.' && p[at - 1] != '-')
        return at;
    while (end < n && isdigit((unsigned char)p[end]))
        end++;
    return end == n || !(isalpha((unsigned char)p[end])) ? end : at;
}

char *kernel_name_normal(struct text name)
{
    static const char prefix[] = "void ";
    _cleanup_(freep) char *demangled = kernel_name_demangle(name);
    if (demangled)
        name = (struct text){demangled, strlen(demangled)};
    char *out = malloc(2 * name.size + 1), *p = out;
    size_t i = name.size > sizeof(prefix) - 1 && memcmp(name.p, prefix, sizeof(prefix) - 1) == 0
                   ? sizeof(prefix) - 1
                   : 0;
    int depth = 0;

    if (!out)
        return NULL;
    while (i < name.size) {
        char c = name.p[i];
        size_t end =
            isdigit((unsigned char)c) && depth == 0 ? kernel_name_skip_number(name.p, name.size, i) : i;
        if (c == '<' && depth++ == 0) {
            *p++ = '<';
            *p++ = '>';
        } else if (c == '>' && depth > 0) {
            depth--;
        } else if (c == '(' && depth == 0 && p > out && p[-1] != ':') {
            break;
        } else if (end > i) {
            *p++ = '#';
            i = end;
            continue;
        } else if (depth == 0) {
            *p++ = c;
        }
        i++;
    }
    *p = '\0';
    return out;
}
