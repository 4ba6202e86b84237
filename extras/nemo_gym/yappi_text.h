/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What yappi writes, as lists of functions: its table (print_all() of its function statistics) and its
 * profile in callgrind's format (save() with type CALLGRIND). Pure over bytes that anybody may have sent;
 * memory is bounded by a small multiple of the text and a few megabytes.
 *
 * trace/read/callgrind.h draws such a profile as a flame; here the calls of each function are what counts.
 */
#pragma once

#include "extras/nemo_gym/function_list.h"

/*
 * The table: a line "Clock type: CPU", a heading that begins with "name", and rows of a name and four
 * numbers. A name may have spaces and be cut (".."), so a row is read from its right end. "12/3" is a
 * function that recurs. Times are seconds. -EBADMSG where there is no heading; a heading without rows is an
 * empty list. The caller frees the list.
 */
int yappi_table_parse(const char *text, size_t size, struct function_list **ret);

/*
 * The profile, whose costs are microseconds. It names neither what is built in nor totals. The calls of a
 * function are those that its callers made of it; calls by way of what is built in (the steps of a coroutine,
 * a key of sorted()) are missing, and where there are no others the number is not known. Its total is the
 * larger of what its callers saw, and of its own time with that of the calls it made. Functions that call
 * each other in a circle count the circle's time once; how much of it a single one was open for is not in the
 * text, and the most that it can be is given. -EBADMSG where it is no callgrind profile of yappi's, or has
 * no function; -ENOMEM.
 */
int yappi_callgrind_parse(const char *text, size_t size, struct function_list **ret);
