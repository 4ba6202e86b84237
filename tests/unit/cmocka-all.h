/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka.h needs these before it, in this order. */
#pragma once

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <cmocka.h>
/* clang-format on */
