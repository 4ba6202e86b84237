/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command costs: "cost RESULT COMMAND..." runs it and writes its wall time, its user and system time
 * (nanoseconds) and its peak memory (bytes) to RESULT. A program of its own, because a process begins with
 * the peak of the one that started it.
 */
#include "base/clock.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long long timeval_ns(struct timeval t)
{
    return t.tv_sec * 1000000000LL + t.tv_usec * 1000LL;
}

int main(int argc, char **argv)
{
    struct rusage usage;
    int status;

    if (argc < 3)
        errx(EXIT_FAILURE, "usage: cost RESULT COMMAND...");
    FILE *f = fopen(argv[1], "we");
    if (!f)
        err(EXIT_FAILURE, "%s", argv[1]);

    int64_t began = mono_ns();
    pid_t pid = fork();
    if (pid < 0)
        err(EXIT_FAILURE, "fork");
    if (pid == 0) {
        execvp(argv[2], argv + 2);
        err(127, "%s", argv[2]);
    }
    if (wait4(pid, &status, 0, &usage) < 0)
        err(EXIT_FAILURE, "wait4");
    fprintf(f, "%lld %lld %lld\n", (long long)(mono_ns() - began),
            timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime), (long long)usage.ru_maxrss << 10);
    if (fclose(f) != 0)
        err(EXIT_FAILURE, "%s", argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}
