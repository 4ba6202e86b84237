/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/directory_copy.h"

#include "archive/s3_request.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include <errno.h>
#include <openssl/evp.h>
#include <time.h>

#define BLOCK_SIZE (1u << 20)

/* Waits where the copy is faster than the rate. */
static int directory_pace(const struct directory_copy *c, int64_t began_ns, uint64_t done)
{
    int64_t now = mono_ns();

    if (c->q->deadline_ns != DEADLINE_NEVER && now > c->q->deadline_ns)
        return -ETIMEDOUT;
    if (c->rate <= 0)
        return 0;
    int64_t due_ns = began_ns + (int64_t)((double)done / (double)c->rate * (double)NS_PER_S);
    if (due_ns > now) {
        struct timespec wait = {(due_ns - now) / NS_PER_S, (due_ns - now) % NS_PER_S};
        while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
            ;
    }
    return 0;
}

int directory_copy_bytes(const struct directory_copy *c, char sha256[static ARCHIVE_SHA256_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    _cleanup_(freep) char *block = malloc(BLOCK_SIZE);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    int64_t began_ns = mono_ns();
    int r = 0;

    if (!block || !hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
        out_of_memory();
    for (uint64_t done = 0; done < c->size && r == 0;) {
        size_t wanted = (size_t)MIN((uint64_t)BLOCK_SIZE, c->size - done);
        ssize_t n = pread_full(c->from, block, wanted, c->from_offset + done);
        if (n < 0 || (size_t)n < wanted) {
            r = n < 0 ? (int)n : -ESTALE;
            break;
        }
        EVP_DigestUpdate(hash, block, wanted);
        r = pwrite_full(c->to, block, wanted, c->to_offset + done);
        done += wanted;
        if (r == 0)
            r = directory_pace(c, began_ns, done);
    }
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
    s3_sha256_format(digest, sha256);
    return r;
}
