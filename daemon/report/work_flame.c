/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph as arrays: what profctl flame draws, without the frames that would be narrower than a pixel. */
#include "base/alloc.h"
#include "daemon/report/work_internal.h"
#include "trace/reports/flame.h"
#include <errno.h>
#include <inttypes.h>

/* A frame below this share of the total is joined with its like; and frames that are kept at most. Each of them may have one
 * more for what is joined in it. */
#define SHARE_PARTS 10000
#define FRAMES_MAX  10000
#define JOINED_NAME "(small frames)"
#define NODE_NONE   INT64_MIN
#define NODE_ROOT   INT64_C(-1)

struct flame_node {
    int64_t parent, name, total, self, count;
};

struct flame_nodes {
    struct flame_node *items;
    size_t n;
    int64_t *of_frame;  /* its node; NODE_NONE: it is joined */
    int64_t *joined_in; /* of each frame, the node of its small children; NODE_NONE: none yet */
};

static void flame_nodes_done(struct flame_nodes *n)
{
    free(n->items);
    free(n->of_frame);
    free(n->joined_in);
}

static size_t flame_count_from(const struct flame *f, int64_t least)
{
    size_t n = 0;

    for (size_t i = 1; i < f->n; i++)
        n += f->frames[i].total >= least;
    return n;
}

/* The time of the narrowest frame that is kept. */
static int64_t flame_least(const struct flame *f)
{
    int64_t least = MAX(f->frames[FLAME_ROOT].total / SHARE_PARTS, INT64_C(1));

    while (flame_count_from(f, least) > FRAMES_MAX && least < INT64_MAX / 2)
        least *= 2;
    return least;
}

static void flame_join(struct flame_nodes *nodes, const struct flame_frame *frame, int64_t name)
{
    int64_t *at = &nodes->joined_in[frame->parent];

    if (*at == NODE_NONE) {
        *at = (int64_t)nodes->n++;
        nodes->items[*at] = (struct flame_node){.parent = nodes->of_frame[frame->parent], .name = name};
    }
    struct flame_node *joined = &nodes->items[*at];
    joined->total = add_time(joined->total, frame->total);
    joined->self = joined->total;
    joined->count += (int64_t)frame->count;
}

/* A parent comes before its frames, and so do nodes. */
static void flame_make_nodes(const struct flame *f, int64_t joined_name, struct flame_nodes *ret)
{
    int64_t least = flame_least(f);

    *ret = (struct flame_nodes){.items = xcalloc(2 * MIN(f->n, (size_t)FRAMES_MAX) + 2, sizeof(*ret->items)),
                                .of_frame = xcalloc(f->n, sizeof(*ret->of_frame)),
                                .joined_in = xcalloc(f->n, sizeof(*ret->joined_in))};
    for (size_t i = 0; i < f->n; i++)
        ret->of_frame[i] = ret->joined_in[i] = NODE_NONE;
    ret->of_frame[FLAME_ROOT] = NODE_ROOT;
    for (size_t i = 1; i < f->n; i++) {
        const struct flame_frame *frame = &f->frames[i];
        if (ret->of_frame[frame->parent] == NODE_NONE || frame->total <= 0)
            continue; /* within what is joined, or only launched nothing in the view */
        if (frame->total < least) {
            flame_join(ret, frame, joined_name);
            continue;
        }
        ret->of_frame[i] = (int64_t)ret->n;
        ret->items[ret->n++] = (struct flame_node){.parent = ret->of_frame[frame->parent],
                                                   .name = frame->name,
                                                   .total = frame->total,
                                                   .self = frame->self,
                                                   .count = (int64_t)frame->count};
    }
}

/* Of a graph of several traces: which they are, and what it does without. */
static void flame_write_lists(const struct work *work, const struct work_analysis *w, FILE *answer)
{
    _cleanup_json_ lists = json_object();
    json_t *names = json_array();

    if (!json_object_get(work->spec, "left"))
        return;
    for (size_t i = 0; i < w->n; i++)
        json_array_append_new(names, json_text(w->traces[i].name));
    json_object_set_new(lists, "traces", names);
    work_copy_lists(work->spec, lists);
    _cleanup_(freep) char *text = json_dumps(lists, JSON_COMPACT);
    text[strlen(text) - 1] = '\0';
    fprintf(answer, ",%s", text + 1);
}

/* Of the names, those that nodes have, in the order of their first use. */
static void flame_write(const struct flame *f, struct flame_nodes *nodes, FILE *answer)
{
    _cleanup_(freep) int64_t *numbers = xcalloc(f->names.n + 1, sizeof(*numbers));
    int64_t n_names = 0;

    fputs("{\"unit\":\"ns\",\"names\":[", answer);
    for (size_t i = 0; i < nodes->n; i++) {
        int64_t *number = &numbers[nodes->items[i].name];
        if (*number == 0) {
            struct text name = f->names.items[nodes->items[i].name];
            _cleanup_(freep) char *text = xstrndup(name.p, name.size);
            _cleanup_json_ j = json_text(text);
            fputs(n_names > 0 ? "," : "", answer);
            json_dumpf(j, answer, JSON_ENCODE_ANY | JSON_COMPACT);
            *number = ++n_names;
        }
        nodes->items[i].name = *number - 1;
    }
    fputs("],\"nodes\":[", answer);
    for (size_t i = 0; i < nodes->n; i++) {
        const struct flame_node *node = &nodes->items[i];
        fprintf(answer, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "",
                node->parent, node->name, node->total, node->self, node->count);
    }
    fputc(']', answer);
}

/* "gpu" as profctl flame without --by; "host": everything that the host recorded. */
static int flame_read_choice(const json_t *spec, struct flame_choice *ret, struct problem *p)
{
    const char *by = json_get_str(spec, "by");

    *ret =
        (struct flame_choice){.by = FLAME_BY_OP, .of = FLAME_OF_GPU, .thread = json_get_str(spec, "thread")};
    if (!by || streq(by, "gpu"))
        return 0;
    if (streq(by, "host")) {
        ret->of = FLAME_OF_HOST;
        ret->by = FLAME_BY_STACK;
        return 0;
    }
    ret->by = flame_by_find(by);
    if (ret->by < _FLAME_BY_MAX)
        return 0;
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "by is gpu, host, op, stack or kernel, not %s", by);
}

int work_flame(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(work_analysis_done) struct work_analysis w = {0};
    _cleanup_(flame_done) struct flame f = {0};
    _cleanup_(flame_nodes_done) struct flame_nodes nodes = {0};
    struct flame_choice choice;

    int r = flame_read_choice(work->spec, &choice, p);
    if (r >= 0)
        r = work_analyse(work, &w, p);
    if (r < 0)
        return r;
    r = flame_add_choice(&f, &w.analysis, &choice, false);
    if (r < 0)
        return work_failed(r, "the flame graph", p);
    int64_t joined = name_table_number(&f.names, (struct text){JOINED_NAME, strlen(JOINED_NAME)});
    if (joined < 0)
        return work_failed((int)joined, "the flame graph", p);
    flame_make_nodes(&f, joined, &nodes);
    flame_write(&f, &nodes, answer);
    flame_write_lists(work, &w, answer);
    fputs("}\n", answer);
    return 0;
}
