/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bar of text, in eighths of a character where the locale has them (UTF-8), else in whole ones. Pure; the
 * caller frees.
 */
#pragma once

#include "base/util.h"

/* A share of 0 to 1 in at most so many columns, not padded. */
char *bar_text(double share, unsigned columns);
