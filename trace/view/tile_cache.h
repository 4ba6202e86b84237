/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers with tiles that show much of the trace: they cost the most, and everybody who opens the timeline asks for them. Bounded in
 * number and bytes; of the columns of one view, which do not change.
 */
#pragma once

#include "trace/view/view.h"

struct tile_cache;

struct tile_cache *tile_cache_new(void);
struct tile_cache *tile_cache_free(struct tile_cache *cache);

/* A copy of the answer to a request for a tile, which the caller frees; false where it is not there. */
bool tile_cache_get(const struct trace_view *v, const json_t *request, struct view_answer *ret);
/* Keeps a copy, unless the tile shows too little or is too large. */
void tile_cache_put(const struct trace_view *v, const json_t *request, const struct view_answer *answer);
