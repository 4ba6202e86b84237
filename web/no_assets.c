/* SPDX-License-Identifier: Apache-2.0 */
/* A build without the web page. */
#include "web/web_assets.h"

const struct web_asset web_assets[1] = {{0}};
const size_t web_assets_count = 0;
