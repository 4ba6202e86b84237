/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/doctor.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/kineto_workers.h"
#include "daemon/fleet/process.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* A recording of seconds writes tens to hundreds of MiB for each rank, with stacks ten times as much. */
#define FREE_FAIL (INT64_C(256) << 20)
#define FREE_WARN (INT64_C(5) << 30)
/* The Date header has a resolution of one second, and the answer was in transit. */
#define VERSIONS_MAX 16

/* -- The list of checks ------------------------------------------------------------------------------- */

/* The most specific wording, starting with that of check a, in which both checks have the same text and
 * remedy; _CHECK_WORDING_MAX if there is none. */
static enum check_wording common_wording(const struct doctor_check *a, const struct doctor_check *b)
{
    enum check_wording i = a->wording;

    while (i < _CHECK_WORDING_MAX && !(streq(a->text[i], b->text[i]) && streq(a->remedy[i], b->remedy[i])))
        i++;
    return i;
}

static void check_done(struct doctor_check *c)
{
    for (size_t i = 0; i < c->n_workers; i++)
        free(c->workers[i]);
    free(c->workers);
    for (size_t i = 0; i < _CHECK_WORDING_MAX; i++) {
        free(c->text[i]);
        free(c->remedy[i]);
    }
}

static void check_add_worker(struct doctor_check *c, const char *url)
{
    VEC_GROW(c->workers, c->n_workers, c->cap_workers);
    c->workers[c->n_workers++] = xstrdup(url);
}

static bool join_check(struct checks *c, const struct doctor_check *one, const char *url)
{
    for (size_t i = 0; i < c->n; i++) {
        struct doctor_check *same = &c->items[i];
        if (same->n_workers == 0 || same->result != one->result)
            continue;
        enum check_wording wording = common_wording(same, one);
        if (wording == _CHECK_WORDING_MAX)
            continue;
        same->wording = wording;
        check_add_worker(same, url);
        return true;
    }
    return false;
}

void checks_add(struct checks *c, enum check_result result, const struct worker *worker, const char *remedy,
                const char *format, ...)
{
    struct doctor_check one = {.result = result};

    va_list ap;
    va_start(ap, format);
    one.text[WORDING_OWN] = xvasprintf(format, ap);
    va_end(ap);
    one.remedy[WORDING_OWN] = xstrdup(remedy);
    for (size_t i = WORDING_OWN + 1; worker && i < _CHECK_WORDING_MAX; i++) {
        one.text[i] = worker_generic_text(worker, one.text[WORDING_OWN], i == WORDING_WITHOUT_DIR);
        one.remedy[i] = worker_generic_text(worker, remedy, i == WORDING_WITHOUT_DIR);
    }
    if (worker && join_check(c, &one, worker->url)) {
        check_done(&one);
        return;
    }
    if (worker)
        check_add_worker(&one, worker->url);
    VEC_GROW(c->items, c->n, c->cap);
    c->items[c->n++] = one;
}

void checks_done(struct checks *c)
{
    for (size_t i = 0; i < c->n; i++)
        check_done(&c->items[i]);
    free(c->items);
    *c = (struct checks){0};
}

static char *describe_several(const char *worker, unsigned n)
{
    if (n == 1)
        return xstrdup(worker);
    return xasprintf("%s and %u other%s", worker, n - 1, n == 2 ? "" : "s");
}

char *check_subject(const struct doctor_check *c)
{
    return c->n_workers == 1 ? xstrdup(c->workers[0]) : xasprintf("each of %zu workers", c->n_workers);
}

