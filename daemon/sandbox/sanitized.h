/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this build can be confined. */
#pragma once

/* The runtime of the address sanitizer maps terabytes and opens /proc: neither filter, Landlock nor a limit
 * of memory. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_WITHOUT_FILTER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_WITHOUT_FILTER 1
#endif
#ifndef SANDBOX_WITHOUT_FILTER
#define SANDBOX_WITHOUT_FILTER 0
#endif
