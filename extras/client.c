/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that extras add to the tables of profctl (client/verbs/extras.h). */
#include "client/verbs/extras.h"

#include "base/alloc.h"
#include "client/transport/connection.h"
#include "extras/nsys/nsys.h"

extern const struct verb verb_audit, verb_check_recipe, verb_functions, verb_launch, verb_nsys_command,
    verb_torch_command;
extern const struct verb_extension verb_start_recipe;

/* clang-format off */
const struct extra_verb extra_verbs[] = {
#if WITH_SYSTEMD
    {"Record", {&verb_launch, {0}, "nsys run",
     "profctl launch -- vllm serve MODEL --profiler-config.profiler=cuda\n"
     "profctl launch --mode prefill --unit prefill0 -- ./start-worker.sh", .takes = "c"}},
#endif
    {"Record", {&verb_check_recipe, {0}, "recipe srtctl validate variants",
     "profctl check-recipe job.yaml\n"
     "profctl check-recipe recipes/a.yaml recipes/b.yaml --quiet", .takes = "f"}},
    {"Record", {&verb_nsys_command, {0}, NULL,
     "profctl nsys-command --recipe job.yaml --mode decode\n"
     "profctl nsys-command --recipe job.yaml --mode prefill --rank 1", .takes = "c"}},
    {"Record", {&verb_torch_command, {0}, NULL,
     "profctl torch-command --recipe job.yaml --mode prefill\n"
     "profctl torch-command --recipe job.yaml --mode decode --rank 1"}},
    {"Measure load", {&verb_audit, {0}, NULL,
     "profctl audit --router http://10.0.0.1:3521 -o audit.html\n"
     "profctl audit --sweep concurrency=1,4,16 --price-per-hour 2.5"}},
    {"Analyze", {&verb_functions, {0}, NULL,
     "profctl functions --session s7\n"
     "profctl functions --worker http://10.0.0.5:9000 --live", .takes = "s"}},
};
/* clang-format on */
const size_t n_extra_verbs = ARRAY_SIZE(extra_verbs);
const struct verb_not_built verbs_not_built[] = {
#if !WITH_SYSTEMD
    {"launch", "systemd"},
#endif
    {NULL, NULL},
};

const struct verb_extension *const extra_extensions[] = {&verb_start_recipe, NULL};
const struct extra_session extra_sessions[] = {{"nemo-gym", "profctl functions --session"}, {NULL, NULL}};

/* A report of nsys is exported into a database next to it. */
static char *nsys_convert(const char *path, struct problem *p)
{
    char *database = NULL;
    _cleanup_(freep) char *nsys = nsys_find(
        "; a report that was exported elsewhere (nsys export --type sqlite) can be imported, too", p);

    return nsys && nsys_export(nsys, path, &database, p) == 0 ? database : NULL;
}

static const struct import_converter nsys_converter = {.accepts = nsys_is_report, .convert = nsys_convert};
const struct import_converter *const extra_converter = &nsys_converter;
