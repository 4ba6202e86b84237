/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/kernel_parts.h"

#define DEPTH_MAX 64

static const struct {
    char open, close;
} brackets[] = {{'<', '>'}, {'(', ')'}, {'{', '}'}};

/* Brackets within which a place of the name lies. A > closes only a <, so that (8)>(0) is a comparison. */
struct nesting {
    char close[DEPTH_MAX];
    size_t depth; /* may exceed DEPTH_MAX: then nothing closes until the end */
};

static void step(struct nesting *n, char c)
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

static bool begins(const char *p, const char *end, const char *word)
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
            !begins(name + i, name + size, "(anonymous namespace)"))
            return i;
        step(&n, name[i]);
    }
    return size;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

void kernel_lower(const char *name, size_t size, char *buf)
{
    size_t n = MIN(size, KERNEL_PARTS_MAX - 1);

    for (size_t i = 0; i < n; i++)
        buf[i] = lower(name[i]);
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
        step(&nesting, name[i]);
        if (!outside || nesting.depth > 0)
            continue;
        if (name[i] == ' ' && end < size)
            n = 0; /* the type of the result stood before it */
        else
            buf[n++] = lower(name[i]);
    }
    buf[n] = '\0';
}
