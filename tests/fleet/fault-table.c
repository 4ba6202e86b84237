/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/fault-table.h"

#include "base/alloc.h"
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>

enum arg {
    ARG_NONE,
    ARG_SECONDS,
    ARG_COUNT,
    ARG_TEXT,
};

static const char *const arg_words[] = {
    [ARG_NONE] = "", [ARG_SECONDS] = "=SECONDS", [ARG_COUNT] = "=N", [ARG_TEXT] = "=TOKEN"};

/* clang-format off */
static const struct {
    const char *name;
    enum arg arg;
    double otherwise; /* the argument where none is written */
    const char *what;
} faults[_FAULT_MAX] = {
    [FAULT_NONE]              = {"none", ARG_NONE, 0, "takes away every fault of a worker"},
    [FAULT_DIE]               = {"die", ARG_NONE, 0, "its process is gone, and what it recorded with it"},
    [FAULT_RELAUNCH]          = {"relaunch", ARG_NONE, 0, "a new process listens where one died"},
    [FAULT_HANG_UP]           = {"hang-up", ARG_NONE, 0, "resets the connections that are open"},
    [FAULT_STATUS]            = {"status", ARG_COUNT, 502, "that status on every path, as of a proxy in front"},
    [FAULT_GARBAGE]           = {"garbage", ARG_NONE, 0, "no HTTP at all on every path"},
    [FAULT_CUT_ANSWER]        = {"cut-answer", ARG_NONE, 0, "closes connections in the middle of answers"},
    [FAULT_AUTH]              = {"auth", ARG_TEXT, 0, "401 without that bearer token, but for /health and /metrics"},
    [FAULT_REDIRECT]          = {"redirect", ARG_NONE, 0, "302 to the router's /redirected on every path"},
    [FAULT_HTML]              = {"html", ARG_NONE, 0, "a page of HTML for every GET"},
    [FAULT_WRONG_JSON]        = {"wrong-json", ARG_NONE, 0, "JSON of a wrong shape for every GET"},
    [FAULT_ENDLESS_BODY]      = {"endless-body", ARG_NONE, 0, "every GET streams JSON that does not end"},
    [FAULT_ENDLESS_HEADER]    = {"endless-header", ARG_NONE, 0, "every GET streams headers that do not end"},
    [FAULT_SLOW_BODY]         = {"slow-body", ARG_NONE, 0, "bodies arrive at one byte a second"},
    [FAULT_CLOCK]             = {"clock", ARG_SECONDS, 3600, "the Date header is off by that"},
    [FAULT_SLOW_HEALTH]       = {"slow-health", ARG_SECONDS, 5, "/health answers that late"},
    [FAULT_UNHEALTHY]         = {"unhealthy", ARG_NONE, 0, "/health answers 503"},
    [FAULT_SLEEPING]          = {"sleeping", ARG_NONE, 0, "/is_sleeping is true, the engine makes no steps"},
    [FAULT_IDLE]              = {"idle", ARG_NONE, 0, "no requests are running, the engine makes no steps"},
    [FAULT_NO_PROFILER]       = {"no-profiler", ARG_NONE, 0, "was launched without a profiler: not in openapi.json, 404"},
    [FAULT_NO_SERVER_INFO]    = {"no-server-info", ARG_NONE, 0, "/server_info and /is_sleeping are 404, as without vLLM's dev mode and in an old SGLang"},
    [FAULT_ONE_SESSION]       = {"one-session", ARG_NONE, 0, "vLLM with wait_iterations: only the first session records"},
    [FAULT_SLOW_START]        = {"slow-start", ARG_SECONDS, 5, "a start takes effect at once and is answered that late"},
    [FAULT_HOLD_START]        = {"hold-start", ARG_NONE, 0, "a start takes effect at once and is answered when this fault is taken away"},
    [FAULT_HANG_START]        = {"hang-start", ARG_NONE, 0, "a start takes effect and is never answered"},
    [FAULT_RESET_START]       = {"reset-start", ARG_NONE, 0, "a start takes effect, its connection is reset"},
    [FAULT_START_REFUSED]     = {"start-refused", ARG_NONE, 0, "stops listening once a session begins, before its start"},
    [FAULT_START_404]         = {"start-404", ARG_NONE, 0, "a start answers 404"},
    [FAULT_START_409]         = {"start-409", ARG_NONE, 0, "a start answers 409: somebody else records"},
    [FAULT_START_500]         = {"start-500", ARG_NONE, 0, "a start answers 500 and has no effect"},
    [FAULT_DRAINING]          = {"draining", ARG_NONE, 0, "RTP-LLM: a start answers 503, as before its end"},
    [FAULT_ERROR_IN_BODY]     = {"error-in-body", ARG_NONE, 0, "RTP-LLM, Dynamo with vLLM: a start answers 200, and says in its body that it failed"},
    [FAULT_OLDER_PATHS]       = {"older-paths", ARG_NONE, 0, "Dynamo: has only the paths of the generation before"},
    [FAULT_OLDER_KEYS]        = {"older-keys", ARG_NONE, 0, "Dynamo: a start with profile_id answers 500, as with an older SGLang"},
    [FAULT_SLOW_STOP]         = {"slow-stop", ARG_SECONDS, 5, "traces and the answer to a stop come that late, the engine is busy"},
    [FAULT_HOLD_STOP]         = {"hold-stop", ARG_NONE, 0, "traces and the answer to a stop come when this fault is taken away"},
    [FAULT_HOLD_CLEAN]        = {"hold-clean", ARG_NONE, 0, "a stop without a start is answered when this fault is taken away"},
    [FAULT_HANG_STOP]         = {"hang-stop", ARG_NONE, 0, "a stop writes its traces and is never answered"},
    [FAULT_RESET_STOP]        = {"reset-stop", ARG_NONE, 0, "a stop writes its traces, its connection is reset"},
    [FAULT_STOP_500]          = {"stop-500", ARG_NONE, 0, "a stop writes its traces and answers 500"},
    [FAULT_STOP_500_NO_TRACE] = {"stop-500-no-trace", ARG_NONE, 0, "a stop writes nothing and answers 500"},
    [FAULT_STOP_ERROR_IN_BODY] = {"stop-error-in-body", ARG_COUNT, 1000, "Dynamo with vLLM: that many stops answer 200, say in the body that they failed, and it records on"},
    [FAULT_IDLE_STOP_500]     = {"idle-stop-500", ARG_NONE, 0, "a stop without a start answers 500, as vLLM's frontend profiler does"},
    [FAULT_CRASH_FLUSH]       = {"crash-flush", ARG_NONE, 0, "dies at a stop, leaving half a gzip file"},
    [FAULT_ZERO_BYTE]         = {"zero-byte", ARG_NONE, 0, "traces of no bytes"},
    [FAULT_TRUNCATED]         = {"truncated", ARG_NONE, 0, "traces cut in the middle of their gzip data"},
    [FAULT_TRUNCATED_JSON]    = {"truncated-json", ARG_NONE, 0, "valid gzip around JSON that is cut (of a made trace)"},
    [FAULT_CORRUPT_CRC]       = {"corrupt-crc", ARG_NONE, 0, "traces with a wrong CRC in the gzip trailer"},
    [FAULT_HUGE]              = {"huge", ARG_COUNT, 64, "traces of that many MiB"},
    [FAULT_LATE]              = {"late", ARG_SECONDS, 5, "traces appear that long after the stop was answered"},
    [FAULT_HOLD_TRACE]        = {"hold-trace", ARG_NONE, 0, "a stop is answered, traces appear when this fault is taken away"},
    [FAULT_GROWING]           = {"growing", ARG_SECONDS, 5, "traces grow for that long after the stop was answered"},
    [FAULT_DUPLICATE]         = {"duplicate", ARG_NONE, 0, "every trace is there twice, under two names"},
    [FAULT_NO_TRACE]          = {"no-trace", ARG_NONE, 0, "a stop answers 200 and writes nothing"},
    [FAULT_MISSING_RANK]      = {"missing-rank", ARG_NONE, 0, "the last rank writes no trace"},
    [FAULT_SYMLINK_TRACE]     = {"symlink-trace", ARG_NONE, 0, "traces are links to /etc/os-release"},
    [FAULT_FIFO_TRACE]        = {"fifo-trace", ARG_NONE, 0, "traces are named pipes"},
    [FAULT_MANY_FILES]        = {"many-files", ARG_COUNT, 1000, "that many more traces, of ranks beyond the world's size"},
};
/* clang-format on */

