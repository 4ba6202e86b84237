/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcrypto of OpenSSL: only the verbs that compute a SHA-256 need it, and it takes 1 ms of the start
 * of every other.
 */
#include "base/on_demand_call.h"

ON_DEMAND("libcrypto.so.3", \
          EVP_Digest, EVP_DigestFinal_ex, EVP_DigestInit_ex, EVP_DigestUpdate, EVP_MD_CTX_free, EVP_MD_CTX_new, \
          EVP_sha256)
