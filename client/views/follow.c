/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/follow.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/transport/event_stream.h"
#include "client/views/reasons.h"
#include "client/views/run.h"
#include "client/views/session.h"
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

/* At most four requests per second, and never more than a tenth of the time for those of a large session. */
#define LOOK_INTERVAL_NS (250 * NS_PER_MS)
#define LOOK_SHARE       10
/* Interval of requests without an event, since bytes grow without events. */
#define LOOK_ANYWAY_NS   (1 * NS_PER_S)
#define DRAW_INTERVAL_NS (250 * NS_PER_MS)
/* Interval of progress lines of a benchmark run, if nothing can be drawn. */
#define PRINT_INTERVAL_NS (10 * NS_PER_S)
/* A profd that is gone for longer is not restarting. */
#define LOST_MAX_NS (300 * NS_PER_S)
/* Lines of the terminal that are not workers: title, heading, "more", progress, notice, cursor. */
#define LINES_RESERVED 7

struct follow;

/* Differences between sessions and benchmark runs. */
struct follow_kind {
    const char *resource, *name, *verb; /* "sessions", "session"; the verb that shows one */
    bool (*follow_is_over)(const json_t *now);
    char *(*block)(const struct follow *f, unsigned rows);
    void (*print_changes)(struct follow *f);
};

struct follow {
    struct client *c;
    struct screen *screen;
    const struct follow_kind *kind;
    const char *id;
    enum interrupt on_interrupt;
    struct event_stream *stream;
    int signal_fd;
    json_t *now, *before;    /* the last response, and the one that was printed last */
    json_t *live;            /* the last progress of a benchmark run, or NULL */
    struct reasons *remarks; /* not printed yet */
    bool changed, left, stop_sent, noted_lost;
    int64_t next_look, next_draw, next_print;
};

static void follow_done(struct follow *f)
{
    event_stream_free(f->stream);
    closep(&f->signal_fd);
    json_decref(f->now);
    json_decref(f->before);
    json_decref(f->live);
    reasons_free(f->remarks);
}

static void follow_on_event(const struct sse_event *event, void *arg)
{
    struct follow *f = arg;
    char error[200];
    bool is_run = streq(event->kind, "run"), is_remark = streq(event->kind, "remark");
    _cleanup_json_ data = is_run || is_remark ? json_parse(event->data, strlen(event->data), error) : NULL;
    /* A benchmark run reports progress every second, which needs no further request. */
    if (is_run && json_object_get(data, "sent")) {
        json_decref(f->live);
        f->live = json_incref(data);
        return;
    }
    f->changed = true;
    if (!is_remark)
        return;
    const char *text = json_get_str(data, "text"), *space = text ? strchr(text, ' ') : NULL;
    if (!json_object_get(data, "target"))
        reasons_add(f->remarks, NULL, text, NULL);
    if (!space || !json_object_get(data, "target"))
        return;
    /* "URL runs no request": the same text of many workers is printed once. */
    _cleanup_(freep) char *worker = xstrndup(text, (size_t)(space - text));
    reasons_add(f->remarks, worker, space + 1, NULL);
}

/* Remarks of profd since the last request, above the live block. */
static void follow_print_remarks(struct follow *f)
{
    if (reasons_count(f->remarks) == 0)
        return;
    screen_clear(f->screen);
    reasons_print(f->remarks, f->screen, 2);
    fflush(f->screen->file);
    reasons_free(f->remarks);
    f->remarks = reasons_new();
    f->next_draw = 0;
}

/* An unknown id is an error; if profd does not respond, the next update tries again. */
static int follow_update(struct follow *f, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("/v1/%s/%s", f->kind->resource, f->id);
    _cleanup_(problem_done) struct problem mine = {0};
    json_t *now = NULL;
    int64_t begin = mono_ns();
    int r = connection_call(f->c->connection, "GET", path, NULL, NULL, &now, &mine);

    f->next_look = mono_ns() + MAX(LOOK_INTERVAL_NS, LOOK_SHARE * (mono_ns() - begin));
    if (r == -EREMOTEIO) {
        *p = mine;
        mine = (struct problem){0};
        return r;
    }
    if (r < 0)
        return 0;
    json_decref(f->now);
    f->now = now;
    f->changed = false;
    return 0;
}

static bool follow_is_over(const struct follow *f)
{
    return f->now && f->kind->follow_is_over(f->now);
}

static void follow_draw(struct follow *f)
{
    unsigned height = screen_height(f->screen);
    int64_t lost = event_stream_lost_since(f->stream);
    unsigned rows = height > LINES_RESERVED ? height - LINES_RESERVED : 1;
    _cleanup_(freep) char *block = f->kind->block(f, rows);
    _cleanup_(freep) char *text =
        lost ? xasprintf("%s  profd does not answer; the %s goes on when it is back (Ctrl-C leaves)\n", block,
                         f->kind->name)
             : xasprintf("%s%s", block,
                         f->stop_sent && !follow_is_over(f) ? "  stopping; Ctrl-C again leaves it to profd\n"
                                                            : "");
    screen_draw(f->screen, text);
}

