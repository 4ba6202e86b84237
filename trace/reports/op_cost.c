/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/op_cost.h"

#include "trace/read/json_text.h"

#define DIMS_MAX 8
#define ARGS_MAX 16

enum product {
    PRODUCT_MATRIX,     /* a[.., m, k] by b[.., k, n] */
    PRODUCT_LINEAR,     /* a[.., k] by b[n, k] */
    PRODUCT_ATTENTION,  /* q[b, h, s, d], k[b, h', t, d], v[b, h', t, e] */
    PRODUCT_CONVOLUTION /* x[n, c, ..] by w[o, c / groups, ..] */
};

/* Where an operator has its arguments; -1: it has none such. */
static const struct cost_rule {
    const char *name;
    enum product product;
    int a, b;
    int is_causal;                                        /* of attention */
    int stride, padding, dilation, groups, is_transposed; /* of convolutions */
} rules[] = {
    {"aten::mm", PRODUCT_MATRIX, 0, 1, -1, -1, -1, -1, -1, -1},
    {"aten::addmm", PRODUCT_MATRIX, 1, 2, -1, -1, -1, -1, -1, -1},
    {"aten::addmm_", PRODUCT_MATRIX, 1, 2, -1, -1, -1, -1, -1, -1},
    {"aten::_addmm_activation", PRODUCT_MATRIX, 1, 2, -1, -1, -1, -1, -1, -1},
    {"aten::bmm", PRODUCT_MATRIX, 0, 1, -1, -1, -1, -1, -1, -1},
    {"aten::baddbmm", PRODUCT_MATRIX, 1, 2, -1, -1, -1, -1, -1, -1},
    {"aten::_scaled_mm", PRODUCT_MATRIX, 0, 1, -1, -1, -1, -1, -1, -1},
    {"aten::_int_mm", PRODUCT_MATRIX, 0, 1, -1, -1, -1, -1, -1, -1},
    {"_C::cutlass_scaled_mm", PRODUCT_MATRIX, 1, 2, -1, -1, -1, -1, -1, -1},
    {"aten::linear", PRODUCT_LINEAR, 0, 1, -1, -1, -1, -1, -1, -1},
    {"vllm::rocm_unquantized_gemm", PRODUCT_LINEAR, 0, 1, -1, -1, -1, -1, -1, -1},
    {"aten::scaled_dot_product_attention", PRODUCT_ATTENTION, 0, 1, 5, -1, -1, -1, -1, -1},
    {"aten::_scaled_dot_product_flash_attention", PRODUCT_ATTENTION, 0, 1, 4, -1, -1, -1, -1, -1},
    {"aten::_scaled_dot_product_efficient_attention", PRODUCT_ATTENTION, 0, 1, 6, -1, -1, -1, -1, -1},
    {"aten::_scaled_dot_product_cudnn_attention", PRODUCT_ATTENTION, 0, 1, 6, -1, -1, -1, -1, -1},
    {"aten::conv1d", PRODUCT_CONVOLUTION, 0, 1, -1, 3, 4, 5, 6, -1},
    {"aten::conv2d", PRODUCT_CONVOLUTION, 0, 1, -1, 3, 4, 5, 6, -1},
    {"aten::conv3d", PRODUCT_CONVOLUTION, 0, 1, -1, 3, 4, 5, 6, -1},
    {"aten::convolution", PRODUCT_CONVOLUTION, 0, 1, -1, 3, 4, 5, 8, 6},
    {"aten::_convolution", PRODUCT_CONVOLUTION, 0, 1, -1, 3, 4, 5, 8, 6},
};

static const struct cost_rule *find_rule(struct text name)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (text_is(name, rules[i].name))
            return &rules[i];
    return NULL;
}

bool op_cost_is_known(struct text name)
{
    return find_rule(name) != NULL;
}

/* -- What the trace writes of arguments --------------------------------------------------------------- */

struct shape {
    size_t n;
    int64_t dims[DIMS_MAX];
};

static struct slice op_cost_slice_of(struct text text)
{
    return (struct slice){text.p, text.p ? text.p + text.size : NULL};
}

/* The n-th element of a list; empty where there is none. */
static struct slice op_cost_element(struct slice list, int n)
{
    struct slice rest = json_inside(list), key, value;

    for (int i = 0; i <= n && i < ARGS_MAX && json_next(&rest, &key, &value); i++)
        if (i == n)
            return value;
    return (struct slice){0};
}

