/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive of objects that all hosts of a fleet share: a bucket of an S3 service, or a directory that several hosts
 * mount. One request and one result for both, one table of verbs.
 *
 * archive_perform() blocks until the result is there; daemon/archive/archive_loop.h performs the same requests on an
 * event loop. Requests are repeated after failures that pass (archive/s3_retry.h) until their deadline. No answer of a
 * server is trusted: sizes, entity tags, content hashes and names in it are checked, redirects are never followed, and
 * what a server may make this process keep is bounded.
 *
 * The caller owns descriptors, texts and arrays of a request, which must live until the result is there.
 */
#pragma once

#include "base/problem.h"

#define ARCHIVE_SHA256_SIZE  65 /* hex, with the NUL */
#define ARCHIVE_ETAG_MAX     128
#define ARCHIVE_ADDRESS_SIZE 64
#define ARCHIVE_KEY_MAX      1024 /* bytes, S3's limit; with the archive's prefix */
/* Of one answer to ARCHIVE_LIST; S3's own limit. */
#define ARCHIVE_LIST_MAX 1000
/* A larger file is uploaded in parts. */
#define ARCHIVE_SINGLE_MAX (UINT64_C(64) << 20)
#define ARCHIVE_PART_SIZE  (UINT64_C(16) << 20)
#define ARCHIVE_PARTS_MAX  10000

struct archive;

struct archive_settings {
    const char *url;              /* "s3://bucket/prefix" or "file:///shared/dir" */
    const char *endpoint;         /* "https://HOST[:PORT]"; NULL: AWS's of the region */
    const char *region;           /* NULL: "us-east-1" */
    const char *credentials_file; /* AWS's format: see s3_credentials.h */
    const char *ca_file;          /* trusted in addition to the system's; NULL: none */
    const char *encryption;       /* server-side: "AES256" or "aws:kms"; NULL: none */
    const char *kms_key;          /* of "aws:kms": id, alias or ARN; NULL: the bucket's default key */
    int64_t rate;                 /* bytes per second of transfers; 0: unlimited */
    int64_t stall_ns; /* a transfer without a byte for this time is broken; 0: ARCHIVE_STALL_DEFAULT_NS */
    /* Permits link-local and metadata addresses as endpoint, if `endpoint` is such an address itself. A host name never
     * leads there. */
    bool allow_link_local;
};
#define ARCHIVE_STALL_DEFAULT_NS INT64_C(30000000000)

enum archive_verb {
    ARCHIVE_PUT,
    ARCHIVE_HEAD,
    ARCHIVE_GET,
    ARCHIVE_DELETE, /* a key that does not exist is no error, as in S3 */
    ARCHIVE_LIST,
    ARCHIVE_UPLOAD_CREATE,
    ARCHIVE_UPLOAD_PART,
    ARCHIVE_UPLOAD_PARTS, /* which parts are there */
    ARCHIVE_UPLOAD_COMPLETE,
    ARCHIVE_UPLOAD_ABORT,
    _ARCHIVE_VERB_MAX,
};

struct archive_part {
    unsigned number; /* from 1 */
    uint64_t size;
    char etag[ARCHIVE_ETAG_MAX]; /* as the server wrote it, without quotes */
};

struct archive_request {
    enum archive_verb verb;
    const char *key; /* below the archive's prefix; LIST: keys that begin with it, "" for all */
    /* PUT, UPLOAD_PART: `size` bytes of fd from `offset` on are sent. GET: the bytes of the object from `offset` on, `size`
     * of them (0: until its end), are written to fd from its position 0 on; unchecked bytes may be there after an error. */
    int fd;
    uint64_t offset, size;
    uint64_t size_max; /* GET: a longer answer is refused; 0: no limit */
    /* Hex. PUT, UPLOAD_PART: of the bytes to send; NULL: computed. PUT and UPLOAD_CREATE store it with the object. GET: of
     * the bytes that are expected; NULL: what is stored with the object, if all of it is read. */
    const char *sha256;
    bool exclusive; /* PUT: -EEXIST if the key exists */
    const char *upload_id;
    unsigned part;
    const struct archive_part *parts; /* UPLOAD_COMPLETE: all, in order */
    size_t n_parts;
    const char *after;   /* LIST, UPLOAD_PARTS: `next` of the result before; NULL: from the start */
    unsigned max;        /* LIST: objects; 0: ARCHIVE_LIST_MAX */
    int64_t deadline_ns; /* absolute, monotonic, with all repetitions */
    /* How long after the first attempt another one may begin; 0: until the deadline. An attempt that makes progress goes
     * on, so that a service that does not answer is reported sooner than a large transfer may last. */
    int64_t patience_ns;
};

struct archive_object {
    char *key; /* LIST: below the archive's prefix; else NULL */
    uint64_t size;
    int64_t modified_s; /* since the epoch; 0: unknown */
    char etag[ARCHIVE_ETAG_MAX];
    char sha256[ARCHIVE_SHA256_SIZE]; /* "": unknown. GET: of the bytes that arrived */
};

/* To be freed by archive_result_done(). */
struct archive_result {
    /*
     * 0, or a negative errno value, with its problem: -ENOENT (no such key, or no such upload), -ENODEV (no such bucket
     * or directory; HEAD cannot tell), -EEXIST, -EACCES, -EPERM
     * (an address that is refused), -EBADMSG (a hash does not match), -ESTALE (the file or the object changed meanwhile),
     * -ERANGE, -EOPNOTSUPP, -EDQUOT, -EPROTO, -EREMCHG (a redirect, or a wrong region), -ETIMEDOUT, -ECONNREFUSED, ...
     */
    int err;
    struct problem problem;
    struct archive_object object;             /* PUT, HEAD, GET, UPLOAD_PART, UPLOAD_COMPLETE */
    char *upload_id;                          /* UPLOAD_CREATE */
    struct archive_object *objects;           /* LIST */
    size_t n_objects, cap_objects, n_skipped; /* n_skipped: objects whose names are no valid keys */
    struct archive_part *parts;               /* UPLOAD_PARTS */
    size_t n_parts, cap_parts;
    char *next; /* LIST, UPLOAD_PARTS: there is more */
    unsigned n_attempts;
    char address[ARCHIVE_ADDRESS_SIZE]; /* of the endpoint that was called last; "": none, or a directory */
};

/* -EINVAL with the problem. The settings are copied. */
int archive_new(const struct archive_settings *settings, struct archive **ret, struct problem *p);
struct archive *archive_free(struct archive *a);
DEFINE_CLEANUP(struct archive *, archive_free)

/* Returns result->err. Not to be called by two threads at once. */
int archive_perform(struct archive *a, const struct archive_request *q, struct archive_result *ret);
void archive_result_done(struct archive_result *r);

/* "s3://bucket/prefix", as people read it. */
const char *archive_name(const struct archive *a);
/* Whether the file of its credentials differs from what was read. One stat(); no directory has credentials. */
bool archive_credentials_changed(const struct archive *a);
