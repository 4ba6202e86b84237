/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How important a column of a table is. Where a terminal is too narrow for all columns, the least important
 * ones are left out first, the last one first among equals.
 */
#pragma once

enum importance {
    IMPORTANCE_EXTRA = -2, /* details that few look for */
    IMPORTANCE_LOW = -1,
    IMPORTANCE_NORMAL = 0,
    IMPORTANCE_HIGH = 1, /* what the table is made for */
    IMPORTANCE_KEY = 2,  /* what identifies a row: never left out */
};
