/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and fleets as JSON: schemas Worker and Fleet of openapi.yaml, and their way back for recovery. */
#include "base/alloc.h"
#include "daemon/fleet/worker.h"

#include <errno.h>
#include <stddef.h>

/* Members of one kind, by name and place in a struct, so that both directions share one list. */
struct member {
    const char *name;
    size_t offset;
};

#define MEMBER(type, name, field)                                                                            \
    {                                                                                                        \
        name, offsetof(struct type, field)                                                                   \
    }

static const struct member worker_strings[] = {
    MEMBER(worker, "url", url),         MEMBER(worker, "listed_url", listed_url),
    MEMBER(worker, "model", model),     MEMBER(worker, "connection", connection),
    MEMBER(worker, "version", version), MEMBER(worker, "reason", reason),
    MEMBER(worker, "remedy", remedy),   MEMBER(worker, "note", note),
    MEMBER(worker, "group", group),
};
static const struct member place_strings[] = {
    MEMBER(trace_place, "dir", dir),           MEMBER(trace_place, "local_dir", local_dir),
    MEMBER(trace_place, "found_by", found_by), MEMBER(trace_place, "note", note),
    MEMBER(trace_place, "remedy", remedy),     MEMBER(trace_place, "temp_dir", temp_dir),
};
static const struct member size_ints[] = {
    MEMBER(parallel, "tp", tp), MEMBER(parallel, "pp", pp),       MEMBER(parallel, "dp", dp),
    MEMBER(parallel, "ep", ep), MEMBER(parallel, "nodes", nodes),
};
/* Three-valued: absent where unknown. */
static const struct member setup_flags[] = {
    MEMBER(profiler_setup, "with_stack", with_stack),
    MEMBER(profiler_setup, "record_shapes", record_shapes),
    MEMBER(profiler_setup, "use_gzip", use_gzip),
    MEMBER(profiler_setup, "ignore_frontend", ignore_frontend),
    MEMBER(profiler_setup, "each_request", each_request),
};
static const struct member setup_counts[] = {
    MEMBER(profiler_setup, "delay_iterations", delay_iterations),
    MEMBER(profiler_setup, "max_iterations", max_iterations),
    MEMBER(profiler_setup, "wait_iterations", wait_iterations),
    MEMBER(profiler_setup, "warmup_iterations", warmup_iterations),
    MEMBER(profiler_setup, "active_iterations", active_iterations),
};

#define FIELD(type, object, member) (*(type *)((char *)(object) + (member)->offset))

static void put_strings(json_t *j, const void *object, const struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_put_str(j, m[i].name, FIELD(char *, object, &m[i]));
}

static void get_strings(const json_t *j, void *object, const struct member *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        FIELD(char *, object, &m[i]) = xstrdup(json_get_str(j, m[i].name));
}

/* Leaves nothing behind where there is nothing to say. */
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
    json_t *j = json_object(), *place = json_object();

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
    put_strings(place, &w->place, place_strings, ARRAY_SIZE(place_strings));
    put_object(j, "traces", place);
    return j;
}

int worker_from_json(const json_t *j, struct worker *ret)
{
    const json_t *sizes = json_object_get(j, "sizes"), *place = json_object_get(j, "traces");
    int engine = engine_from_name(json_get_str(j, "engine"));
    int role = role_from_name(json_get_str(j, "role"));
    int health = health_from_name(json_get_str(j, "health"));

    if (!json_get_str(j, "url") || engine < 0 || role < 0 || health < 0)
        return -EINVAL;
    worker_init(ret);
    get_strings(j, ret, worker_strings, ARRAY_SIZE(worker_strings));
    get_strings(place, &ret->place, place_strings, ARRAY_SIZE(place_strings));
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
