/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON objects as D-Bus dictionaries (a{sv}), and back: the one translation between the transports.
 *
 * Text is s, integers x, other numbers d, true and false b, objects a{sv}; lists are as or aa{sv} where all
 * their elements are text or objects, else av. D-Bus has no null: such members are left out. What comes in
 * may use any type that JSON can represent.
 */
#pragma once

#include "base/json.h"
#include <systemd/sd-bus.h>

/* Each level of JSON is three of D-Bus, which allows 64. */
#define BUS_JSON_DEPTH_MAX 16
/* What an object counts as, roughly, is its texts and this for each value. */
#define BUS_JSON_VALUE_BYTES 16

/* -E2BIG: nested too deeply, or counts for more than bytes_max. */
int bus_append_object(sd_bus_message *m, const json_t *object, size_t bytes_max);
/* Reads the next argument. -E2BIG as above; -EINVAL: a value that JSON cannot represent. */
int bus_read_object(sd_bus_message *m, size_t bytes_max, json_t **ret);
