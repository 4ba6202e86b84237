/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/gpu_peak.h"

#include <fnmatch.h>

#define NAME_LOOK_MAX 128

#define T             1e12
#define G             1e9
/* Vector units where there are no matrix units for it; BF16 is as fast as FP16 where a GPU has it at all. */
#define PEAK_OF(fp64, fp32, tf32, bf16, fp16, fp8, int8)                                                     \
    {                                                                                                        \
        [PRECISION_FP64] = fp64 * T, [PRECISION_FP32] = fp32 * T, [PRECISION_TF32] = tf32 * T,               \
        [PRECISION_BF16] = bf16 * T, [PRECISION_FP16] = fp16 * T, [PRECISION_FP8] = fp8 * T,                 \
        [PRECISION_INT8] = int8 * T                                                                          \
    }
#define PEAK(fp64, fp32, tf32, fp16, fp8, int8)         PEAK_OF(fp64, fp32, tf32, fp16, fp16, fp8, int8)
#define PEAK_NO_BF16(fp64, fp32, tf32, fp16, fp8, int8) PEAK_OF(fp64, fp32, tf32, 0, fp16, fp8, int8)

/* The first that matches counts. A device is what the runtime calls one: of an MI250, one of its two dies. */
static const struct gpu_peak peaks[] = {
    {"*GB200*", 8000 * G, PEAK(40, 80, 1250, 2500, 5000, 5000)},
    {"*B200*", 8000 * G, PEAK(37, 75, 1125, 2250, 4500, 4500)},
    {"*GH200*144*", 4900 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*GH200*", 4000 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*H200*", 4800 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*H100*NVL*", 3900 * G, PEAK(60, 60, 417.5, 835.5, 1671, 1671)},
    {"*H100*PCIe*", 2000 * G, PEAK(51, 51, 378, 756, 1513, 1513)},
    {"*H100*", 3350 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*H20", 4000 * G, PEAK(1, 44, 74, 148, 296, 296)},
    {"*H800*PCIe*", 2000 * G, PEAK(0.8, 51, 378, 756, 1513, 1513)},
    {"*H800*", 3350 * G, PEAK(1, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*A100*80GB*PCI*", 1935 * G, PEAK(19.5, 19.5, 156, 312, 0, 624)},
    {"*A100*80GB*", 2039 * G, PEAK(19.5, 19.5, 156, 312, 0, 624)},
    {"*A100*", 1555 * G, PEAK(19.5, 19.5, 156, 312, 0, 624)},
    {"*A800*80GB*", 2039 * G, PEAK(9.7, 19.5, 156, 312, 0, 624)},
    {"*L40S*", 864 * G, PEAK(1.4, 91.6, 183, 362, 733, 733)},
    {"*L4", 300 * G, PEAK(0.5, 30.3, 60, 121, 242.5, 242.5)},
    {"*A10", 600 * G, PEAK(1, 31.2, 62.5, 125, 0, 250)},
    {"*V100*", 900 * G, PEAK_NO_BF16(7.8, 15.7, 0, 125, 0, 62.8)},
    {"*T4*", 320 * G, PEAK_NO_BF16(0.25, 8.1, 0, 65, 0, 130)},
    {"*MI355X*", 8000 * G, PEAK(78.6, 157.3, 0, 2516.6, 5033.2, 5033.2)},
    {"*MI350X*", 8000 * G, PEAK(72.1, 144.2, 0, 2306.9, 4613.7, 4613.7)},
    {"*MI325X*", 6000 * G, PEAK(163.4, 163.4, 653.7, 1307.4, 2614.9, 2614.9)},
    {"*MI300X*", 5300 * G, PEAK(163.4, 163.4, 653.7, 1307.4, 2614.9, 2614.9)},
    {"*MI250X*", 1638 * G, PEAK(47.9, 47.9, 0, 191.5, 0, 191.5)},
    {"*MI250*", 1638 * G, PEAK(45.3, 45.3, 0, 181, 0, 181)},
    {"*MI210*", 1638 * G, PEAK(45.3, 45.3, 0, 181, 0, 181)},
};

const struct gpu_peak *gpu_peak_find(struct text device)
{
    char name[NAME_LOOK_MAX];

    snprintf(name, sizeof(name), "%.*s", (int)MIN(device.size, sizeof(name) - 1), device.p ? device.p : "");
    for (size_t i = 0; i < ARRAY_SIZE(peaks); i++)
        if (fnmatch(peaks[i].glob, name, 0) == 0)
            return &peaks[i];
    return NULL;
}
