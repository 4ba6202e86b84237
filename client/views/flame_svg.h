/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flame graph as one self-contained SVG file. It is readable without a script: every frame has its
 * position and the distinguishing part of its name. With the script, a click enlarges a frame to the width
 * of the picture, the search field marks frames and sums up their share, and a second view lists self time
 * by name. Width is time; in a comparison, red took longer than before and blue less.
 */
#pragma once

#include "trace/reports/flame.h"

struct flame_picture {
    const char *title;
    int64_t frames_left_out; /* number of frames that are too narrow to be drawn */
    bool is_difference;
};

/* Whether writing failed is the caller's to see (ferror). -ENOMEM. */
int flame_svg_write(const struct flame *f, struct flame_picture *picture, FILE *out);
