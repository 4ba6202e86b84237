/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/instance.h"

#include "trace/read/json_text.h"
#include "trace/read/tracename.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <strings.h>

/* Process groups beyond this number are not compared. */
#define GROUPS_MAX 256

struct process_group {
    struct slice name, size, ranks;
};

/* A trace with the facts from its name and its head, which are parsed once. */
struct trace_witness {
    struct instance_clues clues;
    struct trace_name name;
    struct process_group *groups;
    size_t n_groups;
};

typedef enum instance_belief (*evidence_fn)(const struct instance_clues *a, const struct instance_clues *b);

static bool instance_both(const char *a, const char *b)
{
    return a && b && *a && *b;
}

static bool instance_both_known(int64_t a, int64_t b)
{
    return a != INSTANCE_UNKNOWN && b != INSTANCE_UNKNOWN;
}

/* -- Evidence, one function each ---------------------------------------------------------------------- */

static enum instance_belief instance_by_recording(const struct instance_clues *a,
                                                  const struct instance_clues *b)
{
    return instance_both(a->recording, b->recording) && strcmp(a->recording, b->recording) != 0
               ? INSTANCE_DIFFERENT
               : INSTANCE_UNDECIDED;
}

/* Prefill and decode of one rank are recorded one after the other: they share no collective. */
static enum instance_belief instance_by_stage(const struct instance_clues *a, const struct instance_clues *b)
{
    return strcmp(a->stage ? a->stage : "", b->stage ? b->stage : "") != 0 ? INSTANCE_DIFFERENT
                                                                           : INSTANCE_UNDECIDED;
}

/* Two traces cannot have the same rank in the same world. */
static enum instance_belief instance_by_rank(const struct instance_clues *a, const struct instance_clues *b)
{
    return instance_both_known(a->rank, b->rank) && a->rank == b->rank ? INSTANCE_DIFFERENT
                                                                       : INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_world(const struct instance_clues *a, const struct instance_clues *b)
{
    bool differ = instance_both_known(a->world_size, b->world_size) && a->world_size != b->world_size;

    return differ || (instance_both(a->backend, b->backend) && strcmp(a->backend, b->backend) != 0)
               ? INSTANCE_DIFFERENT
               : INSTANCE_UNDECIDED;
}

static struct slice instance_member(struct slice object, const char *name)
{
    struct slice rest = json_inside(object), key, value;

