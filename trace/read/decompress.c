/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/decompress.h"

#include "base/array.h"
#include <errno.h>
#include <inttypes.h>
#include <isa-l/igzip_lib.h>
#include <zstd.h>

/* -- Header of a gzip member ---------------------------------------------------------------------------- */

/*
 * The header of a gzip member (RFC 1952), byte by byte. ISA-L's own header reader returns different results
 * when the header arrives in pieces.
 */

struct gzip_header {
    bool done; /* the next byte is the first byte of the compressed data */
    /* Private. */
    uint8_t fields; /* optional fields that are still to come */
    uint32_t at;
    uint32_t extra_size, extra_at, crc_at;
};

#define FIXED_SIZE     10
#define METHOD_DEFLATE 8

/* Flags of the optional fields. The fields follow the fixed ones in this order, except for the checksum,
 * which is the last. */
enum {
    GZIP_TEXT = 0x01, /* a hint without a field */
    GZIP_CRC = 0x02,
    GZIP_EXTRA = 0x04,
    GZIP_NAME = 0x08,
    GZIP_COMMENT = 0x10,
    GZIP_RESERVED = 0xe0,
};

static bool gzip_header_end_extra(struct gzip_header *h, uint8_t byte)
{
    if (h->extra_at < 2)
        h->extra_size |= (uint32_t)byte << (8 * h->extra_at);
    return ++h->extra_at == 2 + h->extra_size;
}

/* The checksum covers only the header and is not verified: the data has one of its own. */
static void gzip_header_take_optional(struct gzip_header *h, uint8_t byte)
{
    static const uint8_t order[] = {GZIP_EXTRA, GZIP_NAME, GZIP_COMMENT, GZIP_CRC};
    uint8_t field = 0;

    for (size_t i = 0; i < ARRAY_SIZE(order) && !field; i++)
        field = h->fields & order[i];
    bool ended = field == GZIP_EXTRA ? gzip_header_end_extra(h, byte)
                 : field == GZIP_CRC ? ++h->crc_at == 2
                                     : byte == 0;
    if (ended)
        h->fields &= (uint8_t)~field;
}

/* Adds the next byte to a header that began as a zeroed struct; returns the error of the header, NULL if
 * it is valid. */
static const char *gzip_header_take(struct gzip_header *h, uint8_t byte)
{
    static const uint8_t magic[] = {0x1f, 0x8b};
    uint32_t at = h->at < FIXED_SIZE ? h->at++ : FIXED_SIZE;

    if (at < sizeof(magic) && byte != magic[at])
        return "no gzip header";
    if (at == 2 && byte != METHOD_DEFLATE)
        return "gzip header names an unknown method";
    if (at == 3 && (byte & GZIP_RESERVED))
        return "gzip header has reserved flags";
    if (at == 3)
        h->fields = byte & (GZIP_CRC | GZIP_EXTRA | GZIP_NAME | GZIP_COMMENT);
    if (at == FIXED_SIZE)
        gzip_header_take_optional(h, byte);
    h->done = at >= FIXED_SIZE - 1 && h->fields == 0;
    return NULL;
}

/* -- Checkpoints ---------------------------------------------------------------------------------------- */

#define WINDOW_ZSTD_LEVEL 1

bool checkpoint_due(const struct checkpoint_list *list, uint64_t out)
{
    return out >= list->last + ((uint64_t)CHECKPOINT_SPACING << list->doubled);
}

static void checkpoint_drop_every_second(struct checkpoint_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->n; i++)
        if (i % 2 == 0)
            free(list->items[i].window);
        else
            list->items[kept++] = list->items[i];
    list->n = kept;
    list->doubled++;
}

static uint8_t *checkpoint_pack_window(const uint8_t *window, size_t *ret_size)
{
    uint8_t packed[ZSTD_COMPRESSBOUND(CHECKPOINT_WINDOW)];
    size_t size = ZSTD_compress(packed, sizeof(packed), window, CHECKPOINT_WINDOW, WINDOW_ZSTD_LEVEL);
    uint8_t *copy = ZSTD_isError(size) ? NULL : malloc(size);

    if (copy)
        memcpy(copy, packed, size);
    *ret_size = size;
    return copy;
}

