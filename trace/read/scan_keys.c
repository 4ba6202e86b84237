/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/scan_state.h"

#include "base/hash_table.h"
#include <assert.h>

#define GROUP(name) (TABLE_##name - TABLE_ARGS_FIRST)

/* Class of an event by its category, as written by every torch since 1.9 and by others. */
static const struct {
    const char *category;
    unsigned class;
} categories[] = {
    {"cpu_op", GROUP(op)},
    {"user_annotation", GROUP(op)},
    {"Operator", GROUP(op)},
    {"python_function", GROUP(python)},
    {"kernel", GROUP(gpu)},
    {"gpu_memcpy", GROUP(gpu)},
    {"gpu_memset", GROUP(gpu)},
    {"gpu_user_annotation", GROUP(gpu)},
    {"cuda_sync", GROUP(gpu)},
    {"cuda_event", GROUP(gpu)},
    {"collective_comm", GROUP(gpu)},
    {"mtia_ccp_events", GROUP(gpu)},
    {"xpu_sync", GROUP(gpu)},
    {"hpu_op", GROUP(gpu)},
    {"Kernel", GROUP(gpu)},
    {"Memcpy", GROUP(gpu)},
    {"Memset", GROUP(gpu)},
    {"cuda_runtime", GROUP(runtime)},
    {"cuda_driver", GROUP(runtime)},
    {"mtia_runtime", GROUP(runtime)},
    {"glow_runtime", GROUP(runtime)},
    {"xpu_runtime", GROUP(runtime)},
    {"xpu_driver", GROUP(runtime)},
    {"privateuse1_runtime", GROUP(runtime)},
    {"privateuse1_driver", GROUP(runtime)},
    {"Runtime", GROUP(runtime)},
    {"cpu_instant_event", GROUP(memory)},
    {"Node", GROUP(op)}, /* ONNX Runtime's */
};

/* Class of an event of another category, or of none, by one of its arguments. A stream proves nothing:
 * Triton's operators have one. */
static const struct {
    const char *key;
    unsigned group;
} identifying[] = {
    {"Python id", GROUP(python)},
    {"cbid", GROUP(runtime)},
    {"cid", GROUP(runtime)},
    {"registers per thread", GROUP(gpu)},
    {"memory bandwidth (GB/s)", GROUP(gpu)},
    {"Total Allocated", GROUP(memory)},
    {"Device Id", GROUP(memory)},
    {"Record function id", GROUP(op)},
    {"Input Dims", GROUP(op)},
    {"Input dims", GROUP(op)},
};

static const struct {
    const char *key;
    enum arg_take take;
} names[] = {
    [NAMES_NAME] = {"name", TAKE_TEXT},
    [NAMES_LABELS] = {"labels", TAKE_TEXT},
    [NAMES_SORT_INDEX] = {"sort_index", TAKE_INT},
};

static size_t keys_find_slot(const struct key_table *k, const char *p, size_t size)
{
    size_t at = hash_padded(p, size) % KEY_SLOTS;

    for (; k->slots[at]; at = (at + 1) % KEY_SLOTS) {
        unsigned number = k->slots[at] - 1u;
        if (k->key[number].size == size && memcmp(k->key[number].text, p, size) == 0)
            break;
    }
    return at;
}

unsigned keys_find(const struct key_table *k, const char *p, size_t size)
{
    size_t at = keys_find_slot(k, p, size);

    return k->slots[at] ? k->slots[at] - 1u : KEY_OTHER;
}

/* Returns the key's number; an existing key keeps its number. The tables of keys are large enough for all. */
static unsigned keys_add(struct key_table *k, const char *text)
{
    char padded[KEY_SIZE_MAX + 8] = "";
    size_t size = strlen(text);

    assert(size <= KEY_SIZE_MAX);
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result): zeros already follow it
    memcpy(padded, text, size);
    size_t at = keys_find_slot(k, padded, size);
    if (k->slots[at])
        return k->slots[at] - 1u;
    assert(k->n < KEYS_MAX);
    memcpy(k->key[k->n].text, text, size);
    k->key[k->n].size = (uint8_t)size;
    k->slots[at] = ++k->n;
    return k->n - 1u;
}

void keys_of_events(struct key_table *k)
{
    static const char *const members[_MEMBER_MAX] = {
        [MEMBER_PH] = "ph",           [MEMBER_CAT] = "cat",         [MEMBER_NAME] = "name",
        [MEMBER_PID] = "pid",         [MEMBER_TID] = "tid",         [MEMBER_TS] = "ts",
        [MEMBER_DUR] = "dur",         [MEMBER_ARGS] = "args",       [MEMBER_ID] = "id",
        [MEMBER_ID2] = "id2",         [MEMBER_SCOPE] = "s",         [MEMBER_BIND_POINT] = "bp",
        [MEMBER_BIND_ID] = "bind_id", [MEMBER_FLOW_IN] = "flow_in", [MEMBER_FLOW_OUT] = "flow_out",
    };

    for (size_t i = 0; i < _MEMBER_MAX; i++)
        keys_add(k, members[i]);
}

static void keys_add_target(struct arg_class *c, const char *text, enum arg_take take, struct arg_target to)
{
    unsigned key = keys_add(&c->keys, text);

    assert(c->arg[key].n < TARGETS_MAX);
    c->arg[key].take = (uint8_t)take;
    c->arg[key].to[c->arg[key].n++] = to;
}

static void keys_add_group(struct arg_class *c, unsigned group, unsigned cells)
{
    for (size_t i = 0; i < column_args_count; i++) {
        const struct arg_spec *a = &column_args[i];
        const struct column_spec *column = &column_specs[a->column];
        struct arg_target to = {(uint8_t)(cells + arg_group_index(a->column)), (int8_t)a->array};
        enum arg_take take = column->kind == KIND_TEXT   ? TAKE_TEXT
                             : column->kind == KIND_REAL ? TAKE_REAL
                             : a->array < 0              ? TAKE_INT
                                                         : TAKE_INTS;

        for (size_t k = 0; k < ARRAY_SIZE(a->keys) && a->keys[k]; k++)
            if (column->table == TABLE_ARGS_FIRST + group)
                keys_add_target(c, a->keys[k], take, to);
    }
}

void arg_class_init(struct arg_class *c, unsigned class)
{
    for (size_t i = 0; class == CLASS_UNLISTED && i < ARRAY_SIZE(identifying); i++)
        keys_add_target(c, identifying[i].key, TAKE_CLASS,
                        (struct arg_target){(uint8_t)identifying[i].group, 0});
    for (size_t i = 0; class == CLASS_NAMES && i < ARRAY_SIZE(names); i++)
        keys_add_target(c, names[i].key, names[i].take, (struct arg_target){(uint8_t)i, -1});
    if (class < ARG_GROUPS)
        keys_add_group(c, class, 0);
    if (class < ARG_GROUPS && class != GROUP(collective))
        keys_add_group(c, GROUP(collective), CELLS_OF_COLLECTIVE);
}

unsigned arg_class_of_category(const char *category, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        if (strlen(categories[i].category) == size && memcmp(categories[i].category, category, size) == 0)
            return categories[i].class;
    return CLASS_UNLISTED;
}