/* Of a list of numbers that are not below 0. */
static bool read_shape(struct slice list, struct shape *ret)
{
    struct slice rest = json_inside(list), key, value;

    *ret = (struct shape){0};
    while (json_next(&rest, &key, &value))
        if (ret->n == DIMS_MAX || !slice_int(value, &ret->dims[ret->n]) || ret->dims[ret->n++] < 0)
            return false;
    return ret->n > 0;
}

/* Values are quoted as Python writes them: "[1, 1]", "True", "0.125". */
static struct slice concrete_value(struct slice concrete, int n)
{
    static const struct slice none;

    return n < 0 ? none : slice_unquoted(op_cost_element(concrete, n));
}

static bool is_true(struct slice concrete, int n)
{
    struct slice value = concrete_value(concrete, n);
    return value.p && slice_is(value, "True");
}

static const struct {
    const char *name;
    enum precision precision;
    int bytes;
} types_known[] = {
    {"c10::BFloat16", PRECISION_BF16, 2},
    {"c10::Half", PRECISION_FP16, 2},
    {"float", PRECISION_FP32, 4},
    {"double", PRECISION_FP64, 8},
    {"c10::Float8_e4m3fn", PRECISION_FP8, 1},
    {"c10::Float8_e4m3fnuz", PRECISION_FP8, 1},
    {"c10::Float8_e5m2", PRECISION_FP8, 1},
    {"c10::Float8_e5m2fnuz", PRECISION_FP8, 1},
    {"signed char", PRECISION_INT8, 1},
};

static enum precision op_cost_read_type(struct slice types, int n, int *ret_bytes)
{
    struct slice type = slice_unquoted(op_cost_element(types, n));

    *ret_bytes = 0;
    for (size_t i = 0; type.p && i < ARRAY_SIZE(types_known); i++)
        if (slice_is(type, types_known[i].name)) {
            *ret_bytes = types_known[i].bytes;
            return types_known[i].precision;
        }
    return _PRECISION_MAX;
}

/* -- Arithmetic ---------------------------------------------------------------------------------------- */

/* Multiplies into *product; false where it does not fit. */
static bool op_cost_times(int64_t *product, int64_t factor)
{
    return !__builtin_mul_overflow(*product, factor, product);
}

static bool times_all(int64_t *product, const int64_t *factors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!op_cost_times(product, factors[i]))
            return false;
    return true;
}

struct operands {
    const struct cost_rule *rule;
    struct slice dims, concrete;
    struct shape a, b;
    int64_t multiplications; /* results */
    int64_t out;             /* elements */
};

static bool multiply_matrices(struct operands *o)
{
    const struct shape *a = &o->a, *b = &o->b;

    if (a->n < 2 || b->n < 2 || a->dims[a->n - 1] != b->dims[b->n - 2])
        return false;
    o->out = b->dims[b->n - 1];
    if (!times_all(&o->out, a->dims, a->n - 1))
        return false;
    o->multiplications = o->out;
    return op_cost_times(&o->multiplications, a->dims[a->n - 1]);
}

static bool multiply_linear(struct operands *o)
{
    const struct shape *a = &o->a, *b = &o->b;

    if (b->n != 2 || a->dims[a->n - 1] != b->dims[1])
        return false;
    o->out = b->dims[0];
    if (!times_all(&o->out, a->dims, a->n - 1))
        return false;
    o->multiplications = o->out;
    return op_cost_times(&o->multiplications, b->dims[1]);
}

/* With causal attention, half of the pairs are looked at. */
static bool multiply_attention(struct operands *o)
{
    const struct shape *q = &o->a, *k = &o->b;
    struct shape v;

    if (!read_shape(op_cost_element(o->dims, o->rule->b + 1), &v) || q->n != 4 || k->n != 4 || v.n != 4 ||
        q->dims[3] != k->dims[3] || k->dims[2] != v.dims[2])
        return false;
    int64_t pairs = k->dims[2], width = q->dims[3];
    if (__builtin_add_overflow(width, v.dims[3], &width) || !times_all(&pairs, q->dims, 3))
        return false;
    o->multiplications = is_true(o->concrete, o->rule->is_causal) ? pairs / 2 : pairs;
    o->out = v.dims[3];
    return op_cost_times(&o->multiplications, width) && times_all(&o->out, q->dims, 3);
}

