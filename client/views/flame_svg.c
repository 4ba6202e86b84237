/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/flame_svg.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/document.h"
#include "client/views/frame_label.h"
#include "trace/reports/kernel_name.h"
#include <errno.h>
#include <inttypes.h>

/* Size of the picture before the script fits it to the window, in pixels. */
#define WIDTH      1200.0
#define ROW        18.0
#define TOP        58.0
#define CHAR_WIDTH 7.23 /* of 12 px monospace */
/* Frames narrower than this are left out. */
#define WIDTH_MIN 0.15
/* Rows of the view of self time. */
#define SELF_MAX 60
/* Columns of the figures before the name in that view, in pixels. */
#define SELF_NAME_X 170.0

static const char style[] =
    "<style>svg.flame{--bg:#fff;--fg:#222;--dim:#666;background:var(--bg);font:12px monospace}\n"
    "svg.flame text{fill:var(--fg);pointer-events:none}svg.flame g.f text{fill:#111}\n"
    "svg.flame g.f rect{stroke:var(--bg);stroke-width:.5;cursor:pointer}svg.flame g.f:hover "
    "rect{stroke:var(--fg)}\n"
    "svg.flame g.up{opacity:.55}svg.flame g.m rect{fill:#e667e6}svg.flame .h{font:bold 14px sans-serif}\n"
    "svg.flame .d,svg.flame .c{fill:var(--dim);font-family:sans-serif}svg.flame "
    "g.b{cursor:pointer;display:none}\n"
    "svg.flame g.b rect{fill:none;stroke:var(--dim)}svg.flame foreignObject{display:none}\n"
    "svg.flame.live g.b,svg.flame.live foreignObject{display:inline}\n"
    "svg.flame input{box-sizing:border-box;width:100%;font:12px sans-serif;padding:2px 4px;color:var(--fg);"
    "background:var(--bg);border:1px solid var(--dim)}\n"
    "svg.flame g.s rect{fill:#9db8e8}svg.flame g.s.m rect{fill:#e667e6}\n"
    "@media(prefers-color-scheme:dark){svg.flame{--bg:#16181d;--fg:#e3e3e3;--dim:#9aa0a8}"
    "svg.flame g.s rect{fill:#35558c}}</style>\n";