void checkpoint_add(struct checkpoint_list *list, uint64_t in_bit, uint64_t out, const uint8_t *window)
{
    struct checkpoint c = {.in_bit = in_bit, .out = out};

    list->last = out;
    if (list->n == CHECKPOINTS_MAX)
        checkpoint_drop_every_second(list);
    if (!ARRAY_RESERVE(list->items, list->cap, list->n + 1))
        return;
    if (window) {
        c.window = checkpoint_pack_window(window, &c.window_size);
        if (!c.window)
            return;
    }
    list->items[list->n++] = c;
}

void checkpoint_give_up(struct checkpoint_list *list, uint64_t out)
{
    list->last = out;
}

void checkpoint_list_done(struct checkpoint_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].window);
    free(list->items);
    *list = (struct checkpoint_list){0};
}

int checkpoint_unpack(const uint8_t *window, size_t size, uint8_t ret[CHECKPOINT_WINDOW])
{
    return ZSTD_decompress(ret, CHECKPOINT_WINDOW, window, size) == CHECKPOINT_WINDOW ? 0 : -EBADMSG;
}

/* -- Start of a deflate block --------------------------------------------------------------------------- */

/*
 * Finds the beginning of a deflate block by observing a decoder: it gets input in such small pieces that it
 * stops within the header of a block, which it keeps until it can read all of it.
 *
 * Small pieces are slow, so that larger ones come first: when a block has begun within one, the decoder is
 * restored to its previous state, and gets the same input again in small pieces.
 */

enum block_found {
    BLOCK_NONE,
    BLOCK_AGAIN, /* the decoder was restored: the last piece was not taken, nor was its output given */
    BLOCK_START, /* the decoder stands within a header, of which it keeps some bits */
    BLOCK_NEVER, /* this stream does not seem to have long enough headers */
};

struct block_start {
    struct inflate_state before; /* the last large piece */
    size_t small;                /* input that must come in small pieces */
    size_t sought;               /* input so far */
};

#define LARGE_STEP 4096
/* Less than the codes of a block usually take. */
#define SMALL_STEP 48
/* Several times the size of most compressors' blocks. */
#define SOUGHT_MAX (512 << 10)

/* Returns the maximum input for the next call of the decoder. */
static size_t block_start_step(struct block_start *b, const struct inflate_state *z)
{
    if (b->small > 0)
        return MIN(b->small, (size_t)SMALL_STEP);
    b->before = *z;
    return LARGE_STEP;
}

/* Each effectively compressed block has codes of its own. */
static bool block_start_has_other_codes(const struct inflate_state *a, const struct inflate_state *b)
{
    return memcmp(&a->dist_huff_code, &b->dist_huff_code, sizeof(a->dist_huff_code)) != 0 ||
           memcmp(&a->lit_huff_code, &b->lit_huff_code, sizeof(a->lit_huff_code)) != 0;
}

/* Examines the decoder after it took `taken` bytes. With BLOCK_START, *ret_kept are the bits of input
 * taken that belong to the header, and b is ready for another search, as with BLOCK_NEVER and when it is
 * zeroed. */
static enum block_found block_start_look(struct block_start *b, struct inflate_state *z, size_t taken,
                                         uint64_t *ret_kept)
{
    enum block_found found = BLOCK_NONE;

    if (z->block_state == ISAL_BLOCK_HDR) {
        *ret_kept = 8 * (uint64_t)z->tmp_in_size + (uint64_t)z->read_in_length;
        found = BLOCK_START;
    } else if (b->small > 0) {
        b->small -= taken;
    } else if (block_start_has_other_codes(z, &b->before)) {
        *z = b->before;
        b->small = taken;
        return BLOCK_AGAIN;
    }
    b->sought += taken;
    if (found == BLOCK_NONE && b->sought >= SOUGHT_MAX)
        found = BLOCK_NEVER;
    if (found != BLOCK_NONE)
        b->small = b->sought = 0;
    return found;
}

