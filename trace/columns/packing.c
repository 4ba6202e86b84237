/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/packing.h"

#include "base/util.h"
#include "trace/columns/block_bounds.h"

#define DICTIONARY_SLOTS   1024
#define DICTIONARY_ENTRIES 128

/* The lanes of codes up to 32 bits, and of wider ones. */
typedef uint32_t lanes32 __attribute__((vector_size(PACKING_LANES_BYTES), aligned(4), may_alias));
typedef uint64_t lanes64 __attribute__((vector_size(PACKING_LANES_BYTES), aligned(4), may_alias));

static unsigned bits_of(uint64_t number)
{
    return number == 0 ? 0 : 64 - (unsigned)__builtin_clzll(number);
}

bool packing_max(struct packing p, int64_t *ret_max)
{
    int64_t above;

    return !__builtin_mul_overflow(packing_code_max(p) - p.nulls, p.thousands ? PACKING_THOUSAND : 1,
                                   &above) &&
           !__builtin_add_overflow(p.base, above, ret_max);
}

/* -- Unpacking ------------------------------------------------------------------------------------------ */

/* n codes of at most PACKING_SHORT_BITS bits from a row on that begins the lanes, and what fills the last ones. */
INLINE void packing_unpack_short(const uint8_t *in, unsigned width, size_t first, size_t n,
                                 uint32_t *restrict ret)
{
    uint32_t mask = width == 0 ? 0 : UINT32_MAX >> (PACKING_SHORT_BITS - width);
    size_t bit = first / PACKING_LANES * width;

    for (size_t i = 0; i < n; i += PACKING_LANES, bit += width) {
        const lanes32 *words = (const lanes32 *)(in + bit / 32 * PACKING_LANES_BYTES);
        unsigned shift = bit % 32;

        *(lanes32 *)(ret + i) = (words[0] >> shift | words[1] << 1 << (31 - shift)) & mask;
    }
}

INLINE void packing_unpack_long(const uint8_t *in, unsigned width, size_t first, size_t n,
                                uint64_t *restrict ret)
{
    uint64_t mask = UINT64_MAX >> (64 - width);
    size_t bit = first / (PACKING_LANES / 2) * width;

    for (size_t i = 0; i < n; i += PACKING_LANES / 2, bit += width) {
        const lanes64 *words = (const lanes64 *)(in + bit / 64 * PACKING_LANES_BYTES);

        *(lanes64 *)(ret + i) = (words[0] >> bit % 64 | words[1] << 1 << (63 - bit % 64)) & mask;
    }
}

/* The code of the first row of PACKING_ANCHOR_ROWS. */
INLINE uint32_t packing_anchor(const uint8_t *in, size_t first)
{
    return first == 0 ? 0 : ((const u32_of_file *)in)[first / PACKING_ANCHOR_ROWS];
}

/* The sums of lanes 0 to 0, 0 to 1, ... */
INLINE void packing_sum_lanes(lanes32 *v)
{
    const lanes32 none = {0};

    *v += __builtin_shufflevector(*v, none, 8, 0, 1, 2, 3, 4, 5, 6);
    *v += __builtin_shufflevector(*v, none, 8, 8, 0, 1, 2, 3, 4, 5);
    *v += __builtin_shufflevector(*v, none, 8, 8, 8, 8, 0, 1, 2, 3);
}

/* Of at most PACKING_ANCHOR_ROWS rows. Codes of an untrusted file stay within the range, which the zone map is made of. */
INLINE void packing_add_part(struct packing p, const uint8_t *in, size_t first, size_t n, uint32_t *codes)
{
    uint32_t step = *(const u32_of_file *)in, mask = (uint32_t)packing_code_max(p);
    /* The first code is the anchor, whatever its step is. */
    lanes32 before = packing_anchor(in, first) - step - codes[0] + (lanes32){0};

    for (size_t i = 0; i < n; i += PACKING_LANES) {
        lanes32 v = *(lanes32 *)(codes + i) + step;

        packing_sum_lanes(&v);
        v += before;
        *(lanes32 *)(codes + i) = v & mask;
        before = __builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7);
    }
}