/* fit() is frame_label() in JavaScript, for the widths of the window. */
static const char script[] =
    "<script><![CDATA[\n"
    "(()=>{const svg=document.currentScript.closest('svg'),ROW=18,TOP=58,CH=7.23,$=s=>svg.querySelector(s);\n"
    "const "
    "frames=[...svg.querySelectorAll('g.f')].map(g=>({g,r:g.querySelector('rect'),t:g.querySelector('text'),"
    "\n"
    "x:+g.dataset.x,w:+g.dataset.w,d:+g.dataset.d,n:g.dataset.n,l:g.dataset.l||g.dataset.n,p:+g.dataset.p||0}"
    "));\n"
    "const "
    "rows=[...svg.querySelectorAll('g.s')].map(g=>({g,t:g.querySelector('.n'),r:g.querySelector('rect'),\n"
    "w:+g.dataset.w,n:g.dataset.n,l:g.dataset.l||g.dataset.n,p:+g.dataset.p||0}));\n"
    "let W=1200,zx=0,zw=1200,zd=0,self=false;const input=$('input'),details=$('.d'),counted=$('.c');\n"
    "function fit(s,p,n){if(s.length<=n)return s;if(n<3)return'';if(p>4){let b=p;\n"
    "while(b>0&&p-b<12&&/[A-Za-z0-9]/.test(s[b-1]))b--;\n"
    "const "
    "t=s.indexOf('<');if(/[0-9]/.test(s[b])&&t>=0&&t<b)for(b=t;b>0&&/[A-Za-z0-9_]/.test(s[b-1]);)b--;const "
    "tail=s.length-b;\n"
    "if(n-1-tail>=3)return s.slice(0,n-1-tail)+'\\u2026'+s.slice(b);const h=n<24?0:Math.floor(n/4);\n"
    "if(b>h+1&&n>=h+5)return s.slice(0,h)+'\\u2026'+(tail<=n-h-1?s.slice(b):s.slice(b,b+n-h-2)+'\\u2026');}\n"
    "const h=Math.ceil((n-1)*2/3);return s.slice(0,h)+'\\u2026'+s.slice(s.length-(n-1-h));}\n"
    "function draw(){const k=W/zw;for(const f of frames){const l=Math.max(0,(f.x-zx)*k),\n"
    "e=Math.min(W,(f.x+f.w-zx)*k),seen=!self&&e-l>0.15;f.g.style.display=seen?'':'none';if(!seen)continue;\n"
    "f.r.setAttribute('x',l);f.r.setAttribute('width',e-l);f.t.setAttribute('x',l+3);\n"
    "f.g.classList.toggle('up',f.d<zd);f.t.textContent=fit(f.l,f.p,Math.floor((e-l-6)/CH));}\n"
    "for(const r of "
    "rows){r.g.style.display=self?'':'none';r.r.setAttribute('width',Math.max(1,r.w*(W-170)/1030));\n"
    "r.t.textContent=fit(r.l,r.p,Math.floor((W-176)/CH));}\n"
    "$('.self').style.display=self?'':'none';\n"
    "const h=self?TOP+ROW*rows.length+10:+svg.dataset.h;svg.setAttribute('viewBox','0 0 '+W+' '+h);\n"
    "svg.setAttribute('height',h);$('.bg').setAttribute('width',W);$('.bg').setAttribute('height',h);\n"
    "let x=Math.max(4,Math.min(W-8,1200)-204);$('foreignObject').setAttribute('x',x);\n"
    "for(const b of [...svg.querySelectorAll('g.b')].reverse()){x-=+b.dataset.w+8;\n"
    "b.setAttribute('transform','translate('+Math.max(0,x)+' 30)');}\n"
    "$('.self-name').textContent=self?'Flame graph':'Self time';}\n"
    "function search(){let re=null,s=input.value.trim();if(s)try{re=new RegExp(s,'i')}catch{\n"
    "re=new RegExp(s.replace(/[.*+?^${}()|[\\]\\\\]/g,'\\\\$&'),'i')}\n"
    "let end=-1,sum=0;const hits=[];for(const f of frames){const "
    "m=re&&re.test(f.n);f.g.classList.toggle('m',!!m);\n"
    "if(m)hits.push(f)}for(const r of rows)r.g.classList.toggle('m',!!(re&&re.test(r.n)));\n"
    "hits.sort((a,b)=>a.x-b.x||b.w-a.w);for(const f of hits){const "
    "to=f.x+f.w;if(to>end){sum+=to-Math.max(f.x,end);end=to}}\n"
    "counted.textContent=re?'matched '+(sum/12).toFixed(1)+' %':'';}\n"
    "function zoom(f){zx=f?f.x:0;zw=f?f.w:1200;zd=f?f.d:0;draw()}\n"
    "for(const f of frames){f.g.addEventListener('click',()=>zoom(f));}\n"
    "svg.addEventListener('mouseover',e=>{const g=e.target.closest('g.f,g.s');\n"
    "details.textContent=g?g.querySelector('title').textContent:'';});\n"
    "$('.reset').addEventListener('click',()=>{self=false;zoom()});\n"
    "$('.toggle').addEventListener('click',()=>{self=!self;draw()});input.addEventListener('input',search);\n"
    "svg.ownerDocument.addEventListener('keydown',e=>{if(e.key==='Escape'){input.value='';search();zoom()}});"
    "\n"
    "function "
    "resize(){svg.setAttribute('width','100%');W=Math.max(320,svg.clientWidth||svg.getBoundingClientRect()."
    "width||1200);\n"
    "draw()}svg.classList.add('live');window.addEventListener('resize',resize);resize();})();\n"
    "]]></script>\n";

/* -- Names of frames ---------------------------------------------------------------------------------- */

static char *copy_name(const struct flame *f, uint32_t number)
{
    struct text name = f->names.items[number];
    char *demangled = kernel_name_demangle(name);
    _cleanup_(freep) char *copy = demangled ? demangled : xstrndup(name.p ? name.p : "", name.size);

    return text_clean(copy, false);
}

/* A warm colour that depends on the name; in a comparison, red for longer and blue for shorter. */
static void put_colour(FILE *out, const struct flame_frame *frame, const char *name,
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
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    fprintf(out, "hsl(%u,%u%%,%u%%)", 10 + h % 45, 65 + (h >> 8) % 25, 64 + (h >> 16) % 12);
}

static void put_figures(FILE *out, int64_t time, int64_t before, int64_t all,
                        const struct flame_picture *picture)
{
    char text[UNIT_TEXT_MAX];

    fprintf(out, "%s, %.2f %%", format_duration(text, time),
            all > 0 ? 100.0 * (double)time / (double)all : 0.0);
    if (picture->is_difference)
        fprintf(out, " (%s before)", format_duration(text, before));
}

