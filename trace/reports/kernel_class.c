/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/kernel_class.h"

#include <errno.h>
#include <fnmatch.h>

static const struct {
    const char *name, *text;
} classes[_KERNEL_CLASS_MAX] = {
#define C(identifier, class_name, what) [CLASS_##identifier] = {class_name, what},
    KERNEL_CLASSES(C)
#undef C
};

/* Ordered: what communicates is communication whatever it computes on the way, a fused name goes by what
 * costs most. */
static const struct {
    enum kernel_class class;
    const char *glob;
} known[] = {
    {CLASS_COMMUNICATION, "*nccl*"},
    {CLASS_COMMUNICATION, "*rccl*"},
    {CLASS_COMMUNICATION, "hccl*"},
    {CLASS_COMMUNICATION, "*deep_ep::*"},
    {CLASS_COMMUNICATION, "*nvshmem*"},
    {CLASS_COMMUNICATION, "*cross_device_reduce*"},
    {CLASS_COMMUNICATION, "*all_reduce*"},
    {CLASS_COMMUNICATION, "*allreduce*"},
    {CLASS_COMMUNICATION, "*all_gather*"},
    {CLASS_COMMUNICATION, "*allgather*"},
    {CLASS_COMMUNICATION, "*reduce_scatter*"},
    {CLASS_COMMUNICATION, "*reducescatter*"},
    {CLASS_COMMUNICATION, "*all_to_all*"},
    {CLASS_COMMUNICATION, "*alltoall*"},
    {CLASS_COMMUNICATION, "*all2all*"},
    {CLASS_COMMUNICATION, "*multimem*"},
    {CLASS_COMMUNICATION, "*quickreduce*"},
    {CLASS_COMMUNICATION, "*one_shot*reduce*"},
    {CLASS_COMMUNICATION, "*two_shot*reduce*"},
    {CLASS_COMMUNICATION, "*symm_mem*"},
    {CLASS_KV_CACHE, "*reshape_and_cache*"},
    {CLASS_KV_CACHE, "*concat_and_cache*"},
    {CLASS_KV_CACHE, "*kv_cache*"},
    {CLASS_KV_CACHE, "*kvcache*"},
    {CLASS_KV_CACHE, "*copy_kv*"},
    {CLASS_KV_CACHE, "*set_mla_kv*"},
    {CLASS_KV_CACHE, "*store_kv*"},
    {CLASS_KV_CACHE, "*destindex_copy*"},
    {CLASS_MOE, "*moe*"},
    {CLASS_MOE, "*expert*"},
    {CLASS_MOE, "*topk_gating*"},
    {CLASS_MOE, "*grouped_topk*"},
    {CLASS_MOE, "*permute*token*"},
    {CLASS_MOE, "*ep_scatter*"},
    {CLASS_MOE, "*ep_gather*"},
    {CLASS_MOE, "*group_gemm*"},
    {CLASS_MOE, "*grouped_gemm*"},
    {CLASS_ATTENTION, "*attention*"},
    {CLASS_ATTENTION, "*attn*"},
    {CLASS_ATTENTION, "*fmha*"},
    {CLASS_ATTENTION, "*flash*fwd*"},
    {CLASS_ATTENTION, "*flash*bwd*"},
    {CLASS_ATTENTION, "*flash*decode*"},
    {CLASS_ATTENTION, "*flash*mla*"},
    {CLASS_ATTENTION, "*mla*decode*"},
    {CLASS_ATTENTION, "*decode_att*"},
    {CLASS_ATTENTION, "*BatchDecode*"},
    {CLASS_ATTENTION, "*BatchPrefill*"},
    {CLASS_ATTENTION, "*flashinfer*"},
    {CLASS_ATTENTION, "*_fwd_grouped_kernel_stage*"},
    {CLASS_ATTENTION, "*_fwd_kernel_stage*"},
    {CLASS_ATTENTION, "*merge_state*"},
    {CLASS_QUANT, "*quant*fp8*"},
    {CLASS_QUANT, "*per_token_group*"},
    {CLASS_QUANT, "*scaled_fp8*"},
    {CLASS_QUANT, "*quantize*"},
    {CLASS_GEMM, "*gemm*"},
    {CLASS_GEMM, "*gemv*"},
    {CLASS_GEMM, "*matmul*"},
    {CLASS_GEMM, "*nvjet*"},
    {CLASS_GEMM, "*cutlass*"},
    {CLASS_GEMM, "*cublas*"},
    {CLASS_GEMM, "*splitK*"},
    {CLASS_GEMM, "Cijk_*"},
    {CLASS_GEMM, "*wvSplit*"},
    {CLASS_GEMM, "*xmma*"},
    {CLASS_GEMM, "*marlin*"},
    {CLASS_NORM, "*norm*"},
    {CLASS_ROPE, "*rotary*"},
    {CLASS_ROPE, "*rope*"},
    {CLASS_ACTIVATION, "*silu*"},
    {CLASS_ACTIVATION, "*gelu*"},
    {CLASS_ACTIVATION, "*swiglu*"},
    {CLASS_ACTIVATION, "*act_and_mul*"},
    {CLASS_ACTIVATION, "*relu*"},
    {CLASS_ACTIVATION, "*sigmoid*"},
    {CLASS_ACTIVATION, "*threshold_kernel*"},
    {CLASS_SAMPLING, "*softmax*"},
    {CLASS_SAMPLING, "*topk*"},
    {CLASS_SAMPLING, "*top_k*"},
    {CLASS_SAMPLING, "*top_p*"},
    {CLASS_SAMPLING, "*argmax*"},
    {CLASS_SAMPLING, "*sampling*"},
    {CLASS_SAMPLING, "*radixSort*"},
    {CLASS_SAMPLING, "*RadixSort*"},
    {CLASS_SAMPLING, "*multinomial*"},
    {CLASS_OPTIMIZER, "*adam*"},
    {CLASS_OPTIMIZER, "*multi_tensor_apply*"},
    {CLASS_OPTIMIZER, "*sgd*"},
    {CLASS_CONVOLUTION, "*conv*"},
    {CLASS_CONVOLUTION, "*cudnn*"},
    {CLASS_CONVOLUTION, "*pool*"},
    {CLASS_CONVOLUTION, "*winograd*"},
    {CLASS_EMBEDDING, "*embedding*"},
    {CLASS_EMBEDDING, "*gather*"},
    {CLASS_EMBEDDING, "*scatter*"},
    {CLASS_EMBEDDING, "*index*"},
    {CLASS_COPY, "*copy*"},
    {CLASS_COPY, "*transpose*"},
    {CLASS_COPY, "*CatArray*"},
    {CLASS_REDUCTION, "*reduce*"},
    {CLASS_REDUCTION, "*cumsum*"},
    {CLASS_REDUCTION, "*DeviceScan*"},
    {CLASS_ELEMENTWISE, "*elementwise*"},
    {CLASS_ELEMENTWISE, "*FillFunctor*"},
    {CLASS_ELEMENTWISE, "*arange*"},
    {CLASS_TRITON, "triton_*"},
};