INLINE void packing_add_steps(struct packing p, const uint8_t *in, size_t n, uint32_t *codes)
{
    for (size_t first = 0; first < n; first += PACKING_ANCHOR_ROWS)
        packing_add_part(p, in, first, MIN(n - first, (size_t)PACKING_ANCHOR_ROWS), codes + first);
}

INLINE void packing_look_up(struct packing p, const uint8_t *in, size_t n, uint32_t *codes)
{
    uint32_t entries[PACKING_DICTIONARY_MAX + 1], mask = (uint32_t)packing_code_max(p);

    for (unsigned i = 0; i < p.form; i++)
        entries[i] = (p.range <= 16 ? ((const u16_of_file *)in)[i] : ((const u32_of_file *)in)[i]) & mask;
    /* Numbers of an untrusted file may be larger. */
    for (unsigned i = p.form; i < 1U << p.width; i++)
        entries[i] = entries[p.form - 1];
    for (size_t i = 0; i < n; i++)
        codes[i] = entries[codes[i]];
}

/* Differences from the base, counted in the unit. */
INLINE void packing_unpack_differences(struct packing p, const uint8_t *in, size_t n, uint32_t *codes)
{
    packing_unpack_short(in + packing_head_size(p), p.width, 0, n, codes);
    if (p.form == PACKING_STEPS)
        packing_add_steps(p, in, n, codes);
    else if (p.form != PACKING_PLAIN)
        packing_look_up(p, in, n, codes);
}

INLINE void packing_to_values(struct packing p, bool nulls, uint64_t unit, const uint32_t *restrict codes,
                              size_t n, int64_t *restrict ret)
{
    uint64_t shift = (uint64_t)p.base - nulls * unit;

    for (size_t i = 0; i < n; i++)
        ret[i] = nulls && codes[i] == 0 ? COLUMN_NULL : (int64_t)(shift + codes[i] * unit);
}

INLINE void packing_codes_to_values(struct packing p, const uint32_t *restrict codes, size_t n,
                                    int64_t *restrict ret)
{
    if (p.nulls)
        packing_to_values(p, true, p.thousands ? PACKING_THOUSAND : 1, codes, n, ret);
    else if (p.thousands)
        packing_to_values(p, false, PACKING_THOUSAND, codes, n, ret);
    else
        packing_to_values(p, false, 1, codes, n, ret);
}

INLINE void packing_wide_to_values(struct packing p, const uint64_t *restrict wide, size_t n,
                                   int64_t *restrict ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = p.nulls && wide[i] == 0 ? COLUMN_NULL : (int64_t)((uint64_t)p.base + wide[i] - p.nulls);
}

INLINE void packing_unpack_any(struct packing p, const uint8_t *in, size_t n, int64_t *ret)
{
    uint32_t codes[BLOCK_ROWS];
    uint64_t wide[BLOCK_ROWS];

    if (p.range > PACKING_SHORT_BITS) {
        packing_unpack_long(in, p.width, 0, n, wide);
        packing_wide_to_values(p, wide, n, ret);
        return;
    }
    packing_unpack_differences(p, in, n, codes);
    packing_codes_to_values(p, codes, n, ret);
}

/* A dictionary's entries are looked up one by one: there may be more of them than values. */
INLINE void packing_unpack_part_any(struct packing p, const uint8_t *in, size_t first, size_t n, int64_t *ret)
{
    uint32_t codes[PACKING_ANCHOR_ROWS];
    uint64_t wide[PACKING_ANCHOR_ROWS];

    if (p.range > PACKING_SHORT_BITS) {
        packing_unpack_long(in, p.width, first, n, wide);
        packing_wide_to_values(p, wide, n, ret);
        return;
    }
    packing_unpack_short(in + packing_head_size(p), p.width, first, n, codes);
    if (p.form == PACKING_STEPS)
        packing_add_part(p, in, first, n, codes);
    else if (p.form != PACKING_PLAIN)
        for (size_t i = 0; i < n; i++)
            codes[i] = (uint32_t)packing_entry(p, in, codes[i]);
    packing_codes_to_values(p, codes, n, ret);
}