static json_t *check_to_json(const struct doctor_check *c)
{
    static const char *const names[_CHECK_RESULT_MAX] = {
        [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail", [CHECK_UNKNOWN] = "unknown"};
    json_t *j = json_object(), *urls = json_array();
    const char *text = c->text[c->wording];

    json_put_str(j, "result", names[c->result]);
    for (size_t i = 0; i < c->n_workers; i++)
        json_array_append_new(urls, json_text(c->workers[i]));
    if (c->n_workers > 0) {
        _cleanup_(freep) char *subject = check_subject(c);
        _cleanup_(freep) char *line = xasprintf("%s: %s", subject, text);
        json_put_str(j, "worker", c->workers[0]);
        json_put_int(j, "workers", (int64_t)c->n_workers);
        json_object_set(j, "urls", urls);
        json_put_str(j, "text", line);
    } else {
        json_put_str(j, "text", text);
    }
    json_decref(urls);
    json_put_str(j, "remedy", c->remedy[c->wording]);
    return j;
}

json_t *checks_to_json(const struct checks *c)
{
    json_t *j = json_object(), *list = json_array();
    int64_t counts[_CHECK_RESULT_MAX] = {0};

    for (size_t i = 0; i < c->n; i++) {
        counts[c->items[i].result]++;
        json_array_append_new(list, check_to_json(&c->items[i]));
    }
    json_put_int(j, "problems", counts[CHECK_FAIL]);
    json_put_int(j, "warnings", counts[CHECK_WARN]);
    json_object_set_new(j, "checks", list);
    return j;
}

/* -- Directories -------------------------------------------------------------------------------------- */

static void directory_spaces_add(struct directory_spaces *s, const char *path, bool temporary,
                                 const char *worker)
{
    if (!path)
        return;
    for (size_t i = 0; i < s->n; i++)
        if (streq(s->items[i].path, path) && s->items[i].temporary == temporary) {
            s->items[i].n_workers++;
            return;
        }
    VEC_GROW(s->items, s->n, s->cap);
    s->items[s->n++] = (struct directory_space){
        .path = xstrdup(path), .n_paths = 1, .temporary = temporary, .a_worker = worker, .n_workers = 1};
}

void directory_spaces_of(const struct fleet *f, struct directory_spaces *ret)
{
    /* A directory of another host's worker is one of that host, whose profd looks at it. */
    for (size_t i = 0; i < f->n_workers; i++)
        if (!f->workers[i].peer)
            directory_spaces_add(ret, f->workers[i].location.local_dir, false, f->workers[i].url);
    for (size_t i = 0; i < f->n_workers; i++)
        if (f->workers[i].location.local_dir && !f->workers[i].peer)
            directory_spaces_add(ret, f->workers[i].location.temp_dir, true, f->workers[i].url);
}

/* An engine creates its directory with its first trace: until then, the free space is that of the nearest
 * parent that exists. */
static int stat_nearest(const char *path, bool may_be_missing, struct stat *ret, struct statvfs *ret_fs)
{
    _cleanup_(freep) char *copy = xstrdup(path);

    while (stat(copy, ret) < 0) {
        char *slash = strrchr(copy, '/');
        if (errno != ENOENT || !may_be_missing || !slash || slash == copy)
            return -errno;
        *slash = '\0';
    }
    if (!S_ISDIR(ret->st_mode))
        return -ENOTDIR;
    return statvfs(copy, ret_fs) < 0 ? -errno : 0;
}

static void directory_space_look(struct directory_space *s)
{
    struct statvfs fs = {0};
    struct stat st = {0};

    s->err = stat_nearest(s->path, !s->temporary, &st, &fs);
    if (s->err < 0)
        return;
    s->device = st.st_dev;
    s->free = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (!s->temporary && faccessat(AT_FDCWD, s->path, R_OK | X_OK, AT_EACCESS) < 0 && errno != ENOENT)
        s->err = -errno;
}

static struct directory_space *find_neighbour(struct directory_spaces *s, size_t n,
                                              const struct directory_space *one)
{
    for (size_t i = 0; i < n; i++) {
        struct directory_space *other = &s->items[i];
        if (other->err == one->err && other->temporary == one->temporary &&
            (one->err < 0 || other->device == one->device))
            return other;
    }
    return NULL;
}

void directory_spaces_look(struct directory_spaces *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct directory_space one = s->items[i];
        directory_space_look(&one);
        struct directory_space *neighbour = find_neighbour(s, n, &one);
        if (!neighbour) {
            s->items[n++] = one;
            continue;
        }
        neighbour->n_paths++;
        neighbour->n_workers += one.n_workers;
        free(one.path);
    }
    s->n = n;
}

void directory_spaces_done(struct directory_spaces *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->items[i].path);
    free(s->items);
    *s = (struct directory_spaces){0};
}

