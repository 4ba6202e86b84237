/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/slurm_text.h"

#include "base/alloc.h"
#include "base/array.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#define JOB_ID_MAX        32 /* characters */
#define NUMBER_DIGITS_MAX 9  /* at the end of a host that are a number of a range */

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

static void joined_append(struct joined_text *j, const char *text, size_t size)
{
    if (!ARRAY_RESERVE(j->text, j->cap, j->size + size + 1) || !j->text)
        out_of_memory();
    memcpy(j->text + j->size, text, size);
    j->size += size;
    j->text[j->size] = '\0';
}

static void joined_add(struct joined_text *j, const char *word, size_t size)
{
    if (j->size > 0)
        joined_append(j, ",", 1);
    joined_append(j, word, size);
}

/* Of several clusters ($SLURM_CLUSTERS), each begins with its name, and an empty line is between them (SchedMD/slurm
 * src/squeue/squeue.c, src/sinfo/sinfo.c). */
static bool line_is_heading(const char *line, size_t size)
{
    static const char heading[] = "CLUSTER: ";
    return size == 0 || (size >= sizeof(heading) - 1 && memcmp(line, heading, sizeof(heading) - 1) == 0);
}

/* Splits the next line at '|' into n columns. False at the end; *ret_valid: whether it has as many. */
static bool read_line(const char **text, const char *end, size_t n, struct line_columns *ret, bool *ret_valid)
{
    const char *line, *line_end;

    do {
        if (*text >= end)
            return false;
        const char *newline = memchr(*text, '\n', (size_t)(end - *text));
        line = *text;
        line_end = newline ? newline : end;
        *text = line_end + 1;
    } while (line_is_heading(line, (size_t)(line_end - line)));
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

/* A host as what stands before its last number, and that number. */
struct numbered_host {
    const char *text;
    size_t size, prefix_size;
    uint64_t number; /* prefix_size < size */
};

/* Numbers with leading zeros stay text: those of one list need not be as long. */
static struct numbered_host numbered_host_of(const char *text, size_t size)
{
    struct numbered_host h = {.text = text, .size = size, .prefix_size = size};

    while (h.prefix_size > 0 && size - h.prefix_size < NUMBER_DIGITS_MAX &&
           isdigit((unsigned char)text[h.prefix_size - 1]))
        h.prefix_size--;
    if (h.prefix_size < size && text[h.prefix_size] == '0' && size - h.prefix_size > 1)
        h.prefix_size = size;
    for (size_t i = h.prefix_size; i < size; i++)
        h.number = h.number * 10 + (uint64_t)(text[i] - '0');
    return h;
}

static bool hosts_share_prefix(const struct numbered_host *a, const struct numbered_host *b)
{
    return a->prefix_size < a->size && b->prefix_size < b->size && a->prefix_size == b->prefix_size &&
           memcmp(a->text, b->text, a->prefix_size) == 0;
}

/* "10.0.0.[1-3,7],other": a list that is sent within a URL must not grow with the number of hosts. The caller frees it. */
static char *hosts_join(const struct numbered_host *hosts, size_t n)
{
    struct joined_text list = {0};

    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && hosts_share_prefix(&hosts[i], &hosts[end]); end++)
            ;
        if (end == i + 1) {
            joined_add(&list, hosts[i].text, hosts[i].size);
            continue;
        }
        joined_add(&list, hosts[i].text, hosts[i].prefix_size);
        for (size_t k = i, last; k < end; k = last + 1) {
            char range[2 * (NUMBER_DIGITS_MAX + 2)];
            for (last = k; last + 1 < end && hosts[last + 1].number == hosts[last].number + 1; last++)
                ;
            int size = snprintf(range, sizeof(range), last > k ? "%c%" PRIu64 "-%" PRIu64 : "%c%" PRIu64,
                                k == i ? '[' : ',', hosts[k].number, hosts[last].number);
            joined_append(&list, range, (size_t)size);
        }
        joined_append(&list, "]", 1);
    }
    return list.text;
}

int slurm_parse_addresses(const char *text, size_t size, char **ret_addresses, size_t *ret_n)
{
    _cleanup_(freep) struct listed_node *nodes = NULL;
    _cleanup_(freep) struct numbered_host *hosts = NULL;
    const char *end = text + size;
    struct line_columns line = {0};
    size_t n = 0, cap = 0, n_hosts = 0, n_other = 0;
    bool valid;

    while (read_line(&text, end, 2, &line, &valid)) {
        if (!valid || line.size[0] == 0)
            return -EPROTO;
        VEC_GROW(nodes, n, cap);
        nodes[n] = (struct listed_node){line.at[0], line.at[1], line.size[0], line.size[1], n, false};
        n++;
    }
    mark_repeated_nodes(nodes, n);
    hosts = xcalloc(MAX(n, (size_t)1), sizeof(*hosts));
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].repeated)
            continue;
        bool other = node_has_other_address(&nodes[i]);
        hosts[n_hosts++] = other ? numbered_host_of(nodes[i].address, nodes[i].address_size)
                                 : numbered_host_of(nodes[i].name, nodes[i].name_size);
        n_other += other;
    }
    *ret_addresses = n_other > 0 ? hosts_join(hosts, n_hosts) : NULL;
    *ret_n = n_hosts;
    return 0;
}
