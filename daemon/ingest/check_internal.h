/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What check.c, which takes the bytes and looks at a file without columns, and check_columns.c, which has it
 * read into them, share.
 */
#pragma once

#include "daemon/ingest/check.h"
#include "proto/names.h"
#include "trace/read/format.h"
#include "trace/read/span.h"
#include "trace/read/stream.h"
#include "trace/read/window.h"
#include <openssl/evp.h>

#define READ_SIZE (256 << 10)

struct check {
    struct check_order order;
    int read_fd;  /* the source, or the destination once it is a clone of it */
    int write_fd; /* -1 where nothing is to be written, or the clone did it */
    unsigned threads;
    int64_t size;
    EVP_MD_CTX *hash;
    struct stream *stream;
    struct window *window;
    struct span span;
    int error; /* of the destination */
    enum trace_state state;
    char *reason, *remedy;
    char *columns_reason; /* why there are none */
    uint8_t buffer[READ_SIZE];
};

/* The next bytes of the file: into the copy and the hash. arg is the check. */
int check_take(const void *data, size_t size, void *arg);
/* From where they were taken until the end of the file; each() may be NULL. */
int check_take_rest(struct check *c, void (*each)(struct check *c, const uint8_t *data, size_t size));
int check_sync_copy(struct check *c);

/* What is known at the end of either pass. */
void check_put_file(struct check *c, enum stream_coding coding, enum trace_format format, json_t *facts);
/* Wall-clock times are only known of stamps whose base is. */
void check_put_span(json_t *facts, int64_t first_ns, int64_t last_ns, int64_t base_ns);

/* check_columns.c. False where the columns came to nothing, which says nothing of the file. */
bool check_into_columns(struct check *c, json_t *facts);