/* -- Stream --------------------------------------------------------------------------------------------- */

enum stream_phase {
    PHASE_PROBE,  /* collecting the first bytes of the file, or of the data after a member */
    PHASE_MEMBER, /* within plain text, a gzip member or a zstd frame */
    PHASE_IGNORE, /* after the last member, or after a defect */
};

enum magic_guess {
    GUESS_MORE, /* could still become a magic number */
    GUESS_YES,
    GUESS_NO,
};

struct stream {
    struct stream_limits limits;
    struct stream_summary sum;
    enum stream_phase phase;
    bool ignored_nonzero;
    char defect[96];
    uint64_t defect_at;
    uint8_t probe[STREAM_MAGIC_MAX];
    size_t probe_size, probe_used;
    struct checkpoint_list *checkpoints; /* NULL if no checkpoints are wanted */
    const uint8_t *out_begin;            /* start of the output of this call */
    struct block_start block_start;
    unsigned skip_bits; /* of the next byte */
    bool resumed;       /* decoding began within the member: its checksum is unknown */
    ZSTD_DStream *zstd;
    struct gzip_header header;
    struct inflate_state inflate;
};

/* How files and members begin. For zstd a frame, or one of the sixteen kinds of skippable frames that parallel
 * compressors write before it. */
static const struct magic {
    enum stream_coding coding;
    size_t size;
    uint8_t bytes[STREAM_MAGIC_MAX], mask[STREAM_MAGIC_MAX];
} magics[] = {
    {STREAM_GZIP, 2, {0x1f, 0x8b}, {0xff, 0xff}},
    {STREAM_ZSTD, 4, {0x28, 0xb5, 0x2f, 0xfd}, {0xff, 0xff, 0xff, 0xff}},
    {STREAM_ZSTD, 4, {0x50, 0x2a, 0x4d, 0x18}, {0xf0, 0xff, 0xff, 0xff}},
};

/* Whether the n bytes at p are the beginning of a magic number, or begin with all of it. */
static enum magic_guess stream_guess(const struct magic *m, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < MIN(n, m->size); i++)
        if ((p[i] & m->mask[i]) != m->bytes[i])
            return GUESS_NO;
    return n < m->size ? GUESS_MORE : GUESS_YES;
}

static void stream_start_gzip(struct stream *s)
{
    isal_inflate_init(&s->inflate);
    s->inflate.crc_flag = ISAL_GZIP_NO_HDR_VER;
    s->header = (struct gzip_header){0};
}

static void stream_start_zstd(struct stream *s)
{
    ZSTD_DCtx_reset(s->zstd, ZSTD_reset_session_only);
}

static void stream_defect(struct stream *s, enum stream_result result, const char *what)
{
    s->sum.result = result;
    s->phase = PHASE_IGNORE;
    snprintf(s->defect, sizeof(s->defect), "%s", what);
}

