/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/fs.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/traces/trace.h"
#include "client/transport/download.h"
#include "client/verbs/verbs.h"
#include <errno.h>

struct options {
    const char *output, *directory;
};

static const struct option_def options[] = {
    {"output", 'o', "FILE", OPTION_TEXT, offsetof(struct options, output),
     "where one trace goes; - is stdout; default: its own name"},
    {"directory", 'd', "DIR", OPTION_TEXT, offsetof(struct options, directory),
     "directory for several files, created if missing (default for a session: its id)"},
};

/* How a fetch of several went. */
struct haul {
    size_t n_got, n_there, n_failed;
    int64_t bytes;
    int worst;
    bool interrupted;
    json_t *files; /* [{trace, file}], for --json */
};

static int fetch_trace(struct client *c, const char *ref, json_t **ret)
{
    _cleanup_(freep) char *path = xasprintf("/v1/traces/%s", ref);
    return client_get(c, path, NULL, ret);
}

static int get_to_stdout(struct client *c, const json_t *trace)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (c->out.is_terminal) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "a trace is not for a terminal");
        problem_remedy(&p, "Send it on: profctl get %s -o - | gunzip | less", json_get_str(trace, "trace"));
        return client_fail(c, &p);
    }
    return download_trace(c, trace, fileno(c->out.file), &p) < 0 ? client_fail(c, &p) : EXIT_DONE;
}

static int bad_name(struct client *c, const json_t *trace)
{
    _cleanup_(problem_done) struct problem p = {0};

    problem_set(&p, -EINVAL, PROBLEM_UPSTREAM, "%s has a name that cannot be used here",
                json_get_str(trace, "trace"));
    problem_remedy(&p, "profctl get %s -o FILE gives it another.", json_get_str(trace, "trace"));
    return client_fail(c, &p);
}

/* A name that profd gives is used only as a name; NULL for what is none. */
static const char *own_name(const json_t *trace)
{
    const char *name = json_get_str(trace, "name");

    return name && is_plain_name(name) ? name : NULL;
}

static int get_one(struct client *c, const struct options *o, const char *ref)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ trace = NULL;
    char size[UNIT_TEXT_MAX];
    int status = fetch_trace(c, ref, &trace);

    if (status != EXIT_DONE)
        return status;
    const char *path = o->output ? o->output : own_name(trace);
    if (!path)
        return bad_name(c, trace);
    if (streq(path, "-"))
        return get_to_stdout(c, trace);
    if (!o->output && access(path, F_OK) == 0) {
        problem_set(&p, -EEXIST, PROBLEM_CONFLICT, "%s exists", path);
        problem_remedy(&p, "-o FILE names another, or this one to replace it.");
        return client_fail(c, &p);
    }
    if (download_to_file(c, trace, path, &p) < 0)
        return client_fail(c, &p);
    if (c->json) {
        _cleanup_json_ done = json_object();
        json_put_str(done, "trace", json_get_str(trace, "trace"));
        json_put_str(done, "file", path);
        return client_print_json(c, done);
    }
    client_note(c, "%s is in %s, %s", ref, path, format_size(size, json_get_int(trace, "size", 0)));
    return EXIT_DONE;
}

static bool is_name_shared(const json_t *traces, const json_t *one)
{
    size_t i;
    json_t *other;

    json_array_foreach(traces, i, other)
        if (other != one && streq(json_get_str(other, "name"), json_get_str(one, "name")))
            return true;
    return false;
}

/* Workers give their files equal names: those get the worker's address before it, or the id where that is not
 * enough. */
static char *name_of(const json_t *traces, const json_t *trace)
{
    const char *name = json_get_str(trace, "name"), *worker = json_get_str(trace, "worker");
    size_t i, n_same = 0;
    json_t *other;

    if (!is_name_shared(traces, trace))
        return xstrdup(name);
    json_array_foreach(traces, i, other)
        n_same += streq(json_get_str(other, "name"), name) && streq(json_get_str(other, "worker"), worker);
    const char *host = worker ? strstr(worker, "://") : NULL;
    if (!host || n_same > 1)
        return xasprintf("%s-%s", json_get_str(trace, "trace"), name);
    char *prefixed = xasprintf("%s-%s", host + 3, name);
    for (char *p = prefixed; p < prefixed + strlen(host + 3); p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *p))
            *p = '_';
    return prefixed;
}

/* A file that an earlier call brought is not fetched again. */
static bool is_there(const char *path, const json_t *trace)
{
    const char *sha256 = json_get_str(trace, "sha256");
    char got[SHA256_TEXT] = "";
    return sha256 && file_sha256(path, got) == 0 && streq(got, sha256);
}

