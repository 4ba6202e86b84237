/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcrypto of OpenSSL: only the verbs that compute a SHA-256 or make certificates need it, and it takes 1 ms of the start
 * of every other.
 */
#include "base/on_demand_call.h"

ON_DEMAND("libcrypto.so.3", \
          ASN1_INTEGER_set_uint64, EVP_Digest, EVP_DigestFinal_ex, EVP_DigestInit_ex, EVP_DigestUpdate, EVP_MD_CTX_free, EVP_MD_CTX_new, \
          EVP_PKEY_Q_keygen, \
          EVP_PKEY_free, EVP_sha256, PEM_write_PrivateKey, PEM_write_X509, X509V3_EXT_conf_nid, X509V3_set_ctx, \
          X509_EXTENSION_free, X509_NAME_add_entry_by_txt, X509_add_ext, X509_free, X509_get_serialNumber, \
          X509_get_subject_name, X509_getm_notAfter, X509_getm_notBefore, X509_gmtime_adj, X509_new, \
          X509_set_issuer_name, X509_set_pubkey, X509_set_version, X509_sign, X509_time_adj_ex)
