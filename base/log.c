/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

/* -- The journal ---------------------------------------------------------------------------------------- */

/* Longest time that one line may block the loop if the journal's queue is full. */
#define SEND_TIMEOUT_US 50000

static size_t journal_add(char *buffer, size_t used, size_t value_max, const char *key, const char *value)
{
    char *line = buffer + used;
    int n = snprintf(line, value_max, "%s=%s", key, value);
    size_t size = MIN((size_t)MAX(n, 0), value_max - 1);

    text_blank(line);
    line[size] = '\n';
    return used + size + 1;
}

static size_t journal_add_id(char *buffer, size_t used, const char *key, char letter, int64_t id)
{
    char text[24];

    if (id <= 0)
        return used;
    snprintf(text, sizeof(text), "%c%" PRId64, letter, id);
    return journal_add(buffer, used, JOURNAL_VALUE_MAX, key, text);
}

size_t journal_entry(char buffer[JOURNAL_ENTRY_MAX], int level, const struct log_fields *fields,
                     const char *line)
{
    int n = snprintf(buffer, JOURNAL_VALUE_MAX, "SYSLOG_IDENTIFIER=%s\nPRIORITY=%d\n",
                     program_invocation_short_name, level);
    size_t used = (size_t)n;

    if (fields->message_id)
        used = journal_add(buffer, used, JOURNAL_VALUE_MAX, "MESSAGE_ID", fields->message_id);
    used = journal_add_id(buffer, used, "PROFD_SESSION", 's', fields->session_id);
    used = journal_add_id(buffer, used, "PROFD_TRACE", 't', fields->trace_id);
    if (fields->worker)
        used = journal_add(buffer, used, JOURNAL_VALUE_MAX, "PROFD_WORKER", fields->worker);
    return journal_add(buffer, used, MIN(JOURNAL_ENTRY_MAX - used, (size_t)JOURNAL_LINE_MAX), "MESSAGE",
                       line);
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

/* -- State ---------------------------------------------------------------------------------------------- */

#define FILE_MODE 0640

static int max_level = LOG_INFO;
static int journal_fd = -1;
static atomic_uint n_lost;
static struct {
    pthread_mutex_t lock;
    char *path; /* NULL: no file */
    int fd;
    bool is_stderr;
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

void log_set_level(int level)
{
    max_level = level;
}

/* True where stderr is the stream that the journal gave this process, see systemd.exec(5), $JOURNAL_STREAM.
 */
static bool log_stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
           st.st_dev == device && st.st_ino == inode;
}

void log_open(void)
{
    if (log_stderr_is_journal() && journal_fd < 0)
        journal_fd = MAX(journal_connect(JOURNAL_SOCKET), -1);
}

static int log_send_entry(int level, const struct log_fields *fields, const char *line)
{
    char entry[JOURNAL_ENTRY_MAX];
    size_t size = journal_entry(entry, level, fields, line);
    return send(journal_fd, entry, size, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* After a restart, the journal listens on a new socket. */
static int log_send_anew(int level, const struct log_fields *fields, const char *line)
{
    _cleanup_(closep) int fd = journal_connect(JOURNAL_SOCKET);

    if (fd < 0 || dup3(fd, journal_fd, O_CLOEXEC) < 0)
        return -ECONNREFUSED;
    return log_send_entry(level, fields, line);
}

/* False if the line has to go to stderr. */
static bool log_to_journal(int level, const struct log_fields *fields, const char *line)
{
    char remark[80];
    unsigned lost = atomic_exchange(&n_lost, 0);

    snprintf(remark, sizeof(remark), "%u lines are missing: the journal's queue was full", lost);
    int r = lost ? log_send_entry(LOG_WARNING, LOG_FIELDS(), remark) : 0;
    r = r == -EAGAIN ? r : log_send_entry(level, fields, line);
    if (r == -ECONNREFUSED || r == -ENOTCONN || r == -ECONNRESET)
        r = log_send_anew(level, fields, line);
    if (r == -EAGAIN)
        atomic_fetch_add(&n_lost, lost + 1);
    return r == 0 || r == -EAGAIN;
}

/* -- The log file ---------------------------------------------------------------------------------------------- */

/* Replaces the open file. Children keep the previous one. */
static int log_open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, FILE_MODE);

    if (fd < 0)
        return -errno;
    closep(&file.fd);
    file.fd = fd;
    return file.is_stderr && dup2(fd, STDERR_FILENO) < 0 ? -errno : 0;
}

int log_to_file(const char *path)
{
    pthread_mutex_lock(&file.lock);
    int r = log_open_file(path);
    if (r >= 0)
        file.path = xstrdup(path);
    pthread_mutex_unlock(&file.lock);
    return r;
}

void log_leave_stderr(void)
{
    pthread_mutex_lock(&file.lock);
    file.is_stderr = file.fd >= 0 && dup2(file.fd, STDERR_FILENO) >= 0;
    pthread_mutex_unlock(&file.lock);
}

/* If the file cannot be renamed, it grows beyond its limit: no line is lost. */
static void log_rotate_file(void)
{
    _cleanup_(freep) char *old = xasprintf("%s.old", file.path);
    struct stat st;

    if (fstat(file.fd, &st) == 0 && st.st_size >= LOG_FILE_MAX && rename(file.path, old) == 0)
        log_open_file(file.path);
}

/* False if the line has to go to stderr, too. */
static bool log_write_to_file(const char *line)
{
    char time[UNIT_TEXT_MAX];

    pthread_mutex_lock(&file.lock);
    bool is_all = file.is_stderr;
    if (file.path) {
        log_rotate_file();
        dprintf(file.fd, "%s %s: %s\n", format_time(time, wall_ns()), program_invocation_short_name, line);
    }
    pthread_mutex_unlock(&file.lock);
    return is_all;
}

/* -- Lines ----------------------------------------------------------------------------------------------- */

_printf_(3, 0) static void log_va(int level, const struct log_fields *fields, const char *format, va_list ap)
{
    char line[JOURNAL_LINE_MAX];

    vsnprintf(line, sizeof(line), format, ap);
    text_blank(line);
    if (journal_fd >= 0 && log_to_journal(level, fields, line))
        return;
    if (log_write_to_file(line))
        return;
    if (log_stderr_is_journal())
        fprintf(stderr, "<%d>%s\n", level, line);
    else
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}

void log_line(int level, const char *format, ...)
{
    va_list ap;

    if (level > max_level)
        return;
    va_start(ap, format);
    log_va(level, LOG_FIELDS(), format, ap);
    va_end(ap);
}

void log_struct(int level, const struct log_fields *fields, const char *format, ...)
{
    va_list ap;

    if (level > max_level)
        return;
    va_start(ap, format);
    log_va(level, fields, format, ap);
    va_end(ap);
}