static void check_space(const struct directory_space *s, struct checks *c)
{
    char space[UNIT_TEXT_MAX];
    const char *what = s->temporary ? "$TMPDIR" : "trace directory";
    _cleanup_(freep) char *whose = describe_several(s->a_worker, s->n_workers);
    _cleanup_(freep) char *where = describe_several(s->path, s->n_paths);

    if (s->err < 0) {
        checks_add(c, s->temporary ? CHECK_UNKNOWN : CHECK_FAIL, NULL,
                   "profd must be able to list and read it: run it as a user or group that may, or "
                   "with " FOREIGN_DROP_IN ".",
                   "%s (%s of %s) cannot be read: %s", where, what, whose, strerror(-s->err));
        return;
    }
    enum check_result result = s->free < FREE_FAIL ? CHECK_FAIL : s->free < FREE_WARN ? CHECK_WARN : CHECK_OK;
    const char *remedy = s->temporary
                             ? "torch writes a trace there uncompressed before it packs it: free space, "
                               "or start the engine with another TMPDIR."
                             : "Free space, or record shorter: --duration, --steps.";
    checks_add(c, result, NULL, result == CHECK_OK ? NULL : remedy, "%s (%s of %s): %s%s free", where, what,
               whose, result == CHECK_OK ? "" : "only ", format_size(space, s->free));
}

/* -- The entire fleet --------------------------------------------------------------------------------- */

static void check_router(const struct fleet *f, struct checks *c)
{
    char latency[UNIT_TEXT_MAX];
    const char *plural = f->n_workers == 1 ? "" : "s";
    /* The last note of such a fleet without workers has the reason. */
    bool registers = streq(f->dialect, KINETO_DIALECT) && f->n_notes > 0;
    size_t n_notes = f->n_notes;

    if (f->router)
        checks_add(c, CHECK_OK, NULL, NULL, "%s answers as %s (%s), %zu worker%s", f->router, f->dialect,
                   format_duration(latency, f->latency_ns), f->n_workers, plural);
    else
        checks_add(c, CHECK_OK, NULL, NULL, "a list of %zu worker%s", f->n_workers, plural);
    if (f->n_workers == 0)
        checks_add(c, CHECK_FAIL, NULL,
                   registers ? "profctl list-workers --kineto lists the processes that registered; a process "
                               "registers within 5 s of its start."
                             : "Workers register with the router when they are up; name them by --worker URL "
                               "meanwhile.",
                   "%s", registers ? f->notes[--n_notes].text : "no workers are listed");
    for (size_t i = 0; i < n_notes; i++)
        if (f->notes[i].kind != NOTE_HOST)
            checks_add(c, f->notes[i].kind == NOTE_WARNING ? CHECK_WARN : CHECK_OK, NULL, NULL, "%s",
                       f->notes[i].text);
}

/* The reason and the remedy are those of check_profiler(). */
static bool worker_is_silent(const struct worker *w)
{
    return !w->profilable && w->reason && starts_with(w->reason, "does not answer");
}

static void check_health(const struct fleet *f, struct checks *c)
{
    size_t healthy = 0, unknown = 0;

    for (size_t i = 0; i < f->n_workers; i++) {
        const struct worker *w = &f->workers[i];
        healthy += w->health == HEALTH_HEALTHY;
        unknown += w->health == HEALTH_UNKNOWN;
        if (w->health == HEALTH_UNHEALTHY)
            checks_add(c, CHECK_FAIL, w,
                       worker_is_silent(w)
                           ? NULL
                           : "The reason is in its log; --include-unhealthy records it all the same.",
                       "is unhealthy");
    }
    if (unknown > 0)
        checks_add(c, CHECK_OK, NULL, NULL, "%zu of %zu healthy, health of %zu unknown", healthy,
                   f->n_workers, unknown);
    else if (healthy > 0)
        checks_add(c, CHECK_OK, NULL, NULL, "%zu of %zu healthy", healthy, f->n_workers);
}

static int64_t clock_error(const struct worker *w)
{
    return w->clock_offset_ns < 0 ? -w->clock_offset_ns : w->clock_offset_ns;
}

/* To the second only. The clock of a host with a profd is measured between both profds, and reported once for the host. */
static bool worker_clock_is_compared(const struct worker *w)
{
    return w->clock_known && !w->peer;
}

/* Workers whose clocks differ by different amounts have the same trouble: the text has the largest of each
 * direction. */
