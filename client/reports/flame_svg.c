/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reports/flame_svg.h"

#include "base/units.h"
#include "client/reports/markup.h"
#include "client/text/text.h"
#include <errno.h>
#include <inttypes.h>

#define WIDTH      1200.0
#define ROW        17.0
#define TOP        40.0
#define CHAR_WIDTH 6.6
/* Frames narrower than this are left out, and those below this get no text. */
#define WIDTH_MIN 0.15
#define TEXT_MIN  24.0

static const char style[] =
    "<style>text{font:11px monospace;pointer-events:none}rect{stroke:#fff;stroke-width:.5}"
    "rect:hover{stroke:#000}.h{font:bold 14px sans-serif}.d{opacity:.4}</style>\n";

/* A click sets the picture's left edge and scale by the frame's own numbers. */
static const char script[] =
    "<script><![CDATA[\n"
    "const svg=document.documentElement,frames=[...svg.querySelectorAll('g.f')];\n"
    "function show(x,w){const k=1200/w;for(const g of frames){const a=+g.dataset.x,b=+g.dataset.w,\n"
    "r=g.querySelector('rect'),t=g.querySelector('text'),l=Math.max(0,(a-x)*k),e=Math.min(1200,(a+b-x)*k);\n"
    "const seen=e-l>0.1;g.style.display=seen?'':'none';if(!seen)continue;\n"
    "r.setAttribute('x',l);r.setAttribute('width',e-l);t.setAttribute('x',l+3);\n"
    "const n=Math.floor((e-l-6)/6.6),s=g.dataset.n;t.textContent=n<3?'':s.length>n?s.slice(0,n-2)+'..':s;}}\n"
    "for(const g of frames)g.addEventListener('click',()=>show(+g.dataset.x,+g.dataset.w));\n"
    "]]></script>\n";

/* A warm colour that is always the same for a name; of a difference, how much longer or shorter. */
static void put_colour(FILE *out, const struct flame_frame *frame, struct text name,
                       const struct flame_picture *picture)
{
    if (picture->is_difference) {
        double most = (double)MAX(MAX(frame->total, frame->before), INT64_C(1)),
               change = (double)(frame->total - frame->before) / most;
        int pale = 255 - (int)(180 * (change < 0 ? -change : change));
        fprintf(out, change > 0 ? "#ff%02x%02x" : "#%02x%02xff", pale, pale);
        return;
    }
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < name.size; i++)
        h = (h ^ (uint8_t)name.p[i]) * 16777619u;
    fprintf(out, "hsl(%u,%u%%,%u%%)", 10 + h % 45, 65 + (h >> 8) % 25, 60 + (h >> 16) % 12);
}

static void put_figures(FILE *out, const struct flame *f, const struct flame_frame *frame,
                        const struct flame_picture *picture)
{
    char total[UNIT_TEXT_MAX], before[UNIT_TEXT_MAX];
    double share =
        f->frames[FLAME_ROOT].total ? 100.0 * (double)frame->total / (double)f->frames[FLAME_ROOT].total : 0;

    fprintf(out, " — %s, %.2f %%", format_duration(total, frame->total), share);
    if (picture->is_difference)
        fprintf(out, " (%s before)", format_duration(before, frame->before));
}

static char *clean_name(const struct flame *f, const struct flame_frame *frame, const char *root)
{
    if (frame->depth == 0)
        return text_clean(root, false);
    struct text name = f->names.items[frame->name];
    _cleanup_(freep) char *copy = strndup(name.p ? name.p : "", name.size);
    return copy ? text_clean(copy, false) : NULL;
}

/* As much of a name as the frame has room for. */
static void put_label(FILE *out, const char *name, double width)
{
    unsigned room = width >= TEXT_MIN ? (unsigned)((width - 6) / CHAR_WIDTH) : 0;

    if (room > 0 && text_columns(name) <= room) {
        markup_put(out, name);
    } else if (room > 2) {
        _cleanup_(freep) char *part = strndup(name, text_fit(name, room - 2));
        markup_put(out, part ? part : "");
        fputs("..", out);
    }
}