FOR_EACH_PROCESSOR
void packing_unpack_part(struct packing p, const uint8_t *in, size_t first, size_t n, int64_t *ret)
{
    if (n == PACKING_ANCHOR_ROWS)
        packing_unpack_part_any(p, in, first, PACKING_ANCHOR_ROWS, ret);
    else
        packing_unpack_part_any(p, in, first, n, ret);
}

FOR_EACH_PROCESSOR
void packing_unpack(struct packing p, const uint8_t *in, size_t n, int64_t *ret)
{
    /* A constant number of rows is what a compiler makes vectors of. */
    if (n == BLOCK_ROWS)
        packing_unpack_any(p, in, BLOCK_ROWS, ret);
    else
        packing_unpack_any(p, in, n, ret);
}

INLINE void packing_unpack_codes_any(struct packing p, const uint8_t *in, size_t n, uint32_t limit,
                                     uint32_t *ret)
{
    int64_t max, values[BLOCK_ROWS];
    uint32_t shift = (uint32_t)((uint64_t)p.base - p.nulls);

    if (p.range <= PACKING_SHORT_BITS && !p.thousands && p.base >= 0 && packing_max(p, &max) && max < limit) {
        packing_unpack_differences(p, in, n, ret);
        for (size_t i = 0; i < n; i++)
            ret[i] = p.nulls && ret[i] == 0 ? UINT32_MAX : ret[i] + shift;
        return;
    }
    packing_unpack_any(p, in, n, values);
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint64_t)values[i] < limit ? (uint32_t)values[i] : UINT32_MAX;
}

FOR_EACH_PROCESSOR
void packing_unpack_codes(struct packing p, const uint8_t *in, size_t n, uint32_t limit, uint32_t *ret)
{
    if (n == BLOCK_ROWS)
        packing_unpack_codes_any(p, in, BLOCK_ROWS, limit, ret);
    else
        packing_unpack_codes_any(p, in, n, limit, ret);
}

FOR_EACH_PROCESSOR
uint32_t packing_sum_steps(struct packing p, const uint8_t *in, size_t i)
{
    size_t first = i / PACKING_ANCHOR_ROWS * PACKING_ANCHOR_ROWS;
    uint32_t n = (uint32_t)(i - first), sum = packing_anchor(in, first) + n * *(const u32_of_file *)in,
             codes[PACKING_LANES];
    lanes32 sums = {0}, at = {0, 1, 2, 3, 4, 5, 6, 7};

    /* The steps of rows 1 to n. */
    at -= 1;
    for (size_t row = first; row <= i; row += PACKING_LANES, at += PACKING_LANES) {
        packing_unpack_short(in + packing_head_size(p), p.width, row, PACKING_LANES, codes);
        sums += *(const lanes32 *)codes & (lanes32)(at < n);
    }
    for (unsigned lane = 0; lane < PACKING_LANES; lane++)
        sum += sums[lane];
    return sum;
}

/* -- Packing -------------------------------------------------------------------------------------------- */

/* A block on its way to its packed form. */
struct packing_draft {
    struct packing p;
    uint32_t codes[BLOCK_ROWS];
    uint32_t entries[DICTIONARY_ENTRIES];
};

INLINE void packing_take_codes(struct packing_draft *d, const int64_t *restrict values, size_t n)
{
    uint64_t shift = (uint64_t)d->p.base - d->p.nulls;

    for (size_t i = 0; i < n; i++)
        d->codes[i] = d->p.nulls && values[i] == COLUMN_NULL ? 0 : (uint32_t)((uint64_t)values[i] - shift);
}