static void check_clocks(const struct fleet *f, struct checks *c)
{
    size_t n_known = 0, n_of_hosts = 0, n_off[2] = {0};
    int64_t largest[2] = {0};
    char text[UNIT_TEXT_MAX];

    for (size_t i = 0; i < f->n_workers; i++) {
        const struct worker *w = &f->workers[i];
        bool ahead = w->clock_offset_ns > 0;
        n_known += worker_clock_is_compared(w);
        n_of_hosts += w->peer != NULL;
        if (!worker_clock_is_compared(w) || clock_error(w) <= CLOCK_WARN_NS)
            continue;
        n_off[ahead]++;
        largest[ahead] = MAX(largest[ahead], clock_error(w));
    }
    for (size_t i = 0; i < f->n_workers; i++) {
        const struct worker *w = &f->workers[i];
        bool ahead = w->clock_offset_ns > 0;
        if (!worker_clock_is_compared(w) || clock_error(w) <= CLOCK_WARN_NS)
            continue;
        checks_add(c, CHECK_WARN, w,
                   "Let both hosts follow one time server (timedatectl); traces of several hosts cannot be "
                   "laid over each other before.",
                   "has a clock that is %s%s %s ours (by the Date of its answers, ±1s)",
                   n_off[ahead] > 1 ? "up to " : "", format_duration(text, largest[ahead]),
                   ahead ? "ahead of" : "behind");
    }
    if (n_known > 0)
        checks_add(c, CHECK_OK, NULL, NULL, "clocks: %zu of %zu %scould be compared%s", n_known,
                   f->n_workers - n_of_hosts, n_of_hosts > 0 ? "workers that no other profd reports " : "",
                   n_off[0] + n_off[1] == 0 ? ", and agree within two seconds" : "");
}

/* "6 run vllm 0.19.1", for each engine and version. */
static void check_engines(const struct fleet *f, struct checks *c)
{
    struct {
        enum engine engine;
        const char *version;
        unsigned n;
    } kinds[VERSIONS_MAX];
    size_t n_kinds = 0;

    for (size_t i = 0; i < f->n_workers; i++) {
        const struct worker *w = &f->workers[i];
        size_t k = 0;
        while (k < n_kinds && (kinds[k].engine != w->engine || !streq(kinds[k].version, w->version)))
            k++;
        if (w->engine == ENGINE_UNKNOWN || k == VERSIONS_MAX)
            continue;
        if (k == n_kinds) {
            kinds[n_kinds].engine = w->engine;
            kinds[n_kinds].version = w->version;
            kinds[n_kinds++].n = 0;
        }
        kinds[k].n++;
    }
    for (size_t k = 0; k < n_kinds; k++)
        checks_add(c, CHECK_OK, NULL, NULL, "%u of %zu run %s %s", kinds[k].n, f->n_workers,
                   engine_name(kinds[k].engine),
                   kinds[k].version ? kinds[k].version : "of an unknown version");
    if (n_kinds > 1)
        checks_add(c, CHECK_OK, NULL, NULL, "engines or versions differ: an option may be for some only");
}

/* -- Each worker -------------------------------------------------------------------------------------- */

static void check_profiler(const struct worker *w, struct checks *c)
{
    if (!w->profilable)
        checks_add(c, CHECK_FAIL, w, w->remedy, "%s", w->reason ? w->reason : "cannot be profiled");
    if (w->note)
        checks_add(c, CHECK_OK, w, NULL, "%s", w->note);
    if (w->sleeping == 1)
        checks_add(c, CHECK_WARN, w, "Wake it: POST /wake_up.",
                   "sleeps: it makes no steps, and its trace would be empty");
}

