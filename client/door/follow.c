/* SPDX-License-Identifier: Apache-2.0 */
#include "client/door/follow.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/door/event_stream.h"
#include "client/text/reasons.h"
#include "client/text/session.h"
#include "client/text/text.h"
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

/* At most four looks a second, and never more than a tenth of profd's time for a large session. */
#define LOOK_INTERVAL_NS (250 * NS_PER_MS)
#define LOOK_SHARE       10
/* Bytes grow without an event. */
#define LOOK_ANYWAY_NS   (1 * NS_PER_S)
#define DRAW_INTERVAL_NS (250 * NS_PER_MS)
/* A profd that is gone for so long is not being restarted. */
#define LOST_MAX_NS (300 * NS_PER_S)
/* Lines of the terminal that are not for workers: title, heading, "more", progress, notice, the cursor's. */
#define LINES_RESERVED 7

struct follow {
    struct client *c;
    struct screen *screen;
    const char *session;
    enum interrupt on_interrupt;
    struct event_stream *stream;
    int signal_fd;
    json_t *now, *before;    /* the session as it is, and as it was when last told */
    struct reasons *remarks; /* that came and were not told yet */
    bool changed, left, stop_sent, told_lost;
    int64_t next_look, next_draw;
};

static void follow_done(struct follow *f)
{
    event_stream_free(f->stream);
    closep(&f->signal_fd);
    json_decref(f->now);
    json_decref(f->before);
    reasons_free(f->remarks);
}

static sigset_t held_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void follow_hold_signals(void)
{
    sigset_t set = held_signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void on_event(const struct sse_event *event, void *arg)
{
    struct follow *f = arg;
    char error[200];

    f->changed = true;
    if (!streq(event->kind, "remark"))
        return;
    _cleanup_json_ data = json_parse(event->data, strlen(event->data), error);
    const char *text = json_get_str(data, "text"), *space = text ? strchr(text, ' ') : NULL;
    if (!json_object_get(data, "target"))
        reasons_add(f->remarks, NULL, text, NULL);
    if (!space || !json_object_get(data, "target"))
        return;
    /* "URL runs no request": the same of many workers is said once. */
    _cleanup_(freep) char *worker = xstrndup(text, (size_t)(space - text));
    reasons_add(f->remarks, worker, space + 1, NULL);
}

/* What profd noticed since the last look, above the live block. */
static void tell_remarks(struct follow *f)
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

/* A session that profd does not know ends it; a profd that does not answer is waited for. */
static int look(struct follow *f, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", f->session);
    _cleanup_(problem_done) struct problem mine = {0};
    json_t *session = NULL;
    int64_t begin = mono_ns();
    int r = door_call(f->c->door, "GET", path, NULL, NULL, &session, &mine);

    f->next_look = mono_ns() + MAX(LOOK_INTERVAL_NS, LOOK_SHARE * (mono_ns() - begin));
    if (r == -EREMOTEIO) {
        *p = mine;
        mine = (struct problem){0};
        return r;
    }
    if (r < 0)
        return 0;
    json_decref(f->now);
    f->now = session;
    f->changed = false;
    return 0;
}

static void draw(struct follow *f)
{
    unsigned height = screen_height(f->screen);
    int64_t lost = event_stream_lost_since(f->stream);
    unsigned rows = height > LINES_RESERVED ? height - LINES_RESERVED : 1;
    _cleanup_(freep) char *block = session_block(f->now, f->screen, rows, wall_ns());
    _cleanup_(freep) char *text =
        xasprintf("%s%s", block,
                  lost ? "  profd does not answer; the session goes on when it is back (Ctrl-C leaves)\n"
                  : f->stop_sent && !session_is_over(f->now) ? "  stopping; Ctrl-C again leaves it to profd\n"
                                                             : "");
    screen_draw(f->screen, text);
}

static const json_t *target_before(const struct follow *f, size_t i)
{
    return json_array_get(json_object_get(f->before, "targets"), i);
}

/* Where nothing can be drawn: a line for each state of the session and each worker that failed. */
static void tell_changes(struct follow *f)
{
    char at[UNIT_TEXT_MAX];
    size_t i;
    json_t *target;

    format_time(at, wall_ns());
    if (session_state(f->now) != session_state(f->before)) {
        _cleanup_(freep) char *progress = session_progress(f->now, wall_ns());
        fprintf(f->screen->file, "%s  %s  %s\n", at, f->session, progress);
    }
    json_array_foreach(json_object_get(f->now, "targets"), i, target)
    {
        const char *failure = json_get_str(target, "failure");
        if (!failure || json_get_str(target_before(f, i), "failure"))
            continue;
        _cleanup_(freep) char *worker = text_clean(json_get_str(target, "worker"), false);
        _cleanup_(freep) char *text = text_clean(failure, false);
        fprintf(f->screen->file, "%s  %s  %s: %s\n", at, f->session, worker, text);
    }
    fflush(f->screen->file);
    json_decref(f->before);
    f->before = json_incref(f->now);
}

static void show(struct follow *f)
{
    bool is_over = f->now && session_is_over(f->now);
    /* On stdout it is what was asked for, on stderr only talk. */
    if ((f->c->quiet && f->screen == &f->c->err) || f->c->json || !f->now)
        return;
    tell_remarks(f);
    if (!f->screen->is_terminal) {
        tell_changes(f);
    } else if (is_over || mono_ns() >= f->next_draw) {
        draw(f);
        f->next_draw = mono_ns() + DRAW_INTERVAL_NS;
    }
}

static void tell_lost(struct follow *f)
{
    bool lost = event_stream_lost_since(f->stream);
    if (lost == f->told_lost)
        return;
    f->told_lost = lost;
    if (!lost)
        f->changed = true;
    if (!f->screen->is_terminal && f->now)
        client_say(f->c, lost ? "profd does not answer; waiting for it" : "profd is back");
}

static void ask_to_stop(struct follow *f)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s/stop", f->session);
    _cleanup_(problem_done) struct problem p = {0};

    f->stop_sent = true;
    if (!f->screen->is_terminal)
        client_say(f->c, "stopping %s; Ctrl-C again leaves it to profd", f->session);
    int r = door_call(f->c->door, "POST", path, NULL, NULL, NULL, &p);
    /* One that is over already needs no stop. */
    if (r < 0 && r != -EINTR && p.kind != PROBLEM_CONFLICT) {
        f->stop_sent = false;
        screen_clear(f->screen);
        client_fail(f->c, &p);
    }
    f->changed = true;
}

