/* SPDX-License-Identifier: Apache-2.0 */
#include "client/verbs/extras.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/trace.h"
#include "client/traces/trace_paths.h"
#include "client/verbs/ingest_ranks.h"
#include "client/views/listing.h"
#include <errno.h>

#define HTTP_CREATED 201

/* clang-format off */
static const struct option_def ingest_options[] = {
    {"session", 's', "NAME", OPTION_TEXT, offsetof(struct ingest_options, session), "Session for the files: a new name, or the name or id of an existing one", "session"},
    LABEL_OPTION(struct ingest_options, "traces"),
    {"reference", 0, NULL, OPTION_FLAG, offsetof(struct ingest_options, reference), "Leave the files in place; store only their columns", "reference"},
    {"again", 0, NULL, OPTION_FLAG, offsetof(struct ingest_options, again), "Rebuild the columns of traces that are already known", "again"},
    {"archive", 0, NULL, OPTION_FLAG, offsetof(struct ingest_options, archive), "Restore lost sessions and traces from the archive; no PATH"},
};
/* clang-format on */

/* Result of importing several files. */
struct ingest_tally {
    size_t n_new, n_known, n_failed, n_elsewhere; /* of another session */
    char session[REF_TEXT_MAX];                   /* that the files are in now; "" */
    int64_t text_bytes, begin_ns;
    int worst;
    bool interrupted;
    char **remedies; /* each once */
    size_t n_remedies, cap;
    struct ingest_ranks ranks; /* without --session */
};

static void tally_done(struct ingest_tally *t)
{
    for (size_t i = 0; i < t->n_remedies; i++)
        free(t->remedies[i]);
    free(t->remedies);
    ingest_ranks_done(&t->ranks);
}

/* Prints why a file failed. Many files often fail for one reason: its remedy is printed once, at the end. */
static void tally_add_failure(struct client *c, struct ingest_tally *t, const char *path, struct problem *p)
{
    _cleanup_(freep) char *remedy = TAKE_PTR(p->remedy), *what = TAKE_PTR(p->what);
    const char *slash = strrchr(path, '/');
    bool names_file = what && strstr(what, slash && slash[1] ? slash + 1 : path);

    t->n_failed++;
    p->what = names_file ? xstrdup(what) : xasprintf("%s: %s", path, what);
    t->worst = client_fail(c, p);
    for (size_t i = 0; remedy && i < t->n_remedies; i++)
        if (streq(t->remedies[i], remedy))
            return;
    if (!remedy)
        return;
    VEC_GROW(t->remedies, t->n_remedies, t->cap);
    t->remedies[t->n_remedies++] = TAKE_PTR(remedy);
}

/* Paths differ at their end, so their beginning is cut. */
static char *ingest_fit_path(const struct client *c, const char *path, unsigned used)
{
    char *clean = text_clean(path, false);
    unsigned width = screen_width(&c->out), columns = text_columns(clean);

    if (width == 0 || used + columns <= width || used + 12 > width)
        return clean;
    size_t cut = text_fit(clean, used + columns - width + 3);
    char *shorter = xasprintf("...%s", clean + cut);
    free(clean);
    return shorter;
}

#define LINE_FORMAT "%-6s  %-9s  %-10s  %12s  %10s  %12s"
#define LINE_WIDTH  71

