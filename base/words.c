/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include <string.h>

#define SEPARATORS " \t,"

size_t words_next(const char **rest, const char **ret)
{
    const char *word = *rest + strspn(*rest, SEPARATORS);
    size_t size = strcspn(word, SEPARATORS);

    *ret = word;
    *rest = word + size;
    return size;
}
