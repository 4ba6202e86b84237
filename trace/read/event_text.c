/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/event_text.h"

#include "base/fs.h"
#include "trace/read/decompress.h"
#include "trace/read/scan.h"
#include <errno.h>
#include <sys/stat.h>

#define INPUT_STEP (64 << 10)
/* Maximum text to decode beyond an event; it often contains the next one. */
#define TEXT_STEP ((size_t)64 << 10)

struct event_source {
    int fd;
    const struct columns *c;
    enum stream_coding coding;
    /* State of decoding from any start: text[0] has the offset `begin`. */
    struct stream *stream; /* NULL before the first call */
    struct stream_io io;
    uint64_t in_at; /* file offset of the next input */
    bool in_ended;
    bool sure; /* decoding started without using the columns */
    uint64_t begin;
    char *text;
    size_t text_size, text_cap;
    uint8_t input[INPUT_STEP];
};

static int event_source_find_coding(const struct columns *c, enum stream_coding *ret)
{
    struct text word = columns_meta_text(c, META_coding);

    for (unsigned i = 0; i < _STREAM_CODING_MAX; i++) {
        const char *name = stream_coding_name(i);
        if (word.size == strlen(name) && memcmp(word.p, name, word.size) == 0) {
            *ret = i;
            return 0;
        }
    }
    return -ESTALE;
}

int event_source_new(int source_fd, const struct columns *c, struct event_source **ret)
{
    struct stat st;
    enum stream_coding coding = STREAM_PLAIN;
    int err = event_source_find_coding(c, &coding);

    if (err < 0)
        return err;
    if (fstat(source_fd, &st) < 0)
        return -errno;
    if (st.st_size != columns_meta(c, META_source_bytes))
        return -ESTALE;
    struct event_source *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->fd = source_fd;
    s->c = c;
    s->coding = coding;
    *ret = s;
    return 0;
}

struct event_source *event_source_free(struct event_source *s)
{
    if (!s)
        return NULL;
    stream_free(s->stream);
    free(s->text);
    free(s);
    return NULL;
}

/* Restarts decoding at the start of the file. */
static int event_source_rewind_stream(struct event_source *s)
{
    s->stream = stream_free(s->stream);
    s->io = (struct stream_io){0};
    s->in_at = s->begin = 0;
    s->in_ended = false;
    s->sure = true;
    s->text_size = 0;
    return stream_new(STREAM_LIMITS_DEFAULT, &s->stream);
}

/* Resumes plain text at the offset, other text at the last checkpoint before it, if its values are plausible. */
static int event_source_resume(struct event_source *s, uint64_t offset)
{
    uint8_t unpacked[CHECKPOINT_WINDOW], *window = NULL;
    uint64_t row =
        columns_lower_bound(s->c, COL_checkpoint_out, (int64_t)MIN(offset, (uint64_t)INT64_MAX - 1) + 1);
    int err = event_source_rewind_stream(s);

    if (s->coding == STREAM_PLAIN)
        s->in_at = s->begin = offset;
    if (err < 0 || row == 0 || s->coding == STREAM_PLAIN)
        return err;
    row--;
    int64_t in_bit = columns_get(s->c, COL_checkpoint_in_bit, row);
    int64_t out = columns_get(s->c, COL_checkpoint_out, row);
    int64_t packed_size = columns_get(s->c, COL_checkpoint_window_size, row);
    if (in_bit < 0 || in_bit / 8 >= columns_meta(s->c, META_source_bytes) || out < 0 ||
        (uint64_t)out > offset)
        return 0;
    if (packed_size != 0) {
        uint64_t at = (uint64_t)columns_get(s->c, COL_checkpoint_window, row);
        const uint8_t *packed = packed_size > 0 ? columns_bytes(s->c, at, (size_t)packed_size) : NULL;
        if (!packed || checkpoint_unpack(packed, (size_t)packed_size, unpacked) < 0)
            return 0;
        window = unpacked;
    }
    stream_resume(s->stream, s->coding, (uint64_t)in_bit, window);
    s->in_at = (uint64_t)in_bit / 8;
    s->begin = (uint64_t)out;
    s->sure = false;
    return 0;
}

