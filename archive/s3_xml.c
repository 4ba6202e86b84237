/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_xml.h"

#include "base/alloc.h"
#include <errno.h>
#include <expat.h>

/* -- What is read from each document ------------------------------------------------------------------ */

enum s3_value { S3_VALUE_TEXT, S3_VALUE_NUMBER, S3_VALUE_BOOL };

struct s3_member {
    const char *name;
    enum s3_value value;
    size_t offset;
};

#define TOP(name, value, member)                                                                             \
    {                                                                                                        \
        name, value, offsetof(struct s3_xml, member)                                                         \
    }
#define OBJECT(name, value, member)                                                                          \
    {                                                                                                        \
        name, value, offsetof(struct s3_xml_object, member)                                                  \
    }
#define PART(name, value, member)                                                                            \
    {                                                                                                        \
        name, value, offsetof(struct s3_xml_part, member)                                                    \
    }
#define MEMBERS_MAX 5

/* Members of the root, and of the element that repeats. */
static const struct s3_shape {
    const char *root;
    enum s3_document document;
    struct s3_member members[MEMBERS_MAX];
    const char *repeated;
    struct s3_member repeated_members[MEMBERS_MAX];
} shapes[] = {
    {"Error",
     S3_DOCUMENT_ERROR,
     {TOP("Code", S3_VALUE_TEXT, code), TOP("Message", S3_VALUE_TEXT, message),
      TOP("Region", S3_VALUE_TEXT, region)},
     NULL,
     {{0}}},
    {"InitiateMultipartUploadResult",
     S3_DOCUMENT_CREATED,
     {TOP("UploadId", S3_VALUE_TEXT, upload_id)},
     NULL,
     {{0}}},
    {"CompleteMultipartUploadResult", S3_DOCUMENT_COMPLETED, {TOP("ETag", S3_VALUE_TEXT, etag)}, NULL, {{0}}},
    {"ListPartsResult",
     S3_DOCUMENT_PARTS,
     {TOP("IsTruncated", S3_VALUE_BOOL, is_truncated), TOP("NextPartNumberMarker", S3_VALUE_TEXT, next)},
     "Part",
     {PART("PartNumber", S3_VALUE_NUMBER, number), PART("ETag", S3_VALUE_TEXT, etag),
      PART("Size", S3_VALUE_NUMBER, size)}},
    {"ListBucketResult",
     S3_DOCUMENT_OBJECTS,
     {TOP("IsTruncated", S3_VALUE_BOOL, is_truncated), TOP("NextContinuationToken", S3_VALUE_TEXT, next),
      TOP("EncodingType", S3_VALUE_TEXT, encoding)},
     "Contents",
     {OBJECT("Key", S3_VALUE_TEXT, key), OBJECT("ETag", S3_VALUE_TEXT, etag),
      OBJECT("Size", S3_VALUE_NUMBER, size), OBJECT("LastModified", S3_VALUE_TEXT, modified)}},
};

/* -- Parsing ------------------------------------------------------------------------------------------ */

struct s3_reading {
    XML_Parser parser;
    struct s3_xml *xml;
    const struct s3_shape *shape;
    const struct s3_member *member; /* of the element that is open */
    void *holder;                   /* of the member: the document or an item */
    unsigned *seen;
    bool in_item; /* within the element that repeats */
    unsigned depth, member_depth;
    char text[S3_TEXT_MAX + 1];
    size_t size;
    const char *error; /* static */
};

static void s3_xml_refuse(struct s3_reading *r, const char *why)
{
    if (!r->error)
        r->error = why;
    XML_StopParser(r->parser, XML_FALSE);
}

bool s3_number_parse(const char *text, uint64_t *ret)
{
    uint64_t value = 0;

    if (!*text)
        return false;
    for (const char *p = text; *p; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    *ret = value;
    return true;
}

static bool s3_xml_take_text(void *at, const char *text)
{
    *(char **)at = xstrdup(text);
    return true;
}

static bool s3_xml_take_number(void *at, const char *text)
{
    return s3_number_parse(text, at);
}

static bool s3_xml_take_bool(void *at, const char *text)
{
    *(bool *)at = streq(text, "true");
    return *(bool *)at || streq(text, "false");
}

static bool (*const takers[])(void *at, const char *text) = {
    [S3_VALUE_TEXT] = s3_xml_take_text,
    [S3_VALUE_NUMBER] = s3_xml_take_number,
    [S3_VALUE_BOOL] = s3_xml_take_bool,
};

/* Namespaces are left out: services differ in them, and their prefix, if any, ends with a colon. */
static const char *s3_xml_local_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static const struct s3_member *s3_xml_find_member(const struct s3_member *members, const char *name)
{
    for (size_t i = 0; i < MEMBERS_MAX && members[i].name; i++)
        if (streq(members[i].name, name))
            return &members[i];
    return NULL;
}

static void s3_xml_open_root(struct s3_reading *r, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes) && !r->shape; i++)
        if (streq(shapes[i].root, name))
            r->shape = &shapes[i];
    r->xml->document = r->shape ? r->shape->document : S3_DOCUMENT_NONE;
}

