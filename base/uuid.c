/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include "base/alloc.h"
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#define UUID_BYTES 16

char *uuid_new(void)
{
    uint8_t b[UUID_BYTES];

    if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
        abort();
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* the version */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80); /* the variant of RFC 9562 */
    return xasprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
                     b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static bool uuid_has_hyphen_at(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

/* The number of characters at the beginning that a UUID may have there. */
static size_t uuid_span(const char *text)
{
    size_t i = 0;

    while (i < UUID_LENGTH &&
           (uuid_has_hyphen_at(i) ? text[i] == '-' : text[i] && strchr("0123456789abcdef", text[i])))
        i++;
    return i;
}

bool uuid_is(const char *text)
{
    return text && uuid_span(text) == UUID_LENGTH && text[UUID_LENGTH] == '\0';
}

bool uuid_is_prefix(const char *text)
{
    size_t n = text ? uuid_span(text) : 0;

    return n >= UUID_PREFIX_LENGTH && text[n] == '\0' && strspn(text, "0123456789") < n;
}

bool uuid_is_too_short(const char *text)
{
    size_t n = uuid_span(text);

    return n > 0 && n < UUID_PREFIX_LENGTH && text[n] == '\0' && strspn(text, "0123456789") < n;
}
