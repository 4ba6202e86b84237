/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A viewer: one trace that stays open, and requests on it, one after another. What is computed is trace/view's; this
 * reads lines and writes frames (proto/report.h).
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/report/work.h"
#include "proto/report.h"
#include "trace/view/view.h"
#include <errno.h>
#include <sys/resource.h>

/* The share of its processor time after which a viewer ends between two requests; its successor has all of it. */
#define CPU_SHARE 2

struct view_service {
    struct trace_view *view;
    int fd;
    char *line;
    size_t size; /* bytes of line that were read */
};

static void view_service_done(struct view_service *s)
{
    trace_view_free(s->view);
    free(s->line);
}

/* The next line: its size with the end of line; 0 when no more comes, -EMSGSIZE. */
static ssize_t view_service_read(struct view_service *s)
{
    while (s->size < VIEW_REQUEST_MAX) {
        const char *end = s->size > 0 ? memchr(s->line, '\n', s->size) : NULL;
        if (end)
            return end + 1 - s->line;
        ssize_t n = read(s->fd, s->line + s->size, VIEW_REQUEST_MAX - s->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        s->size += (size_t)n;
    }
    return -EMSGSIZE;
}

static int view_service_send(const struct view_service *s, enum view_frame_kind kind, bool is_gzip,
                             const char *bytes, size_t size)
{
    const struct view_frame frame = {.size = (uint32_t)size, .kind = (uint8_t)kind, .is_gzip = is_gzip};

    int r = write_all(s->fd, &frame, sizeof(frame));
    return r < 0 || size == 0 ? r : write_all(s->fd, bytes, size);
}

static int view_service_refuse(const struct view_service *s, const struct problem *p)
{
    _cleanup_json_ body = work_problem_to_json(p);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    return text ? view_service_send(s, VIEW_FRAME_PROBLEM, false, text,
                                    MIN(strlen(text), (size_t)REPORT_RESULT_MAX))
                : -ENOMEM;
}

static int view_service_answer(const struct view_service *s, size_t size)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct view_answer answer;

    int r = view_answer(s->view, s->line, size, &answer, &p);
    if (r >= 0 && answer.size > VIEW_ANSWER_MAX) {
        free(answer.bytes);
        problem_remedy(&p, "Ask for fewer lanes, or a smaller part.");
        r = problem_set(&p, -EFBIG, PROBLEM_TOO_LARGE, "the answer is too large");
    }
    if (r < 0)
        return view_service_refuse(s, &p);
    r = view_service_send(s, answer.is_json ? VIEW_FRAME_JSON : VIEW_FRAME_BYTES, answer.is_gzip,
                          answer.bytes, answer.size);
    free(answer.bytes);
    return r;
}

static bool view_service_is_over(void)
{
    struct rusage used;
    struct rlimit limit;

    return getrusage(RUSAGE_SELF, &used) < 0 || getrlimit(RLIMIT_CPU, &limit) < 0 ||
           (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) >= limit.rlim_cur / CPU_SHARE;
}

int work_view(const struct work *work, FILE *answer, struct problem *p)
{
    _cleanup_(view_service_done) struct view_service s = {.fd = fileno(answer),
                                                          .line = xcalloc(1, VIEW_REQUEST_MAX)};
    _cleanup_(freep) char *reason = NULL;
    ssize_t n = 0;

    int r = trace_view_open(work->columns_fd, work->source_fd, &s.view, &reason);
    if (r < 0) {
        problem_remedy(p, "Make the columns again: profctl ingest --again FILE.");
        return problem_set(p, r, PROBLEM_STORAGE, "the columns of the trace cannot be used: %s",
                           reason ? reason : strerror(-r));
    }
    while (r >= 0 && (n = view_service_read(&s)) > 0) {
        r = view_service_answer(&s, (size_t)n);
        memmove(s.line, s.line + n, s.size - (size_t)n);
        s.size -= (size_t)n;
        if (view_service_is_over())
            break;
    }
    return r < 0 || n < 0 ? problem_set(p, -EPIPE, PROBLEM_INTERNAL, "the sender of requests is gone") : 0;
}
