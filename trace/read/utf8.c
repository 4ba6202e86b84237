/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/utf8.h"

size_t utf8_size(const char *p, size_t left)
{
    static const struct {
        uint8_t first, last; /* leading byte */
        uint8_t size;
        uint8_t low, high; /* of the second byte */
    } shapes[] = {
        {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF},
        {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF},
        {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
    };
    const uint8_t *b = (const uint8_t *)p;

    if (b[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (b[0] < shapes[i].first || b[0] > shapes[i].last)
            continue;
        if (shapes[i].size > left || b[1] < shapes[i].low || b[1] > shapes[i].high)
            return 0;
        for (size_t k = 2; k < shapes[i].size; k++)
            if ((b[k] & 0xC0) != 0x80)
                return 0;
        return shapes[i].size;
    }
    return 0;
}

size_t utf8_put(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}
