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

/* -- Members that JSON has as they are (openapi.yaml, Worker) ------------------------------------------ */

enum member_kind {
    MEMBER_TEXT,  /* char *; absent where NULL */
    MEMBER_SIZE,  /* int; absent where 0 */
    MEMBER_COUNT, /* int64_t; absent where -1 */
    MEMBER_FLAG,  /* int64_t, in JSON a bool; absent where -1 */
    MEMBER_BOOL,
};

struct worker_member {
    const char *name;
    enum member_kind kind;
    size_t offset;
};

#define MEMBER(kind, type, field)                                                                            \
    {                                                                                                        \
#field, kind, offsetof(struct type, field)                                                           \
    }
#define WORKER_TEXT(field)   MEMBER(MEMBER_TEXT, worker, field)
#define LOCATION_TEXT(field) MEMBER(MEMBER_TEXT, trace_location, field)
#define PROCESS_TEXT(field)  MEMBER(MEMBER_TEXT, worker_process, field)
#define PROCESS_COUNT(field) MEMBER(MEMBER_COUNT, worker_process, field)
#define SIZE(field)          MEMBER(MEMBER_SIZE, parallel, field)
#define SETUP_FLAG(field)    MEMBER(MEMBER_FLAG, profiler_setup, field)
#define SETUP_COUNT(field)   MEMBER(MEMBER_COUNT, profiler_setup, field)

static const struct worker_member worker_members[] = {
    WORKER_TEXT(url),
    WORKER_TEXT(listed_url),
    WORKER_TEXT(identity),
    WORKER_TEXT(name),
    WORKER_TEXT(node),
    WORKER_TEXT(hint),
    WORKER_TEXT(model),
    WORKER_TEXT(connection),
    WORKER_TEXT(version),
    WORKER_TEXT(reason),
    WORKER_TEXT(remedy),
    WORKER_TEXT(note),
    WORKER_TEXT(group),
    WORKER_TEXT(same_as),
    WORKER_TEXT(ranks_of),
    WORKER_TEXT(host),
    WORKER_TEXT(host_uuid),
    WORKER_TEXT(peer),
    WORKER_TEXT(held_by),
    WORKER_TEXT(shares_with),
    MEMBER(MEMBER_BOOL, worker, profilable),
    MEMBER(MEMBER_BOOL, worker, local),
    MEMBER(MEMBER_BOOL, worker, speculative),
    MEMBER(MEMBER_COUNT, worker, load),
    MEMBER(MEMBER_FLAG, worker, sleeping),
    MEMBER(MEMBER_FLAG, worker, shares_dir),
};
static const struct worker_member location_members[] = {
    LOCATION_TEXT(dir),  LOCATION_TEXT(local_dir), LOCATION_TEXT(found_by),
    LOCATION_TEXT(note), LOCATION_TEXT(remedy),    LOCATION_TEXT(temp_dir),
};
static const struct worker_member shared_members[] = {
    MEMBER(MEMBER_TEXT, shared_dir, source),
    MEMBER(MEMBER_TEXT, shared_dir, fstype),
    MEMBER(MEMBER_TEXT, shared_dir, root),
};
static const struct worker_member process_members[] = {
    PROCESS_TEXT(command),
    PROCESS_TEXT(unit),
    PROCESS_TEXT(gpus),
    PROCESS_TEXT(trace_root),
    PROCESS_TEXT(transport),
    PROCESS_COUNT(start_ticks),
    PROCESS_COUNT(inner_pid),
    PROCESS_COUNT(slurm_job),
    PROCESS_COUNT(rank),
    PROCESS_COUNT(local_rank),
    PROCESS_COUNT(world_size),
    PROCESS_COUNT(registered_at),
    MEMBER(MEMBER_FLAG, worker_process, recording),
};
static const struct worker_member size_members[] = {SIZE(tp),    SIZE(pp),    SIZE(dp),        SIZE(ep),
                                                    SIZE(nodes), SIZE(ranks), SIZE(first_rank)};
static const struct worker_member setup_members[] = {
    MEMBER(MEMBER_TEXT, profiler_setup, kind),
    MEMBER(MEMBER_TEXT, profiler_setup, activities),
    SETUP_FLAG(with_stack),
    SETUP_FLAG(record_shapes),
    SETUP_FLAG(use_gzip),
    SETUP_FLAG(ignore_frontend),
    SETUP_FLAG(each_request),
    SETUP_FLAG(own_windows),
    SETUP_COUNT(delay_iterations),
    SETUP_COUNT(max_iterations),
    SETUP_COUNT(wait_iterations),
    SETUP_COUNT(warmup_iterations),
    SETUP_COUNT(active_iterations),
};

/* The parts of a worker, with the members of JSON that they are; NULL: those of the worker itself. */
static const struct {
    const char *name;
    size_t offset;
    const struct worker_member *members;
    size_t n;
} parts[] = {
    {NULL, 0, worker_members, ARRAY_SIZE(worker_members)},
    {"sizes", offsetof(struct worker, sizes), size_members, ARRAY_SIZE(size_members)},
    {"setup", offsetof(struct worker, setup), setup_members, ARRAY_SIZE(setup_members)},
    {"traces", offsetof(struct worker, location), location_members, ARRAY_SIZE(location_members)},
    {"shared", offsetof(struct worker, shared), shared_members, ARRAY_SIZE(shared_members)},
    {"process", offsetof(struct worker, process), process_members, ARRAY_SIZE(process_members)},
};

#define VALUE(type, object, member) (*(type *)(void *)((char *)(object) + (member)->offset))