static_assert(_FAULT_MAX <= 64, "fault_set.on has a bit for each");

#define NUMBER_MAX 1e6

static int parse_number(const char *text, double *ret)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= -NUMBER_MAX && v <= NUMBER_MAX))
        return -EINVAL;
    *ret = v;
    return 0;
}

int fault_spec_make(const char *name, const char *arg, struct fault_spec *ret)
{
    enum fault f = FAULT_NONE;
    while (f < _FAULT_MAX && !streq(faults[f].name, name))
        f++;
    if (f == _FAULT_MAX)
        return -EINVAL;

    struct fault_spec s = {.fault = f, .number = faults[f].otherwise};
    enum arg kind = faults[f].arg;
    if (kind == ARG_TEXT ? !arg || !*arg : arg && kind == ARG_NONE)
        return -EINVAL;
    if (arg && kind != ARG_TEXT && parse_number(arg, &s.number) < 0)
        return -EINVAL;
    if (s.number < 0 && f != FAULT_CLOCK)
        return -EINVAL;
    if (kind == ARG_TEXT)
        s.text = xstrdup(arg);
    *ret = s;
    return 0;
}

int fault_spec_parse(const char *spec, struct fault_spec *ret)
{
    _cleanup_(freep) char *name = xstrdup(spec);
    char *indexes = strrchr(name, '@');
    if (indexes)
        *indexes++ = '\0';
    char *arg = strchr(name, '=');
    if (arg)
        *arg++ = '\0';
    int r = fault_spec_make(name, arg, ret);
    if (r == 0)
        ret->indexes = xstrdup(indexes);
    return r;
}

