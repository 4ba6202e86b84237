/* SPDX-License-Identifier: Apache-2.0 */
/* A job file of srtctl: what is accepted can be started in every mode that it has, by a line of one line's
 * words. */
#include "base/alloc.h"
#include "extras/srtctl/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compose(const struct recipe *r, enum recipe_mode mode)
{
    const struct launch_target place = {.mode = mode};
    struct recipe_launch nsys = {0}, torch = {0};

    if (launch_nsys(r, &place, 0, NULL, &nsys, NULL) == 0) {
        _cleanup_(freep) char *text = launch_text(&nsys);
        if (!strstr(text, "nsys profile "))
            abort();
    }
    if (launch_torch(r, &place, &torch, NULL) == 0) {
        _cleanup_json_ j = launch_json(&torch);
        if (json_array_size(json_object_get(j, "command")) == 0)
            abort();
    }
    launch_done(&nsys);
    launch_done(&torch);
}

static void check(const struct recipe_variant *v)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(problem_done) struct problem p = {0};

    if (recipe_from_variant("job.yaml", v, &r, &p) < 0) {
        if (!p.what || !starts_with(p.what, "job.yaml:"))
            abort();
        return;
    }
    if (recipe_check(&r, RECIPE_ANY_WORKERS, &p) < 0 && !p.remedy)
        abort();
    for (int m = 0; m < _RECIPE_MODE_MAX; m++)
        compose(&r, (enum recipe_mode)m);
    _cleanup_(freep) char *folder = recipe_folder(&r, "1", 0);
    if (strchr(folder, '/'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(recipe_variants_done) struct recipe_variants v = {0};
    _cleanup_(problem_done) struct problem p = {0};

    if (size > RECIPE_BYTES_MAX || recipe_variants_read("job.yaml", (const char *)data, size, &v, &p) < 0)
        return 0;
    if (v.n > RECIPE_VARIANTS_MAX)
        abort();
    for (size_t i = 0; i < v.n; i++)
        check(&v.items[i]);
    return 0;
}
