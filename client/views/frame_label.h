/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortens names of frames that have too little room. Names with a common beginning (kernels of one
 * library, instances of one template) are distinguished by the rest, so that the common part is cut first.
 *
 * Pure. Texts are clean (text_clean()); the names own theirs.
 */
#pragma once

#include "base/util.h"

struct frame_name {
    char *name;    /* complete */
    char *label;   /* without the least informative parts: "void", arguments */
    size_t shared; /* bytes at the beginning of the label that another label has, too */
};

/* Takes the name; NULL is "". */
void frame_name_init(struct frame_name *ret, char *take_name);
/* Sets `shared` of each: the longest prefix that it has in common with a different label. */
void frame_names_share(struct frame_name *names, size_t n);
void frame_names_done(struct frame_name *names, size_t n);

/* Returns the label in at most the given columns, "" if these are too few for any text. The caller frees
 * it. */
char *frame_label(const struct frame_name *name, unsigned columns);
