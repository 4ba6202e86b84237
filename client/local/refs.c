/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/refs.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/uuid.h"
#include "client/local/user_profd.h"
#include "client/transport/connection.h"
#include "proto/names.h"

bool ref_is_uuid(const char *word)
{
    int64_t id;

    return uuid_is_prefix(word) && !parse_ref(word, 's', &id) && access(word, F_OK) < 0;
}

int ref_look_up(struct client *c, const char *word, char *ret)
{
    _cleanup_(freep) char *path = xstrdup("/v1/refs");
    _cleanup_json_ answer = NULL;
    int status = client_need_profd(c);

    url_add(&path, "ref", word);
    if (status == EXIT_DONE)
        status = client_get(c, path, NULL, &answer);
    if (status != EXIT_DONE)
        return status;
    const char *ref = json_get_str(answer, "ref");
    int64_t id;
    if (!ref || !parse_ref(ref, 0, &id))
        return client_error(c, PROBLEM_UPSTREAM, NULL, "profd names no id for %s", word);
    snprintf(ret, REF_TEXT_MAX, "%s", ref);
    return EXIT_DONE;
}

int refs_look_up(struct client *c, int n_words, char **words, struct refs_found *ret)
{
    int status = EXIT_DONE;

    for (int i = 0; i < n_words && status == EXIT_DONE; i++) {
        if (!ref_is_uuid(words[i]))
            continue;
        char *ref = xcalloc(REF_TEXT_MAX, 1);
        ret->texts = xrealloc(ret->texts, ret->n + 1, sizeof(*ret->texts));
        ret->texts[ret->n++] = ref;
        status = ref_look_up(c, words[i], ref);
        words[i] = ref;
    }
    return status;
}

void refs_done(struct refs_found *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->texts[i]);
    free(r->texts);
    *r = (struct refs_found){0};
}