/* -- Sessions ----------------------------------------------------------------------------------------- */

/* One line, or several on a narrow terminal. */
static char *follow_indented(const struct follow *f, const char *line)
{
    _cleanup_(freep) char *wrapped = text_wrap(line, 4, screen_width(f->screen));
    return xasprintf("  %s\n", wrapped);
}

static char *follow_live_line(const struct follow *f)
{
    _cleanup_(freep) char *progress = f->live ? run_progress(f->now, f->live) : NULL;
    const char *after_state = progress ? strstr(progress, " · ") : NULL;
    _cleanup_(freep) char *line = after_state ? xasprintf("load%s", after_state) : NULL;

    return line ? follow_indented(f, line) : xstrdup("");
}

static char *follow_session_screen(const struct follow *f, unsigned rows)
{
    _cleanup_(freep) char *block = session_block(f->now, f->screen, rows, wall_ns());
    _cleanup_(freep) char *live = follow_live_line(f);
    return xasprintf("%s%s", block, live);
}

/* A line where a host has fallen silent, and one where it answers again. Targets of a host follow each other. */
static void follow_print_silence(const struct follow *f, const char *at)
{
    const json_t *before = json_object_get(f->before, "targets");
    const char *last = NULL;
    size_t i;
    json_t *target;

    json_array_foreach(json_object_get(f->now, "targets"), i, target) {
        const char *host = json_get_str(target, "host");
        bool is_silent = json_object_get(target, "silence"),
             was_silent = json_object_get(json_array_get(before, i), "silence");
        int state = state_from_name(json_get_str(target, "state"));
        if (!host || streq(host, last) || is_silent == was_silent || state < 0 ||
            state_is_final((enum state)state))
            continue;
        last = host;
        _cleanup_(freep) char *line =
            is_silent ? session_silence_text(target, wall_ns()) : xasprintf("%s answers again", host);
        _cleanup_(freep) char *text = text_clean(line, false);
        fprintf(f->screen->file, "%s  %s  %s\n", at, f->id, text);
    }
}

/* If nothing can be drawn: a line for each state of the session, each worker that failed and each host that is silent. */
static void follow_print_session(struct follow *f)
{
    char at[UNIT_TEXT_MAX];
    size_t i;
    json_t *target;

    format_time(at, wall_ns());
    if (session_state(f->now) != session_state(f->before)) {
        _cleanup_(freep) char *progress = session_progress(f->now, wall_ns());
        fprintf(f->screen->file, "%s  %s  %s\n", at, f->id, progress);
    }
    json_array_foreach(json_object_get(f->now, "targets"), i, target) {
        const char *failure = json_get_str(target, "failure");
        if (!failure || json_get_str(json_array_get(json_object_get(f->before, "targets"), i), "failure"))
            continue;
        _cleanup_(freep) char *worker = text_clean(json_get_str(target, "worker"), false);
        _cleanup_(freep) char *text = text_clean(failure, false);
        fprintf(f->screen->file, "%s  %s  %s: %s\n", at, f->id, worker, text);
    }
    follow_print_silence(f, at);
    fflush(f->screen->file);
    json_decref(f->before);
    f->before = json_incref(f->now);
}

static const struct follow_kind of_sessions = {
    "sessions", "session", "status", session_is_over, follow_session_screen, follow_print_session};

/* -- Runs --------------------------------------------------------------------------------------------- */

/* Without events, the response of profd has the last progress. */
static char *follow_run_progress(const struct follow *f)
{
    return run_progress(f->now, f->live ? f->live : json_object_get(f->now, "live"));
}

static char *follow_run_screen(const struct follow *f, unsigned rows)
{
    _cleanup_(freep) char *progress = follow_run_progress(f);
    return follow_indented(f, progress);
}

/* A line for each state, and its progress in intervals. */
static void follow_print_run(struct follow *f)
{
    char at[UNIT_TEXT_MAX];
    int64_t now = mono_ns();

    if (streq(json_get_str(f->now, "state"), json_get_str(f->before, "state")) && now < f->next_print)
        return;
    _cleanup_(freep) char *progress = follow_run_progress(f);
    fprintf(f->screen->file, "%s  %s  %s\n", format_time(at, wall_ns()), f->id, progress);
    fflush(f->screen->file);
    f->next_print = now + PRINT_INTERVAL_NS;
    json_decref(f->before);
    f->before = json_incref(f->now);
}

static const struct follow_kind of_runs = {"runs",          "run", "show", run_is_over, follow_run_screen,
                                           follow_print_run};

