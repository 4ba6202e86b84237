/* SPDX-License-Identifier: Apache-2.0 */
/* https://www.speedscope.app/file-format-schema.json: one evented profile for each track. */
#include "trace/export/export.h"
#include "trace/export/selection.h"
#include "trace/export/stacks.h"
#include "trace/export/writers.h"

#include <errno.h>
#include <inttypes.h>

struct speedscope {
    FILE *out;
    const struct columns *c;
    int64_t zero;  /* of all times: a double cannot represent nanoseconds since the epoch */
    int64_t start; /* of all profiles */
    struct numbering frames;
    bool any_profile, any_event; /* event: of the profile */
    int64_t last;
};

static int speedscope_begin_profile(void *arg, uint64_t track)
{
    struct speedscope *p = arg;
    bool overlapping = columns_get(p->c, COL_track_kind, track) == TRACK_OVERFLOW;
    _cleanup_(freep) char *label = label_track(p->c, track);

    fprintf(p->out, "%s\n{\"type\":\"evented\",\"name\":\"", p->any_profile ? "," : "");
    out_json_part(p->out, text_of(label));
    fprintf(p->out, "%s\",\"unit\":\"nanoseconds\",\"startValue\":%" PRId64 ",\"events\":[",
            overlapping ? " (overlapping)" : "", p->start);
    p->any_profile = true;
    p->any_event = false;
    return 0;
}

static int speedscope_end_profile(void *arg, uint64_t track)
{
    struct speedscope *p = arg;

    fprintf(p->out, "\n],\"endValue\":%" PRId64 "}", p->last);
    return 0;
}

static void speedscope_put_event(struct speedscope *p, const char *type, uint32_t frame, int64_t at)
{
    p->last = difference_of(at, p->zero);
    fprintf(p->out, "%s\n{\"type\":\"%s\",\"frame\":%" PRIu32 ",\"at\":%" PRId64 "}", p->any_event ? "," : "",
            type, frame, p->last);
    p->any_event = true;
}

static int speedscope_begin(void *arg, struct playing *slice, const struct playing *around)
{
    struct speedscope *p = arg;

    slice->node = numbering_of(&p->frames, columns_get(p->c, COL_slice_name, slice->row));
    speedscope_put_event(arg, "O", slice->node, slice->begin);
    return 0;
}

static int speedscope_end(void *arg, const struct playing *slice)
{
    speedscope_put_event(arg, "C", slice->node, slice->end);
    return 0;
}

static int speedscope_put_frames(const struct speedscope *p)
{
    _cleanup_(freep) int64_t *names = numbering_list(&p->frames);

    for (uint32_t i = 0; names && i < p->frames.n; i++) {
        fprintf(p->out, "%s\n{\"name\":", i ? "," : "");
        out_json_text(p->out, columns_text(p->c, names[i]));
        putc('}', p->out);
    }
    return names ? 0 : -ENOMEM;
}

static int speedscope_put_all(struct speedscope *p, const struct selection *s)
{
    struct playback play = {.selection = s,
                            .cut = true,
                            .track_begin = speedscope_begin_profile,
                            .track_end = speedscope_end_profile,
                            .begin = speedscope_begin,
                            .end = speedscope_end,
                            .arg = p};
    int r;

    fputs("{\"$schema\":\"https://www.speedscope.app/"
          "file-format-schema.json\",\"exporter\":\"profd\",\"profiles\":[",
          p->out);
    r = playback_run(&play);
    if (r < 0)
        return r;
    fputs("\n],\"shared\":{\"frames\":[", p->out);
    r = speedscope_put_frames(p);
    fputs("\n]}}\n", p->out);
    return r;
}

int export_speedscope(const struct export_trace *t, const struct selection *s, FILE *out)
{
    struct speedscope p = {.out = out, .c = t->columns};
    int r = numbering_init(&p.frames, t->columns);

    p.zero = MAX(columns_get(t->columns, COL_slice_ts, 0), -INT64_MAX);
    p.start = difference_of(MAX(s->from, p.zero), p.zero);
    if (r == 0)
        r = speedscope_put_all(&p, s);
    numbering_done(&p.frames);
    return r;
}
