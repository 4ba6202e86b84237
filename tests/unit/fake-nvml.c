/* SPDX-License-Identifier: Apache-2.0 */
/* Two GPUs as NVML shows them, for hosts without one; the second says nothing of its clocks. This process
 * computes on the second. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS       0
#define NOT_SUPPORTED 3

static int devices[2];
static unsigned looks;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret);
int nvmlDeviceGetName(void *device, char *ret, unsigned size);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long ret[3]);
int nvmlDeviceGetUtilizationRates(void *device, unsigned ret[2]);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, void *ret);

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = 2;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
    *ret = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *ret, unsigned size)
{
    snprintf(ret, size, "Fake %d", (int)((int *)device - devices));
    return SUCCESS;
}

/* Total, free, used: each look finds a GiB more. */
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long ret[3])
{
    ret[0] = 80ULL << 30;
    ret[2] = (unsigned long long)++looks << 30;
    ret[1] = ret[0] - ret[2];
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned ret[2])
{
    ret[0] = 42;
    ret[1] = 7;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *ret)
{
    if (device == &devices[1])
        return NOT_SUPPORTED;
    *ret = which == 1 ? 1980 : 2619;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, void *ret)
{
    struct {
        unsigned pid;
        unsigned long long used;
        unsigned gpu_instance, compute_instance;
    } self = {.pid = (unsigned)getpid()};

    *n = device == &devices[1];
    memcpy(ret, &self, *n * sizeof(self));
    return SUCCESS;
}
