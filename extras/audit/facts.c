/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/audit/audit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/units.h"
#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PROC_BYTES_MAX (1 << 20)

/* -- Prompts ------------------------------------------------------------------------------------------ */

static const char *facts_prompt_text(const json_t *prompts, size_t i)
{
    const json_t *v = json_array_get(prompts, i), *messages = json_object_get(v, "messages");
    if (json_array_size(messages) > 0)
        return json_get_str(json_array_get(messages, json_array_size(messages) - 1), "content");
    return json_is_string(v) ? json_string_value(v) : json_get_str(v, "prompt");
}

/* Synthetic prompts differ from each other: together they are one line. */
static json_t *facts_synthetic(const json_t *run)
{
    static const char *const metrics[] = {"ttft_ms", "tpot_ms", "e2e_ms"};
    int64_t n = audit_requests(run, "success");
    json_t *j = json_pack("{s: i, s: I}", "prompt", 0, "requests", (json_int_t)n);

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
        json_object_set(j, metrics[i], json_object_get(json_object_get(run, "metrics"), metrics[i]));
    if (n > 0) {
        json_object_set_new(j, "input_tokens", json_real(audit_figure(run, "tokens/input") / (double)n));
        json_object_set_new(j, "output_tokens", json_real(audit_figure(run, "tokens/output") / (double)n));
    }
    return j;
}

json_t *facts_prompts(const json_t *run, const json_t *prompts)
{
    json_t *list = json_array(), *one;
    size_t i;

    json_array_foreach(json_object_get(run, "prompts"), i, one) {
        json_t *copy = json_copy(one);
        json_put_str(copy, "text", facts_prompt_text(prompts, (size_t)json_get_int(one, "prompt", 0)));
        json_array_append_new(list, copy);
    }
    if (i == 0)
        json_array_append_new(list, facts_synthetic(run));
    return list;
}

/* -- Tokens a second ---------------------------------------------------------------------------------- */

static int facts_compare(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

static json_t *facts_distribution(double *values, size_t n)
{
    double mean = 0, squares = 0;

    if (n == 0)
        return json_null();
    qsort(values, n, sizeof(*values), facts_compare);
    for (size_t i = 0; i < n; i++)
        mean += values[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return json_pack("{s: I, s: f, s: f, s: f, s: f, s: f}", "n", (json_int_t)n, "mean", mean, "std",
                     sqrt(squares / (double)n), "min", values[0], "p50",
                     (values[(n - 1) / 2] + values[n / 2]) / 2, "max", values[n - 1]);
}

json_t *facts_rates(const json_t *requests)
{
    static const struct {
        const char *key;
        bool input, output;
    } rates[] = {{"input_tokens_per_s", true, false},
                 {"output_tokens_per_s", false, true},
                 {"total_tokens_per_s", true, true}};
    _cleanup_(freep) double *values = xcalloc(json_array_size(requests) + 1, sizeof(*values));
    json_t *j = json_object();

    for (size_t k = 0; k < ARRAY_SIZE(rates); k++) {
        size_t i, n = 0;
        json_t *r;
        json_array_foreach((json_t *)requests, i, r) {
            const char *outcome = json_get_str(r, "outcome");
            double input = json_get_number(r, "input_tokens", NAN),
                   output = json_get_number(r, "output_tokens", NAN),
                   seconds = json_get_number(r, "e2e_ns", 0) / NS_PER_S,
                   tokens = (rates[k].input ? input : 0) + (rates[k].output ? output : 0);
            if (outcome && streq(outcome, "success") && !json_get_bool(r, "cold", false) && seconds > 0 &&
                isfinite(tokens))
                values[n++] = tokens / seconds;
        }
        json_object_set_new(j, rates[k].key, facts_distribution(values, n));
    }
    return j;
}

/* -- Model and machine -------------------------------------------------------------------------------- */

json_t *facts_model(const json_t *run, const json_t *workers)
{
    const json_t *targets = json_object_get(run, "targets"), *target = json_array_get(targets, 0),
                 *worker = json_array_get(workers, 0);
    const char *url = json_is_string(target) ? json_string_value(target) : json_get_str(target, "url");
    json_t *j = json_object();
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)workers, i, one)
        if (url && streq(json_get_str(one, "url"), url)) {
            worker = one;
            break;
        }
    json_put_str(j, "name", json_get_str(run, "model"));
    json_put_str(j, "engine", json_get_str(worker, "engine"));
    json_put_str(j, "version", json_get_str(worker, "version"));
    json_put_str(j, "url", url);
    json_put_int(j, "workers", (int64_t)MAX(json_array_size(workers), json_array_size(targets)));
    return j;
}

json_t *facts_hardware(json_t *take_machine, const json_t *run)
{
    const json_t *memory = json_object_get(run, "memory");
    json_t *gpus = json_object_get(memory, "gpus"), *worker;
    bool is_here = false; /* only then is the worker's process visible */
    size_t i;

    json_array_foreach(json_object_get(memory, "workers"), i, worker)
        is_here |= json_is_integer(json_object_get(worker, "pid"));
    json_put_bool(take_machine, "of_worker", is_here);
    json_object_set_new(take_machine, "gpus", json_is_array(gpus) ? json_incref(gpus) : json_array());
    json_put_str(take_machine, "gpu_note", json_get_str(memory, "gpus_reason"));
    return take_machine;
}

json_t *facts_goal(const json_t *goodput)
{
    json_t *j = json_object(), *limit;
    const char *name;

    json_object_foreach((json_t *)goodput, name, limit) {
        _cleanup_(freep) char *key = xasprintf("%s_ms", name);
        int64_t ns;
        if (json_is_string(limit) && parse_duration(json_string_value(limit), &ns) == 0)
            json_object_set_new(j, key, json_real((double)ns / NS_PER_MS));
    }
    return j;
}

/* -- This machine ------------------------------------------------------------------------------------- */

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

static void hardware_put(json_t *j, const char *key, const char *path, char *(*find)(const char *text))
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

    hardware_put(j, "cpu", "/proc/cpuinfo", cpu_model);
    hardware_put(j, "driver", "/proc/driver/nvidia/version", nvidia_driver);
    json_put_int(j, "processors", sysconf(_SC_NPROCESSORS_ONLN));
    json_put_int(j, "memory_bytes", (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    if (uname(&system) == 0)
        json_object_set_new(j, "kernel", json_text(system.release));
    return j;
}
