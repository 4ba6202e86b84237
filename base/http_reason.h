/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP status codes in words, for people: "404 Not Found". One table for requests sent and responses written.
 */
#pragma once

/* "" for a code without a name. */
const char *http_reason(int status);
