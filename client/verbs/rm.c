/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/verbs/verbs.h"

struct options {
    bool yes;
};

static const struct option_def options[] = {
    {"yes", 'y', NULL, OPTION_FLAG, offsetof(struct options, yes), "do not ask before a session is removed"},
};

/* A session may be many traces: on a terminal it takes a yes. */
static bool is_confirmed(struct client *c, const struct options *o, const char *ref)
{
    if (o->yes || ref[0] != 's' || !client_can_ask(c))
        return true;
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", ref);
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ session = NULL;
    /* One that is not there is left to the removal to complain about. */
    if (connection_call(c->connection, "GET", path, NULL, NULL, &session, &p) < 0)
        return true;
    _cleanup_(freep) char *traces =
        text_count(json_get_int(json_object_get(session, "counts"), "traces", 0), "trace");
    return client_confirm(c, "Remove session %s and its %s?", ref, traces);
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    int worst = EXIT_DONE;

    for (int i = 0; i < n_words; i++) {
        char ref[REF_TEXT_MAX];
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_json_ answer = NULL;
        if (client_parse_ref(c, words[i], 't', "str", ref) < 0)
            return EXIT_USAGE;
        if (!is_confirmed(c, o, ref)) {
            client_note(c, "kept %s", ref);
            continue;
        }
        _cleanup_(freep) char *path = ref_path(ref);
        if (connection_call(c->connection, "DELETE", path, NULL, "removing files", &answer, &p) < 0)
            worst = client_fail(c, &p);
        else if (c->json)
            client_print_json(c, answer);
        else
            client_note(c, "removed %s", ref);
    }
    return worst;
}

const struct verb verb_rm = {
    .name = "rm",
    .words = "t12|s7|r3...",
    .summary = "Delete traces, sessions with their traces, or benchmark runs",
    .default_kind = 't',
    .min_words = 1,
    .max_words = WORDS_UNLIMITED,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
