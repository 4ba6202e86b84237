/* SPDX-License-Identifier: Apache-2.0 */
/* What the host was doing during gaps. */
#pragma once

#include "trace/reports/gap.h"

/* Sets culprit, culprit_kind and covered of all. -ENOMEM. */
int gap_culprits(const struct columns *c, struct gaps *gaps);
