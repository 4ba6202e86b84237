/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/worker.h"

#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include <ctype.h>
#include <errno.h>
#include <stddef.h>

/* More ranks than any worker has: keeps nonsense sizes from overflowing. */
#define RANKS_MAX 65536

static void setup_init(struct profiler_setup *s)
{
    *s = (struct profiler_setup){
        .with_stack = -1,
        .record_shapes = -1,
        .use_gzip = -1,
        .ignore_frontend = -1,
        .each_request = -1,
        .delay_iterations = -1,
        .max_iterations = -1,
        .wait_iterations = -1,
        .warmup_iterations = -1,
        .active_iterations = -1,
    };
}

void worker_init(struct worker *w)
{
    *w = (struct worker){.load = -1, .sleeping = -1};
    setup_init(&w->setup);
}

void worker_done(struct worker *w)
{
    free(w->url);
    free(w->listed_url);
    free(w->model);
    free(w->connection);
    free(w->version);
    free(w->group);
    free(w->reason);
    free(w->remedy);
    free(w->note);
    free(w->setup.kind);
    free(w->location.dir);
    free(w->location.local_dir);
    free(w->location.found_by);
    free(w->location.note);
    free(w->location.remedy);
    free(w->location.temp_dir);
    worker_init(w);
}

void worker_add_note(struct worker *w, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = xvasprintf(format, ap);
    va_end(ap);
    if (w->note && strstr(w->note, text)) {
        free(text);
        return;
    }
    if (w->note) {
        char *both = xasprintf("%s; %s", w->note, text);
        free(text);
        text = both;
    }
    free(w->note);
    w->note = text;
}

void worker_join_group(struct worker *w, const char *address)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    struct in6_addr ip;

    if (!colon || colon == address)
        return;
    _cleanup_(freep) char *host = xstrndup(address, (size_t)(colon - address));
    if (streq(host, "localhost") ||
        (address_of_host(host, &ip) && (address_is_loopback(&ip) || address_is_wildcard(&ip))))
        return;
    replace_str(&w->group, address);
}

struct worker *fleet_add_worker(struct fleet *f)
{
    VEC_GROW(f->workers, f->n_workers, f->cap_workers);
    struct worker *w = &f->workers[f->n_workers++];
    worker_init(w);
    return w;
}

void fleet_add_note(struct fleet *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    VEC_GROW(f->notes, f->n_notes, f->cap_notes);
    f->notes[f->n_notes++] = xvasprintf(format, ap);
    va_end(ap);
}

struct fleet *fleet_free(struct fleet *f)
{
    if (!f)
        return NULL;
    for (size_t i = 0; i < f->n_workers; i++)
        worker_done(&f->workers[i]);
    for (size_t i = 0; i < f->n_notes; i++)
        free(f->notes[i]);
    free(f->workers);
    free(f->notes);
    free(f->name);
    free(f->router);
    free(f->dialect);
    free(f);
    return NULL;
}

enum engine worker_profiler(const struct worker *w)
{
    return w->engine == ENGINE_DYNAMO ? w->backend : w->engine;
}

unsigned worker_ranks_expected(const struct worker *w)
{
    const int sizes[] = {w->sizes.tp, w->sizes.pp, w->sizes.dp};
    uint64_t product = 1;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        product = MIN(product * (uint64_t)MAX(sizes[i], 1), (uint64_t)RANKS_MAX);
    return (unsigned)product;
}

enum worker_collection worker_collection(const struct worker *w, const char **ret_reason,
                                         const char **ret_remedy)
{
    static const char *const unknown_remedy =
        "--trace-dir DIR names the directory on profd's host where the traces appear; or run profd on the "
        "worker's host.";
    const struct engine_ops *ops = worker_ops(w);

    if (streq(w->setup.kind, "cuda") || (ops && ops->writes_no_traces))
        return COLLECTION_NOT_NEEDED;
    if (w->location.local_dir && !w->location.blocked_here)
        return COLLECTION_POSSIBLE;
    *ret_reason = w->location.note ? w->location.note : "the trace directory is unknown";
    *ret_remedy = w->location.remedy ? w->location.remedy : unknown_remedy;
    return w->location.blocked_here ? COLLECTION_BLOCKED_HERE : COLLECTION_BLOCKED_ELSEWHERE;
}

/* A number or a name is not part of a longer one. */
static bool is_word_at(const char *text, const char *at, size_t n)
{
    return (at == text || !isalnum((unsigned char)at[-1]) || !isalnum((unsigned char)at[0])) &&
           !isalnum((unsigned char)at[n]);
}

/* Frees text. */
static char *replace_words(char *text, const char *word, const char *by)
{
    size_t n = word ? strlen(word) : 0, size;
    char *result = NULL;

    if (n == 0 || !strstr(text, word))
        return text;
    FILE *out = xmemstream(&result, &size);
    if (!out)
        return text;
    for (const char *p = text; *p;) {
        if (strncmp(p, word, n) == 0 && is_word_at(text, p, n)) {
            fputs(by, out);
            p += n;
        } else {
            fputc(*p++, out);
        }
    }
    fclose(out);
    free(text);
    return result;
}