static void check_setup(const struct worker *w, struct checks *c)
{
    const struct profiler_setup *s = &w->setup;

    /* SGLang is told with each start. */
    if (s->with_stack == 1 && worker_profiler(w) == ENGINE_VLLM)
        checks_add(
            c, CHECK_WARN, w,
            "Add \"torch_profiler_with_stack\":false to its --profiler-config (true is vLLM's default).",
            "profiles with Python stacks: traces grow tenfold and a stop takes minutes");
    if (s->own_windows == 1)
        checks_add(
            c, CHECK_WARN, w, "Unset TLLM_PROFILE_START_STOP and restart it.",
            "records windows of iterations by itself (TLLM_PROFILE_START_STOP): one that begins during "
            "a session ends its executor");
    if (streq(s->kind, "none"))
        checks_add(c, CHECK_FAIL, w, engine_ops(worker_profiler(w))->no_profiler_remedy,
                   "was started without a profiler: it answers a start and records nothing");
    if (s->each_request == 1)
        checks_add(
            c, CHECK_WARN, w, "Start it without --gen_timeline_sync; profctl timeline records one request.",
            "records every request unasked: [collect] unclaimed_per_minute= of its traces are collected");
    if (s->wait_iterations > 0 || s->warmup_iterations > 0)
        checks_add(
            c, CHECK_WARN, w,
            "Start it without wait_iterations and warmup_iterations, or restart it before each session.",
            "was started with %s: only its first session is recorded",
            s->wait_iterations > 0 ? "wait_iterations" : "warmup_iterations");
    if (s->delay_iterations > 0)
        checks_add(c, CHECK_WARN, w, "Record longer, or start it without delay_iterations.",
                   "records only %" PRId64 " steps after a start (delay_iterations)", s->delay_iterations);
    if (s->max_iterations > 0)
        checks_add(c, CHECK_WARN, w, "Start it without max_iterations: profd ends a recording itself.",
                   "ends a recording by itself after %" PRId64 " steps (max_iterations)", s->max_iterations);
}

/* -- Whether what is recorded can be collected -------------------------------------------------------- */

static bool is_asked(const struct worker *w, const char **ret_reason, const char **ret_remedy,
                     enum worker_collection *ret)
{
    *ret = w->profilable ? worker_collection(w, ret_reason, ret_remedy) : COLLECTION_NOT_NEEDED;
    return *ret != COLLECTION_NOT_NEEDED;
}

/* Some uncollectable traces are a warning. If no trace can be collected, it is a failure: recording is then
 * useless. */
static void fleet_check_collection(const struct fleet *f, struct checks *c)
{
    const char *reason, *remedy;
    enum worker_collection collection;
    size_t n_asked = 0, n_possible = 0;

    for (size_t i = 0; i < f->n_workers; i++)
        if (is_asked(&f->workers[i], &reason, &remedy, &collection)) {
            n_asked++;
            n_possible += collection == COLLECTION_POSSIBLE;
        }
    if (n_asked == 0)
        return;
    if (n_possible > 0)
        checks_add(c, CHECK_OK, NULL, NULL, "traces of %zu of %zu workers can be collected", n_possible,
                   n_asked);
    else
        checks_add(c, CHECK_FAIL, NULL,
                   "Follow the next lines (first: --trace-dir DIR), or start with --allow-uncollected: the "
                   "traces then stay where the "
                   "engines write them.",
                   "no traces can be collected: 0 of %zu worker%s", n_asked, n_asked == 1 ? "" : "s");
    for (size_t i = 0; i < f->n_workers; i++)
        if (is_asked(&f->workers[i], &reason, &remedy, &collection) && collection != COLLECTION_POSSIBLE)
            checks_add(c, n_possible == 0 && collection == COLLECTION_BLOCKED_HERE ? CHECK_FAIL : CHECK_WARN,
                       &f->workers[i], remedy, "traces cannot be collected: %s", reason);
}

/* -- All of it ---------------------------------------------------------------------------------------- */

void fleet_check(const struct fleet *f, const struct directory_spaces *spaces, struct checks *ret)
{
    size_t n_profilable = 0;

    for (size_t i = 0; i < f->n_workers; i++)
        n_profilable += f->workers[i].profilable;
    check_router(f, ret);
    if (f->n_workers == 0)
        return;
    check_health(f, ret);
    check_clocks(f, ret);
    check_engines(f, ret);
    if (n_profilable > 0)
        checks_add(ret, CHECK_OK, NULL, NULL, "%zu of %zu can be profiled", n_profilable, f->n_workers);
    for (size_t i = 0; i < f->n_workers; i++) {
        check_profiler(&f->workers[i], ret);
        check_setup(&f->workers[i], ret);
    }
    fleet_check_collection(f, ret);
    for (size_t i = 0; i < spaces->n; i++)
        check_space(&spaces->items[i], ret);
}
