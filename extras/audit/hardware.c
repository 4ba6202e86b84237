/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/audit/hardware.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <ctype.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PROC_BYTES_MAX (1 << 20)

char *cpu_model(const char *cpuinfo)
{
    const char *line = strstr(cpuinfo, "model name");

    line = line ? strchr(line, ':') : NULL;
    if (!line)
        return NULL;
    line += 1 + strspn(line + 1, " \t");
    return xstrndup(line, strcspn(line, "\n"));
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan ..." */
char *nvidia_driver(const char *version)
{
    for (const char *word = version; *word; word += strcspn(word, " \t\n"), word += strspn(word, " \t\n")) {
        size_t n = strspn(word, "0123456789.");
        if (isdigit((unsigned char)*word) && n == strcspn(word, " \t\n") && memchr(word, '.', n))
            return xstrndup(word, n);
    }
    return NULL;
}

static void put_from_file(json_t *j, const char *key, const char *path, char *(*find)(const char *text))
{
    _cleanup_(freep) char *text = NULL;
    size_t size;

    if (read_file(AT_FDCWD, path, PROC_BYTES_MAX, &text, &size) < 0)
        return;
    _cleanup_(freep) char *found = find(text);
    if (found)
        json_object_set_new(j, key, json_text(found));
}

json_t *hardware_read(void)
{
    json_t *j = json_object();
    struct utsname system;

    put_from_file(j, "cpu", "/proc/cpuinfo", cpu_model);
    put_from_file(j, "driver", "/proc/driver/nvidia/version", nvidia_driver);
    json_put_int(j, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    json_put_int(j, "memory_bytes", (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    if (uname(&system) == 0)
        json_object_set_new(j, "kernel", json_text(system.release));
    return j;
}
