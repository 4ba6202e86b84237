/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one SVG file that needs nothing else. It can be read without a script: every frame has its
 * place and as much of its name as tells it from the others. With the script a click makes a frame as wide as
 * the picture, the search field marks frames and sums up their share, and a second view lists self time by
 * name. Width is time; in a comparison red took longer than before and blue less.
 */
#pragma once

#include "trace/reports/flame.h"

struct flame_picture {
    const char *title;
    int64_t frames_left_out; /* of what was written: too narrow to be seen */
    bool is_difference;
};

/* Whether writing failed is the caller's to see (ferror). -ENOMEM. */
int flame_svg_write(const struct flame *f, struct flame_picture *picture, FILE *out);