/* Data for the script: the name, its label if that differs, and the shared bytes of the label. */
static void put_name_data(FILE *out, const struct frame_name *name)
{
    fputs("data-n=\"", out);
    html_put_text(out, name->name);
    fputc('"', out);
    if (!streq(name->label, name->name)) {
        fputs(" data-l=\"", out);
        html_put_text(out, name->label);
        fputc('"', out);
    }
    if (name->shared > 0)
        fprintf(out, " data-p=\"%zu\"", name->shared);
}

static void put_label(FILE *out, const struct frame_name *name, double width)
{
    _cleanup_(freep) char *label = frame_label(name, width > 0 ? (unsigned)(width / CHAR_WIDTH) : 0);

    html_put_text(out, label);
}

static void put_frame(FILE *out, const struct flame *f, uint32_t i, double x, const struct frame_name *name,
                      const struct flame_picture *picture)
{
    const struct flame_frame *frame = &f->frames[i];
    double width = WIDTH * (double)frame->total / (double)f->frames[FLAME_ROOT].total,
           y = TOP + ROW * frame->depth;

    fprintf(out, "<g class=\"f\" data-x=\"%.4f\" data-w=\"%.4f\" data-d=\"%u\" ", x, width, frame->depth);
    put_name_data(out, name);
    fputs("><title>", out);
    html_put_text(out, name->name);
    fputs(" — ", out);
    put_figures(out, frame->total, frame->before, f->frames[FLAME_ROOT].total, picture);
    fprintf(out, "</title><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"", x, y, width,
            ROW - 1);
    put_colour(out, frame, name->name, picture);
    fprintf(out, "\"/><text x=\"%.2f\" y=\"%.1f\">", x + 3, y + ROW - 5);
    put_label(out, name, width - 6);
    fputs("</text></g>\n", out);
}

/* -- Positions of frames ------------------------------------------------------------------------------ */

static int compare_frames(const void *x, const void *y, void *arg)
{
    const struct flame_frame *frames = arg, *a = &frames[*(const uint32_t *)x],
                             *b = &frames[*(const uint32_t *)y];

    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return (a->total < b->total) - (a->total > b->total);
}

/* Left edges: children in a row from the left edge of their parent, the largest first. A parent comes before its
 * children in the array of frames, so its edge is known first. */
static int layout_frames(const struct flame *f, double *left)
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

/* -- Self time by name -------------------------------------------------------------------------------- */

struct self_time {
    uint32_t name;
    int64_t now, before;
};

static int compare_self_times(const void *x, const void *y)
{
    const struct self_time *a = x, *b = y;

    if (a->now != b->now)
        return a->now > b->now ? -1 : 1;
    return (a->before < b->before) - (a->before > b->before);
}

/* Sums over all frames of a name, the longest first; returns the number of names with self time. */
static size_t sum_self_times(const struct flame *f, struct self_time *ret)
{
    size_t n = 0;

    for (uint32_t i = 0; i < f->names.n; i++)
        ret[i].name = i;
    for (size_t i = 1; i < f->n; i++) {
        struct self_time *s = &ret[f->frames[i].name];
        s->now = add_time(s->now, f->frames[i].self);
        s->before = add_time(s->before, f->frames[i].self_before);
    }
    qsort(ret, f->names.n, sizeof(*ret), compare_self_times);
    while (n < f->names.n && ret[n].now > 0)
        n++;
    return n;
}