static int event_source_read_input(struct event_source *s)
{
    ssize_t n = pread_full(s->fd, s->input, INPUT_STEP, s->in_at);

    if (n < 0)
        return -EIO;
    s->in_ended = n == 0;
    s->in_at += (uint64_t)n;
    s->io.in = s->input;
    s->io.in_size = (size_t)n;
    return 0;
}

/* Decodes at least one more byte after the text, which has room for it; -EIO at the end of the input. */
static int event_source_decode_more(struct event_source *s)
{
    size_t room = MIN(s->text_cap - s->text_size, TEXT_STEP), given = 0;

    while (given == 0) {
        s->io.out = (uint8_t *)s->text + s->text_size;
        s->io.out_size = room;
        stream_decode(s->stream, &s->io);
        given = room - s->io.out_size;
        if (given > 0 || s->io.in_size > 0)
            continue;
        int err = s->in_ended ? -EIO : event_source_read_input(s);
        if (err < 0)
            return err;
    }
    s->text_size += given;
    return 0;
}

static void event_source_drop_text(struct event_source *s, size_t size)
{
    s->text_size -= size;
    s->begin += size;
    memmove(s->text, s->text + size, s->text_size);
}

static int event_source_reserve(struct event_source *s)
{
    if (s->text_cap - s->text_size >= TEXT_STEP)
        return 0;
    size_t cap = MAX(2 * s->text_cap, 2 * TEXT_STEP);
    char *text = realloc(s->text, cap);
    if (!text)
        return -ENOMEM;
    s->text = text;
    s->text_cap = cap;
    return 0;
}

/* Decodes until the text contains the byte at `offset`. */
static int event_source_go_to(struct event_source *s, uint64_t offset)
{
    int err = event_source_reserve(s);

    while (err == 0 && offset >= s->begin + s->text_size) {
        event_source_drop_text(s, s->text_size);
        err = event_source_decode_more(s);
    }
    return err;
}

/* State of a walk through an object. */
struct object_walk {
    size_t at;
    unsigned depth;
    bool in_string, escaped;
};

/* Continues to the end of the object or of the text; returns true at the end of the object. Both kinds of
 * brackets are counted alike, because the reader has accepted this text as an event. */
static bool event_source_walk_on(struct object_walk *w, const char *p, size_t size)
{
    for (; w->at < size; w->at++) {
        char c = p[w->at];
        if (w->in_string) {
            w->in_string = w->escaped || c != '"';
            w->escaped = !w->escaped && c == '\\';
        } else if (c == '"') {
            w->in_string = true;
        } else if (c == '{' || c == '[') {
            w->depth++;
        } else if ((c == '}' || c == ']') && --w->depth == 0) {
            w->at++;
            return true;
        }
    }
    return false;
}

static int event_source_read_object(struct event_source *s, uint64_t offset, struct text *ret)
{
    struct object_walk w = {0};
    int err = event_source_go_to(s, offset);
    size_t at = (size_t)(offset - s->begin);

    if (err < 0)
        return err;
    if (s->text[at] != '{')
        return -ESTALE;
    while (!event_source_walk_on(&w, s->text + at, s->text_size - at)) {
        if (w.at >= SCAN_ITEM_MAX)
            return -EFBIG;
        event_source_drop_text(s, at);
        at = 0;
        err = event_source_reserve(s);
        if (err == 0)
            err = event_source_decode_more(s);
        if (err < 0)
            return err;
    }
    *ret = (struct text){s->text + at, w.at};
    return 0;
}

int event_source_text(struct event_source *s, uint64_t offset, struct text *ret)
{
    /* Decoding reaches an offset that lies ahead sooner if it continues than if it restarts. */
    bool is_ahead = s->stream && offset >= s->begin && offset - s->begin <= s->text_size + CHECKPOINT_SPACING;
    int err = is_ahead ? 0 : event_source_resume(s, offset);

    if (err == 0)
        err = event_source_read_object(s, offset, ret);
    if (err == 0 || err == -ENOMEM || s->sure)
        return err;
    /* The checkpoint may be wrong. */
    err = event_source_rewind_stream(s);
    return err < 0 ? err : event_source_read_object(s, offset, ret);
}