static void member_to_json(json_t *j, void *object, const struct worker_member *m)
{
    int64_t value;

    switch (m->kind) {
    case MEMBER_TEXT:
        json_put_str(j, m->name, VALUE(char *, object, m));
        return;
    case MEMBER_SIZE:
        if (VALUE(int, object, m) > 0)
            json_put_int(j, m->name, VALUE(int, object, m));
        return;
    case MEMBER_BOOL:
        json_put_bool(j, m->name, VALUE(bool, object, m));
        return;
    default:
        value = VALUE(int64_t, object, m);
        if (value >= 0 && m->kind == MEMBER_FLAG)
            json_put_bool(j, m->name, value > 0);
        else if (value >= 0)
            json_put_int(j, m->name, value);
    }
}

/* Sets the mark of "unknown" where JSON (which may be NULL) does not have the member. */
static void member_from_json(const json_t *j, void *object, const struct worker_member *m)
{
    const json_t *value = json_object_get(j, m->name);

    switch (m->kind) {
    case MEMBER_TEXT:
        VALUE(char *, object, m) = xstrdup(json_get_str(j, m->name));
        return;
    case MEMBER_SIZE:
        VALUE(int, object, m) = (int)json_get_int(j, m->name, 0);
        return;
    case MEMBER_BOOL:
        VALUE(bool, object, m) = json_get_bool(j, m->name, false);
        return;
    case MEMBER_FLAG:
        VALUE(int64_t, object, m) = json_is_boolean(value) ? json_is_true(value) : -1;
        return;
    case MEMBER_COUNT:
        VALUE(int64_t, object, m) = json_get_int(j, m->name, -1);
        return;
    }
}

static void parts_from_json(const json_t *j, struct worker *w)
{
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        for (size_t k = 0; k < parts[i].n; k++)
            member_from_json(parts[i].name ? json_object_get(j, parts[i].name) : j,
                             (char *)w + parts[i].offset, &parts[i].members[k]);
}

void worker_init(struct worker *w)
{
    *w = (struct worker){0};
    parts_from_json(NULL, w);
}

void worker_done(struct worker *w)
{
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        for (size_t k = 0; k < parts[i].n; k++)
            if (parts[i].members[k].kind == MEMBER_TEXT)
                free(VALUE(char *, (char *)w + parts[i].offset, &parts[i].members[k]));
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
    f->notes[f->n_notes++] = (struct fleet_note){NOTE_REMARK, xvasprintf(format, ap)};
    va_end(ap);
}

void fleet_add_note_of(struct fleet *f, enum fleet_note_kind kind, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    VEC_GROW(f->notes, f->n_notes, f->cap_notes);
    f->notes[f->n_notes++] = (struct fleet_note){kind, xvasprintf(format, ap)};
    va_end(ap);
}

struct fleet *fleet_free(struct fleet *f)
{
    if (!f)
        return NULL;
    for (size_t i = 0; i < f->n_workers; i++)
        worker_done(&f->workers[i]);
    for (size_t i = 0; i < f->n_notes; i++)
        free(f->notes[i].text);
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

    if (w->sizes.ranks > 0)
        return (unsigned)MIN(w->sizes.ranks, RANKS_MAX);
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

/* A source names the worker: what it says must not lead out of the directory. */
static bool name_is_of_path(const char *name)
{
    if (!name || !isalnum((unsigned char)name[0]))
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            return false;
    return true;
}

char *worker_fill_path(const struct worker *w, const char *path)
{
    static const char mark[] = "{name}";
    char *filled = NULL;

    if (strstr(path, mark) && !name_is_of_path(w->name))
        return NULL;
    for (const char *next; (next = strstr(path, mark)); path = next + strlen(mark))
        append_str(&filled, "%.*s%s", (int)(next - path), path, w->name);
    append_str(&filled, "%s", path);
    return filled;
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

/* -- As JSON, and back from it for recovery (openapi.yaml, Worker and Fleet) ---------------------------- */

json_t *worker_to_json(const struct worker *w)
{
    json_t *j = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        json_t *part = parts[i].name ? json_object() : json_incref(j);
        for (size_t k = 0; k < parts[i].n; k++)
            member_to_json(part, (char *)w + parts[i].offset, &parts[i].members[k]);
        if (parts[i].name && json_object_size(part) > 0)
            json_object_set(j, parts[i].name, part);
        json_decref(part);
    }
    json_put_str(j, "engine", engine_name(w->engine));
    if (w->backend != ENGINE_UNKNOWN)
        json_put_str(j, "backend", engine_name(w->backend));
    json_put_str(j, "role", role_name(w->role));
    json_put_str(j, "health", health_name(w->health));
    if (w->pid > 0) {
        json_put_int(j, "pid", w->pid);
        json_put_int(j, "uid", w->uid);
    }
    if (w->latency_ns > 0)
        json_put_int(j, "latency_ns", w->latency_ns);
    if (w->clock_known)
        json_put_int(j, "clock_offset_ns", w->clock_offset_ns);
    return j;
}

int worker_from_json(const json_t *j, struct worker *ret)
{
    int engine = engine_from_name(json_get_str(j, "engine"));
    int role = role_from_name(json_get_str(j, "role"));
    int health = health_from_name(json_get_str(j, "health"));

    if (!json_get_str(j, "url") || engine < 0 || role < 0 || health < 0)
        return -EINVAL;
    *ret = (struct worker){
        .engine = (enum engine)engine, .role = (enum role)role, .health = (enum health)health};
    parts_from_json(j, ret);
    ret->backend = (enum engine)MAX(engine_from_name(json_get_str(j, "backend")), (int)ENGINE_UNKNOWN);
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
        json_array_append_new(notes, json_text(f->notes[i].text));
    for (size_t i = 0; i < f->n_workers; i++)
        json_array_append_new(workers, worker_to_json(&f->workers[i]));
    json_object_set_new(j, "notes", notes);
    json_object_set_new(j, "workers", workers);
    return j;
}
