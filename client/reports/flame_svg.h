/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one SVG file that needs nothing else: a click on a frame makes it as wide as the picture,
 * the pointer over it shows its figures. Width is time; with a comparison, red took longer than before and
 * blue less.
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
