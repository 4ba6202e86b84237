/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that the scanner knows: those of events, and those of their arguments by the class that an
 * event's category selects. All tables are made from schema.h's at the start.
 */
#pragma once

#include "trace/read/intake.h"

#define KEYS_MAX     64
#define KEY_SIZE_MAX 40
#define KEY_SLOTS    256

struct keys {
    uint8_t slots[KEY_SLOTS]; /* number + 1 */
    uint8_t n;
    struct {
        char text[KEY_SIZE_MAX];
        uint8_t size;
    } key[KEYS_MAX];
};

/* Results of a walk through an object, in addition to the number of a key. */
enum key_answer {
    KEY_OTHER = KEYS_MAX, /* not known */
    KEY_END,              /* none follows */
    KEY_FAULT,            /* the text is cut off or broken there */
};

/* Returns the key's number; an existing key keeps its number. < 0 if it does not fit. */
int keys_add(struct keys *k, const char *text);
/* Returns the number or KEY_OTHER; eight bytes after the key must be readable. */
unsigned keys_find(const struct keys *k, const char *p, size_t size);

enum member {
    MEMBER_PH,
    MEMBER_CAT,
    MEMBER_NAME,
    MEMBER_PID,
    MEMBER_TID,
    MEMBER_TS,
    MEMBER_DUR,
    MEMBER_ARGS,
    MEMBER_ID,
    MEMBER_ID2,
    MEMBER_SCOPE,
    MEMBER_BIND_POINT,
    MEMBER_BIND_ID,
    MEMBER_FLOW_IN,
    MEMBER_FLOW_OUT,
    _MEMBER_MAX,
};

int keys_of_events(struct keys *k);

/*
 * A class of arguments is the group (TABLE_ARGS_FIRST + class) that its rows go to, or one of these.
 */
#define CLASS_UNLISTED ARG_GROUPS       /* the arguments themselves determine the group */
#define CLASS_NAMES    (ARG_GROUPS + 1) /* metadata of threads and processes */
#define CLASS_COUNT    (ARG_GROUPS + 2)

/* The columns of CLASS_NAMES. */
enum names_column { NAMES_NAME, NAMES_LABELS, NAMES_SORT_INDEX };

/* Destination of a value: a cell of the event's row, or of the second row that collectives have in
 * addition. */
#define CELLS_OF_COLLECTIVE ARG_COLUMNS_MAX
#define CELLS_MAX           (2 * ARG_COLUMNS_MAX)
#define TARGETS_MAX         3

struct arg_target {
    uint8_t cell;
    int8_t array; /* element of an array, -1 for the value itself */
};

enum arg_take { TAKE_INT, TAKE_INTS, TAKE_TEXT, TAKE_REAL, TAKE_CLASS };

struct arg_class {
    struct keys keys;
    struct {
        uint8_t take; /* enum arg_take */
        uint8_t n;
        struct arg_target to[TARGETS_MAX];
    } arg[KEYS_MAX];
};

int arg_class_init(struct arg_class *c, unsigned class);
unsigned arg_class_of_category(const char *category, size_t size);
