/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journal.h"

#include "base/text_clean.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

/* How long a line may hold the loop where the journal's queue is full. */
#define SEND_TIMEOUT_US 50000

static size_t add(char *buffer, size_t used, size_t value_max, const char *key, const char *value)
{
    char *line = buffer + used;
    int n = snprintf(line, value_max, "%s=%s", key, value);
    size_t size = MIN((size_t)MAX(n, 0), value_max - 1);

    text_blank(line);
    line[size] = '\n';
    return used + size + 1;
}

static size_t add_id(char *buffer, size_t used, const char *key, char letter, int64_t id)
{
    char text[24];

    if (id <= 0)
        return used;
    snprintf(text, sizeof(text), "%c%" PRId64, letter, id);
    return add(buffer, used, JOURNAL_VALUE_MAX, key, text);
}

size_t journal_entry(char buffer[JOURNAL_ENTRY_MAX], int level, const struct log_fields *fields,
                     const char *line)
{
    int n = snprintf(buffer, JOURNAL_VALUE_MAX, "SYSLOG_IDENTIFIER=%s\nPRIORITY=%d\n",
                     program_invocation_short_name, level);
    size_t used = (size_t)n;

    if (fields->message_id)
        used = add(buffer, used, JOURNAL_VALUE_MAX, "MESSAGE_ID", fields->message_id);
    used = add_id(buffer, used, "PROFD_SESSION", 's', fields->session_id);
    used = add_id(buffer, used, "PROFD_TRACE", 't', fields->trace_id);
    if (fields->worker)
        used = add(buffer, used, JOURNAL_VALUE_MAX, "PROFD_WORKER", fields->worker);
    return add(buffer, used, MIN(JOURNAL_ENTRY_MAX - used, (size_t)JOURNAL_LINE_MAX), "MESSAGE", line);
}

int journal_connect(const char *path)
{
    const struct timeval patience = {.tv_usec = SEND_TIMEOUT_US};
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return TAKE_FD(fd);
}
