/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operator looks up: the MESSAGE_ID of each event that the journal's catalog explains (journalctl
 * -x). They stay as they are for ever; an event that is gone leaves its number behind.
 */
#pragma once

#define MESSAGE_ID(event)        "1ba1d1a2c1f04e0f9c1f6f0e1f6d" event

#define MESSAGE_STARTED          MESSAGE_ID("0a01")
#define MESSAGE_STOPPING         MESSAGE_ID("0a02")
#define MESSAGE_RELOADED         MESSAGE_ID("0a03")
#define MESSAGE_CONFIG_REFUSED   MESSAGE_ID("0a04")
#define MESSAGE_SESSION_STARTED  MESSAGE_ID("0a05")
#define MESSAGE_SESSION_COMPLETE MESSAGE_ID("0a06")
#define MESSAGE_SESSION_FAILED   MESSAGE_ID("0a07") /* or partial */
#define MESSAGE_STOP_OWED        MESSAGE_ID("0a08") /* profd ends, and a profiler may still run */
#define MESSAGE_OWED_STOP_SENT   MESSAGE_ID("0a09")
#define MESSAGE_TRACE_UNREADABLE MESSAGE_ID("0a0a")
#define MESSAGE_STORE_FULL       MESSAGE_ID("0a0b")
#define MESSAGE_CATALOG_MIGRATED MESSAGE_ID("0a0c")
#define MESSAGE_CLIENT_REFUSED   MESSAGE_ID("0a0d")
#define MESSAGE_FILE_REFUSED     MESSAGE_ID("0a0e")