static const char *stream_inflate_error(int r)
{
    static const struct {
        int code;
        const char *what;
    } errors[] = {
        {ISAL_INVALID_BLOCK, "gzip block is invalid"},
        {ISAL_INVALID_SYMBOL, "gzip symbol is invalid"},
        {ISAL_INVALID_LOOKBACK, "gzip refers to bytes before its start"},
        {ISAL_INCORRECT_CHECKSUM, "gzip checksum or length is wrong"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        if (errors[i].code == r)
            return errors[i].what;
    return "gzip cannot be read";
}

static void stream_io_advance(struct stream_io *io, size_t in, size_t out)
{
    io->in += in;
    io->in_size -= in;
    io->out += out;
    io->out_size -= out;
}

static void stream_read_gzip_header(struct stream *s, struct stream_io *io)
{
    while (!s->header.done && s->phase == PHASE_MEMBER && io->in_size > 0) {
        const char *why = gzip_header_take(&s->header, *io->in++);
        io->in_size--;
        if (why)
            stream_defect(s, STREAM_CORRUPT, why);
    }
}

static void stream_begin_within_byte(struct stream *s, struct stream_io *io)
{
    if (s->skip_bits == 0 || io->in_size == 0)
        return;
    s->inflate.read_in = *io->in++ >> s->skip_bits;
    s->inflate.read_in_length = (int32_t)(8 - s->skip_bits);
    io->in_size--;
    s->skip_bits = 0;
}

/* Each step decodes as much as it can and returns true at the end of a member. */
static bool stream_step_gzip(struct stream *s, struct stream_io *io)
{
    struct inflate_state *z = &s->inflate;

    stream_read_gzip_header(s, io);
    if (!s->header.done)
        return false;
    stream_begin_within_byte(s, io);
    uint32_t in = (uint32_t)MIN(io->in_size, (size_t)INT32_MAX);
    uint32_t out = (uint32_t)MIN(io->out_size, (size_t)INT32_MAX);

    z->next_in = (uint8_t *)io->in;
    z->avail_in = in;
    z->next_out = io->out;
    z->avail_out = out;
    int r = isal_inflate(z);
    /* On an error, ISA-L returns the content of its bit buffer, which may be from earlier calls. */
    uint32_t taken = in - MIN(z->avail_in, in);
    stream_io_advance(io, taken, out - z->avail_out);
    if (r == ISAL_INCORRECT_CHECKSUM && s->resumed)
        r = ISAL_DECOMP_OK;
    if (r < 0)
        stream_defect(s, STREAM_CORRUPT, stream_inflate_error(r));
    return r >= 0 && z->block_state == ISAL_BLOCK_FINISH;
}

static bool stream_step_zstd(struct stream *s, struct stream_io *io)
{
    ZSTD_inBuffer in = {io->in, io->in_size, 0};
    ZSTD_outBuffer out = {io->out, io->out_size, 0};
    size_t r = ZSTD_decompressStream(s->zstd, &out, &in);
    char what[96];

    stream_io_advance(io, in.pos, out.pos);
    if (!ZSTD_isError(r))
        return r == 0;
    snprintf(what, sizeof(what), "zstd: %s", ZSTD_getErrorName(r));
    stream_defect(s, STREAM_CORRUPT, what);
    return false;
}

static bool stream_step_plain(struct stream *s _unused_, struct stream_io *io)
{
    size_t n = MIN(io->in_size, io->out_size);

    memcpy(io->out, io->in, n);
    stream_io_advance(io, n, n);
    return false;
}

static const struct coding {
    const char *name;
    void (*start)(struct stream *s); /* NULL: nothing to prepare */
    bool (*step)(struct stream *s, struct stream_io *io);
} codings[_STREAM_CODING_MAX] = {
    [STREAM_PLAIN] = {"plain", NULL, stream_step_plain},
    [STREAM_GZIP] = {"gzip", stream_start_gzip, stream_step_gzip},
    [STREAM_ZSTD] = {"zstd", stream_start_zstd, stream_step_zstd},
};

const char *stream_coding_name(enum stream_coding coding)
{
    return codings[coding].name;
}

enum stream_coding stream_coding_of(const uint8_t *head, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
        if (stream_guess(&magics[i], head, size) == GUESS_YES)
            return magics[i].coding;
    return STREAM_PLAIN;
}

int stream_new(struct stream_limits limits, struct stream **ret)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->limits = limits;
    s->zstd = ZSTD_createDStream();
    if (!s->zstd) {
        stream_free(s);
        return -ENOMEM;
    }
    ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, STREAM_ZSTD_WINDOW_LOG_MAX);
    *ret = s;
    return 0;
}

struct stream *stream_free(struct stream *s)
{
    if (s)
        ZSTD_freeDStream(s->zstd);
    free(s);
    return NULL;
}

static void stream_ignore(struct stream *s, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n && !s->ignored_nonzero; i++)
        s->ignored_nonzero = p[i] != 0;
    s->sum.ignored += n;
}

void stream_keep_checkpoints(struct stream *s, struct checkpoint_list *list)
{
    s->checkpoints = list;
}

