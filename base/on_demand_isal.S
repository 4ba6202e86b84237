/* SPDX-License-Identifier: Apache-2.0 */
/* ISA-L, which compresses and decompresses, and computes the checksums of columns. */
#include "base/on_demand_call.h"

ON_DEMAND("libisal.so.2", \
          crc32_gzip_refl, crc32_iscsi, isal_deflate, isal_deflate_init, isal_inflate, isal_inflate_init, isal_inflate_set_dict)
