/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions in a compressed stream at which decompression can begin: for gzip, the bit at which a deflate
 * block starts and the 32 KiB before it; for both codings, the start of a member or frame. Never a dump of
 * a decoder's state.
 *
 * They are recorded while a stream is decoded (see below), kept compressed, and checked when they are used:
 * a wrong checkpoint costs at most one event, and its text is checked against the expected event.
 */
#pragma once

#include "base/util.h"

/* Text between two checkpoints: the maximum cost of reading one event. */
#define CHECKPOINT_SPACING (4 << 20)
#define CHECKPOINT_WINDOW  (32 << 10)
/* If a text is so long that it would have more, every second one is dropped and the distance is doubled. */
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
    uint64_t last;    /* offset in the text of the last one, or of the last unsuccessful search for one */
    unsigned doubled; /* number of times that their distance was doubled */
};

/* Returns whether a checkpoint is due, after this amount of text. */
bool checkpoint_due(const struct checkpoint_list *list, uint64_t out);
/* window: CHECKPOINT_WINDOW bytes, or NULL. If memory is exhausted, the checkpoint is dropped. */
void checkpoint_add(struct checkpoint_list *list, uint64_t in_bit, uint64_t out, const uint8_t *window);
/* Records that no checkpoint was found before this offset. */
void checkpoint_give_up(struct checkpoint_list *list, uint64_t out);
void checkpoint_list_done(struct checkpoint_list *list);
/* -EBADMSG if it is not a complete window. */
int checkpoint_unpack(const uint8_t *window, size_t size, uint8_t ret[CHECKPOINT_WINDOW]);

/*
 * Decodes bytes of a file into bytes of the trace: gzip by ISA-L, zstd by libzstd, or plain, detected by
 * content.
 *
 * The caller owns both buffers: it calls stream_decode() with input until all input is used and the room
 * was not filled, then stream_finish() for the result. Several consecutive members or frames are one
 * stream; their checksums and lengths are verified. After a defect the rest of the input is taken and
 * discarded, so that the caller's loop needs no special case. No I/O, no threads.
 */

enum stream_coding {
    STREAM_PLAIN,
    STREAM_GZIP,
    STREAM_ZSTD,
    _STREAM_CODING_MAX,
};

enum stream_result {
    STREAM_COMPLETE,
    STREAM_TRUNCATED,  /* the input ends within a member; the output so far is good */
    STREAM_CORRUPT,    /* bad block, wrong checksum or length */
    STREAM_OVER_LIMIT, /* unpacks to more than the limits allow */
    STREAM_FOLLOWED,   /* all members are complete, and other bytes follow them */
};

#define STREAM_MAGIC_MAX 4
/* Zero bytes after the last gzip member that are not a defect: tapes and archives pad to a block of up to
 * 64 KiB, and gzip(1) accepts that. zstd(1) accepts none. */
#define STREAM_PADDING_MAX (64 << 10)

/* A real trace unpacks to 10 to 60 times its size; deflate cannot exceed 1032. */
#define STREAM_OUT_MAX   (UINT64_C(1) << 38)
#define STREAM_RATIO_MAX 500
/* Below this amount of output the ratio is not checked: small files of zeros are harmless. */
#define STREAM_RATIO_FLOOR (UINT64_C(256) << 20)
/* Maximum memory for a zstd frame: 2 to this power. */
#define STREAM_ZSTD_WINDOW_LOG_MAX 27

struct stream_limits {
    uint64_t out_max;
    uint64_t ratio_max;
    uint64_t ratio_floor;
};
#define STREAM_LIMITS_DEFAULT ((struct stream_limits){STREAM_OUT_MAX, STREAM_RATIO_MAX, STREAM_RATIO_FLOOR})

/* Both sides advance as they are used, as with zlib. */
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
    char reason[160]; /* the defect, or the ignored bytes; may be empty */
};

struct stream;

int stream_new(struct stream_limits limits, struct stream **ret);
struct stream *stream_free(struct stream *s);
void stream_decode(struct stream *s, struct stream_io *io);
void stream_finish(struct stream *s, struct stream_summary *ret);

/* Starts adding checkpoints to the list. Within a member they are recorded only if one call of
 * stream_decode() has given CHECKPOINT_WINDOW bytes, from which the window is copied: provide room for
 * much more. */
void stream_keep_checkpoints(struct stream *s, struct checkpoint_list *list);
/* Begins a new stream at a checkpoint: its first byte is that of the file at in_bit / 8. window:
 * CHECKPOINT_WINDOW bytes of text before it, or NULL if a member or frame begins there. The checksum of a
 * member that decoding enters in the middle is not verified. */
void stream_resume(struct stream *s, enum stream_coding coding, uint64_t in_bit, const uint8_t *window);

/* Returns the coding of a file that begins with these bytes; needs no more than STREAM_MAGIC_MAX of them. */
enum stream_coding stream_coding_of(const uint8_t *head, size_t size);
const char *stream_coding_name(enum stream_coding coding);

DEFINE_CLEANUP(struct stream *, stream_free)