/* Counts in thousands if all codes are multiples of them. */
INLINE void packing_take_thousands(struct packing_draft *d, size_t n)
{
    uint32_t counted[BLOCK_ROWS], rest = 0, all = 0;

    /* Most blocks of nanoseconds are found out by the first values. */
    for (size_t i = 0; i < MIN(n, (size_t)PACKING_LANES); i++)
        rest |= d->codes[i] % PACKING_THOUSAND;
    if (rest != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        counted[i] = d->codes[i] / PACKING_THOUSAND;
        rest |= d->codes[i] - counted[i] * PACKING_THOUSAND;
        all |= counted[i];
    }
    if (rest != 0)
        return;
    memcpy(d->codes, counted, n * sizeof(counted[0]));
    d->p.range = d->p.width = (uint8_t)bits_of(all);
    d->p.thousands = true;
}

/* Takes the steps in place of the codes where they are narrower. Returns false otherwise. */
INLINE bool packing_take_steps(struct packing_draft *d, size_t n, uint32_t *head)
{
    uint32_t min = UINT32_MAX, max = 0, steps[BLOCK_ROWS];
    uint32_t falls = d->codes[0];
    struct packing p = d->p;

    /* Most columns without an order are found out by the first values. */
    for (size_t i = 1; i < MIN(n, (size_t)PACKING_LANES); i++)
        falls |= d->codes[i] < d->codes[i - 1];
    if (falls)
        return false;
    steps[0] = 0;
    for (size_t i = 1; i < n; i++) {
        steps[i] = d->codes[i] - d->codes[i - 1];
        falls |= d->codes[i] < d->codes[i - 1];
        min = steps[i] < min ? steps[i] : min;
        max = steps[i] > max ? steps[i] : max;
    }
    if (falls)
        return false;
    p.form = PACKING_STEPS;
    p.width = (uint8_t)bits_of(max - min);
    if (packing_size(p, n) >= packing_size(d->p, n))
        return false;
    head[0] = min;
    for (size_t i = 1; i < PACKING_STEPS_HEAD; i++)
        head[i] = i * PACKING_ANCHOR_ROWS < n ? d->codes[i * PACKING_ANCHOR_ROWS] : 0;
    for (size_t i = 1; i < n; i++)
        d->codes[i] = i % PACKING_ANCHOR_ROWS == 0 ? 0 : steps[i] - min;
    d->p = p;
    return true;
}

/* Numbers the different codes. Returns how many there are, or 0 if these are more than a limit. */
INLINE unsigned packing_number_codes(const uint32_t *codes, size_t n, unsigned limit, uint32_t *entries,
                                     uint8_t *numbers)
{
    uint8_t slots[DICTIONARY_SLOTS] = {0};
    unsigned n_entries = 0, slot;

    for (size_t i = 0; i < n; i++) {
        for (slot = codes[i] * UINT32_C(2654435769) >> 22;
             slots[slot] && entries[slots[slot] - 1] != codes[i];)
            slot = (slot + 1) % DICTIONARY_SLOTS;
        if (!slots[slot]) {
            if (n_entries == limit)
                return 0;
            entries[n_entries++] = codes[i];
            slots[slot] = (uint8_t)n_entries;
        }
        numbers[i] = slots[slot] - 1;
    }
    return n_entries;
}

/* Takes the numbers of a dictionary in place of the codes where that is shorter. */
INLINE bool packing_take_dictionary(struct packing_draft *d, size_t n)
{
    struct packing p = d->p;
    unsigned limit = DICTIONARY_ENTRIES, n_entries;
    uint8_t numbers[BLOCK_ROWS];

    for (; limit > 1; limit /= 2) {
        p.form = (uint8_t)limit;
        p.width = (uint8_t)bits_of(limit - 1);
        if (packing_size(p, n) < packing_size(d->p, n))
            break;
    }
    n_entries = limit > 1 ? packing_number_codes(d->codes, n, limit, d->entries, numbers) : 0;
    if (n_entries < PACKING_DICTIONARY_MIN)
        return false;
    p.form = (uint8_t)n_entries;
    p.width = (uint8_t)bits_of(n_entries - 1);
    for (size_t i = 0; i < n; i++)
        d->codes[i] = numbers[i];
    d->p = p;
    return true;
}

