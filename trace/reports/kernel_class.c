/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/kernel_class.h"

#include "base/array.h"
#include "trace/reports/kernel_name.h"
#include <errno.h>

static const struct {
    const char *name, *text;
} classes[_KERNEL_CLASS_MAX] = {
#define C(identifier, class_name, what) [CLASS_##identifier] = {class_name, what},
    KERNEL_CLASSES(C)
#undef C
};

/* Which part of a name a pattern is looked for in. */
enum kernel_class_part { FUNCTION, TEMPLATE };

/*
 * Ordered, in lower case: what communicates is communication whatever it computes on the way, and a fused
 * kernel goes by what costs most. A function's own name is more specific than the types it is made for, so
 * patterns of FUNCTION are tried on all of the name only where none fits the function.
 */
static const struct {
    enum kernel_class class;
    enum kernel_class_part part;
    const char *glob;
} known[] = {
    {CLASS_COMMUNICATION, FUNCTION, "*nccl*"},
    {CLASS_COMMUNICATION, FUNCTION, "*rccl*"},
    {CLASS_COMMUNICATION, FUNCTION, "hccl*"},
    {CLASS_COMMUNICATION, FUNCTION, "*msccl*"},
    {CLASS_COMMUNICATION, FUNCTION, "*deep_ep::*"},
    {CLASS_COMMUNICATION, FUNCTION, "*pplx*dispatch*"},
    {CLASS_COMMUNICATION, FUNCTION, "*pplx*combine*"},
    {CLASS_COMMUNICATION, FUNCTION, "*mori::*"},
    {CLASS_COMMUNICATION, FUNCTION, "*epdispatch*"},
    {CLASS_COMMUNICATION, FUNCTION, "*epcombine*"},
    {CLASS_COMMUNICATION, FUNCTION, "*nvshmem*"},
    {CLASS_COMMUNICATION, FUNCTION, "*rocshmem*"},
    {CLASS_COMMUNICATION, FUNCTION, "*cross_device_reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*all_reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*allreduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*all_gather*"},
    {CLASS_COMMUNICATION, FUNCTION, "*allgather*"},
    {CLASS_COMMUNICATION, FUNCTION, "*reduce_scatter*"},
    {CLASS_COMMUNICATION, FUNCTION, "*reducescatter*"},
    {CLASS_COMMUNICATION, FUNCTION, "*all_to_all*"},
    {CLASS_COMMUNICATION, FUNCTION, "*alltoall*"},
    {CLASS_COMMUNICATION, FUNCTION, "*all2all*"},
    {CLASS_COMMUNICATION, FUNCTION, "*multimem*"},
    {CLASS_COMMUNICATION, FUNCTION, "*quickreduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*quick_reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*oneshot*reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*twoshot*reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*one_shot*reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*two_shot*reduce*"},
    {CLASS_COMMUNICATION, FUNCTION, "*symm_mem*"},
    {CLASS_KV_CACHE, FUNCTION, "*reshape_and_cache*"},
    {CLASS_KV_CACHE, FUNCTION, "*concat_and_cache*"},
    {CLASS_KV_CACHE, FUNCTION, "*kv_cache*"},
    {CLASS_KV_CACHE, FUNCTION, "*kvcache*"},
    {CLASS_KV_CACHE, FUNCTION, "*kv_buffer*"},
    {CLASS_KV_CACHE, FUNCTION, "*kv_indices*"},
    {CLASS_KV_CACHE, FUNCTION, "*copy_kv*"},
    {CLASS_KV_CACHE, FUNCTION, "*set_mla_kv*"},
    {CLASS_KV_CACHE, FUNCTION, "*store_kv*"},
    {CLASS_KV_CACHE, FUNCTION, "*append_paged*"},
    {CLASS_KV_CACHE, FUNCTION, "*destindex_copy*"},
    {CLASS_KV_CACHE, FUNCTION, "*page_indices*"},
    {CLASS_KV_CACHE, FUNCTION, "*req_to_token*"},
    {CLASS_KV_CACHE, FUNCTION, "*slot_mapping*"},
    {CLASS_MOE, TEMPLATE, "*deep_gemm*gemmtype)1*"},
    {CLASS_MOE, TEMPLATE, "*deep_gemm*gemmtype)2*"},
    {CLASS_MOE, FUNCTION, "*moe*"},
    {CLASS_MOE, FUNCTION, "*expert*"},
    {CLASS_MOE, FUNCTION, "*topk_gating*"},
    {CLASS_MOE, FUNCTION, "*topkgating*"},
    {CLASS_MOE, FUNCTION, "*grouped_topk*"},
    {CLASS_MOE, FUNCTION, "*biased_topk*"},
    {CLASS_MOE, FUNCTION, "*routing*"},
    {CLASS_MOE, FUNCTION, "*bitmatrix*"},
    {CLASS_MOE, FUNCTION, "*matmul_ogs*"},
    {CLASS_MOE, FUNCTION, "*permute*token*"},
    {CLASS_MOE, FUNCTION, "*ep_scatter*"},
    {CLASS_MOE, FUNCTION, "*ep_gather*"},
    {CLASS_MOE, FUNCTION, "*group_gemm*"},
    {CLASS_MOE, FUNCTION, "*grouped_gemm*"},
    {CLASS_QUANT, FUNCTION, "*sage_quant*"},
    {CLASS_ATTENTION, FUNCTION, "*attention*"},
    {CLASS_ATTENTION, FUNCTION, "*attn*"},
    {CLASS_ATTENTION, FUNCTION, "*fmha*"},
    {CLASS_ATTENTION, FUNCTION, "*flash*fwd*"},
    {CLASS_ATTENTION, FUNCTION, "*flash*bwd*"},
    {CLASS_ATTENTION, FUNCTION, "*flash*decode*"},
    {CLASS_ATTENTION, FUNCTION, "*flash*mla*"},
    {CLASS_ATTENTION, FUNCTION, "*mla*decode*"},
    {CLASS_ATTENTION, FUNCTION, "*mla_fwd*"},
    {CLASS_ATTENTION, FUNCTION, "*sage_fwd*"},
    {CLASS_ATTENTION, FUNCTION, "*decode_att*"},
    {CLASS_ATTENTION, FUNCTION, "*batchdecode*"},
    {CLASS_ATTENTION, FUNCTION, "*batchprefill*"},
    {CLASS_ATTENTION, FUNCTION, "*batchmla*"},
    {CLASS_ATTENTION, FUNCTION, "*_fwd_grouped_kernel_stage*"},
    {CLASS_ATTENTION, FUNCTION, "*_fwd_kernel_stage*"},
    {CLASS_ATTENTION, FUNCTION, "*merge_state*"},
    {CLASS_ATTENTION, FUNCTION, "*mergestate*"},
    {CLASS_ATTENTION, FUNCTION, "*mamba*"},
    {CLASS_ATTENTION, FUNCTION, "*selective_scan*"},
    {CLASS_ATTENTION, FUNCTION, "*selective_state*"},
    {CLASS_ATTENTION, FUNCTION, "*chunk_scan*"},
    {CLASS_ATTENTION, FUNCTION, "*delta_rule*"},
    {CLASS_CONVOLUTION, FUNCTION, "*implicit_convolve*"},
    {CLASS_CONVOLUTION, FUNCTION, "*convolution*"},
    {CLASS_CONVOLUTION, FUNCTION, "*scudnn*"},
    {CLASS_CONVOLUTION, FUNCTION, "*hcudnn*"},
    {CLASS_CONVOLUTION, FUNCTION, "*fprop*"},
    {CLASS_CONVOLUTION, FUNCTION, "*dgrad*"},
    {CLASS_CONVOLUTION, FUNCTION, "*wgrad*"},
    {CLASS_CONVOLUTION, FUNCTION, "*winograd*"},
    {CLASS_CONVOLUTION, FUNCTION, "*igemm*"},
    {CLASS_CONVOLUTION, FUNCTION, "*fft2d*"},
    {CLASS_CONVOLUTION, FUNCTION, "*im2col*"},
    {CLASS_CONVOLUTION, FUNCTION, "*im2d2col*"},
    {CLASS_EMBEDDING, FUNCTION, "*embedding_codegen*"},
    {CLASS_EMBEDDING, FUNCTION, "*embedding_backward*"},
    {CLASS_QUANT, FUNCTION, "*quant*fp8*"},
    {CLASS_QUANT, FUNCTION, "*fp8rowwise*"},
    {CLASS_QUANT, FUNCTION, "*per_token_group*"},
    {CLASS_QUANT, FUNCTION, "*scaled_fp8*"},
    {CLASS_QUANT, FUNCTION, "*quantize*"},
    {CLASS_NORM, FUNCTION, "*norm*quant*"},
    {CLASS_EMBEDDING, FUNCTION, "*fbgemm_gpu::*"},
    {CLASS_GEMM, FUNCTION, "*gemm*"},
    {CLASS_GEMM, FUNCTION, "*gemv*"},
    {CLASS_GEMM, FUNCTION, "*matmul*"},
    {CLASS_GEMM, FUNCTION, "bmm_*"},
    {CLASS_GEMM, FUNCTION, "*nvjet*"},
    {CLASS_GEMM, FUNCTION, "*cutlass*"},
    {CLASS_GEMM, FUNCTION, "*cublas*"},
    {CLASS_GEMM, FUNCTION, "*splitk*"},
    {CLASS_GEMM, FUNCTION, "*epilogue::*"},
    {CLASS_GEMM, FUNCTION, "*dot_kernel*"},
    {CLASS_GEMM, FUNCTION, "cijk_*"},
    {CLASS_GEMM, FUNCTION, "*wvsplit*"},
    {CLASS_GEMM, FUNCTION, "*xmma*"},
    {CLASS_GEMM, FUNCTION, "*s16816*"},
    {CLASS_GEMM, FUNCTION, "*marlin*"},
    {CLASS_NORM, FUNCTION, "*norm*"},
    {CLASS_NORM, FUNCTION, "*bn_fw*"},
    {CLASS_NORM, FUNCTION, "*bn_bw*"},
    {CLASS_NORM, FUNCTION, "*rowwisemoments*"},
    {CLASS_NORM, FUNCTION, "*gammabeta*"},
    {CLASS_NORM, FUNCTION, "triton_*mean*rsqrt*"},
    {CLASS_ROPE, FUNCTION, "*rotary*"},
    {CLASS_ROPE, FUNCTION, "*rope*"},
    {CLASS_ROPE, FUNCTION, "triton_*cos*sin*"},
    {CLASS_ACTIVATION, FUNCTION, "*silu*"},
    {CLASS_ACTIVATION, FUNCTION, "*gelu*"},
    {CLASS_ACTIVATION, FUNCTION, "*swiglu*"},
    {CLASS_ACTIVATION, FUNCTION, "*act_and_mul*"},
    {CLASS_ACTIVATION, FUNCTION, "*relu*"},
    {CLASS_ACTIVATION, FUNCTION, "*sigmoid*"},
    {CLASS_ACTIVATION, FUNCTION, "*tanh*"},
    {CLASS_ACTIVATION, FUNCTION, "*threshold_kernel*"},
    {CLASS_QUANT, FUNCTION, "*quant*"},
    {CLASS_SAMPLING, FUNCTION, "*softmax*"},
    {CLASS_SAMPLING, FUNCTION, "*topk*"},
    {CLASS_SAMPLING, FUNCTION, "*top_k*"},
    {CLASS_SAMPLING, FUNCTION, "*top_p*"},
    {CLASS_SAMPLING, FUNCTION, "*argmax*"},
    {CLASS_SAMPLING, FUNCTION, "*sampling*"},
    {CLASS_SAMPLING, FUNCTION, "*multinomial*"},
    {CLASS_SAMPLING, FUNCTION, "*exponential*"},
    {CLASS_SAMPLING, FUNCTION, "*penalt*"},
    {CLASS_SAMPLING, FUNCTION, "*future_token*"},
    {CLASS_SORT, FUNCTION, "*radixsort*"},
    {CLASS_SORT, FUNCTION, "*radix_sort*"},
    {CLASS_SORT, FUNCTION, "*mergesort*"},
    {CLASS_SORT, FUNCTION, "*merge_sort*"},
    {CLASS_SORT, FUNCTION, "*bitonic*"},
    {CLASS_SORT, FUNCTION, "*searchsorted*"},
    {CLASS_SORT, FUNCTION, "*sortkv*"},
    {CLASS_OPTIMIZER, FUNCTION, "*adam*"},
    {CLASS_OPTIMIZER, FUNCTION, "*sgd*"},
    {CLASS_OPTIMIZER, FUNCTION, "*adagrad*"},
    {CLASS_OPTIMIZER, FUNCTION, "*multi_tensor_apply*"},
    {CLASS_TRITON, FUNCTION, "triton_*"},
    {CLASS_EMBEDDING, FUNCTION, "*embedding*"},
    {CLASS_EMBEDDING, FUNCTION, "*pooled_emb*"},
    {CLASS_EMBEDDING, FUNCTION, "*scatter*"},
    {CLASS_EMBEDDING, FUNCTION, "*gather*"},
    {CLASS_EMBEDDING, FUNCTION, "*index*"},
    {CLASS_EMBEDDING, FUNCTION, "*indices*"},
    {CLASS_CONVOLUTION, FUNCTION, "*nchwtonhwc*"},
    {CLASS_CONVOLUTION, FUNCTION, "*nhwctonchw*"},
    {CLASS_CONVOLUTION, FUNCTION, "*conv1d*"},
    {CLASS_CONVOLUTION, FUNCTION, "*conv2d*"},
    {CLASS_CONVOLUTION, FUNCTION, "*conv3d*"},
    {CLASS_CONVOLUTION, FUNCTION, "*conv_*"},
    {CLASS_CONVOLUTION, FUNCTION, "*cudnn*"},
    {CLASS_CONVOLUTION, FUNCTION, "*miopen*"},
    {CLASS_CONVOLUTION, FUNCTION, "*subtensorop*"},
    {CLASS_CONVOLUTION, FUNCTION, "*pool*"},
    {CLASS_COPY, FUNCTION, "*copy*"},
    {CLASS_COPY, FUNCTION, "*transpose*"},
    {CLASS_COPY, FUNCTION, "*permute*"},
    {CLASS_COPY, FUNCTION, "*catarray*"},
    {CLASS_COPY, FUNCTION, "*fillbuffer*"},
    {CLASS_REDUCTION, FUNCTION, "*cumsum*"},
    {CLASS_REDUCTION, FUNCTION, "*devicescan*"},
    {CLASS_REDUCTION, FUNCTION, "*scan_*"},
    {CLASS_REDUCTION, FUNCTION, "*devicereduce*"},
    {CLASS_REDUCTION, FUNCTION, "*nll_loss*"},
    {CLASS_REDUCTION, FUNCTION, "*nllcriterion*"},
    {CLASS_REDUCTION, FUNCTION, "*cross_entropy*"},
    {CLASS_ELEMENTWISE, FUNCTION, "*dropout*"},
    {CLASS_ELEMENTWISE, FUNCTION, "*clamp*"},
    {CLASS_ELEMENTWISE, FUNCTION, "*fillfunctor*"},
    {CLASS_ELEMENTWISE, FUNCTION, "*arange*"},
    {CLASS_REDUCTION, FUNCTION, "*reduce*"},
};

