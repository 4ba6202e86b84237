/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES 2048

static int max_level = LOG_INFO;

void log_set_level(int level)
{
    max_level = level;
}

/* True where stderr is the stream that the journal gave this process, see systemd.exec(5), $JOURNAL_STREAM.
 */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == device && st.st_ino == inode;
}

/* A message may quote a worker's answer: one message stays one line, and no terminal is driven by it. Beside
 * the ASCII controls terminals obey U+0080 to U+009F, which UTF-8 writes as C2 80 to C2 9F. */
static void blank_controls(char *line)
{
    for (unsigned char *c = (unsigned char *)line; *c; c++) {
        bool is_c1 = c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f;
        if (*c < ' ' || *c == 0x7f || is_c1)
            *c = ' ';
        if (is_c1)
            *++c = ' ';
    }
}

void log_line(int level, const char *format, ...)
{
    if (level > max_level)
        return;
    char line[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    blank_controls(line);
    if (stderr_is_journal())
        fprintf(stderr, "<%d>%s\n", level, line);
    else
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}