void stream_resume(struct stream *s, enum stream_coding coding, uint64_t in_bit, const uint8_t *window)
{
    s->sum.coding = coding;
    s->sum.members = 1;
    if (!window)
        return;
    stream_start_gzip(s);
    isal_inflate_set_dict(&s->inflate, (uint8_t *)window, CHECKPOINT_WINDOW);
    s->header.done = true;
    s->skip_bits = in_bit % 8;
    s->resumed = true;
    s->phase = PHASE_MEMBER;
}

static void stream_start_member(struct stream *s, enum stream_coding coding)
{
    if (s->checkpoints && checkpoint_due(s->checkpoints, s->sum.out))
        checkpoint_add(s->checkpoints, 8 * (s->sum.in - s->probe_size), s->sum.out, NULL);
    s->resumed = false;
    s->sum.coding = coding;
    s->sum.members++;
    s->probe_used = 0;
    s->phase = PHASE_MEMBER;
    if (codings[coding].start)
        codings[coding].start(s);
}

/* Takes one byte; a file may begin with any coding, a member can only be followed by a member of its own
 * coding. */
static void stream_probe_byte(struct stream *s, uint8_t byte)
{
    enum magic_guess best = GUESS_NO;

    s->sum.in++;
    s->probe[s->probe_size++] = byte;
    for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
        if (s->sum.members > 0 && magics[i].coding != s->sum.coding)
            continue;
        enum magic_guess g = stream_guess(&magics[i], s->probe, s->probe_size);
        if (g == GUESS_YES) {
            stream_start_member(s, magics[i].coding);
            return;
        }
        if (g == GUESS_MORE)
            best = GUESS_MORE;
    }
    if (best == GUESS_MORE)
        return;
    if (s->sum.members == 0) {
        stream_start_member(s, STREAM_PLAIN);
        return;
    }
    stream_ignore(s, s->probe, s->probe_size);
    s->probe_size = s->probe_used = 0;
    s->phase = PHASE_IGNORE;
}

/* Handles bytes that no member took. The decoder of zstd(1) accepts none, that of gzip(1) accepts zeros. */
static void stream_classify_rest(struct stream *s, const char *name)
{
    struct stream_summary *sum = &s->sum;
    bool is_padding = sum->coding == STREAM_GZIP && !s->ignored_nonzero && sum->ignored <= STREAM_PADDING_MAX;

    if (!is_padding)
        sum->result = STREAM_FOLLOWED;
    snprintf(sum->reason, sizeof(sum->reason),
             "%" PRIu64 " %sbytes follow the end of the last %s member at byte %" PRIu64, sum->ignored,
             s->ignored_nonzero ? "" : "zero ", name, sum->in - sum->ignored);
}

static void stream_check_limits(struct stream *s)
{
    char what[sizeof(s->defect)];

    if (s->sum.result != STREAM_COMPLETE)
        return;
    if (s->sum.out > s->limits.out_max)
        snprintf(what, sizeof(what), "unpacks to more than the size limit of %" PRIu64 " bytes",
                 s->limits.out_max);
    else if (s->sum.coding != STREAM_PLAIN && s->sum.out > s->limits.ratio_floor &&
             s->sum.out / s->limits.ratio_max > s->sum.in)
        snprintf(what, sizeof(what), "unpacks to more than %" PRIu64 " times its size", s->limits.ratio_max);
    else
        return;
    stream_defect(s, STREAM_OVER_LIMIT, what);
}

/* Returns whether the step searches for the start of a block: once this call has produced a window. */
static bool stream_seek_block(struct stream *s, struct stream_io *step)
{
    size_t given = (size_t)(step->out - s->out_begin);

    if (!s->checkpoints || s->sum.coding != STREAM_GZIP || !s->header.done ||
        !checkpoint_due(s->checkpoints, s->sum.out))
        return false;
    if (given < CHECKPOINT_WINDOW)
        step->out_size = MIN(step->out_size, CHECKPOINT_WINDOW - given);
    else
        step->in_size = MIN(step->in_size, block_start_step(&s->block_start, &s->inflate));
    return given >= CHECKPOINT_WINDOW;
}

/* Returns false if the step must be repeated. Unused room means that the decoder has given all of its
 * output. */