/* Strides and their like may be one number for all dimensions. */
static bool read_setting(const struct operands *o, int n, size_t dimensions, struct shape *ret)
{
    struct slice value = concrete_value(o->concrete, n);

    if (!value.p || !read_shape(value, ret) || (ret->n != dimensions && ret->n != 1))
        return false;
    for (size_t i = ret->n; i < dimensions; i++)
        ret->dims[i] = ret->dims[0];
    return true;
}

static bool multiply_convolution(struct operands *o)
{
    const struct shape *x = &o->a, *w = &o->b;
    size_t dimensions = x->n - 2;
    struct shape stride, padding, dilation;

    if (x->n < 3 || x->n != w->n || is_true(o->concrete, o->rule->is_transposed) ||
        !read_setting(o, o->rule->stride, dimensions, &stride) ||
        !read_setting(o, o->rule->padding, dimensions, &padding) ||
        !read_setting(o, o->rule->dilation, dimensions, &dilation))
        return false;
    o->out = x->dims[0];
    if (!op_cost_times(&o->out, w->dims[0]))
        return false;
    for (size_t i = 0; i < dimensions; i++) {
        int64_t reach = dilation.dims[i], padded = 2, length;
        if (stride.dims[i] == 0 || !op_cost_times(&reach, w->dims[i + 2] - 1) ||
            !op_cost_times(&padded, padding.dims[i]) ||
            __builtin_add_overflow(padded, x->dims[i + 2], &length) ||
            __builtin_sub_overflow(length, reach, &length) || length < 1 ||
            !op_cost_times(&o->out, (length - 1) / stride.dims[i] + 1))
            return false;
    }
    o->multiplications = o->out;
    return times_all(&o->multiplications, w->dims + 1, w->n - 1);
}

static bool (*const products[])(struct operands *o) = {
    [PRODUCT_MATRIX] = multiply_matrices,
    [PRODUCT_LINEAR] = multiply_linear,
    [PRODUCT_ATTENTION] = multiply_attention,
    [PRODUCT_CONVOLUTION] = multiply_convolution,
};

/* Narrow inputs have results that are wider. */
#define NARROW_OUT_BYTES 2

static int64_t count_bytes(const struct operands *o, struct slice types)
{
    int a_bytes, b_bytes;
    struct shape v = {0};
    int64_t a = 1, b = 1, c = 0, out = o->out, sum;

    op_cost_read_type(types, o->rule->a, &a_bytes);
    op_cost_read_type(types, o->rule->b, &b_bytes);
    if (o->rule->product == PRODUCT_ATTENTION && read_shape(op_cost_element(o->dims, o->rule->b + 1), &v))
        c = b_bytes;
    if (a_bytes == 0 || b_bytes == 0 || !times_all(&a, o->a.dims, o->a.n) || !op_cost_times(&a, a_bytes) ||
        !times_all(&b, o->b.dims, o->b.n) || !op_cost_times(&b, b_bytes) || !times_all(&c, v.dims, v.n) ||
        !op_cost_times(&out, MAX(a_bytes, NARROW_OUT_BYTES)) || __builtin_add_overflow(a, b, &sum) ||
        __builtin_add_overflow(sum, c, &sum) || __builtin_add_overflow(sum, out, &sum))
        return COLUMN_NULL;
    return sum;
}

bool op_cost_of(struct text name, struct text dims, struct text types, struct text concrete,
                struct op_cost *ret)
{
    struct operands o = {
        .rule = find_rule(name), .dims = op_cost_slice_of(dims), .concrete = op_cost_slice_of(concrete)};
    int bytes;

    if (!o.rule || dims.size == 0 || !read_shape(op_cost_element(o.dims, o.rule->a), &o.a) ||
        !read_shape(op_cost_element(o.dims, o.rule->b), &o.b) || !products[o.rule->product](&o) ||
        !op_cost_times(&o.multiplications, 2))
        return false;
    ret->flops = o.multiplications;
    ret->bytes = count_bytes(&o, op_cost_slice_of(types));
    ret->precision = op_cost_read_type(op_cost_slice_of(types), o.rule->a, &bytes);
    return true;
}

const char *precision_name(enum precision precision)
{
    static const char *const names[_PRECISION_MAX] = {
        [PRECISION_FP64] = "fp64", [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32",
        [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16", [PRECISION_FP8] = "fp8",
        [PRECISION_INT8] = "int8",
    };
    return precision < _PRECISION_MAX ? names[precision] : NULL;
}
