/* SPDX-License-Identifier: Apache-2.0 */
/* A request, and its answer: the table of what can be asked. */
#include "base/alloc.h"
#include "base/gzip_writer.h"
#include "trace/view/tile_cache.h"
#include <errno.h>

/* Smaller answers are not worth the time. */
#define GZIP_FROM 1024
/* Values of a request: a dozen members. */
#define REQUEST_VALUES_MAX 64

static const struct view_ask {
    const char *name;
    int (*run)(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
    bool is_bytes, is_kept;
} view_asks[] = {
    {"timeline", view_answer_timeline},
    {"steps", view_answer_steps}, /* apart: the picture does not wait for them */
    {"names", view_answer_names},
    {"tile", view_answer_tile, .is_bytes = true, .is_kept = true},
    {"counters", view_answer_counters},
    {"slice", view_answer_slice},
    {"search", view_answer_search},
    {"selection", view_answer_selection},
};

int view_write_json(FILE *out, json_t *take_body, struct problem *p)
{
    int r = json_dumpf(take_body, out, JSON_COMPACT);

    json_decref(take_body);
    fputc('\n', out);
    return r < 0 ? problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE, "the answer cannot be written") : 0;
}

/* Stays as it is where that is shorter, or fails. */
static void view_compress(struct view_answer *a)
{
    _cleanup_(freep) char *packed = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&packed, &size), *gzip = memory ? gzip_open(memory) : NULL;

    bool is_written = gzip && fwrite(a->bytes, 1, a->size, gzip) == a->size;
    if (gzip)
        is_written = fclose(gzip) == 0 && is_written;
    if (memory)
        is_written = fclose(memory) == 0 && is_written;
    if (!is_written || size >= a->size)
        return;
    free(a->bytes);
    a->bytes = TAKE_PTR(packed);
    a->size = size;
    a->is_gzip = true;
}

static const struct view_ask *view_find_ask(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(view_asks); i++)
        if (streq(view_asks[i].name, name))
            return &view_asks[i];
    return NULL;
}

/* Clients that keep tiles and names for ever ask for those of certain columns. */
static int view_check_sum(const struct trace_view *v, const json_t *request, struct problem *p)
{
    const char *sum = json_get_str(request, "sum");

    if (!sum || streq(sum, v->sum))
        return 0;
    problem_remedy(p, "Ask for GET /v1/traces/{trace}/timeline again: it has the new sum.");
    return problem_set(p, -ESTALE, PROBLEM_CONFLICT, "the columns of the trace were made again");
}

static int view_run(struct trace_view *v, const struct view_ask *ask, const json_t *request,
                    struct view_answer *ret, struct problem *p)
{
    FILE *out = xmemstream(&ret->bytes, &ret->size);

    int r = ask->run(v, request, out, p);
    if (fclose(out) != 0 && r >= 0)
        r = problem_set(p, -ENOMEM, PROBLEM_TOO_LARGE, "the answer is too large");
    if (r >= 0 && columns_damage(v->c) >= 0) {
        problem_remedy(p, "Make the columns again: profctl ingest --again FILE.");
        r = problem_set(p, -EBADMSG, PROBLEM_STORAGE, "the columns of the trace are damaged");
    }
    return r;
}

int view_answer(struct trace_view *v, const char *request, size_t size, struct view_answer *ret,
                struct problem *p)
{
    char error[200];
    _cleanup_json_ object = json_parse_bounded(request, size, REQUEST_VALUES_MAX, error);
    const char *name = json_is_object(object) ? json_get_str(object, "ask") : NULL;
    const struct view_ask *ask = name ? view_find_ask(name) : NULL;

    *ret = (struct view_answer){0};
    if (!ask)
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "unknown request to a viewer");
    int r = view_check_sum(v, object, p);
    if (r >= 0 && ask->is_kept && tile_cache_get(v, object, ret))
        return 0;
    if (r >= 0)
        r = view_run(v, ask, object, ret, p);
    if (r < 0) {
        free(TAKE_PTR(ret->bytes));
        ret->size = 0;
        return r;
    }
    ret->is_json = !ask->is_bytes;
    if (ret->size >= GZIP_FROM && json_get_bool(object, "gzip", false))
        view_compress(ret);
    if (ask->is_kept)
        tile_cache_put(v, object, ret);
    return 0;
}
