/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/kernel_name.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <sys/resource.h>

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
__attribute__((noinline)) static bool demangle(const char *symbol, struct demangling *d)
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
    return demangle(symbol, d) ? strndup(d->text, d->size) : NULL;
}

/* -- Comparing ---------------------------------------------------------------------------------------- */

/* A number inside a word is a size or a type (bf16, 64x128); one that stands alone is a version or a counter.
 */
static size_t skip_number(const char *p, size_t n, size_t at)
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
        size_t end = isdigit((unsigned char)c) && depth == 0 ? skip_number(name.p, name.size, i) : i;
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
