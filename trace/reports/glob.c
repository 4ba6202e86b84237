/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/glob.h"

bool glob_matches(const char *glob, const char *text)
{
    /* Where to go on when what follows the last * does not fit: only that one ever needs another try. */
    const char *behind_star = NULL, *tried = NULL;

    for (;;) {
        if (*glob == '*') {
            while (*glob == '*')
                glob++;
            if (!*glob)
                return true;
            behind_star = glob;
            tried = text;
        } else if (*text && (*glob == *text || *glob == '?')) {
            glob++;
            text++;
            continue;
        } else if (!*glob && !*text) {
            return true;
        } else if (!behind_star || !*tried) {
            return false;
        } else {
            tried++;
        }
        if (*behind_star != '?')
            tried = strchr(tried, *behind_star);
        if (!tried)
            return false;
        glob = behind_star;
        text = tried;
    }
}
