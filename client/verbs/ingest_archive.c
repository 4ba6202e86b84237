/* SPDX-License-Identifier: Apache-2.0 */
/* ingest --archive: the catalog from the manifests in the archive, some of them with each request to profd. */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/local/user_profd.h"
#include "client/verbs/verbs.h"

static const char *const restored_counts[] = {"manifests", "sessions", "traces",
                                              "known",     "left_out", "refused"};

static void restored_add(json_t *total, const json_t *answer)
{
    for (size_t i = 0; i < ARRAY_SIZE(restored_counts); i++)
        json_put_int(total, restored_counts[i],
                     json_get_int(total, restored_counts[i], 0) +
                         json_get_int(answer, restored_counts[i], 0));
    json_array_extend(json_object_get(total, "failed"), json_object_get(answer, "failed"));
    json_array_extend(json_object_get(total, "remarks"), json_object_get(answer, "remarks"));
}

static char *restored_text(const json_t *total)
{
    _cleanup_(freep) char *sessions = text_count(json_get_int(total, "sessions", 0), "session"),
                          *traces = text_count(json_get_int(total, "traces", 0), "trace"),
                          *manifests = text_count(json_get_int(total, "manifests", 0), "manifest");
    int64_t known = json_get_int(total, "known", 0), left_out = json_get_int(total, "left_out", 0),
            refused = json_get_int(total, "refused", 0);
    char *text = xasprintf("%s and %s from %s", sessions, traces, manifests);

    if (known > 0)
        append_str(&text, ", %lld already known", (long long)known);
    if (left_out > 0)
        append_str(&text, ", %lld left out that %s never archived", (long long)left_out,
                   left_out == 1 ? "was" : "were");
    if (refused > 0)
        append_str(&text, ", %lld refused", (long long)refused);
    return text;
}

static void restored_print_list(struct client *c, const json_t *list, const char *fate)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)list, i, one) {
        _cleanup_(freep) char *key = text_clean(json_get_str(one, "key"), false),
                              *reason = text_clean(json_get_str(one, "reason"), false);
        client_note(c, "%s%s: %s", key, fate, reason);
    }
}

int ingest_archive(struct client *c)
{
    _cleanup_json_ total = json_pack("{s:[], s:[]}", "failed", "remarks");
    _cleanup_(freep) char *after = NULL;
    int status = client_need_profd(c);

    while (status == EXIT_DONE) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_json_ answer = NULL, *body = json_object();
        _cleanup_(freep) char *so_far = restored_text(total);
        _cleanup_(freep) char *doing = xasprintf("restoring from the archive: %s", so_far);
        json_put_str(body, "after", after);
        if (connection_call(c->connection, "POST", "/v1/archive/restore", body, doing, &answer, &p) < 0) {
            status = client_fail(c, &p);
            break;
        }
        restored_add(total, answer);
        restored_print_list(c, json_object_get(answer, "failed"), " is left out");
        restored_print_list(c, json_object_get(answer, "remarks"), "");
        replace_str(&after, json_get_str(answer, "next"));
        if (!after)
            break;
    }
    _cleanup_(freep) char *text = restored_text(total);
    bool any_failed = json_array_size(json_object_get(total, "failed")) +
                          json_array_size(json_object_get(total, "remarks")) >
                      0;
    bool any = json_get_int(total, "manifests", 0) > 0;
    if (c->json && (any || status == EXIT_DONE))
        client_print_json(c, total);
    else if (any || status == EXIT_DONE)
        fprintf(c->out.file, "%s\n", text);
    if (status != EXIT_DONE && any)
        client_note(c, "Repeat it to go on: what is restored stays.");
    return status != EXIT_DONE ? status : any_failed ? EXIT_PARTIAL : EXIT_DONE;
}
