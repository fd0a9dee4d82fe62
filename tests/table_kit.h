/**
 * A table of the name server's under test: what was told of its stores and its election.
 */
#ifndef GY_TABLE_KIT_H
#define GY_TABLE_KIT_H

#include "persist/table/table.h"

#include <stdio.h>
#include <string.h>

#include "gy_test.h"

enum { KIT_OUTCOMES = 4096 };

typedef struct kit_outcome {
    gy_key key;
    uint64_t version;
    gy_status status;
} kit_outcome;

typedef struct kit_table {
    gy_persist_table *table;
    gy_persist_table_options options;
    kit_outcome outcomes[KIT_OUTCOMES]; /* in the order told */
    size_t told, begun;
    bool is_elected;
    uint64_t number; /* the last it was elected with */
    int64_t lost_ns; /* when it was told so; 0: never */
    int changes;
} kit_table;

static inline void kit_on_stored(void *arg, gy_key key, uint64_t version, gy_status status)
{
    kit_table *kit = arg;
    assert_true(kit->told < KIT_OUTCOMES);
    kit->outcomes[kit->told++] = (kit_outcome){key, version, status};
}

static inline void kit_on_elected(void *arg, bool is_it, uint64_t number)
{
    kit_table *kit = arg;
    assert_true(is_it != kit->is_elected);
    assert_true(is_it ? number > kit->number : number == kit->number);
    kit->is_elected = is_it;
    kit->number = number;
    kit->lost_ns = is_it ? kit->lost_ns : gy_now_ns(gy_env_real());
    kit->changes++;
}

static inline gy_status kit_try_open(kit_table *kit, const gy_persist_table_options *options)
{
    memset(kit, 0, sizeof(*kit));
    kit->options = *options;
    kit->options.stored = kit_on_stored;
    kit->options.elected = kit_on_elected;
    kit->options.arg = kit;
    return gy_persist_table_open(gy_env_real(), &kit->options, &kit->table);
}

static inline void kit_open(kit_table *kit, const gy_persist_table_options *options)
{
    assert_ok(kit_try_open(kit, options));
}

static inline void kit_close(kit_table *kit)
{
    gy_persist_table_close(kit->table);
    kit->table = NULL;
}

static inline void kit_begin(kit_table *kit, gy_key key, uint64_t version, const void *data,
                             size_t size)
{
    assert_ok(gy_persist_table_store(kit->table, key, version, data, size));
    kit->begun++;
}

/** Turn until all that was begun has its outcome. */
static inline void kit_settle(kit_table *kit)
{
    const gy_deadline deadline = gy_deadline_after(60);
    while (kit->told < kit->begun) {
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns);
        (void)gy_persist_table_turn(kit->table, deadline);
    }
}

/** The outcome of one store. */
static inline gy_status kit_store(kit_table *kit, gy_key key, uint64_t version,
                                  const void *data, size_t size)
{
    kit->told = kit->begun = 0;
    kit_begin(kit, key, version, data, size);
    kit_settle(kit);
    return kit->outcomes[0].status;
}

/** What gy_persist_table_load told, by key. */
typedef struct kit_record {
    gy_key key;
    uint64_t version;
    size_t size;
    uint8_t first, last; /* of its bytes */
} kit_record;

typedef struct kit_loaded {
    kit_record records[1024];
    size_t count;
} kit_loaded;

static inline gy_status kit_keep(void *arg, gy_key key, uint64_t version, const void *data,
                                 size_t size)
{
    kit_loaded *loaded = arg;
    const uint8_t *bytes = data;
    assert_true(loaded->count < 1024 && size > 0);
    loaded->records[loaded->count++] =
        (kit_record){key, version, size, bytes[0], bytes[size - 1]};
    return GY_OK;
}

static inline void kit_load(kit_table *kit, kit_loaded *loaded)
{
    loaded->count = 0;
    assert_ok(gy_persist_table_load(kit->table, kit_keep, loaded));
}

/** NULL: it is not there. */
static inline const kit_record *kit_find(const kit_loaded *loaded, gy_key key)
{
    const kit_record *found = NULL;
    for (size_t i = 0; i < loaded->count; i++) {
        const kit_record *at = &loaded->records[i];
        if (at->key.high == key.high && at->key.low == key.low) {
            assert_null(found);
            found = at;
        }
    }
    return found;
}

/** Both turn until `fact` holds. `other` may be NULL. */
#define KIT_UNTIL(kit, other, fact)                                                            \
    do {                                                                                       \
        const gy_deadline kit_end_ = gy_deadline_after(60);                                    \
        kit_table *kit_other_ = (other);                                                       \
        while (!(fact)) {                                                                      \
            assert_true(gy_now_ns(gy_env_real()) < kit_end_.at_ns);                            \
            (void)gy_persist_table_turn((kit)->table, gy_deadline_after(0.002));               \
            if (kit_other_ != NULL) {                                                          \
                (void)gy_persist_table_turn(kit_other_->table, (gy_deadline){0});              \
            }                                                                                  \
        }                                                                                      \
    } while (0)

#endif