static void put_frame(FILE *out, const struct flame *f, uint32_t i, double x, double height,
                      const struct flame_picture *picture)
{
    const struct flame_frame *frame = &f->frames[i];
    double width = WIDTH * (double)frame->total / (double)f->frames[FLAME_ROOT].total,
           y = TOP + ROW * frame->depth;
    _cleanup_(freep) char *name = clean_name(f, frame, "all");
    struct text raw = i == FLAME_ROOT ? (struct text){"all", 3} : f->names.items[frame->name];

    if (!name || y > height)
        return;
    fprintf(out, "<g class=\"f\" data-x=\"%.4f\" data-w=\"%.4f\" data-n=\"", x, width);
    markup_put(out, name);
    fputs("\"><title>", out);
    markup_put(out, name);
    put_figures(out, f, frame, picture);
    fprintf(out, "</title><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"", x, y, width,
            ROW - 1);
    put_colour(out, frame, raw, picture);
    fprintf(out, "\"/><text x=\"%.2f\" y=\"%.1f\">", x + 3, y + ROW - 5);
    put_label(out, name, width);
    fputs("</text></g>\n", out);
}

/* -- Places ------------------------------------------------------------------------------------------- */

static int compare_frames(const void *x, const void *y, void *arg)
{
    const struct flame_frame *frames = arg, *a = &frames[*(const uint32_t *)x],
                             *b = &frames[*(const uint32_t *)y];

    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return (a->total < b->total) - (a->total > b->total);
}

/* Left edges: children side by side from their parent's edge, the largest first. A parent comes before its
 * children among the frames, so its edge is known when theirs are asked for. */
static int place(const struct flame *f, double *left)
{
    _cleanup_(freep) uint32_t *order = malloc(f->n * sizeof(*order));
    double scale = WIDTH / (double)f->frames[FLAME_ROOT].total, next = 0;
    uint32_t parent = UINT32_MAX;

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++)
        order[i] = i;
    qsort_r(order, f->n, sizeof(*order), compare_frames, f->frames);
    left[FLAME_ROOT] = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct flame_frame *frame = &f->frames[order[i]];
        if (order[i] == FLAME_ROOT)
            continue;
        if (frame->parent != parent)
            next = left[frame->parent];
        parent = frame->parent;
        left[order[i]] = next;
        next += scale * (double)frame->total;
    }
    return 0;
}

int flame_svg_write(const struct flame *f, struct flame_picture *picture, FILE *out)
{
    _cleanup_(freep) double *left = calloc(f->n + 1, sizeof(*left));
    double scale =
        f->n > 0 && f->frames[FLAME_ROOT].total > 0 ? WIDTH / (double)f->frames[FLAME_ROOT].total : 0;
    uint32_t deepest = 0;

    if (!left)
        return -ENOMEM;
    int r = scale > 0 ? place(f, left) : 0;
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < f->n; i++)
        if (scale * (double)f->frames[i].total >= WIDTH_MIN)
            deepest = MAX(deepest, f->frames[i].depth);
    double height = TOP + ROW * (deepest + 1) + 10;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"100%%\" "
            "font-size=\"11\">\n%s"
            "<rect x=\"0\" y=\"0\" width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n<text class=\"h\" x=\"6\" "
            "y=\"22\">",
            WIDTH, height, style, WIDTH, height);
    markup_put(out, picture->title);
    fputs("</text>\n", out);
    for (uint32_t i = 0; i < f->n; i++) {
        if (scale * (double)f->frames[i].total >= WIDTH_MIN)
            put_frame(out, f, i, left[i], height, picture);
        else
            picture->frames_left_out++;
    }
    fprintf(out, "%s</svg>\n", script);
    return 0;
}
