/* SPDX-License-Identifier: Apache-2.0 */
/* Which time of each rank findings are of, what the GPU does in it, and what of the recording they leave out.
 */
#include "trace/reports/reports.h"
#include "trace/reports/rules/scene.h"

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "rank number"},
    {"recorded_ns", UNIT_NS, "length of the recording, or of the selected part"},
    {"evaluated_ns", UNIT_NS, "part of it that findings are about"},
    {"start_ns", UNIT_NS, "beginning of the evaluated time, counted from the rank's first slice"},
    {"end_ns", UNIT_NS, "end of the evaluated time"},
    {"steps", UNIT_COUNT, "steps that are evaluated"},
    {"compute_ns", UNIT_NS, "evaluated time in which a kernel computes"},
    {"communication_ns", UNIT_NS, "evaluated time in which communication runs and no kernel computes"},
    {"copy_ns", UNIT_NS, "evaluated time in which only copies run"},
    {"idle_ns", UNIT_NS, "evaluated time in which nothing runs on the GPU"},
    {"before_ns", UNIT_NS,
     "time before the first step, or before the first GPU activity where there are no steps"},
    {"after_ns", UNIT_NS, "time after the last step or GPU activity"},
    {"outliers_ns", UNIT_NS, "time in steps that take much longer than the others"},
    {"edge_ns", UNIT_NS, "time most likely busy with work launched before the recording"},
};

static int emit_rank(const struct scene *scene, const struct scene_rank *rank, struct report_rows *ret)
{
    _cleanup_(intervals_done) struct intervals compute = {0}, exposed = {0};
    const struct analysis *a = scene->analysis;
    int r = gpu_work_busy(rank->work, 1 << GPU_COMPUTE, &compute);

    if (r >= 0)
        r = scene_exposed(rank, &exposed);
    if (r < 0)
        return r;
    int64_t computing = scene_within(rank, &compute), communicating = intervals_length(&exposed),
            busy = intervals_length(&rank->busy);
    bool is_any = rank->scope.n > 0;
    put_int(ret, a->ranks[rank->rank].number);
    put_int(ret, rank->recorded);
    put_int(ret, rank->length);
    put_int(ret, is_any ? analysis_since_first(a, rank->rank, rank->scope.items[0].from) : COLUMN_NULL);
    put_int(ret, is_any ? analysis_since_first(a, rank->rank, rank->scope.items[rank->scope.n - 1].to)
                        : COLUMN_NULL);
    put_int(ret, scene->is_by_step ? (int64_t)rank->n_steps : COLUMN_NULL);
    put_int(ret, computing);
    put_int(ret, communicating);
    put_int(ret, busy - computing - communicating);
    put_int(ret, rank->length - busy);
    put_int(ret, rank->before);
    put_int(ret, rank->after);
    put_int(ret, intervals_length(&rank->outliers));
    put_int(ret, rank->edge.to - rank->edge.from);
    return 0;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    struct scene scene;
    int r = scene_read(a, &scene);

    for (size_t i = 0; i < scene.n && r >= 0; i++)
        r = emit_rank(&scene, &scene.ranks[i], ret);
    scene_done(&scene);
    return r;
}

const struct report report_evaluated = {
    .name = "evaluated",
    .title = "which time of each rank findings are of, and what they leave out",
    .how = "From the first step's beginning to the last one's end, without steps that are outliers, where "
           "every rank "
           "has at least two steps; else the span of the GPU's work. compute + communication + copy + idle = "
           "evaluated.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
