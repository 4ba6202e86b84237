/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the mirror's schema in PostgreSQL (proto/mirror.sql), for profd, which fills it, and profctl, which creates it. */
#pragma once

/* Of fleet.version. 2: fleet.schema_version(), and sums of which the views can read each member. */
#define MIRROR_SCHEMA_VERSION 2
#define MIRROR_OLD_REMEDY     "Upgrade the schema: profctl mirror migrate URL"
#define MIRROR_NEW_REMEDY     "Upgrade profd: it leaves out columns that it does not know."
