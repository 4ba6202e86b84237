/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/collective.h"

#include "trace/reports/kernel_name.h"
#include <ctype.h>
#include <math.h>

/* Kernels' names are templates: the operation is within the first NAME_LOOK_MAX bytes. */
#define NAME_LOOK_MAX 512

enum size_rule { SIZE_UNKNOWN, SIZE_IN, SIZE_OUT, SIZE_IN_OF_ALL, SIZE_OUT_OF_ALL };
enum bus_rule { BUS_UNKNOWN, BUS_SAME, BUS_OTHERS, BUS_TWICE_OTHERS };

static const struct {
    const char *name;
    enum size_rule size;
    enum bus_rule bus;
} kinds[_COLLECTIVE_KIND_MAX] = {
    [COLLECTIVE_OTHER] = {"other", SIZE_UNKNOWN, BUS_UNKNOWN},
    [COLLECTIVE_ALL_REDUCE] = {"all_reduce", SIZE_IN, BUS_TWICE_OTHERS},
    [COLLECTIVE_ALL_GATHER] = {"all_gather", SIZE_OUT, BUS_OTHERS},
    [COLLECTIVE_REDUCE_SCATTER] = {"reduce_scatter", SIZE_IN, BUS_OTHERS},
    [COLLECTIVE_ALL_TO_ALL] = {"all_to_all", SIZE_IN, BUS_OTHERS},
    [COLLECTIVE_BROADCAST] = {"broadcast", SIZE_IN, BUS_SAME},
    [COLLECTIVE_REDUCE] = {"reduce", SIZE_IN, BUS_SAME},
    [COLLECTIVE_GATHER] = {"gather", SIZE_IN_OF_ALL, BUS_OTHERS},
    [COLLECTIVE_SCATTER] = {"scatter", SIZE_OUT_OF_ALL, BUS_OTHERS},
    [COLLECTIVE_SEND] = {"send", SIZE_IN, BUS_SAME},
    [COLLECTIVE_RECV] = {"recv", SIZE_OUT, BUS_SAME},
    [COLLECTIVE_SEND_RECV] = {"send_recv", SIZE_IN, BUS_SAME},
    [COLLECTIVE_BARRIER] = {"barrier", SIZE_UNKNOWN, BUS_UNKNOWN},
    [COLLECTIVE_DISPATCH] = {"dispatch", SIZE_UNKNOWN, BUS_UNKNOWN},
    [COLLECTIVE_COMBINE] = {"combine", SIZE_UNKNOWN, BUS_UNKNOWN},
};

/* Of names in lower case and without underscores; the first that matches counts. */
static const struct {
    const char *glob;
    enum collective_kind kind;
} names[] = {
    {"*reducescatter*", COLLECTIVE_REDUCE_SCATTER},
    {"*allreduce*", COLLECTIVE_ALL_REDUCE},
    {"*crossdevicereduce*", COLLECTIVE_ALL_REDUCE}, /* vLLM and SGLang */
    {"*oneshot*reduce*", COLLECTIVE_ALL_REDUCE},
    {"*twoshot*reduce*", COLLECTIVE_ALL_REDUCE},
    {"*quickreduce*", COLLECTIVE_ALL_REDUCE},
    {"*allgather*", COLLECTIVE_ALL_GATHER},
    {"*alltoall*", COLLECTIVE_ALL_TO_ALL},
    {"*all2all*", COLLECTIVE_ALL_TO_ALL},
    {"*broadcast*", COLLECTIVE_BROADCAST},
    {"*deepep*dispatch*", COLLECTIVE_DISPATCH},
    {"*deepep*combine*", COLLECTIVE_COMBINE},
    {"*sendrecv*", COLLECTIVE_SEND_RECV},
    {"*barrier*", COLLECTIVE_BARRIER},
    {"*gather*", COLLECTIVE_GATHER},
    {"*scatter*", COLLECTIVE_SCATTER},
    {"*send*", COLLECTIVE_SEND},
    {"*recv*", COLLECTIVE_RECV},
    {"*reduce*", COLLECTIVE_REDUCE},
};

/* c10::ScalarType */
static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    {"Byte", 1},
    {"Char", 1},
    {"Bool", 1},
    {"Short", 2},
    {"Int", 4},
    {"Long", 8},
    {"Half", 2},
    {"BFloat16", 2},
    {"Float", 4},
    {"Double", 8},
    {"ComplexHalf", 4},
    {"ComplexFloat", 8},
    {"ComplexDouble", 16},
    {"UInt16", 2},
    {"UInt32", 4},
    {"UInt64", 8},
    {"Float8_e5m2", 1},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2fnuz", 1},
    {"Float8_e4m3fnuz", 1},
    {"Float8_e8m0fnu", 1},
};

const char *collective_kind_name(enum collective_kind kind)
{
    return kinds[kind].name;
}

uint64_t collective_row(const struct columns *c, uint64_t slice)
{
    uint64_t row = columns_lower_bound(c, COL_collective_slice, (int64_t)slice);

    return columns_get(c, COL_collective_slice, row) == (int64_t)slice ? row : UINT64_MAX;
}

enum collective_kind collective_kind_of(struct text name)
{
    char plain[NAME_LOOK_MAX];
    size_t n = 0;

    for (size_t i = 0; i < name.size && n < sizeof(plain) - 1; i++)
        if (name.p[i] != '_')
            plain[n++] = (char)tolower((unsigned char)name.p[i]);
    plain[n] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (glob_matches(names[i].glob, plain))
            return names[i].kind;
    return COLLECTIVE_OTHER;
}

int64_t dtype_bytes(struct text dtype)
{
    for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++)
        if (text_is(dtype, dtypes[i].name))
            return dtypes[i].bytes;
    return COLUMN_NULL;
}

static int64_t collective_product(int64_t a, int64_t b)
{
    int64_t ret;

    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &ret) ? COLUMN_NULL : ret;
}

int64_t collective_bytes(enum collective_kind kind, int64_t in_elements, int64_t out_elements,
                         int64_t element_bytes, int64_t group_size)
{
    switch (kinds[kind].size) {
    case SIZE_IN:
        return collective_product(in_elements, element_bytes);
    case SIZE_OUT:
        return collective_product(out_elements, element_bytes);
    case SIZE_IN_OF_ALL:
        return collective_product(collective_product(in_elements, element_bytes), group_size);
    case SIZE_OUT_OF_ALL:
        return collective_product(collective_product(out_elements, element_bytes), group_size);
    default:
        return COLUMN_NULL;
    }
}

double collective_bus_factor(enum collective_kind kind, int64_t group_size)
{
    double n = (double)group_size;

    switch (kinds[kind].bus) {
    case BUS_SAME:
        return 1;
    case BUS_OTHERS:
        return group_size > 0 ? (n - 1) / n : NAN;
    case BUS_TWICE_OTHERS:
        return group_size > 0 ? 2 * (n - 1) / n : NAN;
    default:
        return NAN;
    }
}