static void put_self_times(FILE *out, const struct flame *f, const struct flame_picture *picture)
{
    _cleanup_(freep) struct self_time *times = xcalloc(f->names.n + 1, sizeof(*times));
    size_t all_names = sum_self_times(f, times), n = MIN(all_names, (size_t)SELF_MAX);
    _cleanup_(freep) struct frame_name *names = xcalloc(n + 1, sizeof(*names));
    int64_t all = f->frames[FLAME_ROOT].total;

    for (size_t i = 0; i < n; i++)
        frame_name_init(&names[i], copy_name(f, times[i].name));
    frame_names_share(names, n);
    fputs("<g class=\"self\" style=\"display:none\">\n", out);
    for (size_t i = 0; i < n; i++) {
        double y = TOP + ROW * (double)i,
               width = (WIDTH - SELF_NAME_X) * (double)times[i].now / (double)times[0].now;
        char text[UNIT_TEXT_MAX];
        fprintf(out, "<g class=\"s\" data-w=\"%.2f\" ", width);
        put_name_data(out, &names[i]);
        fputs("><title>", out);
        html_put_text(out, names[i].name);
        fputs(" — self ", out);
        put_figures(out, times[i].now, times[i].before, all, picture);
        fprintf(
            out,
            "</title><rect x=\"%.0f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/><text x=\"80\" y=\"%.1f\" "
            "text-anchor=\"end\">%s</text><text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%.1f %%</text>"
            "<text class=\"n\" x=\"%.0f\" y=\"%.1f\">",
            SELF_NAME_X, y, width, ROW - 1, y + ROW - 5, format_duration(text, times[i].now),
            SELF_NAME_X - 12, y + ROW - 5, 100.0 * (double)times[i].now / (double)all, SELF_NAME_X + 3,
            y + ROW - 5);
        put_label(out, &names[i], WIDTH - SELF_NAME_X - 6);
        fputs("</text></g>\n", out);
    }
    fputs("</g>\n", out);
    frame_names_done(names, n);
}

/* -- The picture -------------------------------------------------------------------------------------- */

static void put_button(FILE *out, const char *class, double x, double width, const char *text_class,
                       const char *text)
{
    fprintf(out,
            "<g class=\"b %s\" data-w=\"%.0f\" transform=\"translate(%.0f 30)\"><rect width=\"%.0f\" "
            "height=\"22\" rx=\"3\" pointer-events=\"all\"/><text class=\"%s\" x=\"%.0f\" y=\"15\" "
            "text-anchor=\"middle\">%s</text></g>",
            class, width, x, width, text_class, width / 2, text);
}

static void put_head(FILE *out, const struct flame_picture *picture, double height)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"flame\" viewBox=\"0 0 %.0f %.0f\" "
            "width=\"%.0f\" height=\"%.0f\" data-h=\"%.0f\">\n%s"
            "<rect class=\"bg\" width=\"%.0f\" height=\"%.0f\" style=\"fill:var(--bg)\"/>\n"
            "<text class=\"h\" x=\"6\" y=\"20\">",
            WIDTH, height, WIDTH, height, height, style, WIDTH, height);
    html_put_text(out, picture->title);
    fputs("</text>\n", out);
    put_button(out, "toggle", 790, 90, "self-name", "Self time");
    put_button(out, "reset", 888, 90, "reset-name", "Reset zoom");
    fputs(
        "<foreignObject x=\"988\" y=\"30\" width=\"200\" height=\"24\"><input "
        "xmlns=\"http://www.w3.org/1999/xhtml\" type=\"search\" placeholder=\"Search (regular expression)\" "
        "aria-label=\"Search frames\"/></foreignObject>\n"
        "<text class=\"d\" x=\"6\" y=\"45\"></text><text class=\"c\" x=\"1194\" y=\"20\" "
        "text-anchor=\"end\"></text>\n",
        out);
}

int flame_svg_write(const struct flame *f, struct flame_picture *picture, FILE *out)
{
    _cleanup_(freep) double *left = calloc(f->n + 1, sizeof(*left));
    _cleanup_(freep) uint32_t *shown = calloc(f->n + 1, sizeof(*shown));
    double scale =
        f->n > 0 && f->frames[FLAME_ROOT].total > 0 ? WIDTH / (double)f->frames[FLAME_ROOT].total : 0;
    uint32_t deepest = 0;
    size_t n = 0;

    if (!left || !shown)
        return -ENOMEM;
    int r = scale > 0 ? layout_frames(f, left) : 0;
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < f->n; i++) {
        if (scale * (double)f->frames[i].total < WIDTH_MIN) {
            picture->frames_left_out++;
            continue;
        }
        deepest = MAX(deepest, f->frames[i].depth);
        shown[n++] = i;
    }
    _cleanup_(freep) struct frame_name *names = xcalloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        const struct flame_frame *frame = &f->frames[shown[i]];
        frame_name_init(&names[i], frame->depth == 0 ? xstrdup("all") : copy_name(f, frame->name));
    }
    frame_names_share(names, n);
    put_head(out, picture, TOP + ROW * (deepest + 1) + 10);
    for (size_t i = 0; i < n; i++)
        put_frame(out, f, shown[i], left[shown[i]], &names[i], picture);
    frame_names_done(names, n);
    if (scale > 0)
        put_self_times(out, f, picture);
    fprintf(out, "%s</svg>\n", script);
    return 0;
}