/* A new object or part. */
static void s3_xml_open_item(struct s3_reading *r)
{
    struct s3_xml *x = r->xml;
    bool is_part = x->document == S3_DOCUMENT_PARTS;

    if (is_part ? x->n_parts == S3_PARTS_MAX : x->n_objects == ARCHIVE_LIST_MAX) {
        s3_xml_refuse(r, "the list has more members than were asked for");
        return;
    }
    if (is_part) {
        VEC_GROW(x->parts, x->n_parts, x->cap_parts);
        x->parts[x->n_parts++] = (struct s3_xml_part){0};
    } else {
        VEC_GROW(x->objects, x->n_objects, x->cap_objects);
        x->objects[x->n_objects++] = (struct s3_xml_object){0};
    }
    r->in_item = true;
}

static void s3_xml_open_member(struct s3_reading *r, const struct s3_member *members, const char *name)
{
    struct s3_xml *x = r->xml;
    unsigned bit;

    r->member = s3_xml_find_member(members, name);
    if (!r->member)
        return;
    if (!r->in_item) {
        r->holder = x;
        r->seen = &x->seen;
    } else if (x->document == S3_DOCUMENT_PARTS) {
        r->holder = &x->parts[x->n_parts - 1];
        r->seen = &x->parts[x->n_parts - 1].seen;
    } else {
        r->holder = &x->objects[x->n_objects - 1];
        r->seen = &x->objects[x->n_objects - 1].seen;
    }
    bit = 1u << (r->member - members);
    if (*r->seen & bit)
        s3_xml_refuse(r, "a member is there twice");
    *r->seen |= bit;
    r->member_depth = r->depth;
    r->size = 0;
}

static void XMLCALL s3_xml_on_open(void *arg, const XML_Char *full_name, const XML_Char **attributes)
{
    struct s3_reading *r = arg;
    const char *name = s3_xml_local_name(full_name);

    if (++r->depth > S3_XML_DEPTH_MAX)
        s3_xml_refuse(r, "elements are nested too deeply");
    else if (r->member)
        s3_xml_refuse(r, "an element is where a text belongs");
    else if (r->depth == 1)
        s3_xml_open_root(r, name);
    else if (r->shape && r->depth == 2 && r->shape->repeated && streq(r->shape->repeated, name))
        s3_xml_open_item(r);
    else if (r->shape && r->depth == 2)
        s3_xml_open_member(r, r->shape->members, name);
    else if (r->shape && r->depth == 3 && r->in_item)
        s3_xml_open_member(r, r->shape->repeated_members, name);
}

static void XMLCALL s3_xml_on_close(void *arg, const XML_Char *name)
{
    struct s3_reading *r = arg;

    /* XML_StopParser() still lets an empty element end. */
    if (r->error)
        return;
    if (r->member && r->depth == r->member_depth) {
        r->text[r->size] = '\0';
        if (!takers[r->member->value]((char *)r->holder + r->member->offset, r->text))
            s3_xml_refuse(r, "a number or a truth value is none");
        r->member = NULL;
    }
    if (r->depth == 2)
        r->in_item = false;
    r->depth--;
}

static void XMLCALL s3_xml_on_text(void *arg, const XML_Char *text, int n)
{
    struct s3_reading *r = arg;
    size_t size = (size_t)n;

    if (!r->member || r->error)
        return;
    if (size > S3_TEXT_MAX - r->size) {
        s3_xml_refuse(r, "a text is too long");
        return;
    }
    memcpy(r->text + r->size, text, size);
    r->size += size;
}

/* Where entities are declared: none of S3's documents has a document type. */
static void XMLCALL s3_xml_on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                                      const XML_Char *public_id, int has_internal)
{
    s3_xml_refuse(arg, "it has a document type");
}

int s3_xml_parse(const char *data, size_t size, struct s3_xml *ret, char **ret_reason)
{
    *ret = (struct s3_xml){0};
    *ret_reason = NULL;
    if (size > S3_XML_MAX) {
        *ret_reason = xasprintf("it is longer than %u bytes", S3_XML_MAX);
        return -EPROTO;
    }
    struct s3_reading *r = xcalloc(1, sizeof(*r));
    r->xml = ret;
    r->parser = XML_ParserCreate(NULL);
    if (!r->parser)
        out_of_memory();
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, s3_xml_on_open, s3_xml_on_close);
    XML_SetCharacterDataHandler(r->parser, s3_xml_on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, s3_xml_on_doctype);
    enum XML_Status status = XML_Parse(r->parser, data, (int)size, XML_TRUE);
    if (status != XML_STATUS_OK)
        *ret_reason = xasprintf("line %lu: %s", (unsigned long)XML_GetCurrentLineNumber(r->parser),
                                r->error ? r->error : XML_ErrorString(XML_GetErrorCode(r->parser)));
    XML_ParserFree(r->parser);
    free(r);
    return *ret_reason ? -EPROTO : 0;
}

void s3_xml_done(struct s3_xml *x)
{
    char *texts[] = {x->code, x->message, x->region, x->upload_id, x->etag, x->next, x->encoding};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < x->n_objects; i++) {
        free(x->objects[i].key);
        free(x->objects[i].etag);
        free(x->objects[i].modified);
    }
    for (size_t i = 0; i < x->n_parts; i++)
        free(x->parts[i].etag);
    free(x->objects);
    free(x->parts);
    *x = (struct s3_xml){0};
}

bool s3_etag_parse(const char *text, char ret[static ARCHIVE_ETAG_MAX])
{
    size_t n = strlen(text);

    if (n >= 2 && text[0] == '"' && text[n - 1] == '"') {
        text++;
        n -= 2;
    }
    if (n == 0 || n >= ARCHIVE_ETAG_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"<>&", text[i]))
            return false;
    snprintf(ret, ARCHIVE_ETAG_MAX, "%.*s", (int)n, text);
    return true;
}
