/* Operators that keep no rows (limit, the union of all rows), and sets, which count distinct
 * rows. */
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

gy_status gy_rows_slice(gy_frame_source in, gy_schema *in_schema, int64_t offset, int64_t count,
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

gy_status gy_rows_chain(const gy_rows_side *sides, int count, gy_frame_source *out,
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

/* ---- sets ---- */

/* A side with two columns behind its own, of which one has a value. */
typedef struct sided_source {
    gy_frame_source in;
    gy_schema *schema; /* with the two */
    bool is_left;
} sided_source;

static gy_status sided_next(void *arg, gy_frame **frame)
{
    sided_source *source = arg;
    gy_frame *next = NULL;
    const gy_status status = source->in.next(source->in.arg, &next);
    if (status != GY_OK) {
        return status;
    }
    const int count = gy_schema_count(source->schema), columns = count - 2;
    const int64_t rows = gy_frame_rows(next);
    gy_frame_maker *makers = gy_rows_makers_new(source->schema);
    gy_status made = makers == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < columns && made == GY_OK; k++) {
        const gy_column column = gy_frame_column(next, k);
        made = gy_rows_append_range(&makers[k], &column, 0, rows);
    }
    const int mine = columns + !source->is_left, other = columns + source->is_left;
    if (made == GY_OK) {
        made = gy_rows_append_int64(&makers[mine], 1, rows);
    }
    if (made == GY_OK) {
        made = gy_frame_maker_reserve(&makers[other], rows);
    }
    for (int64_t i = 0; i < rows && made == GY_OK; i++) {
        gy_frame_maker_null(&makers[other]);
    }
    if (made == GY_OK) {
        made = gy_frame_make(source->schema, makers, rows, frame);
    }
    gy_rows_makers_free(makers, count);
    gy_frame_drop(next);
    return made;
}

static void sided_close(void *arg)
{
    sided_source *source = arg;
    gy_rows_close(&source->in);
    gy_schema_drop(source->schema);
    gy_free(source);
}

/* Takes the side's source. */
static gy_status open_sided(gy_rows_side side, gy_schema *schema, bool is_left,
                            gy_frame_source *out)
{
    sided_source *source = gy_alloc_zero("query.side", 1, sizeof(*source));
    if (source == NULL) {
        gy_rows_close(&side.source);
        return GY_NOMEM;
    }
    *source = (sided_source){side.source, gy_schema_hold(schema), is_left};
    *out = (gy_frame_source){.next = sided_next, .close = sided_close, .arg = source};
    return GY_OK;
}

/* Distinct rows with how often each side has them. */
typedef struct set_source {
    gy_frame_source counted;
    gy_schema *schema;
    gy_rows_set_kind kind;
    gy_frame *frame;    /* with the counts */
    int64_t row, given; /* how often the row was given */
} set_source;

static int64_t times(gy_rows_set_kind kind, int64_t left, int64_t right)
{
    switch (kind) {
    case GY_ROWS_INTERSECT:
        return left > 0 && right > 0;
    case GY_ROWS_INTERSECT_ALL:
        return GY_MIN(left, right);
    case GY_ROWS_EXCEPT:
        return left > 0 && right == 0;
    case GY_ROWS_EXCEPT_ALL:
    default:
        return GY_MAX(left - right, (int64_t)0);
    }
}

/* Rows of the frame from where the last call ended, as often as they are due. */
static gy_status give_rows(set_source *source, gy_frame **frame)
{
    const int columns = gy_schema_count(source->schema);
    const gy_column left = gy_frame_column(source->frame, columns);
    const gy_column right = gy_frame_column(source->frame, columns + 1);
    int32_t *rows = gy_alloc("query.set", GY_ROWS_FRAME * sizeof(*rows));
    gy_frame_maker *makers = gy_rows_makers_new(source->schema);
    gy_status status = rows == NULL || makers == NULL ? GY_NOMEM : GY_OK;
    int64_t count = 0;
    while (status == GY_OK && source->row < left.rows && count < GY_ROWS_FRAME) {
        const int64_t due = times(source->kind, gy_column_int64(&left, source->row),
                                  gy_column_int64(&right, source->row));
        for (; source->given < due && count < GY_ROWS_FRAME; source->given++) {
            rows[count++] = (int32_t)source->row;
        }
        if (source->given >= due) {
            source->row++;
            source->given = 0;
        }
    }
    for (int k = 0; k < columns && status == GY_OK; k++) {
        const gy_column column = gy_frame_column(source->frame, k);
        status = gy_rows_append(&makers[k], &column, rows, count, false);
    }
    if (status == GY_OK) {
        status = gy_frame_make(source->schema, makers, count, frame);
    }
    gy_rows_makers_free(makers, columns);
    gy_free(rows);
    return status;
}

static gy_status set_next(void *arg, gy_frame **frame)
{
    set_source *source = arg;
    if (source->frame == NULL || source->row == gy_frame_rows(source->frame)) {
        gy_frame *next = NULL;
        const gy_status status = source->counted.next(source->counted.arg, &next);
        if (status != GY_OK) {
            return status;
        }
        gy_frame_drop(source->frame);
        source->frame = next;
        source->row = 0;
    }
    return give_rows(source, frame);
}

static void set_close(void *arg)
{
    set_source *source = arg;
    gy_rows_close(&source->counted);
    gy_frame_drop(source->frame);
    gy_schema_drop(source->schema);
    gy_free(source);
}

/* Count rows of both sides by all of their columns. Takes the sides. */
static gy_status open_counted(gy_rows_side sides[2], const gy_rows_limits *limits,
                              gy_frame_source *out)
{
    const int columns = gy_schema_count(sides[0].schema);
    gy_schema *one = NULL, *both = NULL, *same = NULL, *counted = NULL;
    int *keys = gy_alloc_zero("query.keys", (size_t)columns + 1, sizeof(*keys));
    gy_status status = keys == NULL ? GY_NOMEM : gy_rows_schema_tagged(sides[0].schema, &one);
    if (status == GY_OK) {
        status = gy_rows_schema_tagged(one, &both);
    }
    for (int s = 0; s < 2; s++) { /* a side that fails is closed, and so is the other one */
        gy_frame_source source = {.next = NULL};
        if (status == GY_OK) {
            status = open_sided(sides[s], both, s == 0, &source);
        } else {
            gy_rows_close(&sides[s].source);
        }
        sides[s] = (gy_rows_side){source, both};
    }
    gy_frame_source all = {.next = NULL};
    if (status == GY_OK) {
        status = gy_rows_chain(sides, 2, &all, &same);
    } else {
        gy_rows_close(&sides[0].source);
        gy_rows_close(&sides[1].source);
    }
    if (status == GY_OK) {
        const gy_rows_aggregate_of of[] = {{.kind = GY_ROWS_COUNT, .column = columns},
                                           {.kind = GY_ROWS_COUNT, .column = columns + 1}};
        gy_rows_aggregate_options options = {.keys = keys,
                                             .key_count = columns,
                                             .aggregates = of,
                                             .aggregate_count = 2,
                                             .needs_rows = true};
        for (int k = 0; k < columns; k++) {
            keys[k] = k;
        }
        options.limits = limits == NULL ? options.limits : *limits;
        status = gy_rows_aggregate(all, both, &options, out, &counted);
    }
    gy_schema_drop(one);
    gy_schema_drop(both);
    gy_schema_drop(same);
    gy_schema_drop(counted);
    gy_free(keys);
    return status;
}

gy_status gy_rows_set(gy_rows_side left, gy_rows_side right, gy_rows_set_kind kind,
                      const gy_rows_limits *limits, gy_frame_source *out, gy_schema **schema)
{
    gy_rows_side sides[2] = {left, right};
    set_source *source = gy_alloc_zero("query.set", 1, sizeof(*source));
    const gy_status checked = source == NULL ? GY_NOMEM : check_sides(sides, 2);
    if (checked < 0) {
        gy_free(source);
        gy_rows_close(&left.source);
        gy_rows_close(&right.source);
        return checked;
    }
    source->kind = kind;
    source->schema = gy_schema_hold(left.schema);
    const gy_status status = open_counted(sides, limits, &source->counted);
    if (status < 0) {
        set_close(source);
        return status;
    }
    *out = (gy_frame_source){.next = set_next, .close = set_close, .arg = source};
    *schema = gy_schema_hold(left.schema);
    return GY_OK;
}