const char *kernel_class_name(enum kernel_class class)
{
    return classes[class].name;
}

const char *kernel_class_text(enum kernel_class class)
{
    return classes[class].text;
}

static bool matches(const char *glob, const char *name)
{
    return fnmatch(glob, name, FNM_CASEFOLD) == 0;
}

enum kernel_class kernel_class_of(const struct kernel_patterns *patterns, const char *name)
{
    for (size_t i = 0; patterns && i < patterns->n; i++)
        if (matches(patterns->items[i].glob, name))
            return patterns->items[i].class;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (matches(known[i].glob, name))
            return known[i].class;
    return CLASS_OTHER;
}

/* -- What users add ----------------------------------------------------------------------------------- */

static int find_class(const char *name, size_t size)
{
    for (size_t i = 0; i < _KERNEL_CLASS_MAX; i++)
        if (strlen(classes[i].name) == size && memcmp(classes[i].name, name, size) == 0)
            return (int)i;
    return -EINVAL;
}

static int parse_line(const char *line, size_t size, struct kernel_patterns *ret)
{
    static const char blank[] = " \t\r";

    while (size > 0 && strchr(blank, line[size - 1]))
        size--;
    while (size > 0 && strchr(blank, *line))
        line++, size--;
    if (size == 0 || *line == '#')
        return 0;
    size_t word = 0;
    while (word < size && !strchr(blank, line[word]))
        word++;
    size_t begin = word;
    while (begin < size && strchr(blank, line[begin]))
        begin++;
    int class = find_class(line, word);
    if (class < 0 || begin == size)
        return -EINVAL;
    if (ret->n == KERNEL_PATTERNS_MAX)
        return -E2BIG;
    if (ret->n == ret->cap) {
        size_t cap = ret->cap ? ret->cap * 2 : 16;
        struct kernel_pattern *items = reallocarray(ret->items, cap, sizeof(*items));
        if (!items)
            return -ENOMEM;
        ret->items = items;
        ret->cap = cap;
    }
    char *glob = strndup(line + begin, size - begin);
    if (!glob)
        return -ENOMEM;
    ret->items[ret->n++] = (struct kernel_pattern){(enum kernel_class) class, glob};
    return 0;
}

int kernel_patterns_parse(const char *text, struct kernel_patterns *ret, size_t *ret_line)
{
    *ret_line = 0;
    while (*text) {
        size_t size = strcspn(text, "\n");
        ++*ret_line;
        int r = parse_line(text, size, ret);
        if (r < 0)
            return r;
        text += size + (text[size] == '\n');
    }
    return 0;
}

void kernel_patterns_done(struct kernel_patterns *patterns)
{
    for (size_t i = 0; i < patterns->n; i++)
        free(patterns->items[i].glob);
    free(patterns->items);
    *patterns = (struct kernel_patterns){0};
}
