/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels are taken for by their names, and the patterns that users add. */
#include "tests/unit/cmocka-all.h"
#include "trace/reports/kernel_class.h"
#include "trace/reports/kernel_name.h"
#include "trace/reports/report_rows.h"
#include <sys/resource.h>

#include <errno.h>

static void test_globs(void **state)
{
    static const struct {
        const char *glob, *text;
        bool matches;
    } cases[] = {
        {"", "", true},           {"", "a", false},
        {"*", "", true},          {"**", "abc", true},
        {"abc", "abc", true},     {"abc", "abcd", false},
        {"*bc", "abbc", true},    {"*bc", "abcb", false},
        {"a*", "abc", true},      {"*b*", "abc", true},
        {"*b*", "aac", false},    {"a*c*e", "abcde", true},
        {"a*c*e", "abcd", false}, {"*ab*abc", "abababc", true},
        {"?b?", "abc", true},     {"?b?", "ab", false},
        {"*?c", "abc", true},     {"*?c", "c", false},
        {"*[1]*", "a[1]b", true}, {"*\\*", "a\\b", true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (glob_matches(cases[i].glob, cases[i].text) != cases[i].matches)
            fail_msg("%s %s", cases[i].glob, cases[i].text);
}

static void test_parts_of_a_name(void **state)
{
    static const struct {
        const char *name, *function, *template;
    } cases[] = {
        {"Cijk_Alik", "cijk_alik", "cijk_alik"},
        {"void ns::f<int, (T)2>(float*, int)", "ns::f", "void ns::f<int, (t)2>"},
        {"void at::(anonymous namespace)::G<4>(int)", "at::::g", "void at::(anonymous namespace)::g<4>"},
        {"std::enable_if<(((8)>(0))), void>::type vllm::norm<8>(int)", "vllm::norm",
         "std::enable_if<(((8)>(0))), void>::type vllm::norm<8>"},
        {"f<a<b>>", "f", "f<a<b>>"},
        {"f<<<", "f", "f<<<"},
        {">)f", ">)f", ">)f"},
        {"", "", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char buf[KERNEL_PARTS_MAX];
        kernel_function(cases[i].name, strlen(cases[i].name), buf);
        assert_string_equal(buf, cases[i].function);
        kernel_template(cases[i].name, strlen(cases[i].name), buf);
        assert_string_equal(buf, cases[i].template);
    }
}

static void test_long_names_are_cut(void **state)
{
    char name[3 * KERNEL_PARTS_MAX], buf[KERNEL_PARTS_MAX];

    memset(name, 'A', sizeof(name));
    kernel_function(name, sizeof(name), buf);
    assert_int_equal(strlen(buf), KERNEL_PARTS_MAX - 1);
    memset(name, '<', sizeof(name));
    kernel_template(name, sizeof(name), buf);
    assert_int_equal(strlen(buf), KERNEL_PARTS_MAX - 1);
}

/* Symbols of real traces and what c++filt prints of them. */
static void test_symbols_are_demangled(void **state)
{
    static const struct {
        const char *symbol, *name; /* NULL: it stays */
    } cases[] = {
        {"_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16EEEvPT0_",
         "void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 256, 16>(std::bfloat16_t*)"},
        {"_ZN2ns4gemmILi4EEEvPf", "void ns::gemm<4>(float*)"},
        {"_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()"},
        {"_Zebra", NULL},
        {"_Z", NULL},
        {"", NULL},
        {"ampere_sgemm_128x32_nn", NULL},
        {"_ZN2ns4gemmILi4EEEvP", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct text symbol = {cases[i].symbol, strlen(cases[i].symbol)};
        char *name = kernel_name_demangle(symbol);
        if (!cases[i].name != !name || (name && !streq(name, cases[i].name)))
            fail_msg("%s is %s", cases[i].symbol, name ? name : "no symbol");
        free(name);
        struct report_rows rows;
        report_rows_init(&rows, 1);
        emit_text(&rows, symbol);
        emit_text(&rows, symbol);
        for (size_t row = 0; row < 2; row++)
            assert_string_equal(report_rows_at(&rows, row, 0)->text,
                                cases[i].name ? cases[i].name : cases[i].symbol);
        report_rows_done(&rows);
    }
    char *normal = kernel_name_normal((struct text){"_ZN2ns4gemmILi4EEEvPf", 21});
    assert_string_equal(normal, "ns::gemm<>");
    free(normal);
}

/* Each argument is a pair of the one before, twice: a name of 2^34 bytes. */
static void test_a_symbol_that_explodes_stays_as_it_is(void **state)
{
    static const char bomb[] =
        "_Z1f4pairI1aS0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_ES_IS6_S6_ES_IS7_S7_ES_IS8_S8_ES_"
        "IS9_S9_ES_ISA_SA_ES_ISB_SB_ES_ISC_SC_ES_ISD_SD_ES_ISE_SE_ES_ISF_SF_ES_ISG_SG_ES_ISH_SH_ES_ISI_SI_E"
        "S_ISJ_SJ_ES_ISK_SK_ES_ISL_SL_ES_ISM_SM_ES_ISN_SN_ES_ISO_SO_ES_ISP_SP_ES_ISQ_SQ_ES_ISR_SR_ES_ISS_SS_"
        "E";
    char deep[KERNEL_SYMBOL_MAX + 1];

    assert_null(kernel_name_demangle((struct text){bomb, sizeof(bomb) - 1}));
    memset(deep, 'P', sizeof(deep));
    memcpy(deep, "_Z1f", 4);
    deep[sizeof(deep) - 1] = 'i';
    assert_null(kernel_name_demangle((struct text){deep, sizeof(deep)}));
    free(kernel_name_demangle((struct text){deep + 1, sizeof(deep) - 1}));
    /* Where stacks are small, they do not overflow. */
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
    small = (struct rlimit){512 << 10, before.rlim_max};
    char pointers[KERNEL_SYMBOL_MAX + 1] = "_Z1f";
    memset(pointers + 4, 'P', sizeof(pointers) - 6);
    pointers[sizeof(pointers) - 2] = 'i';
    assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
    assert_null(kernel_name_demangle((struct text){pointers, sizeof(pointers) - 1}));
    char *name = kernel_name_demangle((struct text){"_Z1fi", 5});
    assert_string_equal(name, "f(int)");
    free(name);
    assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
}

static const char *class_of(const struct kernel_patterns *patterns, const char *name)
{
    return kernel_class_name(kernel_class_of(patterns, name, strlen(name)));
}

/* Of real traces, shortened where it does not matter. */
static void test_real_names(void **state)
{
    static const struct {
        const char *class, *name;
    } cases[] = {
        {"communication", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"},
        {"communication", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"},
        {"communication", "void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*, void*, int*)"},
        {"communication", "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(long)"},
        {"communication", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"},
        {"gemm", "volta_sgemm_128x32_nn"},
        {"gemm", "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN"},
        {"gemm", "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64_MI16x16x1_SN"},
        {"gemm", "_block_scaled_block_gemm"},
        {"gemm", "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nt_align4>(Params)"},
        {"gemm", "void deep_gemm::fp8_gemm_kernel<7168u, 16384u, true, (deep_gemm::GemmType)0>(float*)"},
        {"gemm", "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_tmaOpt_clmp_swiGlu_dynBatch_sm100f"},
        {"moe", "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, true, (deep_gemm::GemmType)2>(float*)"},
        {"moe", "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu"},
        {"moe", "grouped_topk_kernel"},
        {"moe", "_combined_routing_compute"},
        {"attention", "void flashinfer::mla::hopper::BatchMLAPageAttentionHopperKernel<K<false>>(int)"},
        {"attention", "void paged_attention_ll4mi_QKV_mfma16_kernel<0, (vllm::Fp8KVCacheDataType)0>(int)"},
        {"attention", "void pytorch_flash::flash_fwd_kernel<F<64, cutlass::bfloat16_t>, true>(P)"},
        {"attention", "kernel_unified_attention_2d"},
        {"attention", "sage_fwd"},
        {"kv_cache", "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(int)"},
        {"kv_cache", "create_flashinfer_kv_indices_triton"},
        {"norm", "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
                 "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)"},
        {"norm", "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16EEEvPT0_"},
        {"norm", "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)"},
        {"norm", "triton_red_fused__to_copy_add_addmm_div_empty_like_mean_mul_neg_pow_rsqrt_stack_31"},
        {"triton", "triton_poi_fused__to_copy_div_empty_like_zeros_20"},
        {"rope", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)"},
        {"quant", "void tensorrt_llm::kernels::quantize_with_block_size<(BlockScaleQuantizationType)2>(int)"},
        {"quant", "_per_token_group_quant_fp8"},
        {"activation", "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous "
                       "namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}>(int)"},
        {"convolution", "volta_scudnn_128x64_relu_interior_nn_v1"},
        {"convolution", "void implicit_convolve_sgemm<float, float, 1024, 6>(int)"},
        {"embedding", "void split_embedding_codegen_forward_unweighted_kernel<float, 8ul>(int)"},
        {"embedding", "void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int)"},
        {"sort", "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long>, int>(int*)"},
        {"sampling", "void (anonymous namespace)::softmax_warp_forward<float, float, 9>(float*)"},
        {"optimizer", "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(float)"},
        {"copy", "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
                 "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>>(int)"},
        {"reduction", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                      "at::native::MeanOps<float>>>(int)"},
        {"elementwise",
         "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
         "at::detail::Array<char*, 3> >(int)"},
        {"other", "sentinel"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (!streq(class_of(NULL, cases[i].name), cases[i].class))
            fail_msg("%s is %s", cases[i].name, class_of(NULL, cases[i].name));
}

static void test_users_patterns_come_first(void **state)
{
    _cleanup_(kernel_patterns_done) struct kernel_patterns patterns = {0};
    size_t line;

    assert_int_equal(
        kernel_patterns_parse("# ours\n\n  attention\t*My_SGEMM*  \r\nmoe volta_*\n", &patterns, &line), 0);
    assert_int_equal(patterns.n, 2);
    assert_string_equal(class_of(&patterns, "void x::my_sgemm_2<4>(int)"), "attention");
    assert_string_equal(class_of(&patterns, "Volta_sgemm"), "moe");
    assert_string_equal(class_of(&patterns, "sm90_sgemm"), "gemm");
}

static void test_what_is_no_pattern(void **state)
{
    static const struct {
        const char *text;
        size_t line;
    } cases[] = {
        {"gemm", 1},
        {"gemm *a*\n\nattention\n", 3},
        {"# x\nnothing *a*\n", 2},
        {"Gemm *a*", 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(kernel_patterns_done) struct kernel_patterns patterns = {0};
        size_t line = 0;
        assert_int_equal(kernel_patterns_parse(cases[i].text, &patterns, &line), -EINVAL);
        assert_int_equal(line, cases[i].line);
    }
}

static void test_too_many_patterns(void **state)
{
    _cleanup_(kernel_patterns_done) struct kernel_patterns patterns = {0};
    char *text = NULL;
    size_t size, line;
    FILE *f = open_memstream(&text, &size);

    for (int i = 0; i <= KERNEL_PATTERNS_MAX; i++)
        fprintf(f, "gemm a%d\n", i);
    fclose(f);
    assert_int_equal(kernel_patterns_parse(text, &patterns, &line), -E2BIG);
    assert_int_equal(line, KERNEL_PATTERNS_MAX + 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_parts_of_a_name),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_symbols_are_demangled),
        cmocka_unit_test(test_a_symbol_that_explodes_stays_as_it_is),
        cmocka_unit_test(test_real_names),
        cmocka_unit_test(test_users_patterns_come_first),
        cmocka_unit_test(test_what_is_no_pattern),
        cmocka_unit_test(test_too_many_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
