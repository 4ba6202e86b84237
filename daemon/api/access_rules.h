/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an access decision: tokens, throttling of wrong tokens, names of profd. Pure but for
 * tokens_load(); access.c decides by them.
 */
#pragma once

#include "base/clock.h"
#include "base/problem.h"
#include "daemon/api/settings.h"
#include "proto/names.h"

/*
 * The file of bearer tokens: one line for each, "NAME ROLE HASH"; '#' begins a comment.
 *
 * The hash is the SHA-256 of the token, in hexadecimal. A token is 256 random bits: there is no dictionary to
 * try and nothing to be gained by a slow hash with salt, which would only let clients keep the loop busy.
 * A reader of the file learns no token from it.
 */
#define TOKENS_MAX       1000
#define TOKENS_FILE_MAX  (256 << 10)
#define TOKEN_NAME_MAX   64
#define TOKEN_TEXT_MAX   512 /* of what clients send; longer ones are refused */
#define TOKEN_HASH_BYTES 32

struct token {
    char *name;
    enum right right;
    unsigned char hash[TOKEN_HASH_BYTES];
};

/* A zeroed struct has none. */
struct tokens {
    struct token *items;
    size_t n, cap;
};

/* -EINVAL with the first wrong line, without its text, which may hold a token. */
int tokens_parse(const char *file_name, const char *data, size_t size, struct tokens *ret, struct problem *p);
/* Refuses a file that other users may write, or everybody may read. */
int tokens_load(const char *path, struct tokens *ret, struct problem *p);
void tokens_done(struct tokens *t);

/* Takes equally long wherever the token is found, or not. NULL: no such token. */
const struct token *tokens_find(const struct tokens *t, const char *text);

/* The token of "Bearer TOKEN"; NULL where the header (may be NULL) is something else. */
const char *tokens_of_header(const char *authorization);

/*
 * Who showed wrong tokens, and how long an address has to wait before the next one is answered; time is given.
 *
 * An address may fail GUARD_BURST times at once, and once in GUARD_INTERVAL_NS after that. Addresses are
 * compared as networks (address_network()). The table is of fixed size; beyond it the address that has failed
 * least is forgotten, so that many addresses can win a few more tries and no memory.
 */
#define GUARD_SLOTS       512
#define GUARD_BURST       10
#define GUARD_INTERVAL_NS (6 * NS_PER_S)

/* A zeroed struct has no failures. */
struct token_guard {
    struct token_guard_slot {
        struct in6_addr network;
        int64_t clear_at; /* when all its failures are forgotten */
    } slots[GUARD_SLOTS];
};

/* 0, or the time for which wrong tokens of that address are refused unread. */
int64_t guard_wait_ns(const struct token_guard *g, const struct in6_addr *address, int64_t now_ns);
void guard_failed(struct token_guard *g, const struct in6_addr *address, int64_t now_ns);

/*
 * By which names profd may be addressed in a Host header: those of loopback, the addresses that it listens on,
 * and the configured ones. A web page that had its own name resolved to one of our addresses sends that name
 * (DNS rebinding); numeric addresses cannot be rebound.
 */
struct host_rules {
    const struct listen_address *addresses;
    size_t n_addresses;
    char *const *names;
    size_t n_names;
};

/* "localhost:9460", "10.0.0.7", "[::1]:80". False for what is no Host header at all. */
bool host_is_ours(const char *header, const struct host_rules *rules);