static void ingest_print_trace(struct client *c, const char *path, const json_t *trace, bool is_new,
                               int64_t took_ns)
{
    char events[32] = "-", size[UNIT_TEXT_MAX], speed[UNIT_TEXT_MAX + 2] = "-";
    const char *state = json_get_str(trace, "state"), *reason = json_get_str(trace, "reason");
    int64_t n_events = json_get_int(trace, "events", -1);
    int64_t text_bytes = json_get_int(trace, "uncompressed", json_get_int(trace, "size", 0));
    _cleanup_(freep) char *rank = trace_rank(trace, true), *name = ingest_fit_path(c, path, LINE_WIDTH + 2);
    enum colour colour = trace_colour(trace);

    if (n_events >= 0)
        text_number(events, n_events);
    if (is_new) {
        format_size(speed,
                    (int64_t)((double)text_bytes * (double)NS_PER_S / (double)MAX(took_ns, INT64_C(1))));
        strcat(speed, "/s");
    }
    format_size(size, json_get_int(trace, "size", 0));
    fputs(screen_colour(&c->out, colour), c->out.file);
    screen_printf(&c->out, LINE_FORMAT, json_get_str(trace, "trace"), is_new ? state : "known",
                  rank ? rank : "-", events, size, speed);
    fprintf(c->out.file, "%s  %s\n", screen_plain(&c->out), name);
    /* stderr alone must name the file too. */
    _cleanup_(freep) char *losses = trace_losses(trace), *whose = text_clean(path, false);
    if (reason)
        client_note(c, "%s: %s", whose, reason);
    if (losses)
        client_note(c, "%s: %s\n  profctl show %s lists them.", whose, losses, json_get_str(trace, "trace"));
    fflush(c->out.file);
}

static json_t *ingest_request(const char *path, const struct ingest_options *o, struct problem *p)
{
    _cleanup_(freep) char *absolute = realpath(path, NULL);
    _cleanup_json_ request = json_object();

    if (!absolute)
        problem_set(p, -errno, PROBLEM_STORAGE, "cannot open %s: %s", path, strerror(errno));
    if (!absolute || labels_to_json(&o->labels, request, p) < 0)
        return NULL;
    json_put_str(request, "path", absolute);
    options_to_json(OPTION_SET(ingest_options, o), request);
    return TAKE_PTR(request);
}

/* A trace that is in another session stays there. */
static void ingest_note_session(struct client *c, const struct ingest_options *o, const json_t *trace,
                                bool is_new, struct ingest_tally *t)
{
    const char *session = json_get_str(trace, "session");

    if (!o->session || !session)
        return;
    if (!*t->session && is_new)
        snprintf(t->session, sizeof(t->session), "%s", session);
    if (is_new || streq(session, t->session))
        return;
    _cleanup_json_ answer = NULL;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", session);
    if (connection_call(c->connection, "GET", path, NULL, NULL, &answer, &p) < 0)
        return;
    if (streq(session, o->session) || streq(json_get_str(answer, "name"), o->session)) {
        snprintf(t->session, sizeof(t->session), "%s", session);
        return;
    }
    t->n_elsewhere++;
    client_note(c, "%s is part of %s and stays there", json_get_str(trace, "trace"), session);
}

static void ingest_one(struct client *c, const struct ingest_options *o, const char *path, const char *doing,
                       struct ingest_tally *t)
{
    _cleanup_(problem_done) struct problem p = {0};
    /* A report of nsys is exported next to it, and the export is read. */
    _cleanup_(freep) char *source = extra_converter && extra_converter->accepts(path)
                                        ? extra_converter->convert(path, &p)
                                        : xstrdup(path);
    _cleanup_json_ request = source ? ingest_request(source, o, &p) : NULL;
    _cleanup_json_ trace = NULL;
    int64_t begin_ns = mono_ns();
    int r =
        request ? connection_call(c->connection, "POST", "/v1/traces", request, doing, &trace, &p) : -EINVAL;

    if (r < 0) {
        t->interrupted = r == -EINTR;
        tally_add_failure(c, t, path, &p);
        return;
    }
    bool is_new = connection_status(c->connection) == HTTP_CREATED;
    t->n_new += is_new;
    t->n_known += !is_new;
    ingest_note_session(c, o, trace, is_new, t);
    if (!o->session)
        ingest_ranks_add(&t->ranks, path, trace);
    t->text_bytes += is_new ? json_get_int(trace, "uncompressed", json_get_int(trace, "size", 0)) : 0;
    if (c->json)
        client_print_json(c, trace);
    else
        ingest_print_trace(c, path, trace, is_new, mono_ns() - begin_ns);
}

