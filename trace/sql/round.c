/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sql/round.h"

#include "base/util.h"

#include <ctype.h>
#include <math.h>

/* What a double can have before and behind the point. */
#define WHOLE_DIGITS    310
#define FRACTION_DIGITS 1074
#define PLACES_MAX      30
/* Beyond this no double has a fraction. */
#define FRACTION_NONE 0x1p52

/* Adds one to the last digit of a number that begins with 0 and has a point in it. */
static void increment(char *digits, size_t size)
{
    for (char *c = digits + size; c-- > digits;) {
        if (!isdigit((unsigned char)*c))
            continue;
        if (*c < '9') {
            ++*c;
            return;
        }
        *c = '0';
    }
}

/* Halves go away from zero. */
static double round_places(double value, int places)
{
    /* With a digit to carry into; the exact value, so that a half is one. */
    char digits[WHOLE_DIGITS + FRACTION_DIGITS + 8];
    int n = snprintf(digits, sizeof(digits), "0%.*f", FRACTION_DIGITS, fabs(value));
    size_t end = (size_t)n - FRACTION_DIGITS + (size_t)places;
    bool up = digits[end] >= '5';

    digits[end] = '\0';
    if (up)
        increment(digits, end);
    return copysign(strtod(digits, NULL), value);
}

static void round_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    int64_t places = argc == 2 ? sqlite3_value_int64(argv[1]) : 0;
    double value;

    if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
        (argc == 2 && sqlite3_value_type(argv[1]) == SQLITE_NULL))
        return;
    value = sqlite3_value_double(argv[0]);
    if (fabs(value) < FRACTION_NONE)
        value = round_places(value, (int)MAX(0, MIN(places, PLACES_MAX)));
    sqlite3_result_double(ctx, value);
}

int round_register(sqlite3 *db)
{
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    int r = sqlite3_create_function_v2(db, "round", 1, flags, NULL, round_function, NULL, NULL, NULL);

    return r != SQLITE_OK
               ? r
               : sqlite3_create_function_v2(db, "round", 2, flags, NULL, round_function, NULL, NULL, NULL);
}
