/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcrypto of OpenSSL, loaded when it is first called (on_demand.h): only the verbs that compute a SHA-256 need it, and it takes
 * 1 ms of the start of every other.
 */
#include "base/on_demand.h"

#include <openssl/evp.h>

static struct on_demand_library libcrypto = {"libcrypto.so.3"};

#define CRYPTO_CALL(type, name, parameters, arguments)                                                       \
    ON_DEMAND(&libcrypto, type, name, parameters, arguments)

/* clang-format off */
CRYPTO_CALL(const EVP_MD *, EVP_sha256, (void), ())
CRYPTO_CALL(EVP_MD_CTX *, EVP_MD_CTX_new, (void), ())
CRYPTO_CALL(void, EVP_MD_CTX_free, (EVP_MD_CTX *hash), (hash))
CRYPTO_CALL(int, EVP_DigestInit_ex, (EVP_MD_CTX *hash, const EVP_MD *type, ENGINE *engine), (hash, type, engine))
CRYPTO_CALL(int, EVP_DigestUpdate, (EVP_MD_CTX *hash, const void *data, size_t size), (hash, data, size))
CRYPTO_CALL(int, EVP_DigestFinal_ex, (EVP_MD_CTX *hash, unsigned char *ret, unsigned *ret_size), (hash, ret, ret_size))
CRYPTO_CALL(int, EVP_Digest, (const void *data, size_t size, unsigned char *ret, unsigned *ret_size, const EVP_MD *type, ENGINE *engine),
            (data, size, ret, ret_size, type, engine))
/* clang-format on */