static void on_signal(struct follow *f)
{
    struct signalfd_siginfo info;

    if (read(f->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    bool stops = f->on_interrupt == INTERRUPT_STOPS && info.ssi_signo == SIGINT && !f->stop_sent;
    if (stops)
        ask_to_stop(f);
    else
        f->left = true;
}

static int64_t next_turn(const struct follow *f)
{
    int64_t now = mono_ns(), turn = now + LOOK_ANYWAY_NS;
    if (f->changed)
        turn = MAX(f->next_look, now);
    if (f->screen->is_terminal)
        turn = MIN(turn, MAX(f->next_draw, now));
    return turn;
}

static int watch(struct follow *f, struct problem *p)
{
    int64_t looked = 0;

    for (;;) {
        int64_t now = mono_ns(), lost = event_stream_lost_since(f->stream);
        if (now >= f->next_look && (f->changed || now - looked >= LOOK_ANYWAY_NS)) {
            int r = look(f, p);
            if (r < 0)
                return r;
            looked = now;
        }
        show(f);
        if (f->left || (f->now && session_is_over(f->now)))
            return 0;
        if (lost && now - lost > LOST_MAX_NS) {
            problem_set(p, -ETIMEDOUT, PROBLEM_UPSTREAM, "profd at %s does not answer for %d minutes",
                        door_name(f->c->door), (int)(LOST_MAX_NS / NS_PER_S / 60));
            problem_remedy(p, "The session is in its catalog and goes on when it is back: profctl status %s",
                           f->session);
            return -ETIMEDOUT;
        }
        int r = event_stream_wait(f->stream, f->signal_fd, next_turn(f), p);
        if (r < 0)
            return r;
        if (r > 0)
            on_signal(f);
        tell_lost(f);
    }
}

int follow_session(struct client *c, const char *session, struct screen *screen, enum interrupt on_interrupt,
                   json_t **ret)
{
    sigset_t set = held_signals();
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/events?session=%s&after=0", session);
    _cleanup_(follow_done) struct follow f = {
        .c = c, .screen = screen, .session = session, .on_interrupt = on_interrupt, .changed = true};

    f.remarks = reasons_new();

    follow_hold_signals();
    f.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    f.stream = event_stream_new(c->door, path, on_event, &f);
    int r = watch(&f, &p);
    /* What a terminal shows of Ctrl-C stands at the begin of the next line. */
    if (f.left && screen->is_terminal)
        fputc('\n', screen->file);
    screen_settle(screen);
    /* The caller says how it goes on: by what the stop made of it. */
    if (r >= 0 && f.left && f.stop_sent)
        r = look(&f, &p);
    if (r < 0)
        return client_fail(c, &p);
    if (!f.now)
        return EXIT_FAILED;
    *ret = json_incref(f.now);
    return EXIT_DONE;
}