static uint8_t *packing_put_entries(struct packing p, const uint32_t *entries, uint8_t *out)
{
    memset(out, 0, packing_head_size(p));
    for (unsigned i = 0; i < p.form; i++) {
        if (p.range <= 16)
            ((u16_of_file *)out)[i] = (uint16_t)entries[i];
        else
            ((u32_of_file *)out)[i] = entries[i];
    }
    return out + packing_head_size(p);
}

INLINE void packing_put_short(uint32_t *codes, unsigned width, size_t n, uint8_t *out)
{
    lanes32 word = {0}, *to = (lanes32 *)out;
    unsigned bit = 0;

    for (size_t i = n; i % PACKING_LANES != 0; i++)
        codes[i] = 0;
    for (size_t i = 0; width > 0 && i < n; i += PACKING_LANES) {
        lanes32 code = *(const lanes32 *)(codes + i);

        word |= code << bit;
        bit += width;
        if (bit < 32)
            continue;
        *to++ = word;
        bit -= 32;
        word = bit > 0 ? code >> (width - bit) : (lanes32){0};
    }
    if (bit > 0)
        *to = word;
}

INLINE void packing_put_long(struct packing p, const int64_t *values, size_t n, uint8_t *out)
{
    u64_of_file *to = memset(out, 0, packing_codes_size(p.width, n) + PACKING_LANES_BYTES);
    const size_t lanes = PACKING_LANES_BYTES / 8;

    for (size_t i = 0; i < n; i++) {
        uint64_t code =
            p.nulls && values[i] == COLUMN_NULL ? 0 : (uint64_t)values[i] - (uint64_t)p.base + p.nulls;
        size_t bit = i / lanes * p.width, word = bit / 64 * lanes + i % lanes;

        to[word] |= code << bit % 64;
        to[word + lanes] |= code >> 1 >> (63 - bit % 64);
    }
}

INLINE size_t packing_pack_any(const int64_t *values, size_t n, struct packing_hints hints,
                               struct packing *ret, uint8_t *out)
{
    int64_t min = block_min(values, n), max = block_max(values, n);
    struct packing_draft d = {.p = {.base = min, .nulls = min == COLUMN_NULL}};
    uint32_t head[PACKING_STEPS_HEAD];
    uint8_t *to = out;
    uint64_t most;

    if (d.p.nulls)
        d.p.base = block_min_known(values, n);
    /* Fits with nulls as well: a value that is not COLUMN_NULL is at least INT64_MIN + 1. */
    most = max == COLUMN_NULL ? 0 : (uint64_t)max - (uint64_t)d.p.base + d.p.nulls;
    d.p.range = d.p.width = (uint8_t)bits_of(most);
    if (d.p.range > PACKING_SHORT_BITS) {
        packing_put_long(d.p, values, n, out);
        *ret = d.p;
        return packing_size(d.p, n);
    }
    packing_take_codes(&d, values, n);
    if (hints.thousands && d.p.range > 0 && !d.p.nulls)
        packing_take_thousands(&d, n);
    if (hints.steps && d.p.width > 0 && !d.p.nulls && packing_take_steps(&d, n, head)) {
        memcpy(out, head, sizeof(head));
        to += sizeof(head);
    } else if (hints.dictionary && packing_take_dictionary(&d, n)) {
        to = packing_put_entries(d.p, d.entries, out);
    }
    packing_put_short(d.codes, d.p.width, n, to);
    *ret = d.p;
    return packing_size(d.p, n);
}

FOR_EACH_PROCESSOR
size_t packing_pack(const int64_t *values, size_t n, struct packing_hints hints, struct packing *ret,
                    uint8_t *out)
{
    return n == BLOCK_ROWS ? packing_pack_any(values, BLOCK_ROWS, hints, ret, out)
                           : packing_pack_any(values, n, hints, ret, out);
}
