/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a kernel's name as C++ writes it: "void ns::function<arguments of the template>(types)".
 */
#pragma once

#include "base/util.h"

#define KERNEL_PARTS_MAX 1024

/* All in lower case into a buffer of KERNEL_PARTS_MAX; longer names are cut. */
void kernel_lower(const char *name, size_t size, char *buf);
/* The function alone with its namespaces: "ns::function". A name that is no C++ stays whole. */
void kernel_function(const char *name, size_t size, char *buf);
/* Without the types of its parameters: "void ns::function<arguments of the template>". */
void kernel_template(const char *name, size_t size, char *buf);
