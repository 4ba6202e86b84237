/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of names: * is any text, ? one byte, all else itself. Unlike fnmatch(3) there are no sets, no
 * escapes and no locale: names of kernels are full of brackets, and thousands are looked at against hundreds
 * of patterns.
 */
#pragma once

#include "base/util.h"

bool glob_matches(const char *glob, const char *text);