/* A worker's trouble may be that of another process of its launch: any id is replaced. Frees text. */
static char *replace_process_ids(char *text)
{
    static const char before[] = "process ";
    char *result = NULL;
    size_t size;

    if (!strstr(text, before))
        return text;
    FILE *out = xmemstream(&result, &size);
    if (!out)
        return text;
    for (const char *p = text; *p;) {
        if (!starts_with(p, before)) {
            fputc(*p++, out);
            continue;
        }
        p += strlen(before);
        size_t n_digits = strspn(p, "0123456789");
        fprintf(out, "%s%s", before, n_digits > 0 ? "PID" : "");
        p += n_digits;
    }
    fclose(out);
    free(text);
    return result;
}

char *worker_generic_text(const struct worker *w, const char *text, bool with_dir)
{
    const char *address = w->url ? strstr(w->url, "://") : NULL;
    const char *port = address ? strrchr(address, ':') : NULL;
    char port_words[32] = "";

    if (!text)
        return NULL;
    if (port && isdigit((unsigned char)port[1]))
        snprintf(port_words, sizeof(port_words), "port %s", port + 1);
    char *generic = replace_words(xstrdup(text), w->url, "URL");
    if (address)
        generic = replace_words(generic, address + strlen("://"), "HOST:PORT");
    generic = replace_words(generic, port_words, "port PORT");
    generic = replace_process_ids(generic);
    if (!with_dir)
        return generic;
    generic = replace_words(generic, w->location.local_dir, "DIR");
    return replace_words(generic, w->location.dir, "DIR");
}

/* -- As JSON, and back from it for recovery (openapi.yaml, Worker and Fleet) -- */

/* Members of one kind, by name and place in a struct, so that both directions share one list. */
struct worker_member {
    const char *name;
    size_t offset;
};

#define MEMBER(type, name, field)                                                                            \
    {                                                                                                        \
        name, offsetof(struct type, field)                                                                   \
    }

static const struct worker_member worker_strings[] = {
    MEMBER(worker, "url", url),         MEMBER(worker, "listed_url", listed_url),
    MEMBER(worker, "model", model),     MEMBER(worker, "connection", connection),
    MEMBER(worker, "version", version), MEMBER(worker, "reason", reason),
    MEMBER(worker, "remedy", remedy),   MEMBER(worker, "note", note),
    MEMBER(worker, "group", group),
};
static const struct worker_member location_strings[] = {
    MEMBER(trace_location, "dir", dir),           MEMBER(trace_location, "local_dir", local_dir),
    MEMBER(trace_location, "found_by", found_by), MEMBER(trace_location, "note", note),
    MEMBER(trace_location, "remedy", remedy),     MEMBER(trace_location, "temp_dir", temp_dir),
};
static const struct worker_member size_ints[] = {
    MEMBER(parallel, "tp", tp), MEMBER(parallel, "pp", pp),       MEMBER(parallel, "dp", dp),
    MEMBER(parallel, "ep", ep), MEMBER(parallel, "nodes", nodes),
};
/* Three-valued: absent where unknown. */
static const struct worker_member setup_flags[] = {
    MEMBER(profiler_setup, "with_stack", with_stack),
    MEMBER(profiler_setup, "record_shapes", record_shapes),
    MEMBER(profiler_setup, "use_gzip", use_gzip),
    MEMBER(profiler_setup, "ignore_frontend", ignore_frontend),
    MEMBER(profiler_setup, "each_request", each_request),
};
static const struct worker_member setup_counts[] = {
    MEMBER(profiler_setup, "delay_iterations", delay_iterations),
    MEMBER(profiler_setup, "max_iterations", max_iterations),
    MEMBER(profiler_setup, "wait_iterations", wait_iterations),
    MEMBER(profiler_setup, "warmup_iterations", warmup_iterations),
    MEMBER(profiler_setup, "active_iterations", active_iterations),
};

#define FIELD(type, object, member) (*(type *)((char *)(object) + (member)->offset))

static void put_strings(json_t *j, const void *object, const struct worker_member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_put_str(j, m[i].name, FIELD(char *, object, &m[i]));
}

static void get_strings(const json_t *j, void *object, const struct worker_member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        FIELD(char *, object, &m[i]) = xstrdup(json_get_str(j, m[i].name));
}

/* Adds no empty object. Takes the reference to value. */
static void put_object(json_t *j, const char *key, json_t *value)
{
    if (json_object_size(value) > 0)
        json_object_set(j, key, value);
    json_decref(value);
}

