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
    const char *profile_id; /* of the name */
    struct slice pg_count;
    struct process_group *groups;
    size_t n_groups;
};

static bool instance_both(const char *a, const char *b)
{
    return a && b && *a && *b;
}

static bool instance_both_known(int64_t a, int64_t b)
{
    return a != INSTANCE_UNKNOWN && b != INSTANCE_UNKNOWN;
}

/* -- Evidence that is more than equality of one property ------------------------------------------------ */

/* Prefill and decode of one rank are recorded one after the other: they share no collective. */
static enum instance_belief instance_by_stage(const struct trace_witness *a, const struct trace_witness *b)
{
    const char *one = a->clues.stage ? a->clues.stage : "", *other = b->clues.stage ? b->clues.stage : "";

    return strcmp(one, other) != 0 ? INSTANCE_DIFFERENT : INSTANCE_UNDECIDED;
}

static struct slice instance_member(struct slice object, const char *name)
{
    struct slice rest = json_inside(object), key, value;

    while (json_next(&rest, &key, &value))
        if (slice_is(key, name))
            return value;
    return (struct slice){0};
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
static enum instance_belief instance_by_process_groups(const struct trace_witness *a,
                                                       const struct trace_witness *b)
{
    if (!instance_both_known(a->clues.rank, b->clues.rank))
        return INSTANCE_UNDECIDED;
    for (size_t i = 0; i < a->n_groups; i++) {
        const struct process_group *group = &a->groups[i], *same = NULL;
        /* Ranks of one job have most groups in common, in the same order. */
        if (i < b->n_groups && instance_slices_equal(b->groups[i].name, group->name))
            same = &b->groups[i];
        for (size_t k = 0; k < b->n_groups && !same; k++)
            if (instance_slices_equal(b->groups[k].name, group->name))
                same = &b->groups[k];
        if (!same || (instance_slices_equal(group->ranks, same->ranks) &&
                      instance_slices_equal(group->size, same->size)))
            continue;
        if (instance_list_has(group->ranks, a->clues.rank) && instance_list_has(group->ranks, b->clues.rank))
            return INSTANCE_DIFFERENT;
    }
    return INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_time(const struct trace_witness *a, const struct trace_witness *b)
{
    const struct instance_clues *one = &a->clues, *other = &b->clues;
    int64_t between;

    if (!instance_both_known(one->from_ns, other->from_ns) || !instance_both_known(one->to_ns, other->to_ns))
        return INSTANCE_UNDECIDED;
    bool far =
        __builtin_sub_overflow(MAX(one->from_ns, other->from_ns), MIN(one->to_ns, other->to_ns), &between) ||
        between > INSTANCE_DISTANCE_MAX_NS;
    return far ? INSTANCE_DIFFERENT : INSTANCE_UNDECIDED;
}

static enum instance_belief instance_by_group_count(const struct trace_witness *a,
                                                    const struct trace_witness *b)
{
    return a->pg_count.p && b->pg_count.p && !instance_slices_equal(a->pg_count, b->pg_count)
               ? INSTANCE_DIFFERENT
               : INSTANCE_UNDECIDED;
}

/* Returns the position of the only number that differs in two names; 0 if they differ in more. */
static size_t instance_common_stem(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    size_t stem = 0;

    while (a[stem] && a[stem] == b[stem])
        stem++;
    while (stem > 0 && a[stem - 1] >= '0' && a[stem - 1] <= '9')
        stem--;
    size_t n_a = strspn(a + stem, digits), n_b = strspn(b + stem, digits);
    return n_a > 0 && n_b > 0 && strcmp(a + stem + n_a, b + stem + n_b) == 0 ? stem : 0;
}

/* Files whose names differ only in the number of their rank: "decode-rank0.json.gz",
 * "decode-rank1.json.gz". */
static enum instance_belief instance_by_file_name(const struct trace_witness *a,
                                                  const struct trace_witness *b)
{
    static const char *const words[] = {"rank", "rank-", "rank_"};
    const char *one = a->clues.path, *other = b->clues.path;

    if (!instance_both(one, other) || strcmp(one, other) == 0)
        return INSTANCE_UNDECIDED;
    size_t stem = instance_common_stem(one, other);
    if (strchr(one + stem, '/'))
        return INSTANCE_UNDECIDED; /* the number belongs to a folder */
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t size = strlen(words[i]);
        if (stem >= size && strncasecmp(one + stem - size, words[i], size) == 0)
            return INSTANCE_SAME;
    }
    return INSTANCE_UNDECIDED;
}

/* Different ranks of worlds of the same size. */
static enum instance_belief instance_by_same_world(const struct trace_witness *a,
                                                   const struct trace_witness *b)
{
    const struct instance_clues *one = &a->clues, *other = &b->clues;

    return instance_both_known(one->world_size, other->world_size) && one->world_size == other->world_size &&
                   one->world_size > 1 && instance_both_known(one->rank, other->rank) &&
                   one->rank != other->rank
               ? INSTANCE_SAME
               : INSTANCE_UNDECIDED;
}

enum evidence_kind { EVIDENCE_TEXT, EVIDENCE_NUMBER, EVIDENCE_FUNCTION, EVIDENCE_EVENTS };

#define CLUE(member) offsetof(struct trace_witness, clues.member)

/* Strongest first: the first entry that decides counts. A text or number counts if it is known of both traces. */
static const struct evidence {
    const char *name;
    enum evidence_kind kind; /* EVIDENCE_EVENTS: the caller's function */
    size_t offset;
    enum instance_belief if_equal, if_different;
    enum instance_belief (*believe)(const struct trace_witness *a, const struct trace_witness *b);
} evidence[] = {
    {"recording", EVIDENCE_TEXT, CLUE(recording), .if_different = INSTANCE_DIFFERENT},
    {"stage", EVIDENCE_FUNCTION, .believe = instance_by_stage},
    /* Two traces cannot have the same rank in the same world. */
    {"rank", EVIDENCE_NUMBER, CLUE(rank), .if_equal = INSTANCE_DIFFERENT},
    {"world", EVIDENCE_NUMBER, CLUE(world_size), .if_different = INSTANCE_DIFFERENT},
    {"world", EVIDENCE_TEXT, CLUE(backend), .if_different = INSTANCE_DIFFERENT},
    {"process groups", EVIDENCE_FUNCTION, .believe = instance_by_process_groups},
    {"time", EVIDENCE_FUNCTION, .believe = instance_by_time},
    {"worker", EVIDENCE_TEXT, CLUE(worker), .if_equal = INSTANCE_SAME},
    {"server_info", EVIDENCE_TEXT, CLUE(group), .if_equal = INSTANCE_SAME},
    {"collectives", EVIDENCE_EVENTS},
    /* Two addresses without any evidence that they share something. */
    {"other worker", EVIDENCE_TEXT, CLUE(worker), .if_different = INSTANCE_DIFFERENT},
    /* One call that starts the profiler gives the same id to all ranks. */
    {"profile id", EVIDENCE_TEXT, offsetof(struct trace_witness, profile_id), INSTANCE_SAME,
     INSTANCE_DIFFERENT},
    {"pg_count", EVIDENCE_FUNCTION, .believe = instance_by_group_count},
    {"file name", EVIDENCE_FUNCTION, .believe = instance_by_file_name},
    {"same world", EVIDENCE_FUNCTION, .believe = instance_by_same_world},
};

#define UNDECIDED ARRAY_SIZE(evidence)

static enum instance_belief instance_compare(const struct evidence *e, const struct trace_witness *a,
                                             const struct trace_witness *b)
{
    const void *one = (const char *)a + e->offset, *other = (const char *)b + e->offset;

    if (e->kind == EVIDENCE_TEXT) {
        const char *x = *(const char *const *)one, *y = *(const char *const *)other;
        return !instance_both(x, y) ? INSTANCE_UNDECIDED : strcmp(x, y) == 0 ? e->if_equal : e->if_different;
    }
    int64_t x = *(const int64_t *)one, y = *(const int64_t *)other;
    return !instance_both_known(x, y) ? INSTANCE_UNDECIDED : x == y ? e->if_equal : e->if_different;
}

/* Returns the index of the evidence that decides; i and k identify the pair for the caller's function. */
static size_t instance_decide(const struct trace_witness *one, const struct trace_witness *other,
                              instance_events_fn events, void *arg, size_t i, size_t k,
                              enum instance_belief *ret)
{
    for (size_t e = 0; e < ARRAY_SIZE(evidence); e++) {
        if (evidence[e].kind == EVIDENCE_FUNCTION)
            *ret = evidence[e].believe(one, other);
        else if (evidence[e].kind == EVIDENCE_EVENTS)
            *ret = events ? events(arg, i, k) : INSTANCE_UNDECIDED;
        else
            *ret = instance_compare(&evidence[e], one, other);
        if (*ret != INSTANCE_UNDECIDED)
            return e;
    }
    return UNDECIDED;
}

static void instance_witness_done(struct trace_witness *w)
{
    free(w->groups);
}

/* ret stays at its address. */
static int instance_parse(const struct instance_clues *clues, struct trace_witness *ret)
{
    struct slice distributed = {clues->distributed,
                                clues->distributed ? clues->distributed + clues->distributed_size : NULL};
    struct slice rest = json_inside(instance_member(distributed, "pg_config")), key, group;

    *ret = (struct trace_witness){.clues = *clues,
                                  .profile_id = ret->name.profile_id,
                                  .pg_count = instance_member(distributed, "pg_count"),
                                  .groups = calloc(GROUPS_MAX, sizeof(*ret->groups))};
    if (!ret->groups)
        return -ENOMEM;
    trace_name_parse(clues->path ? clues->path : "", &ret->name);
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
    if (instance_parse(one, &first) >= 0 && instance_parse(other, &second) >= 0)
        e = instance_decide(&first, &second, NULL, NULL, 0, 0, ret);
    return e < UNDECIDED ? evidence[e].name : NULL;
}

/* -- Groups ------------------------------------------------------------------------------------------- */

struct bond {
    size_t strength;  /* the index of its evidence: smaller is stronger */
    int64_t distance; /* between the starts of the two recordings */
    size_t one, other;
};

static int instance_compare_bonds(const void *x, const void *y)
{
    const struct bond *a = x, *b = y;

    if (a->strength != b->strength)
        return a->strength < b->strength ? -1 : 1;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    if (a->one != b->one)
        return a->one < b->one ? -1 : 1;
    return a->other < b->other ? -1 : a->other > b->other;
}

static int64_t instance_start_distance(const struct instance_clues *a, const struct instance_clues *b)
{
    int64_t distance;

    if (!instance_both_known(a->from_ns, b->from_ns) ||
        __builtin_sub_overflow(a->from_ns, b->from_ns, &distance) || distance == INT64_MIN)
        return INT64_MAX;
    return llabs(distance);
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
    _cleanup_(freep) bool *separate =
        calloc(n * n + 1, sizeof(*separate)); /* by the first members: never in one group */
    _cleanup_(freep) size_t *heads = calloc(n + 1, sizeof(*heads));
    _cleanup_(freep) size_t *numbers = calloc(n + 1, sizeof(*numbers));

    if (!bonds || !separate || !heads || !numbers)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        heads[i] = i;
        for (size_t k = 0; k < i; k++) {
            enum instance_belief belief;
            size_t strength = instance_decide(&all[k], &all[i], events, arg, k, i, &belief);
            if (belief == INSTANCE_SAME)
                bonds[n_bonds++] =
                    (struct bond){strength, instance_start_distance(&all[k].clues, &all[i].clues), k, i};
            separate[i * n + k] = separate[k * n + i] = belief == INSTANCE_DIFFERENT;
        }
    }
    qsort(bonds, n_bonds, sizeof(*bonds), instance_compare_bonds);
    for (size_t b = 0; b < n_bonds; b++) {
        size_t one = instance_head_of(heads, bonds[b].one), other = instance_head_of(heads, bonds[b].other);
        if (one == other || separate[one * n + other])
            continue;
        heads[other] = one;
        for (size_t k = 0; k < n; k++)
            if (separate[other * n + k])
                separate[one * n + k] = separate[k * n + one] = true;
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
        r = instance_parse(&clues[i], &all[i]);
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

/* Returns the length of the prefix that the paths of all members have in common, and the number of members. */
static size_t instance_shared_prefix(const struct instance_clues *clues, size_t n, const size_t *numbers,
                                     size_t number, const char **ret_first, size_t *ret_n)
{
    const char *first = NULL;
    size_t size = 0;

    *ret_n = 0;
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
        ++*ret_n;
    }
    *ret_first = first ? first : "";
    return size;
}

/* "sst4" for sst4-rank0.json.gz and sst4-rank1.json.gz; the name of a single file; else the folder's name. */
static void instance_name_by_files(const struct instance_clues *clues, size_t n, const size_t *numbers,
                                   size_t number, char ret[INSTANCE_NAME_MAX])
{
    static const char *const endings[] = {"rank", "TP", "tp"};
    const char *first;
    size_t n_members, size = instance_shared_prefix(clues, n, numbers, number, &first, &n_members);
    bool is_single = n_members == 1;
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

enum { DISTINGUISH_RECORDING, DISTINGUISH_STAGE, DISTINGUISH_DP, _DISTINGUISH_MAX };

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
    for (int property = 0; property < _DISTINGUISH_MAX; property++) {
        _cleanup_(freep) bool *taken = instance_find_taken(ret, n_instances);
        for (size_t i = 0; i < n_instances; i++) {
            const struct instance_clues *c = instance_first_member(clues, n, numbers, i);
            if (!c || (taken && !taken[i]))
                continue;
            const char *space = *ret[i] ? " " : "";
            if (property == DISTINGUISH_RECORDING && c->recording && *c->recording)
                instance_append(ret[i], "%s%.16s", space, c->recording);
            else if (property == DISTINGUISH_STAGE && c->stage && *c->stage)
                instance_append(ret[i], "%s%.16s", space, c->stage);
            else if (property == DISTINGUISH_DP && c->dp != INSTANCE_UNKNOWN)
                instance_append(ret[i], "%sdp%" PRId64, space, c->dp);
        }
    }
    _cleanup_(freep) bool *taken = instance_find_taken(ret, n_instances);
    for (size_t i = 0; i < n_instances; i++)
        if (!taken || taken[i])
            instance_append_number(ret, n_instances, i);
}
