/** Inside room mapreduce: the inlined fast path of reading rows, most of which are short. */
#ifndef GY_MAPREDUCE_ROWS_PRIV_H
#define GY_MAPREDUCE_ROWS_PRIV_H

#include "base/base.h"
#include "mapreduce/rows.h"

#include <string.h>

struct gy_mapreduce_rows {
    gy_byte_source source;
    bool is_list, is_ended;
    const char *at, *end; /* the unread bytes of the chunk */
    char *joined;         /* buffer for a row that crosses chunks */
    size_t joined_capacity;
    uint64_t last_hash, passed; /* passed: bytes taken from the source, for messages */
};

/**
 * gy_mapreduce_rows_next with a fast path: for a row with two one-byte sizes that lies in the
 * chunk with its slack and is in order.
 */
GY_MUST_CHECK static inline gy_status gy_mapreduce_rows_step(gy_mapreduce_rows *rows,
                                                             gy_row *row, bool *has_row)
{
    enum { SIZES = 2, SHORT = 127 };
    enum { MOST = sizeof(uint64_t) + SIZES + SHORT + SHORT + GY_COPY_SLACK };
    const char *const from = rows->at;
    if (rows->end - from >= MOST) {
        const uint64_t hash = gy_hash_load8(from);
        const uint8_t key_size = (uint8_t)from[sizeof(uint64_t)],
                      value = (uint8_t)from[sizeof(uint64_t) + 1];
        if ((key_size | value) <= SHORT && hash >= rows->last_hash) {
            const char *const key = from + sizeof(uint64_t) + SIZES;
            const uint8_t list_size = rows->is_list ? value : 0;
            *row = (gy_row){.hash = hash,
                            .key = key,
                            .key_size = key_size,
                            .number = rows->is_list ? 0 : gy_unzigzag(value),
                            .list = key + key_size,
                            .list_size = list_size};
            rows->at = key + key_size + list_size;
            rows->last_hash = hash;
            *has_row = true;
            return GY_OK;
        }
    }
    return gy_mapreduce_rows_next(rows, row, has_row);
}

#endif