static void tally_print(struct client *c, const struct ingest_tally *t)
{
    int64_t took_ns = mono_ns() - t->begin_ns;
    char bytes[UNIT_TEXT_MAX], took[UNIT_TEXT_MAX], speed[UNIT_TEXT_MAX], known[48] = "", failed[48] = "";
    _cleanup_(freep) char *traces = text_count((int64_t)t->n_new, "trace");

    for (size_t i = 0; i < t->n_remedies; i++)
        client_note(c, "  %s", t->remedies[i]);
    if (t->n_known > 0)
        snprintf(known, sizeof(known), ", %zu already known", t->n_known);
    if (t->n_failed > 0)
        snprintf(failed, sizeof(failed), ", %zu failed", t->n_failed);
    client_note(c, "%s%s%s; %s in %s, %s/s", traces, known, failed, format_size(bytes, t->text_bytes),
                format_duration(took, took_ns),
                format_size(speed, (int64_t)((double)t->text_bytes * (double)NS_PER_S / (double)took_ns)));
}

int ingest_words(struct client *c, const struct ingest_options *o, int n_words, char **words)
{
    _cleanup_(trace_paths_done) struct trace_paths paths = {0};
    _cleanup_(problem_done) struct problem p = {0};
    int r = trace_paths_find(&paths, n_words, words, &p);

    if (r < 0)
        return client_fail(c, &p);
    if (!connection_is_local(c->connection))
        return client_refuse(c, "Run profctl ingest on that machine.",
                             "profd at %s cannot read files of this machine", connection_name(c->connection));
    int status = client_need_profd(c);
    if (status != EXIT_DONE)
        return status;
    client_hold_signals();
    _cleanup_(tally_done) struct ingest_tally t = {.begin_ns = mono_ns()};
    if (!c->json && !c->no_legend)
        fprintf(c->out.file, LINE_FORMAT "  %s\n", "TRACE", "STATE", "RANK", "EVENTS", "SIZE", "SPEED",
                "FILE");
    for (size_t i = 0; i < paths.n && !t.interrupted; i++) {
        _cleanup_(freep) char *clean = text_clean(paths.items[i], false);
        _cleanup_(freep) char *doing = paths.n == 1
                                           ? xasprintf("reading %s", clean)
                                           : xasprintf("%zu of %zu: reading %s", i + 1, paths.n, clean);
        ingest_one(c, o, paths.items[i], doing, &t);
    }
    tally_print(c, &t);
    ingest_ranks_note(c, &t.ranks);
    if (*t.session)
        client_note(c, "Next: profctl analyze %s, profctl open %s", t.session, t.session);
    return t.n_failed + t.n_elsewhere == 0 ? EXIT_DONE : t.n_new + t.n_known > 0 ? EXIT_PARTIAL : t.worst;
}

static int ingest_run(struct client *c, const void *values, int n_words, char **words)
{
    const struct ingest_options *o = values;
    static const char remedy[] = "Use profctl ingest PATH..., or profctl ingest --archive.";

    if (o->archive && (n_words > 0 || o->session || o->reference || o->again || o->labels.n > 0))
        return client_refuse(c, remedy, "--archive takes no paths and no other option");
    if (!o->archive && n_words == 0)
        return client_refuse(c, remedy, "no path is given");
    return o->archive ? ingest_archive(c) : ingest_words(c, o, n_words, words);
}

const struct verb verb_ingest = {
    .name = "ingest",
    .summary = "Import trace files into the catalog",
    .details =
        "Searches directories for files that are named like traces. Exports reports of nsys (.nsys-rep) "
        "first, with the nsys of this machine. If no profd is running, starts one for this call. --archive "
        "adds what the archive describes and the catalog does not have; files come when they are needed.",
    .words = "[PATH...]",
    .min_words = 0,
    .max_words = WORDS_UNLIMITED,
    VERB_OPTIONS(ingest_options, struct ingest_options),
    .run = ingest_run,
};