/* ----------------------------------------------------------------------------------------------------- */

static void follow_show(struct follow *f)
{
    /* On stdout it is the result, on stderr information. */
    if ((f->c->quiet && f->screen == &f->c->err) || f->c->json || !f->now)
        return;
    follow_print_remarks(f);
    if (!f->screen->is_terminal) {
        f->kind->print_changes(f);
    } else if (follow_is_over(f) || mono_ns() >= f->next_draw) {
        follow_draw(f);
        f->next_draw = mono_ns() + DRAW_INTERVAL_NS;
    }
}

static void follow_note_lost(struct follow *f)
{
    bool lost = event_stream_lost_since(f->stream);
    if (lost == f->noted_lost)
        return;
    f->noted_lost = lost;
    if (!lost)
        f->changed = true;
    if (!f->screen->is_terminal && f->now)
        client_note(f->c, lost ? "profd does not answer; waiting for it" : "profd is back");
}

static void follow_stop(struct follow *f)
{
    _cleanup_(freep) char *path = xasprintf("/v1/%s/%s/stop", f->kind->resource, f->id);
    _cleanup_(problem_done) struct problem p = {0};

    f->stop_sent = true;
    if (!f->screen->is_terminal)
        client_note(f->c, "stopping %s; Ctrl-C again leaves it to profd", f->id);
    int r = connection_call(f->c->connection, "POST", path, NULL, NULL, NULL, &p);
    /* A session or run that is over needs no stop. */
    if (r < 0 && r != -EINTR && p.kind != PROBLEM_CONFLICT) {
        f->stop_sent = false;
        screen_clear(f->screen);
        client_fail(f->c, &p);
    }
    f->changed = true;
}

static void follow_on_signal(struct follow *f)
{
    struct signalfd_siginfo info;

    if (read(f->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    bool stops = f->on_interrupt == INTERRUPT_STOPS && info.ssi_signo == SIGINT && !f->stop_sent;
    if (stops)
        follow_stop(f);
    else
        f->left = true;
}

static int64_t follow_next_event_at(const struct follow *f)
{
    int64_t now = mono_ns(), next = now + LOOK_ANYWAY_NS;
    if (f->changed)
        next = MAX(f->next_look, now);
    if (f->screen->is_terminal)
        next = MIN(next, MAX(f->next_draw, now));
    return next;
}

static int follow_watch(struct follow *f, struct problem *p)
{
    int64_t looked = 0;

    for (;;) {
        int64_t now = mono_ns(), lost = event_stream_lost_since(f->stream);
        if (now >= f->next_look && (f->changed || now - looked >= LOOK_ANYWAY_NS)) {
            int r = follow_update(f, p);
            if (r < 0)
                return r;
            looked = now;
        }
        follow_show(f);
        if (f->left || follow_is_over(f))
            return 0;
        if (lost && now - lost > LOST_MAX_NS) {
            problem_set(p, -ETIMEDOUT, PROBLEM_UPSTREAM, "profd at %s does not answer for %d minutes",
                        connection_name(f->c->connection), (int)(LOST_MAX_NS / NS_PER_S / 60));
            problem_remedy(p, "The %s is in its catalog and goes on when it is back: profctl %s %s",
                           f->kind->name, f->kind->verb, f->id);
            return -ETIMEDOUT;
        }
        int r = event_stream_wait(f->stream, f->signal_fd, follow_next_event_at(f), p);
        if (r < 0)
            return r;
        if (r > 0)
            follow_on_signal(f);
        follow_note_lost(f);
    }
}

int follow_job(struct client *c, const char *id, struct screen *screen, enum interrupt on_interrupt,
               bool *ret_was_stopped, json_t **ret)
{
    const struct follow_kind *kind = id[0] == 'r' ? &of_runs : &of_sessions;
    const sigset_t set = screen_signals();
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/events?%s=%s&after=0", kind->name, id);
    _cleanup_(follow_done) struct follow f = {
        .c = c, .screen = screen, .kind = kind, .id = id, .on_interrupt = on_interrupt, .changed = true};

    f.remarks = reasons_new();

    client_hold_signals();
    f.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    f.stream = event_stream_new(c->connection, path, follow_on_event, &f);
    int r = follow_watch(&f, &p);
    /* The terminal has printed ^C at the beginning of the line. */
    if (f.left && screen->is_terminal)
        fputc('\n', screen->file);
    screen_settle(screen);
    /* The caller continues with the state after the stop. */
    if (r >= 0 && f.left && f.stop_sent)
        r = follow_update(&f, &p);
    if (r < 0)
        return client_fail(c, &p);
    if (!f.now)
        return EXIT_FAILED;
    *ret = json_incref(f.now);
    if (ret_was_stopped)
        *ret_was_stopped = f.stop_sent;
    return EXIT_DONE;
}