static void get_into(struct client *c, const char *directory, const json_t *traces, const json_t *trace,
                     struct haul *h)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *id = json_get_str(trace, "trace");
    _cleanup_(freep) char *name = own_name(trace) ? name_of(traces, trace) : NULL;
    int status = name && is_plain_name(name) ? EXIT_DONE : bad_name(c, trace);

    if (status == EXIT_DONE) {
        _cleanup_(freep) char *path = xasprintf("%s/%s", directory, name);
        bool there = is_there(path, trace);
        int r = there ? 0 : download_to_file(c, trace, path, &p);
        if (r == 0) {
            json_t *file = json_object();
            json_put_str(file, "trace", id);
            json_put_str(file, "file", path);
            json_array_append_new(h->files, file);
            h->n_there += there;
            h->n_got += !there;
            h->bytes += there ? 0 : json_get_int(trace, "size", 0);
            return;
        }
        h->interrupted = r == -EINTR;
        status = client_fail(c, &p);
    }
    h->n_failed++;
    h->worst = status;
}

static int list_of_words(struct client *c, int n_words, char **words, json_t *traces)
{
    for (int i = 0; i < n_words; i++) {
        char ref[REF_TEXT_MAX];
        json_t *answer = NULL;
        if (client_parse_ref(c, words[i], 't', "st", ref) < 0)
            return EXIT_USAGE;
        _cleanup_(freep) char *path = xasprintf("/v1/traces?session=%s", ref);
        int status = ref[0] == 's' ? traces_fetch(c, path, INT64_MAX, &answer) : fetch_trace(c, ref, &answer);
        if (status != EXIT_DONE)
            return status;
        if (ref[0] == 's') {
            json_array_extend(traces, json_object_get(answer, "traces"));
            json_decref(answer);
        } else {
            json_array_append_new(traces, answer);
        }
    }
    return EXIT_DONE;
}

static int get_all(struct client *c, const struct options *o, int n_words, char **words)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ traces = json_array();
    _cleanup_json_ files = json_array();
    struct haul h = {.files = files};
    char size[UNIT_TEXT_MAX];
    size_t i;
    json_t *trace;
    int status = list_of_words(c, n_words, words, traces), r;

    if (status != EXIT_DONE)
        return status;
    if (json_array_size(traces) == 0) {
        problem_set(&p, -ENOENT, PROBLEM_NOT_FOUND, "there are no traces of %s", words[0]);
        return client_fail(c, &p);
    }
    if ((r = make_dirs(o->directory, 0777)) < 0) {
        problem_set(&p, r, PROBLEM_STORAGE, "cannot make directory %s: %s", o->directory, strerror(-r));
        return client_fail(c, &p);
    }
    json_array_foreach(traces, i, trace)
        if (!h.interrupted)
            get_into(c, o->directory, traces, trace, &h);
    if (c->json)
        client_print_json(c, files);
    _cleanup_(freep) char *got = text_count((int64_t)h.n_got, "file");
    _cleanup_(freep) char *there = text_count((int64_t)h.n_there, "file");
    if (h.n_got == 0 && h.n_there > 0)
        client_note(c, "%s in %s already", there, o->directory);
    else
        client_note(c, "%s, %s in %s%s", got, format_size(size, h.bytes), o->directory,
                    h.n_there > 0 ? "; the others were there already" : "");
    return h.n_failed == 0 ? EXIT_DONE : h.n_got + h.n_there > 0 ? EXIT_PARTIAL : h.worst;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    char ref[REF_TEXT_MAX], *newest[] = {ref, NULL};

    if (o->output && o->directory) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "--output and --directory exclude each other");
        return client_fail(c, &p);
    }
    if (n_words == 0) {
        int status = client_newest_session(c, true, ref);
        if (status != EXIT_DONE)
            return status;
        words = newest;
        n_words = 1;
    }
    if (o->directory)
        return get_all(c, o, n_words, words);
    if (client_parse_ref(c, words[0], 't', "st", ref) < 0)
        return EXIT_USAGE;
    if (n_words == 1 && ref[0] == 't')
        return get_one(c, o, ref);
    if (n_words == 1 && !o->output)
        return get_all(c, &(struct options){.directory = ref}, n_words, words);
    problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "several files need a directory");
    problem_remedy(&p, "profctl get %s -d DIR", words[0]);
    return client_fail(c, &p);
}

const struct verb verb_get = {
    .name = "get",
    .words = "[TRACE|SESSION...]",
    .summary = "Download the file of a trace or all files of a session",
    .details =
        "Default: the newest session that has traces, into a directory named after it.\n"
        "What arrives is compared with the catalog's SHA-256, and appears under its name only when whole.\n"
        "Files of workers that chose the same name get the worker's address before it.",
    .default_kind = 't',
    .max_words = WORDS_UNLIMITED,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