/* Functions that do what their template arguments define: matched last. */
static const struct {
    enum kernel_class class;
    const char *glob;
} generic[] = {
    {CLASS_REDUCTION, "*reduce_kernel*"},
    {CLASS_ELEMENTWISE, "*elementwise*"},
};

const char *kernel_class_name(enum kernel_class class)
{
    return classes[class].name;
}

const char *kernel_class_text(enum kernel_class class)
{
    return classes[class].text;
}

static enum kernel_class kernel_class_find_known(const char *function, const char *template)
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (glob_matches(known[i].glob, known[i].part == TEMPLATE ? template : function))
            return known[i].class;
    return CLASS_OTHER;
}

static enum kernel_class find_generic(const char *function)
{
    for (size_t i = 0; i < ARRAY_SIZE(generic); i++)
        if (glob_matches(generic[i].glob, function))
            return generic[i].class;
    return CLASS_OTHER;
}

enum kernel_class kernel_class_of(const struct kernel_patterns *patterns, const char *name, size_t size)
{
    char function[KERNEL_PARTS_MAX], template[KERNEL_PARTS_MAX], complete[KERNEL_PARTS_MAX];

    if (patterns && patterns->n > 0) {
        kernel_lower(name, size, complete);
        for (size_t i = 0; i < patterns->n; i++)
            if (glob_matches(patterns->items[i].glob, complete))
                return patterns->items[i].class;
    }
    kernel_function(name, size, function);
    kernel_template(name, size, template);
    enum kernel_class general = find_generic(function),
                      class =
                          general == CLASS_OTHER ? kernel_class_find_known(function, template) : CLASS_OTHER;
    if (class == CLASS_OTHER)
        class = kernel_class_find_known(template, template);
    return class == CLASS_OTHER ? general : class;
}

/* -- What users add ----------------------------------------------------------------------------------- */

static int find_class(const char *name, size_t size)
{
    for (size_t i = 0; i < _KERNEL_CLASS_MAX; i++)
        if (strlen(classes[i].name) == size && memcmp(classes[i].name, name, size) == 0)
            return (int)i;
    return -EINVAL;
}

static int kernel_class_parse_line(const char *line, size_t size, struct kernel_patterns *ret)
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
    if (!ARRAY_RESERVE(ret->items, ret->cap, ret->n + 1))
        return -ENOMEM;
    char *glob = strndup(line + begin, size - begin);
    if (!glob)
        return -ENOMEM;
    for (char *p = glob; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    ret->items[ret->n++] = (struct kernel_pattern){(enum kernel_class) class, glob};
    return 0;
}

int kernel_patterns_parse(const char *text, struct kernel_patterns *ret, size_t *ret_line)
{
    *ret_line = 0;
    while (*text) {
        size_t size = strcspn(text, "\n");
        ++*ret_line;
        int r = kernel_class_parse_line(text, size, ret);
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
