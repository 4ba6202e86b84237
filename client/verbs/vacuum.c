/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"
#include "client/text/text.h"
#include "client/verbs.h"
#include <errno.h>

struct options {
    int64_t keep;
    bool dry_run;
};

static const struct option_def options[] = {
    {"keep", 0, "SIZE", OPTION_SIZE, offsetof(struct options, keep), "how much may stay: 20G, 500M, 0"},
    {"dry-run", 0, NULL, OPTION_FLAG, offsetof(struct options, dry_run), "only say what would be removed"},
};

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();
    _cleanup_json_ answer = NULL;
    char freed[UNIT_TEXT_MAX];

    if (o->keep == OPTION_ABSENT) {
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST, "vacuum needs --keep SIZE");
        problem_remedy(&p, "profctl du shows how much there is.");
        return client_fail(c, &p);
    }
    json_put_int(request, "keep", o->keep);
    if (o->dry_run)
        json_put_bool(request, "dry_run", true);
    if (door_call(c->door, "POST", "/v1/vacuum", request, "removing the oldest traces", &answer, &p) < 0)
        return client_fail(c, &p);
    if (c->json)
        return client_print_json(c, answer);
    _cleanup_(freep) char *traces = text_count(json_get_int(answer, "removed", 0), "trace");
    fprintf(c->out.file, "%s %s, %s\n", o->dry_run ? "would remove" : "removed", traces,
            format_size(freed, json_get_int(answer, "freed", 0)));
    return EXIT_DONE;
}

const struct verb verb_vacuum = {
    .name = "vacuum",
    .words = "--keep SIZE",
    .summary = "Remove the oldest traces until no more than so much is stored",
    .details = "Pinned traces and those of sessions that are not over stay.",
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
