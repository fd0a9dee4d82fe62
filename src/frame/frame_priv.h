/** Private to room frame: what schemas and frames are made of. */
#ifndef GY_FRAME_FRAME_PRIV_H
#define GY_FRAME_FRAME_PRIV_H

#include "frame/frame.h"

#include <stdatomic.h>

/** Whose memory lies under columns; counted. */
typedef struct gy_frame_owner gy_frame_owner;
struct gy_frame_owner {
    atomic_int_fast64_t holds;
    void (*free)(gy_frame_owner *owner); /* when the last hold ended */
};

gy_frame_owner *gy_frame_owner_hold(gy_frame_owner *owner);
void gy_frame_owner_drop(gy_frame_owner *owner);

/** The buffers of a column, and who owns them. */
typedef struct gy_frame_buffers {
    gy_frame_owner *owner;
    int64_t offset; /* of the frame's first row */
    const uint8_t *valid;
    const void *values;
    const char *text;
} gy_frame_buffers;

struct gy_frame {
    atomic_int_fast64_t holds;
    gy_schema *schema;
    int64_t rows;
    gy_frame_buffers columns[]; /* (schema count) */
};

/** A frame whose columns are to be filled in, each with a hold of its owner. `schema` is held.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_frame_new(gy_schema *schema, int64_t rows, gy_frame **frame);

/** The buffers of a column, as gy_frame_column sees them. */
const gy_frame_buffers *gy_frame_buffers_of(const gy_frame *frame, int index);

#endif
