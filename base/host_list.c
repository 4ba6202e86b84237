/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host_list.h"

#include "base/alloc.h"
#include "base/array.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#define SEPARATORS    ", \t\n" /* between entries; Slurm's own set */
#define NAME_SIZE_MAX 254      /* with the NUL */
#define BRACKETS_MAX  8        /* of one entry: the expansion recurses once for each */
#define DIGITS_MAX    15       /* of a number: it fits into 64 bits */
#define RANGE_MAX     65536    /* hosts of one range; Slurm's MAX_RANGE */
#define PORT_TEXT_MAX 11       /* "65535-65535" */
#define PORT_MAX      65535

/* One entry of a list while it is expanded. */
struct entry_expansion {
    struct host_list *list;
    size_t max;
    char name[NAME_SIZE_MAX];
    const char *reason; /* of -EINVAL */
};

struct number_range {
    uint64_t low, high;
    int width;
};

static int refuse(const char **reason, const char *text)
{
    *reason = text;
    return -EINVAL;
}

/* Only digits, and not too many. */
static bool parse_number(const char *text, size_t size, uint64_t *ret)
{
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = number;
    return size > 0 && size <= DIGITS_MAX;
}

/* "07-12", "3" */
static int parse_range(const char *text, size_t size, struct number_range *ret, const char **reason)
{
    const char *dash = memchr(text, '-', size);
    size_t low_size = dash ? (size_t)(dash - text) : size;

    if (low_size > DIGITS_MAX || !parse_number(text, low_size, &ret->low))
        return refuse(reason, " has brackets with something other than numbers and ranges of numbers");
    ret->high = ret->low;
    ret->width = (int)low_size;
    if (dash && !parse_number(dash + 1, size - low_size - 1, &ret->high))
        return refuse(reason, " has brackets with something other than numbers and ranges of numbers");
    if (ret->low > ret->high)
        return refuse(reason, " has a range whose end is before its begin");
    if (ret->high - ret->low >= RANGE_MAX)
        return refuse(reason, " has a range of more than 65536 hosts");
    return 0;
}

static int entry_add_name(struct entry_expansion *e)
{
    if (e->list->n >= e->max)
        return -E2BIG;
    VEC_GROW(e->list->names, e->list->n, e->list->cap);
    e->list->names[e->list->n++] = xstrdup(e->name);
    return 0;
}

/* Appends literal text to the name, which is at bytes long. */
static int entry_append(struct entry_expansion *e, size_t at, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-._", text[i]))
            return refuse(&e->reason,
                          text[i] == ']' ? " has a ] without a [" : " has a character that no host name has");
    if (at + size >= sizeof(e->name))
        return refuse(&e->reason, " has a host name of more than 253 characters");
    memcpy(e->name + at, text, size);
    e->name[at + size] = '\0';
    return 0;
}

/* From text to end, after the at bytes of the name that are decided. */
static int entry_expand(struct entry_expansion *e, size_t at, const char *text, const char *end)
{
    const char *open = memchr(text, '[', (size_t)(end - text));
    const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
    size_t literal = (size_t)((open ? open : end) - text);
    int r = entry_append(e, at, text, literal);

    if (r < 0 || !open)
        return r < 0 ? r : entry_add_name(e);
    if (!close)
        return refuse(&e->reason, " has a [ without a ]");
    at += literal;
    for (const char *item = open + 1; item <= close && r == 0;) {
        struct number_range range;
        const char *comma = memchr(item, ',', (size_t)(close - item));
        const char *item_end = comma ? comma : close;

        r = parse_range(item, (size_t)(item_end - item), &range, &e->reason);
        for (uint64_t number = range.low; r == 0 && number <= range.high; number++) {
            char digits[2 * DIGITS_MAX];
            int n = snprintf(digits, sizeof(digits), "%0*" PRIu64, range.width, number);
            r = entry_append(e, at, digits, (size_t)n);
            if (r == 0)
                r = entry_expand(e, at + (size_t)n, close + 1, end);
        }
        item = item_end + 1;
    }
    return r;
}

/* The end of the entry at text: a separator outside of brackets. Counts its brackets. */
static const char *entry_end(const char *text, const char *end, size_t *ret_brackets)
{
    bool within = false;

    *ret_brackets = 0;
    for (; text < end && (within || !strchr(SEPARATORS, *text)); text++) {
        if (*text == '[' && !within)
            (*ret_brackets)++;
        if (*text == '[' || *text == ']')
            within = *text == '[';
        if (!*text)
            break;
    }
    return text;
}

int host_list_expand(const char *text, size_t size, size_t max, struct host_list *list, const char **reason)
{
    const char *end = text + size;
    size_t n_before = list->n, brackets;

    while (text < end) {
        struct entry_expansion e = {.list = list, .max = max};
        const char *until = entry_end(text, end, &brackets);

        if (until < end && !*until)
            return refuse(reason, " has a character that no host name has");
        int r = brackets > BRACKETS_MAX ? refuse(&e.reason, " has more than 8 pairs of brackets in one name")
                : until > text          ? entry_expand(&e, 0, text, until)
                                        : 0;
        if (r < 0) {
            *reason = e.reason;
            return r;
        }
        text = until + 1;
    }
    return list->n > n_before ? 0 : refuse(reason, " names no host");
}

void host_list_done(struct host_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct host_list){0};
}

static bool port_is_new(const int *ports, size_t n, int port)
{
    for (size_t i = 0; i < n; i++)
        if (ports[i] == port)
            return false;
    return true;
}

int port_list_expand(const char *text, size_t size, size_t max, int ports[], size_t *ret_n,
                     const char **reason)
{
    const char *end = text + size;
    size_t n = 0, n_items = 0;

    for (const char *item = text; item <= end;) {
        struct number_range range;
        const char *ignored, *comma = memchr(item, ',', (size_t)(end - item));
        const char *item_end = comma ? comma : end;

        if (item_end - item > PORT_TEXT_MAX ||
            parse_range(item, (size_t)(item_end - item), &range, &ignored) < 0 || range.low < 1 ||
            range.high > PORT_MAX)
            return refuse(reason, " is not a port, as 8000, or ports, as 8000-8003 or 8000,8010");
        /* Each costs time, also where all of its ports are known. */
        if (++n_items > max)
            return refuse(reason, " is too many ports for one host");
        for (uint64_t port = range.low; port <= range.high; port++) {
            if (!port_is_new(ports, n, (int)port))
                continue;
            if (n == max)
                return refuse(reason, " is too many ports for one host");
            ports[n++] = (int)port;
        }
        item = item_end + 1;
    }
    *ret_n = n;
    return 0;
}
