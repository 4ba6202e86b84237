/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/slurm_text.h"

#include "base/alloc.h"
#include "base/array.h"
#include <ctype.h>
#include <errno.h>

#define JOB_ID_MAX 32 /* characters */

/* Text that grows. */
struct joined_text {
    char *text; /* NULL: nothing yet */
    size_t size, cap;
};

/* Columns of a line, borrowed from the text. */
struct line_columns {
    const char *at[3];
    size_t size[3];
};

bool slurm_is_job_id(const char *word, size_t size)
{
    size_t i = 0;

    while (i < size && isdigit((unsigned char)word[i]))
        i++;
    if (i == 0 || size > JOB_ID_MAX)
        return false;
    if (i == size)
        return true;
    if (word[i] != '_' && word[i] != '+')
        return false;
    size_t begin = ++i;
    while (i < size && isdigit((unsigned char)word[i]))
        i++;
    return i == size && i > begin;
}

static void joined_add(struct joined_text *j, const char *word, size_t size)
{
    if (!ARRAY_RESERVE(j->text, j->cap, j->size + size + 2))
        out_of_memory();
    if (j->size > 0)
        j->text[j->size++] = ',';
    memcpy(j->text + j->size, word, size);
    j->size += size;
    j->text[j->size] = '\0';
}

/* Splits the next line at '|' into n columns. False at the end; *ret_valid: whether it has as many. */
static bool read_line(const char **text, const char *end, size_t n, struct line_columns *ret, bool *ret_valid)
{
    if (*text >= end)
        return false;
    const char *newline = memchr(*text, '\n', (size_t)(end - *text));
    const char *line = *text, *line_end = newline ? newline : end;

    *text = line_end + 1;
    *ret_valid = false;
    for (size_t i = 0; i < n; i++) {
        const char *bar = memchr(line, '|', (size_t)(line_end - line));
        const char *column_end = bar ? bar : line_end;
        if (!bar && i + 1 < n)
            return true;
        ret->at[i] = line;
        ret->size[i] = (size_t)(column_end - line);
        while (ret->size[i] > 0 && line[ret->size[i] - 1] == ' ')
            ret->size[i]--;
        if (bar && i + 1 == n)
            return true;
        line = bar ? bar + 1 : line_end;
    }
    *ret_valid = true;
    return true;
}

static bool column_is(const struct line_columns *line, size_t column, const char *word)
{
    return line->size[column] == strlen(word) && memcmp(line->at[column], word, line->size[column]) == 0;
}

/* States in which the processes of a job run, of SchedMD/slurm src/common/slurm_protocol_defs.c, job_state_string(). */
static bool state_has_processes(const struct line_columns *line)
{
    static const char *const states[] = {"RUNNING",   "SUSPENDED", "STOPPED",
                                         "SIGNALING", "RESIZING",  "STAGE_OUT"};

    for (size_t i = 0; i < ARRAY_SIZE(states); i++)
        if (column_is(line, 0, states[i]))
            return true;
    return false;
}

int slurm_parse_job(const char *text, size_t size, char **ret_nodes, char **ret_state)
{
    const char *end = text + size;
    _cleanup_(freep) char *state = NULL;
    struct joined_text nodes = {0};
    struct line_columns line = {0};
    bool valid;

    while (read_line(&text, end, 3, &line, &valid)) {
        if (!valid) {
            free(nodes.text);
            return -EPROTO;
        }
        if (state_has_processes(&line) && line.size[2] > 0)
            joined_add(&nodes, line.at[2], line.size[2]);
        if (!state) {
            state = xstrndup(line.at[0], line.size[0]);
            for (char *c = state; *c; c++)
                *c = (char)tolower((unsigned char)*c);
        }
    }
    *ret_nodes = nodes.text;
    *ret_state = nodes.text ? NULL : TAKE_PTR(state);
    return nodes.text ? 0 : -ENOENT;
}

struct listed_node {
    const char *name, *address;
    size_t name_size, address_size, line;
    bool repeated; /* of another partition */
};

static int compare_listed_nodes(const void *a, const void *b)
{
    const struct listed_node *x = *(struct listed_node *const *)a, *y = *(struct listed_node *const *)b;
    int r = memcmp(x->name, y->name, MIN(x->name_size, y->name_size));

    if (r == 0)
        r = (x->name_size > y->name_size) - (x->name_size < y->name_size);
    return r != 0 ? r : (x->line > y->line) - (x->line < y->line);
}

static void mark_repeated_nodes(struct listed_node *nodes, size_t n)
{
    struct listed_node **sorted = xcalloc(MAX(n, (size_t)1), sizeof(struct listed_node *));

    for (size_t i = 0; i < n; i++)
        sorted[i] = &nodes[i];
    qsort(sorted, n, sizeof(struct listed_node *), compare_listed_nodes);
    for (size_t i = 1; i < n; i++)
        sorted[i]->repeated = sorted[i]->name_size == sorted[i - 1]->name_size &&
                              memcmp(sorted[i]->name, sorted[i - 1]->name, sorted[i]->name_size) == 0;
    free(sorted);
}

/* Not IPv6: a list of hosts has brackets of its own, and colons only before ports. */
static bool node_has_other_address(const struct listed_node *node)
{
    return node->address_size > 0 && !memchr(node->address, ':', node->address_size) &&
           (node->address_size != node->name_size || memcmp(node->address, node->name, node->name_size) != 0);
}

int slurm_parse_addresses(const char *text, size_t size, char **ret_addresses, size_t *ret_n)
{
    _cleanup_(freep) struct listed_node *nodes = NULL;
    const char *end = text + size;
    struct joined_text addresses = {0};
    struct line_columns line = {0};
    size_t n = 0, cap = 0, n_different = 0, n_other = 0;
    bool valid;

    while (read_line(&text, end, 2, &line, &valid)) {
        if (!valid || line.size[0] == 0)
            return -EPROTO;
        VEC_GROW(nodes, n, cap);
        nodes[n] = (struct listed_node){line.at[0], line.at[1], line.size[0], line.size[1], n, false};
        n++;
    }
    mark_repeated_nodes(nodes, n);
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].repeated)
            continue;
        bool other = node_has_other_address(&nodes[i]);
        joined_add(&addresses, other ? nodes[i].address : nodes[i].name,
                   other ? nodes[i].address_size : nodes[i].name_size);
        n_different++;
        n_other += other;
    }
    if (n_other == 0)
        free(TAKE_PTR(addresses.text));
    *ret_addresses = addresses.text;
    *ret_n = n_different;
    return 0;
}