    while (json_next(&rest, &key, &value))
        if (slice_is(key, name))
            return value;
    return (struct slice){0};
}

static struct slice instance_distributed_of(const struct instance_clues *c)
{
    return (struct slice){c->distributed, c->distributed ? c->distributed + c->distributed_size : NULL};
}

static bool instance_slices_equal(struct slice a, struct slice b)
{
    a = slice_unquoted(a);
    b = slice_unquoted(b);
    return a.end - a.p == b.end - b.p && (a.p == b.p || memcmp(a.p, b.p, (size_t)(a.end - a.p)) == 0);
}

static bool instance_list_has(struct slice list, int64_t number)
{
    struct slice rest = json_inside(list), key, value;
    int64_t one;

    while (json_next(&rest, &key, &value))
        if (slice_int(value, &one) && one == number)
            return true;
    return false;
}

/* A process group that contains both ranks is the same list on both. */
static enum instance_belief instance_by_process_groups(const struct instance_clues *a,
                                                       const struct instance_clues *b)
{
    const struct trace_witness *one = (const struct trace_witness *)a,
                               *other = (const struct trace_witness *)b;

    if (!instance_both_known(a->rank, b->rank))
        return INSTANCE_UNDECIDED;
    for (size_t i = 0; i < one->n_groups; i++) {
        const struct process_group *group = &one->groups[i], *same = NULL;
        /* Ranks of one job have most groups in common, in the same order. */
        if (i < other->n_groups && instance_slices_equal(other->groups[i].name, group->name))
            same = &other->groups[i];
        for (size_t k = 0; k < other->n_groups && !same; k++)
            if (instance_slices_equal(other->groups[k].name, group->name))
                same = &other->groups[k];
        if (!same || (instance_slices_equal(group->ranks, same->ranks) &&
                      instance_slices_equal(group->size, same->size)))
            continue;
        if (instance_list_has(group->ranks, a->rank) && instance_list_has(group->ranks, b->rank))
            return INSTANCE_DIFFERENT;
    }
    return INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_time(const struct instance_clues *a, const struct instance_clues *b)
{
    int64_t between;

    if (!instance_both_known(a->from_ns, b->from_ns) || !instance_both_known(a->to_ns, b->to_ns))
        return INSTANCE_UNDECIDED;
    bool far = __builtin_sub_overflow(MAX(a->from_ns, b->from_ns), MIN(a->to_ns, b->to_ns), &between) ||
               between > INSTANCE_APART_NS;
    return far ? INSTANCE_DIFFERENT : INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_worker(const struct instance_clues *a, const struct instance_clues *b)
{
    return instance_both(a->worker, b->worker) && strcmp(a->worker, b->worker) == 0 ? INSTANCE_SAME
                                                                                    : INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_group(const struct instance_clues *a, const struct instance_clues *b)
{
    return instance_both(a->group, b->group) && strcmp(a->group, b->group) == 0 ? INSTANCE_SAME
                                                                                : INSTANCE_UNDECIDED;
}

/* Two addresses without any evidence that they share something. */
static enum instance_belief instance_by_other_worker(const struct instance_clues *a,
                                                     const struct instance_clues *b)
{
    return instance_both(a->worker, b->worker) && strcmp(a->worker, b->worker) != 0 ? INSTANCE_DIFFERENT
                                                                                    : INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_group_count(const struct instance_clues *a,
                                                    const struct instance_clues *b)
{
    struct slice one = instance_member(instance_distributed_of(a), "pg_count"),
                 other = instance_member(instance_distributed_of(b), "pg_count");

    return one.p && other.p && !instance_slices_equal(one, other) ? INSTANCE_DIFFERENT : INSTANCE_UNDECIDED;
}

/* One call that starts the profiler gives the same id to all ranks. The clues of the table of evidence are
 * part of a witness. */
static enum instance_belief instance_by_profile_id(const struct instance_clues *a,
                                                   const struct instance_clues *b)
{
    const struct trace_name *one = &((const struct trace_witness *)a)->name,
                            *other = &((const struct trace_witness *)b)->name;

    if (!instance_both(one->profile_id, other->profile_id))
        return INSTANCE_UNDECIDED;
    return strcmp(one->profile_id, other->profile_id) == 0 ? INSTANCE_SAME : INSTANCE_DIFFERENT;
}

/* Returns the position of the only number that differs in two names; 0 if they differ in more. */
static size_t instance_common_stem(const char *a, const char *b)
{
    size_t stem = 0;

    while (a[stem] && a[stem] == b[stem])
        stem++;
    while (stem > 0 && a[stem - 1] >= '0' && a[stem - 1] <= '9')
        stem--;
    const char *rest_a = a + stem, *rest_b = b + stem;
    while (*rest_a >= '0' && *rest_a <= '9')
        rest_a++;
    while (*rest_b >= '0' && *rest_b <= '9')
        rest_b++;
    return rest_a > a + stem && rest_b > b + stem && strcmp(rest_a, rest_b) == 0 ? stem : 0;
}

/* Files whose names differ only in the number of their rank: "decode-rank0.json.gz",
 * "decode-rank1.json.gz". */
static enum instance_belief instance_by_file_name(const struct instance_clues *a,
                                                  const struct instance_clues *b)
{
    static const char *const words[] = {"rank", "rank-", "rank_"};

    if (!instance_both(a->path, b->path) || strcmp(a->path, b->path) == 0)
        return INSTANCE_UNDECIDED;
    size_t stem = instance_common_stem(a->path, b->path);
    if (strchr(a->path + stem, '/'))
        return INSTANCE_UNDECIDED; /* the number belongs to a folder */
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t size = strlen(words[i]);
        if (stem >= size && strncasecmp(a->path + stem - size, words[i], size) == 0)
            return INSTANCE_SAME;
    }
    return INSTANCE_UNDECIDED;
}

/* Different ranks of worlds of the same size. */
static enum instance_belief instance_by_same_world(const struct instance_clues *a,
                                                   const struct instance_clues *b)
{
    return instance_both_known(a->world_size, b->world_size) && a->world_size == b->world_size &&
                   a->world_size > 1 && instance_both_known(a->rank, b->rank) && a->rank != b->rank
               ? INSTANCE_SAME
               : INSTANCE_UNDECIDED;
}

/* Strongest first: the first entry that decides counts. EVENTS stands for the caller's function. */
#define EVENTS NULL
static const struct evidence {
    const char *name;
    evidence_fn believe;
} evidence[] = {
    {"recording", instance_by_recording},
    {"stage", instance_by_stage},
    {"rank", instance_by_rank},
    {"world", instance_by_world},
    {"process groups", instance_by_process_groups},
    {"time", instance_by_time},
    {"worker", instance_by_worker},
    {"server_info", instance_by_group},
    {"collectives", EVENTS},
    {"other worker", instance_by_other_worker},
    {"profile id", instance_by_profile_id},
    {"pg_count", instance_by_group_count},
    {"file name", instance_by_file_name},
    {"same world", instance_by_same_world},
};

#define UNDECIDED ARRAY_SIZE(evidence)

/* Returns the index of the evidence that decides; i and k identify the pair for the caller's function. */
static size_t instance_decide(const struct trace_witness *one, const struct trace_witness *other,
                              instance_events_fn events, void *arg, size_t i, size_t k,
                              enum instance_belief *ret)
{
    for (size_t e = 0; e < ARRAY_SIZE(evidence); e++) {
        *ret = evidence[e].believe ? evidence[e].believe(&one->clues, &other->clues)
               : events            ? events(arg, i, k)
                                   : INSTANCE_UNDECIDED;
        if (*ret != INSTANCE_UNDECIDED)
            return e;
    }
    return UNDECIDED;
}

static void instance_witness_done(struct trace_witness *w)
{
    free(w->groups);
}

static int instance_hear(const struct instance_clues *clues, struct trace_witness *ret)
{
    struct slice key, group;

    *ret = (struct trace_witness){.clues = *clues, .groups = calloc(GROUPS_MAX, sizeof(*ret->groups))};
    if (!ret->groups)
        return -ENOMEM;
    trace_name_parse(clues->path ? clues->path : "", &ret->name);
    struct slice rest = json_inside(instance_member(instance_distributed_of(clues), "pg_config"));
    while (ret->n_groups < GROUPS_MAX && json_next(&rest, &key, &group))
        ret->groups[ret->n_groups++] =
            (struct process_group){instance_member(group, "pg_name"), instance_member(group, "pg_size"),
                                   instance_member(group, "ranks")};
    return 0;
}

const char *instance_evidence(const struct instance_clues *one, const struct instance_clues *other,
                              enum instance_belief *ret)
{
    _cleanup_(instance_witness_done) struct trace_witness first = {0}, second = {0};
    size_t e = UNDECIDED;

    *ret = INSTANCE_UNDECIDED;
    if (instance_hear(one, &first) >= 0 && instance_hear(other, &second) >= 0)
        e = instance_decide(&first, &second, NULL, NULL, 0, 0, ret);
    return e < UNDECIDED ? evidence[e].name : NULL;
}

/* -- Groups ------------------------------------------------------------------------------------------- */

struct bond {
    size_t strength; /* the index of its evidence: smaller is stronger */
    int64_t apart;   /* distance between the starts of the two recordings */
    size_t one, other;
};

static int instance_compare_bonds(const void *x, const void *y)
{
    const struct bond *a = x, *b = y;

    if (a->strength != b->strength)
        return a->strength < b->strength ? -1 : 1;
    if (a->apart != b->apart)
        return a->apart < b->apart ? -1 : 1;
    if (a->one != b->one)
        return a->one < b->one ? -1 : 1;
    return a->other < b->other ? -1 : a->other > b->other;
}

static int64_t instance_beginnings_apart(const struct instance_clues *a, const struct instance_clues *b)
{
    int64_t apart;

    if (!instance_both_known(a->from_ns, b->from_ns) ||
        __builtin_sub_overflow(a->from_ns, b->from_ns, &apart) || apart == INT64_MIN)
        return INT64_MAX;
    return llabs(apart);
}

/* Returns the first member of the group and shortens the path to it. */
static size_t instance_head_of(size_t *heads, size_t i)
{
    while (heads[i] != i)
        i = heads[i] = heads[heads[i]];
    return i;
}

static int64_t instance_find_instances(const struct trace_witness *all, size_t n, instance_events_fn events,
                                       void *arg, size_t *ret)
{
    size_t n_pairs = n * (n - (n > 0)) / 2, n_bonds = 0, n_found = 0;
    _cleanup_(freep) struct bond *bonds = calloc(n_pairs + 1, sizeof(*bonds));
    _cleanup_(freep) bool *apart =
        calloc(n * n + 1, sizeof(*apart)); /* by the first members: never in one group */
    _cleanup_(freep) size_t *heads = calloc(n + 1, sizeof(*heads));
    _cleanup_(freep) size_t *numbers = calloc(n + 1, sizeof(*numbers));

    if (!bonds || !apart || !heads || !numbers)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        heads[i] = i;
        for (size_t k = 0; k < i; k++) {
            enum instance_belief belief;
            size_t strength = instance_decide(&all[k], &all[i], events, arg, k, i, &belief);
            if (belief == INSTANCE_SAME)
                bonds[n_bonds++] =
                    (struct bond){strength, instance_beginnings_apart(&all[k].clues, &all[i].clues), k, i};
            apart[i * n + k] = apart[k * n + i] = belief == INSTANCE_DIFFERENT;
        }
    }
    qsort(bonds, n_bonds, sizeof(*bonds), instance_compare_bonds);
    for (size_t b = 0; b < n_bonds; b++) {
        size_t one = instance_head_of(heads, bonds[b].one), other = instance_head_of(heads, bonds[b].other);
        if (one == other || apart[one * n + other])
            continue;
        heads[other] = one;
        for (size_t k = 0; k < n; k++)
            if (apart[other * n + k])
                apart[one * n + k] = apart[k * n + one] = true;
    }
    for (size_t i = 0; i < n; i++) {
        size_t head = instance_head_of(heads, i);
        if (numbers[head] == 0)
            numbers[head] = ++n_found;
        ret[i] = numbers[head] - 1;
    }
    return (int64_t)n_found;
}

int64_t instances_find(const struct instance_clues *clues, size_t n, instance_events_fn events, void *arg,
                       size_t *ret)
{
    _cleanup_(freep) struct trace_witness *all = calloc(n + 1, sizeof(*all));
    int64_t r = all ? 0 : -ENOMEM;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = instance_hear(&clues[i], &all[i]);
    if (r >= 0)
        r = instance_find_instances(all, n, events, arg, ret);
    for (size_t i = 0; i < n && all; i++)
        instance_witness_done(&all[i]);
    return r;
}

/* -- Names -------------------------------------------------------------------------------------------- */

static const char *instance_address_of(const char *url)
{
    const char *host = strstr(url, "://");

    return host ? host + 3 : url;
}

/* Keeps the common prefix of the text of all members, which may be empty; returns its length in bytes. */
static size_t instance_shared_prefix(const struct instance_clues *clues, size_t n, const size_t *numbers,
                                     size_t number, const char **ret_first)
{
    const char *first = NULL;
    size_t size = 0;

    for (size_t i = 0; i < n; i++) {
        if (numbers[i] != number)
            continue;
        const char *path = clues[i].path ? clues[i].path : "";
        if (!first) {
            first = path;
            size = strlen(path);
        }
        size_t same = 0;
        while (same < size && path[same] == first[same])
            same++;
        size = same;
    }
    *ret_first = first ? first : "";
    return size;
}

static size_t instance_count_members(size_t n, const size_t *numbers, size_t number)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += numbers[i] == number;
    return count;
}

/* "sst4" for sst4-rank0.json.gz and sst4-rank1.json.gz; the name of a single file; else the folder's name. */
static void instance_name_by_files(const struct instance_clues *clues, size_t n, const size_t *numbers,
                                   size_t number, char ret[INSTANCE_NAME_MAX])
{
    static const char *const endings[] = {"rank", "TP", "tp"};
    const char *first;
    size_t size = instance_shared_prefix(clues, n, numbers, number, &first);
    bool is_single = instance_count_members(n, numbers, number) == 1;
    size_t folder = 0;

    for (size_t i = 0; i < size; i++)
        if (first[i] == '/')
            folder = i + 1;
    if (is_single)
        size = folder + strcspn(first + folder, "."); /* without .pt.trace.json.gz */
    for (bool cut = !is_single, has_word = false; cut && size > folder;) {
        cut = strchr("-_. ", first[size - 1]) || (!has_word && strchr("0123456789", first[size - 1]));
        size -= cut;
        for (size_t i = 0; i < ARRAY_SIZE(endings) && !cut && !has_word; i++) {
            size_t length = strlen(endings[i]);
            if (size - folder >= length && strncmp(first + size - length, endings[i], length) == 0) {
                size -= length;
                cut = has_word = true;
            }
        }
    }
    if (size == folder && folder > 1) { /* a single file in a folder keeps its name */
        size_t begin = folder - 1;
        while (begin > 0 && first[begin - 1] != '/')
            begin--;
        size = folder - 1;
        folder = begin;
    }
    snprintf(ret, INSTANCE_NAME_MAX, "%.*s", (int)MIN(size - folder, (size_t)INSTANCE_NAME_MAX - 16),
             first + folder);
}

/* Workers of one instance: the first in order, and the number of others. */
static void instance_name_by_workers(const struct instance_clues *clues, size_t n, const size_t *numbers,
                                     size_t number, char ret[INSTANCE_NAME_MAX])
{
    const char *least = NULL;
    size_t others = 0;

    for (size_t i = 0; i < n; i++)
        if (numbers[i] == number && clues[i].worker && (!least || strcmp(clues[i].worker, least) < 0))
            least = clues[i].worker;
    for (size_t i = 0; i < n && least; i++) {
        bool is_new = numbers[i] == number && clues[i].worker && strcmp(clues[i].worker, least) != 0;
        for (size_t k = 0; k < i && is_new; k++)
            is_new =
                numbers[k] != number || !clues[k].worker || strcmp(clues[k].worker, clues[i].worker) != 0;
        others += is_new;
    }
    if (least && others > 0)
        snprintf(ret, INSTANCE_NAME_MAX, "%.90s+%zu", instance_address_of(least), others);
    else if (least)
        snprintf(ret, INSTANCE_NAME_MAX, "%.90s", instance_address_of(least));
}

static const struct instance_clues *instance_first_member(const struct instance_clues *clues, size_t n,
                                                          const size_t *numbers, size_t number)
{
    for (size_t i = 0; i < n; i++)
        if (numbers[i] == number)
            return &clues[i];
    return NULL;
}

static bool instance_is_taken(char (*names)[INSTANCE_NAME_MAX], size_t n_instances, size_t number)
{
    for (size_t i = 0; i < n_instances; i++)
        if (i != number && strcmp(names[i], names[number]) == 0)
            return true;
    return false;
}

static void instance_append(char name[INSTANCE_NAME_MAX], const char *format, ...) _printf_(2, 3);
static void instance_append(char name[INSTANCE_NAME_MAX], const char *format, ...)
{
    size_t used = strlen(name);
    va_list ap;

    va_start(ap, format);
    vsnprintf(name + used, INSTANCE_NAME_MAX - used, format, ap);
    va_end(ap);
}

enum { TELL_RECORDING, TELL_STAGE, TELL_DP, _TELL_MAX };

/* Instances with an empty name or the name of another one. NULL without memory: then all of them. */
static bool *instance_find_taken(char (*names)[INSTANCE_NAME_MAX], size_t n_instances)
{
    bool *taken = calloc(n_instances + 1, sizeof(*taken));

    for (size_t i = 0; taken && i < n_instances; i++)
        taken[i] = !*names[i] || instance_is_taken(names, n_instances, i);
    return taken;
}

/* Extends a name by the number of its instance, or by the next number that makes a name which no other has: a file
 * may be called "#2". */
static void instance_append_number(char (*names)[INSTANCE_NAME_MAX], size_t n_instances, size_t instance)
{
    char base[INSTANCE_NAME_MAX - sizeof(" #18446744073709551615") + 1];
    size_t number = instance;

    snprintf(base, sizeof(base), "%s", names[instance]);
    do
        snprintf(names[instance], INSTANCE_NAME_MAX, "%s%s#%zu", base, *base ? " " : "", ++number);
    while (instance_is_taken(names, n_instances, instance));
}

void instances_name(const struct instance_clues *clues, size_t n, const size_t *numbers, size_t n_instances,
                    char (*ret)[INSTANCE_NAME_MAX])
{
    for (size_t i = 0; i < n_instances; i++) {
        ret[i][0] = '\0';
        instance_name_by_workers(clues, n, numbers, i, ret[i]);
        if (!*ret[i])
            instance_name_by_files(clues, n, numbers, i, ret[i]);
    }
    /* Names that several instances have are extended by one property after the other, at last by a number. */
    for (int tell = 0; tell < _TELL_MAX; tell++) {
        _cleanup_(freep) bool *taken = instance_find_taken(ret, n_instances);
        for (size_t i = 0; i < n_instances; i++) {
            const struct instance_clues *c = instance_first_member(clues, n, numbers, i);
            if (!c || (taken && !taken[i]))
                continue;
            const char *space = *ret[i] ? " " : "";
            if (tell == TELL_RECORDING && c->recording && *c->recording)
                instance_append(ret[i], "%s%.16s", space, c->recording);
            else if (tell == TELL_STAGE && c->stage && *c->stage)
                instance_append(ret[i], "%s%.16s", space, c->stage);
            else if (tell == TELL_DP && c->dp != INSTANCE_UNKNOWN)
                instance_append(ret[i], "%sdp%" PRId64, space, c->dp);
        }
    }
    _cleanup_(freep) bool *taken = instance_find_taken(ret, n_instances);
    for (size_t i = 0; i < n_instances; i++)
        if (!taken || taken[i])
            instance_append_number(ret, n_instances, i);
}
