/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/sampler.h"

#include "base/alloc.h"
#include "base/process_info.h"
#include <dlfcn.h>
#include <errno.h>

#define PROC_TEXT_MAX 8192
/* An address space has 57 bits at most. */
#define AMOUNT_MAX (INT64_C(1) << 57)

/* The number that text begins with, after blanks, times `unit`; -1 without a number. */
static int64_t process_parse_amount(const char *text, int64_t unit)
{
    char *end;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    return end == text || errno != 0 || n < 0 || n > AMOUNT_MAX / unit ? -1 : n * unit;
}

int64_t smaps_rollup_bytes(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            return process_parse_amount(line + n + 1, 1024);
    }
    return -1;
}

int64_t statm_rss_bytes(const char *text)
{
    const char *blank = strchr(text, ' ');

    return blank ? process_parse_amount(blank, sysconf(_SC_PAGESIZE)) : -1;
}

/* A file of /proc/PID as bytes, or a negative errno. */
static int64_t process_bytes(pid_t pid, const char *file, int64_t (*parse)(const char *text))
{
    _cleanup_(freep) char *text = NULL;
    size_t size;
    int r = process_read(pid, file, PROC_TEXT_MAX, &text, &size);

    return r < 0 ? r : parse(text);
}

static int64_t process_parse_pss(const char *text)
{
    return smaps_rollup_bytes(text, "Pss");
}

int process_memory_read(const pid_t *pids, size_t n, bool with_pss, struct process_memory *ret)
{
    struct process_memory m = {.pss_bytes = with_pss ? 0 : -1};

    for (size_t i = 0; i < n; i++) {
        int64_t rss = process_bytes(pids[i], "statm", statm_rss_bytes), pss = -1;
        /* It ended since the tree was listed. */
        if (rss < 0)
            continue;
        if (m.pss_bytes >= 0)
            pss = process_bytes(pids[i], "smaps_rollup", process_parse_pss);
        /* Zombies and kernel threads have no memory. */
        if (pss == -ESRCH || pss == -ENOENT)
            pss = 0;
        m.processes++;
        m.rss_bytes += rss;
        m.pss_bytes = pss < 0 ? -1 : m.pss_bytes + pss;
    }
    if (m.processes == 0)
        return -ESRCH;
    *ret = m;
    return 0;
}

/* -- GPUs --------------------------------------------------------------------------------------------- */

/* The part of NVML's interface that is used: its header is not in Debian. */
#define NVML_SUCCESS      0
#define NVML_CLOCK_SM     1
#define NVML_CLOCK_MEMORY 2
#define GPU_PROCESSES_MAX 256

typedef void *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_utilisation {
    unsigned gpu, memory;
};
struct nvml_process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *ret);
    int (*device)(unsigned index, nvml_device *ret);
    int (*name)(nvml_device d, char *ret, unsigned size);
    int (*memory)(nvml_device d, struct nvml_memory *ret);
    int (*utilisation)(nvml_device d, struct nvml_utilisation *ret);
    int (*clock)(nvml_device d, int which, unsigned *ret);
    int (*processes)(nvml_device d, unsigned *n, struct nvml_process *ret);
};

static const struct nvml_symbol {
    const char *name;
    size_t offset;
} symbols[] = {
    {"nvmlInit_v2", offsetof(struct nvml, init)},
    {"nvmlShutdown", offsetof(struct nvml, shutdown)},
    {"nvmlDeviceGetCount_v2", offsetof(struct nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, device)},
    {"nvmlDeviceGetName", offsetof(struct nvml, name)},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml, memory)},
    {"nvmlDeviceGetUtilizationRates", offsetof(struct nvml, utilisation)},
    {"nvmlDeviceGetClockInfo", offsetof(struct nvml, clock)},
    {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct nvml, processes)},
};

struct gpus {
    void *library;
    struct nvml nvml;
    bool initialised;
    size_t n;
    nvml_device devices[GPUS_MAX];
    char names[GPUS_MAX][GPU_NAME_MAX];
};

