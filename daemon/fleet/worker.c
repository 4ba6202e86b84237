/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/worker.h"

#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/engine.h"
#include <ctype.h>

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
    free(w->place.dir);
    free(w->place.local_dir);
    free(w->place.found_by);
    free(w->place.note);
    free(w->place.remedy);
    free(w->place.temp_dir);
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

    if (streq(w->setup.kind, "cuda") || (ops && ops->counts_functions))
        return COLLECTION_NOT_NEEDED;
    if (w->place.local_dir && !w->place.blocked_here)
        return COLLECTION_POSSIBLE;
    *ret_reason = w->place.note ? w->place.note : "the trace directory is unknown";
    *ret_remedy = w->place.remedy ? w->place.remedy : unknown_remedy;
    return w->place.blocked_here ? COLLECTION_BLOCKED_HERE : COLLECTION_BLOCKED_ELSEWHERE;
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
    generic = replace_words(generic, w->place.local_dir, "DIR");
    return replace_words(generic, w->place.dir, "DIR");
}