static bool stream_keep_block_start(struct stream *s, const struct stream_io *step, size_t taken,
                                    size_t given)
{
    uint64_t kept = 0, in = s->sum.in + taken, out = s->sum.out + given;

    switch (block_start_look(&s->block_start, &s->inflate, taken, &kept)) {
    case BLOCK_NONE:
        break;
    case BLOCK_AGAIN:
        return false;
    case BLOCK_START:
        if (step->out_size > 0)
            checkpoint_add(s->checkpoints, 8 * in - kept, out, step->out - CHECKPOINT_WINDOW);
        break;
    case BLOCK_NEVER:
        checkpoint_give_up(s->checkpoints, out);
        break;
    }
    return true;
}

/* Runs the coding's step over the probed bytes first, then over the caller's; false if it cannot continue. */
static bool stream_decode_member(struct stream *s, struct stream_io *io)
{
    bool from_probe = s->probe_used < s->probe_size;
    struct stream_io step = *io;
    bool seeks = stream_seek_block(s, &step);
    if (from_probe) {
        step.in = s->probe + s->probe_used;
        step.in_size = s->probe_size - s->probe_used;
    }
    size_t in_before = step.in_size, out_before = step.out_size;
    bool ended = codings[s->sum.coding].step(s, &step);
    size_t taken = in_before - step.in_size, given = out_before - step.out_size;

    if (seeks && s->phase == PHASE_MEMBER && !stream_keep_block_start(s, &step, taken, given))
        return true;
    if (from_probe) {
        s->probe_used += taken;
    } else {
        io->in = step.in;
        io->in_size -= taken;
        s->sum.in += taken;
    }
    io->out = step.out;
    io->out_size -= given;
    s->sum.out += given;
    stream_check_limits(s);
    if (s->phase == PHASE_IGNORE)
        s->defect_at = s->sum.in;
    if (ended && s->phase == PHASE_MEMBER) {
        s->phase = PHASE_PROBE;
        s->probe_size = s->probe_used = 0;
        return true;
    }
    return s->phase != PHASE_MEMBER || taken > 0 || given > 0;
}

void stream_decode(struct stream *s, struct stream_io *io)
{
    static const uint8_t nothing;

    s->out_begin = io->out;
    /* A caller without input has no buffer either, and adding an offset to NULL is undefined. */
    if (!io->in)
        io->in = &nothing;
    for (;;) {
        if (s->phase == PHASE_IGNORE) {
            if (s->sum.result == STREAM_COMPLETE)
                stream_ignore(s, io->in, io->in_size);
            s->sum.in += io->in_size;
            io->in += io->in_size;
            io->in_size = 0;
            return;
        }
        if (s->phase == PHASE_PROBE) {
            if (io->in_size == 0)
                return;
            io->in_size--;
            stream_probe_byte(s, *io->in++);
            continue;
        }
        if (io->out_size == 0)
            return;
        if (!stream_decode_member(s, io)) {
            if (io->in_size == 0)
                return;
            stream_defect(s, STREAM_CORRUPT, "decoder makes no progress");
            s->defect_at = s->sum.in;
        }
    }
}

void stream_finish(struct stream *s, struct stream_summary *ret)
{
    struct stream_summary *sum = &s->sum;
    const char *name = codings[sum->coding].name;

    if (s->phase == PHASE_PROBE && s->probe_size > 0) {
        if (sum->members > 0) {
            stream_ignore(s, s->probe, s->probe_size);
        } else {
            sum->result = STREAM_TRUNCATED;
            name = "file";
        }
    }
    if (s->phase == PHASE_MEMBER && sum->coding != STREAM_PLAIN)
        sum->result = STREAM_TRUNCATED;
    if (s->defect[0])
        snprintf(sum->reason, sizeof(sum->reason), "%s near byte %" PRIu64, s->defect, s->defect_at);
    else if (sum->result == STREAM_TRUNCATED)
        snprintf(sum->reason, sizeof(sum->reason), "%s ends after %" PRIu64 " bytes", name, sum->in);
    else if (sum->result == STREAM_COMPLETE && sum->ignored > 0)
        stream_classify_rest(s, name);
    *ret = *sum;
}
