/* Operators that keep no rows: limit, and the union of all rows of several sides. */
#include "query/rows/rows_priv.h"

/* ---- limit ---- */

typedef struct limit_source {
    gy_frame_source in;
    int64_t offset, count; /* what is left; count -1: all */
} limit_source;

static gy_status limit_next(void *arg, gy_frame **frame)
{
    limit_source *source = arg;
    while (source->count != 0) {
        gy_frame *next = NULL;
        const gy_status status = source->in.next(source->in.arg, &next);
        if (status != GY_OK) {
            return status;
        }
        const int64_t rows = gy_frame_rows(next);
        const int64_t begin = GY_MIN(source->offset, rows);
        const int64_t count =
            source->count < 0 ? rows - begin : GY_MIN(rows - begin, source->count);
        source->offset -= begin;
        if (begin == rows && rows > 0) {
            gy_frame_drop(next);
            continue;
        }
        source->count -= source->count < 0 ? 0 : count;
        const gy_status sliced = gy_frame_slice(next, begin, begin + count, frame);
        gy_frame_drop(next);
        return sliced;
    }
    gy_rows_close(&source->in); /* whoever makes the rows need not go on */
    return GY_DONE;
}

static void limit_close(void *arg)
{
    limit_source *source = arg;
    gy_rows_close(&source->in);
    gy_free(source);
}

gy_status gy_rows_limit(gy_frame_source in, gy_schema *in_schema, int64_t offset, int64_t count,
                        gy_frame_source *out, gy_schema **schema)
{
    GY_ASSERT(offset >= 0 && count >= -1);
    limit_source *source = gy_alloc_zero("query.limit", 1, sizeof(*source));
    if (source == NULL) {
        gy_rows_close(&in);
        return GY_NOMEM;
    }
    *source = (limit_source){.in = in, .offset = offset, .count = count};
    *out = (gy_frame_source){.next = limit_next, .close = limit_close, .arg = source};
    *schema = gy_schema_hold(in_schema);
    return GY_OK;
}

/* ---- union all ---- */

typedef struct union_source {
    gy_schema *schema;
    int count, at;
    gy_frame_source sides[];
} union_source;

static gy_status union_next(void *arg, gy_frame **frame)
{
    union_source *source = arg;
    for (; source->at < source->count; source->at++) {
        gy_frame *next = NULL;
        gy_frame_source *side = &source->sides[source->at];
        const gy_status status = side->next(side->arg, &next);
        if (status == GY_OK) {
            *frame = next;
        }
        if (status != GY_DONE) {
            return status;
        }
        gy_rows_close(side);
    }
    return GY_DONE;
}

static void union_close(void *arg)
{
    union_source *source = arg;
    for (int i = 0; i < source->count; i++) {
        gy_rows_close(&source->sides[i]);
    }
    gy_schema_drop(source->schema);
    gy_free(source);
}

static gy_status check_sides(const gy_rows_side *sides, int count)
{
    for (int i = 1; i < count; i++) {
        const int columns = gy_schema_count(sides[0].schema);
        if (gy_schema_count(sides[i].schema) != columns) {
            return gy_fail(GY_TYPE, "sides of %d and %d columns", columns,
                           gy_schema_count(sides[i].schema));
        }
        for (int k = 0; k < columns; k++) {
            GY_TRY(gy_rows_check_same(gy_schema_field(sides[0].schema, k),
                                      gy_schema_field(sides[i].schema, k)));
        }
    }
    return GY_OK;
}

gy_status gy_rows_union_all(const gy_rows_side *sides, int count, gy_frame_source *out,
                            gy_schema **schema)
{
    GY_ASSERT(count > 0);
    gy_status status = check_sides(sides, count);
    union_source *source =
        status < 0 ? NULL
                   : gy_alloc_zero("query.union", 1,
                                   sizeof(*source) + (size_t)count * sizeof(sides[0].source));
    if (source == NULL) {
        for (int i = 0; i < count; i++) {
            gy_frame_source side = sides[i].source;
            gy_rows_close(&side);
        }
        return status < 0 ? status : GY_NOMEM;
    }
    source->count = count;
    source->schema = gy_schema_hold(sides[0].schema);
    for (int i = 0; i < count; i++) {
        source->sides[i] = sides[i].source;
    }
    *out = (gy_frame_source){.next = union_next, .close = union_close, .arg = source};
    *schema = gy_schema_hold(sides[0].schema);
    return GY_OK;
}