struct gpus *gpus_close(struct gpus *g)
{
    if (!g)
        return NULL;
    if (g->initialised)
        g->nvml.shutdown();
    if (g->library)
        dlclose(g->library);
    free(g);
    return NULL;
}

static int gpus_load(struct gpus *g, const char *library, char *reason)
{
    g->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!g->library) {
        snprintf(reason, GPU_REASON_MAX, "%s is not installed: no NVIDIA driver on this host", library);
        return -ENOENT;
    }
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void *found = dlsym(g->library, symbols[i].name);
        if (!found) {
            snprintf(reason, GPU_REASON_MAX, "%s has no %s: the driver is too old", library, symbols[i].name);
            return -ENOSYS;
        }
        memcpy((char *)&g->nvml + symbols[i].offset, &found, sizeof(found));
    }
    return 0;
}

static int gpus_begin(struct gpus *g, char *reason)
{
    unsigned n;
    int r = g->nvml.init();

    if (r != NVML_SUCCESS) {
        snprintf(reason, GPU_REASON_MAX, "the NVIDIA driver does not respond (NVML error %d)", r);
        return -ENODEV;
    }
    g->initialised = true;
    if (g->nvml.count(&n) != NVML_SUCCESS || n == 0) {
        snprintf(reason, GPU_REASON_MAX, "the NVIDIA driver lists no GPU");
        return -ENODEV;
    }
    for (unsigned i = 0; i < n && g->n < GPUS_MAX; i++) {
        if (g->nvml.device(i, &g->devices[g->n]) != NVML_SUCCESS)
            continue;
        if (g->nvml.name(g->devices[g->n], g->names[g->n], GPU_NAME_MAX) != NVML_SUCCESS)
            snprintf(g->names[g->n], GPU_NAME_MAX, "GPU %u", i);
        g->n++;
    }
    return 0;
}

int gpus_open(const char *library, struct gpus **ret, char reason[static GPU_REASON_MAX])
{
    _cleanup_(gpus_closep) struct gpus *g = xcalloc(1, sizeof(*g));

    int r = gpus_load(g, library, reason);
    if (r == 0)
        r = gpus_begin(g, reason);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(g);
    return 0;
}

size_t gpus_count(const struct gpus *g)
{
    return g->n;
}

const char *gpu_name(const struct gpus *g, size_t index)
{
    return g->names[index];
}

static int64_t gpu_clock(const struct gpus *g, size_t index, int which)
{
    unsigned mhz;

    return g->nvml.clock(g->devices[index], which, &mhz) == NVML_SUCCESS ? (int64_t)mhz : -1;
}

void gpu_read(const struct gpus *g, size_t index, struct gpu_sample *ret)
{
    struct nvml_memory memory;
    struct nvml_utilisation utilisation;
    bool has_memory = g->nvml.memory(g->devices[index], &memory) == NVML_SUCCESS,
         has_utilisation = g->nvml.utilisation(g->devices[index], &utilisation) == NVML_SUCCESS;

    *ret = (struct gpu_sample){
        .memory_bytes = has_memory ? (int64_t)memory.used : -1,
        .memory_total_bytes = has_memory ? (int64_t)memory.total : -1,
        .utilisation_percent = has_utilisation ? (int64_t)utilisation.gpu : -1,
        .sm_clock_mhz = gpu_clock(g, index, NVML_CLOCK_SM),
        .memory_clock_mhz = gpu_clock(g, index, NVML_CLOCK_MEMORY),
    };
}

bool gpu_is_used_by(const struct gpus *g, size_t index, const pid_t *pids, size_t n)
{
    struct nvml_process processes[GPU_PROCESSES_MAX];
    unsigned n_processes = GPU_PROCESSES_MAX;

    if (g->nvml.processes(g->devices[index], &n_processes, processes) != NVML_SUCCESS)
        return false;
    for (unsigned p = 0; p < n_processes; p++)
        for (size_t i = 0; i < n; i++)
            if (processes[p].pid == (unsigned)pids[i])
                return true;
    return false;
}