void fault_spec_done(struct fault_spec *s)
{
    free(s->text);
    free(s->indexes);
    *s = (struct fault_spec){};
}

void fault_set_add(struct fault_set *set, const struct fault_spec *spec)
{
    if (spec->fault == FAULT_NONE) {
        fault_set_clear(set);
        return;
    }
    set->on |= UINT64_C(1) << spec->fault;
    set->number[spec->fault] = spec->number;
    if (spec->fault == FAULT_AUTH)
        replace_str(&set->token, spec->text);
}

void fault_set_clear(struct fault_set *set)
{
    free(set->token);
    *set = (struct fault_set){};
}

/* Reads digits at *s and moves behind them; -EINVAL where there are none. */
static int take_index(const char **s, size_t *ret)
{
    if (!isdigit((unsigned char)**s))
        return -EINVAL;
    char *end;
    errno = 0;
    unsigned long v = strtoul(*s, &end, 10);
    if (errno || v > INT_MAX)
        return -ERANGE;
    *s = end;
    *ret = v;
    return 0;
}

int indexes_parse(const char *text, bool *chosen, size_t n)
{
    for (const char *s = text;; s++) {
        size_t first, last;
        int r = take_index(&s, &first);
        if (r < 0)
            return r;
        if (s[0] == '%' && s[1] == '\0' && first >= 1 && first <= 100) {
            for (size_t i = 0; i < n; i++)
                chosen[i] |= i * first % 100 < first;
            return 0;
        }
        last = first;
        if (*s == '-') {
            s++;
            r = take_index(&s, &last);
            if (r < 0)
                return r;
        }
        if (last < first)
            return -EINVAL;
        if (last >= n)
            return -ERANGE;
        memset(chosen + first, true, last - first + 1);
        if (*s == '\0')
            return 0;
        if (*s != ',')
            return -EINVAL;
    }
}

void fault_table_print(FILE *out)
{
    for (enum fault f = FAULT_NONE; f < _FAULT_MAX; f++) {
        char left[32];
        snprintf(left, sizeof(left), "%s%s", faults[f].name, arg_words[faults[f].arg]);
        fprintf(out, "  %-24s %s\n", left, faults[f].what);
    }
}
