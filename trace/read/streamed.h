/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a source in one stream, of any coding and format: the calling thread reads and decompresses, a second
 * one scans what comes out, the packer's packs.
 */
#pragma once

#include "trace/read/reading.h"

/* The parts of the reading are one. Fills in what the summary says about the stream, and the ends of the
 * text. */
int streamed_read(struct reading *r);