static json_t *setup_to_json(const struct profiler_setup *s)
{
    json_t *j = json_object();
    json_put_str(j, "kind", s->kind);
    for (size_t i = 0; i < ARRAY_SIZE(setup_flags); i++) {
        int value = FIELD(int, s, &setup_flags[i]);
        if (value >= 0)
            json_put_bool(j, setup_flags[i].name, value > 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(setup_counts); i++) {
        int64_t value = FIELD(int64_t, s, &setup_counts[i]);
        if (value >= 0)
            json_put_int(j, setup_counts[i].name, value);
    }
    return j;
}

static int flag_from_json(const json_t *j, const char *key)
{
    return json_is_boolean(json_object_get(j, key)) ? json_get_bool(j, key, false) : -1;
}

static void setup_from_json(const json_t *j, struct profiler_setup *s)
{
    s->kind = xstrdup(json_get_str(j, "kind"));
    for (size_t i = 0; i < ARRAY_SIZE(setup_flags); i++)
        FIELD(int, s, &setup_flags[i]) = flag_from_json(j, setup_flags[i].name);
    for (size_t i = 0; i < ARRAY_SIZE(setup_counts); i++)
        FIELD(int64_t, s, &setup_counts[i]) = json_get_int(j, setup_counts[i].name, -1);
}

static json_t *sizes_to_json(const struct parallel *s)
{
    json_t *j = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(size_ints); i++)
        if (FIELD(int, s, &size_ints[i]) > 0)
            json_put_int(j, size_ints[i].name, FIELD(int, s, &size_ints[i]));
    return j;
}

json_t *worker_to_json(const struct worker *w)
{
    json_t *j = json_object(), *location = json_object();

    put_strings(j, w, worker_strings, ARRAY_SIZE(worker_strings));
    json_put_str(j, "engine", engine_name(w->engine));
    if (w->backend != ENGINE_UNKNOWN)
        json_put_str(j, "backend", engine_name(w->backend));
    json_put_str(j, "role", role_name(w->role));
    json_put_str(j, "health", health_name(w->health));
    json_put_bool(j, "profilable", w->profilable);
    json_put_bool(j, "local", w->local);
    json_put_bool(j, "speculative", w->speculative);
    if (w->load >= 0)
        json_put_int(j, "load", w->load);
    if (w->sleeping >= 0)
        json_put_bool(j, "sleeping", w->sleeping > 0);
    if (w->pid > 0) {
        json_put_int(j, "pid", w->pid);
        json_put_int(j, "uid", w->uid);
    }
    if (w->latency_ns > 0)
        json_put_int(j, "latency_ns", w->latency_ns);
    if (w->clock_known)
        json_put_int(j, "clock_offset_ns", w->clock_offset_ns);
    put_object(j, "sizes", sizes_to_json(&w->sizes));
    put_object(j, "setup", setup_to_json(&w->setup));
    put_strings(location, &w->location, location_strings, ARRAY_SIZE(location_strings));
    put_object(j, "traces", location);
    return j;
}

int worker_from_json(const json_t *j, struct worker *ret)
{
    const json_t *sizes = json_object_get(j, "sizes"), *location = json_object_get(j, "traces");
    int engine = engine_from_name(json_get_str(j, "engine"));
    int role = role_from_name(json_get_str(j, "role"));
    int health = health_from_name(json_get_str(j, "health"));

    if (!json_get_str(j, "url") || engine < 0 || role < 0 || health < 0)
        return -EINVAL;
    worker_init(ret);
    get_strings(j, ret, worker_strings, ARRAY_SIZE(worker_strings));
    get_strings(location, &ret->location, location_strings, ARRAY_SIZE(location_strings));
    setup_from_json(json_object_get(j, "setup"), &ret->setup);
    for (size_t i = 0; i < ARRAY_SIZE(size_ints); i++)
        FIELD(int, &ret->sizes, &size_ints[i]) = (int)json_get_int(sizes, size_ints[i].name, 0);
    ret->engine = (enum engine)engine;
    ret->backend = (enum engine)MAX(engine_from_name(json_get_str(j, "backend")), (int)ENGINE_UNKNOWN);
    ret->role = (enum role)role;
    ret->health = (enum health)health;
    ret->profilable = json_get_bool(j, "profilable", false);
    ret->local = json_get_bool(j, "local", false);
    ret->speculative = json_get_bool(j, "speculative", false);
    ret->load = json_get_int(j, "load", -1);
    ret->sleeping = flag_from_json(j, "sleeping");
    ret->pid = (pid_t)json_get_int(j, "pid", 0);
    ret->uid = (uid_t)json_get_int(j, "uid", 0);
    ret->latency_ns = json_get_int(j, "latency_ns", 0);
    ret->clock_known = json_is_integer(json_object_get(j, "clock_offset_ns"));
    ret->clock_offset_ns = json_get_int(j, "clock_offset_ns", 0);
    return 0;
}

json_t *fleet_to_json(const struct fleet *f)
{
    json_t *j = json_object(), *workers = json_array(), *notes = json_array();

    json_put_str(j, "name", f->name);
    json_put_str(j, "router", f->router);
    json_put_str(j, "dialect", f->dialect);
    if (f->latency_ns > 0)
        json_put_int(j, "latency_ns", f->latency_ns);
    for (size_t i = 0; i < f->n_notes; i++)
        json_array_append_new(notes, json_text(f->notes[i]));
    for (size_t i = 0; i < f->n_workers; i++)
        json_array_append_new(workers, worker_to_json(&f->workers[i]));
    json_object_set_new(j, "notes", notes);
    json_object_set_new(j, "workers", workers);
    return j;
}
