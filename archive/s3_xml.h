/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML documents that an S3 service answers with. Pure functions over bytes.
 *
 * libexpat reads the XML itself: encodings, character references and CDATA sections are what a parser of one's own gets
 * wrong, and expat is small (200 KB, no further libraries), maintained, and fuzzed by its authors. What S3 does not need is
 * refused here: document types (and with them entities), more than S3_XML_DEPTH_MAX levels, long texts, repeated members,
 * more members of a list than S3 sends. Members that are not known are skipped.
 */
#pragma once

#include "archive/archive.h"

#define S3_XML_MAX       (4u << 20) /* bytes of a document: a list of 1000 keys of 1024 bytes, each as %XX */
#define S3_XML_DEPTH_MAX 8
#define S3_TEXT_MAX      4096 /* bytes of the text of an element; a key of 1024 bytes as %XX has 3072 */
#define S3_UPLOAD_ID_MAX 1024
#define S3_PARTS_MAX     1000 /* of one answer */

enum s3_document {
    S3_DOCUMENT_NONE, /* XML, and none of these */
    S3_DOCUMENT_ERROR,
    S3_DOCUMENT_CREATED,   /* InitiateMultipartUploadResult */
    S3_DOCUMENT_COMPLETED, /* CompleteMultipartUploadResult */
    S3_DOCUMENT_PARTS,     /* ListPartsResult */
    S3_DOCUMENT_OBJECTS,   /* ListBucketResult */
};

struct s3_xml_object {
    char *key; /* as it is in the document: %XX if encoding-type=url was asked for */
    char *etag, *modified;
    uint64_t size;
    unsigned seen;
};

struct s3_xml_part {
    char *etag;
    uint64_t number, size;
    unsigned seen;
};

struct s3_xml {
    enum s3_document document;
    char *code, *message, *region; /* of an error */
    char *upload_id, *etag;
    char *next;     /* token of the next page, or the number of a part */
    char *encoding; /* of the keys: "url" */
    bool is_truncated;
    struct s3_xml_object *objects;
    struct s3_xml_part *parts;
    size_t n_objects, cap_objects, n_parts, cap_parts;
    unsigned seen;
};

/* -EPROTO with one line in *ret_reason, which the caller frees. *ret is to be freed by s3_xml_done() in either case. */
int s3_xml_parse(const char *data, size_t size, struct s3_xml *ret, char **ret_reason);
void s3_xml_done(struct s3_xml *x);

/* An entity tag, with or without quotes, as plain visible ASCII without them. False where it is none. */
bool s3_etag_parse(const char *text, char ret[static ARCHIVE_ETAG_MAX]);
/* Digits only. */
bool s3_number_parse(const char *text, uint64_t *ret);
