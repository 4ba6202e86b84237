/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/ingest_ranks.h"

#include "base/alloc.h"
#include "base/array.h"
#include "client/cli/text.h"
#include "client/traces/trace.h"
#include <string.h>

/* More directories than this are counted, not named. */
#define DIRECTORIES_NAMED 3
/* A directory of more traces is no run of its own. */
#define RANKS_MAX 4096

struct ingest_group {
    char *directory;
    char **names; /* of ranks: "rank 3", "dp 0, tp 1" */
    size_t n, cap;
    int64_t world_size; /* 0: unknown */
    bool is_ambiguous;  /* a rank occurs twice, has no name, or is of another world */
};

static struct ingest_group *group_of(struct ingest_ranks *ranks, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 1;
    const char *directory = slash ? path : ".";

    for (size_t i = 0; i < ranks->n; i++)
        if (strlen(ranks->groups[i].directory) == size &&
            memcmp(ranks->groups[i].directory, directory, size) == 0)
            return &ranks->groups[i];
    VEC_GROW(ranks->groups, ranks->n, ranks->cap);
    struct ingest_group *ret = &ranks->groups[ranks->n++];
    *ret = (struct ingest_group){.directory = xasprintf("%.*s", (int)size, directory)};
    return ret;
}

/* Where the trace itself names no rank: "decode-rank_3.json.gz". */
static char *rank_in_file_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *found = NULL;

    for (const char *at = name; (at = strcasestr(at, "rank")); at += 4) {
        const char *number = at + 4 + (at[4] == '-' || at[4] == '_');
        found = *number >= '0' && *number <= '9' ? number : found;
    }
    return found ? xasprintf("rank %.*s", (int)strspn(found, "0123456789"), found) : NULL;
}

void ingest_ranks_add(struct ingest_ranks *ranks, const char *path, const json_t *trace)
{
    struct ingest_group *group = group_of(ranks, path);
    char *known = trace_rank(trace, false);
    _cleanup_(freep) char *name = known ? known : rank_in_file_name(path);
    int64_t world_size = json_get_int(trace, "world_size", 0);

    group->is_ambiguous |= group->n == RANKS_MAX || !name || json_get_str(trace, "session");
    group->is_ambiguous |= group->n > 0 && world_size != group->world_size;
    for (size_t i = 0; name && i < group->n; i++)
        group->is_ambiguous |= streq(group->names[i], name);
    group->world_size = world_size;
    if (group->is_ambiguous)
        return;
    VEC_GROW(group->names, group->n, group->cap);
    group->names[group->n++] = TAKE_PTR(name);
}

/* What a shell would not take as one word is left to the user. */
static bool is_word(const char *text)
{
    return text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+,:@%=")] ==
           '\0';
}

void ingest_ranks_note(struct client *c, const struct ingest_ranks *ranks)
{
    size_t n = 0;

    for (size_t i = 0; i < ranks->n; i++) {
        const struct ingest_group *group = &ranks->groups[i];
        if (group->is_ambiguous || group->n < 2 || n++ >= DIRECTORIES_NAMED)
            continue;
        _cleanup_(freep) char *clean = text_clean(group->directory, false);
        client_note(
            c, "%zu traces of %s look like ranks of one run\n  profctl ingest --session NAME %s groups them.",
            group->n, clean, is_word(group->directory) ? group->directory : "DIRECTORY");
    }
    if (n > DIRECTORIES_NAMED)
        client_note(c, "and so do those of %zu more directories", n - DIRECTORIES_NAMED);
}

void ingest_ranks_done(struct ingest_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        for (size_t k = 0; k < ranks->groups[i].n; k++)
            free(ranks->groups[i].names[k]);
        free(ranks->groups[i].names);
        free(ranks->groups[i].directory);
    }
    free(ranks->groups);
    *ranks = (struct ingest_ranks){0};
}
