/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in a compressed stream from which decompression can begin: for gzip the bit at which a deflate block
 * starts and the 32 KiB before it, for both codings the start of a member or frame. Never a dump of a
 * decoder's state.
 *
 * They are made on the way while a stream is decoded (stream.h asks), kept compressed, and checked when they
 * are used: a wrong one costs a wrong event at most, and what is read is checked against the event it should
 * be.
 */
#pragma once

#include "base/util.h"

/* Text between two of them: what reading one event costs at most. */
#define CHECKPOINT_SPACING (4 << 20)
#define CHECKPOINT_WINDOW  (32 << 10)
/* Where a text is so long that there would be more, every second one is dropped and they lie twice as far
 * apart. */
#define CHECKPOINTS_MAX 8192

struct checkpoint {
    uint64_t in_bit; /* offset in the file, in bits */
    uint64_t out;    /* offset in the text */
    uint8_t *window; /* zstd-compressed, window_size bytes; NULL where none is needed */
    size_t window_size;
};

/* A zeroed struct is ready. */
struct checkpoint_list {
    struct checkpoint *items;
    size_t n, cap;
    uint64_t last;    /* offset in the text of the last one, or of the last vain search for one */
    unsigned doubled; /* how often their distance was */
};

/* Whether one should be looked for, with so much text given. */
bool checkpoint_due(const struct checkpoint_list *list, uint64_t out);
/* window: CHECKPOINT_WINDOW bytes, or NULL. Without memory there is one checkpoint less. */
void checkpoint_add(struct checkpoint_list *list, uint64_t in_bit, uint64_t out, const uint8_t *window);
/* There was none to be found before this offset. */
void checkpoint_give_up(struct checkpoint_list *list, uint64_t out);
void checkpoint_list_done(struct checkpoint_list *list);
/* -EBADMSG where it is no whole window. */
int checkpoint_unpack(const uint8_t *window, size_t size, uint8_t ret[CHECKPOINT_WINDOW]);

/*
 * Bytes of a file in, bytes of the trace out: gzip by ISA-L, zstd by libzstd, or plain, told apart by
 * content.
 *
 * The caller owns both buffers: it calls stream_decode() with input until that is used up and the room was
 * not filled, then stream_finish() for the result. Several members or frames in a row are one stream; their
 * checksums and lengths are verified. After a defect the rest of the input is taken and thrown away, so that
 * the caller's loop needs no special case. No I/O, no threads.
 */

enum stream_coding {
    STREAM_PLAIN,
    STREAM_GZIP,
    STREAM_ZSTD,
    _STREAM_CODING_MAX,
};

enum stream_result {
    STREAM_COMPLETE,
    STREAM_TRUNCATED,  /* the input ends within a member; what came out until there is good */
    STREAM_CORRUPT,    /* bad block, wrong checksum or length */
    STREAM_OVER_LIMIT, /* unpacks to more than the limits allow */
    STREAM_FOLLOWED,   /* all members are complete, and bytes of none follow them */
};

#define STREAM_MAGIC_MAX 4
/* Zero bytes after the last gzip member that are no defect: tapes and archives pad to a block of up to 64
 * KiB, and gzip(1) accepts that. zstd(1) accepts none. */
#define STREAM_PADDING_MAX (64 << 10)

/* A real trace unpacks to 10 to 60 times its size; deflate cannot exceed 1032. */
#define STREAM_OUT_MAX   (UINT64_C(1) << 38)
#define STREAM_RATIO_MAX 500
/* Below this much output the ratio is not looked at: small files of zeros are harmless. */
#define STREAM_RATIO_FLOOR (UINT64_C(256) << 20)
/* Memory that a zstd frame may ask for: 2 to this power. */
#define STREAM_ZSTD_WINDOW_LOG_MAX 27

struct stream_limits {
    uint64_t out_max;
    uint64_t ratio_max;
    uint64_t ratio_floor;
};
#define STREAM_LIMITS_DEFAULT ((struct stream_limits){STREAM_OUT_MAX, STREAM_RATIO_MAX, STREAM_RATIO_FLOOR})

/* Both sides move on as they are used, as with zlib. */
struct stream_io {
    const uint8_t *in;
    size_t in_size;
    uint8_t *out;
    size_t out_size;
};

struct stream_summary {
    enum stream_coding coding;
    enum stream_result result;
    uint64_t in;      /* bytes taken */
    uint64_t out;     /* bytes given */
    uint64_t ignored; /* of `in`: padding or garbage after the last member */
    unsigned members;
    char reason[160]; /* why it is not complete, or what was ignored; empty where there is nothing to say */
};

struct stream;

int stream_new(struct stream_limits limits, struct stream **ret);
struct stream *stream_free(struct stream *s);
void stream_decode(struct stream *s, struct stream_io *io);
void stream_finish(struct stream *s, struct stream_summary *ret);

/* From here on, checkpoints are added to the list. Within a member they are made only where one call of
 * stream_decode() has given CHECKPOINT_WINDOW bytes, from which the window is copied: give room for much
 * more. */
void stream_keep_checkpoints(struct stream *s, struct checkpoint_list *list);
/* Begins a new stream at a checkpoint: its first byte is that of the file at in_bit / 8. window:
 * CHECKPOINT_WINDOW bytes of text before it, or NULL where a member or frame begins there. The checksum of a
 * member that is begun within is not looked at. */
void stream_resume(struct stream *s, enum stream_coding coding, uint64_t in_bit, const uint8_t *window);

/* How a file that begins with these bytes is coded; needs no more than STREAM_MAGIC_MAX of them. */
enum stream_coding stream_coding_of(const uint8_t *head, size_t size);
const char *stream_coding_name(enum stream_coding coding);

DEFINE_CLEANUP(struct stream *, stream_free)
