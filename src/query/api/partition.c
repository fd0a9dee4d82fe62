/* Partitions: an answer divided by the hash of keys, or by their ranges. */
#include "query/api/api_priv.h"

#include "query/rows/rows.h"

/* Rows of a sample for each part, which then has its share but for some 6 %. */
enum { SAMPLE_ROWS = 256, PARTS_MAX = 10000 };

/* An answer that is being divided: the keys are its last columns. */
typedef struct division {
    const gy_rows *rows;
    gy_schema *schema;            /* of the answer with its keys */
    gy_schema *visible;           /* without them */
    int *columns;                 /* (visible) their places */
    int *keys;                    /* (key_count) */
    gy_rows_sort_key *sort_keys;  /* (key_count) */
    gy_rows_sort_key *bound_keys; /* (key_count) in a frame of keys alone */
    gy_frame **divided;           /* (parts) of a frame */
    gy_rows_table_of *parts;      /* (parts) */
    gy_rows_table_of whole;       /* of ranges: all rows, while their bounds are looked for */
    gy_frame *bounds;
    uint64_t used; /* bytes in memory */
} division;

static gy_rows_store store_of(division *of)
{
    return (gy_rows_store){.session = of->rows->session, .used = &of->used};
}

static void drop_division(division *of)
{
    for (int p = 0; of->parts != NULL && p < of->rows->parts; p++) {
        gy_rows_table_drop(&of->parts[p]);
    }
    gy_rows_table_drop(&of->whole);
    gy_frame_drop(of->bounds);
    gy_schema_drop(of->schema);
    gy_schema_drop(of->visible);
    gy_free(of->columns);
    gy_free(of->keys);
    gy_free(of->sort_keys);
    gy_free(of->bound_keys);
    gy_free(of->divided);
    gy_free(of->parts);
}

static gy_status make_visible(division *of, int count)
{
    gy_field *fields = gy_alloc_zero("query.fields", (size_t)count + 1, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        fields[i] = *gy_schema_field(of->schema, i);
        of->columns[i] = i;
    }
    const gy_status status = gy_schema_new(fields, count, &of->visible);
    gy_free(fields);
    return status;
}

/* Takes the schema. */
static gy_status begin_division(division *of, gy_schema *schema)
{
    const gy_sql_select *asked = of->rows->divided;
    const size_t key_count = asked->target_count - 1, parts = (size_t)of->rows->parts;
    const int count = gy_schema_count(schema) - (int)key_count;
    of->schema = schema;
    of->columns = gy_alloc_zero("query.parts", (size_t)count + 1, sizeof(*of->columns));
    of->keys = gy_alloc_zero("query.parts", key_count, sizeof(*of->keys));
    of->sort_keys = gy_alloc_zero("query.parts", key_count, sizeof(*of->sort_keys));
    of->bound_keys = gy_alloc_zero("query.parts", key_count, sizeof(*of->bound_keys));
    of->divided = gy_alloc_zero("query.parts", parts, sizeof(gy_frame *));
    of->parts = gy_alloc_zero("query.parts", parts, sizeof(*of->parts));
    if (of->columns == NULL || of->keys == NULL || of->sort_keys == NULL ||
        of->bound_keys == NULL || of->divided == NULL || of->parts == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < key_count; i++) {
        const gy_sql_order *key = &of->rows->keys[i];
        of->keys[i] = count + (int)i;
        of->sort_keys[i] = (gy_rows_sort_key){
            .column = of->keys[i],
            .is_descending = key->is_descending,
            .nulls_first = key->nulls == GY_SQL_NULLS_USUAL ? key->is_descending
                                                            : key->nulls == GY_SQL_NULLS_FIRST};
        of->bound_keys[i] = of->sort_keys[i];
        of->bound_keys[i].column = (int)i;
    }
    return make_visible(of, count);
}

/* Takes the frame. */
static gy_status divide(division *of, gy_frame *frame)
{
    const int key_count = (int)of->rows->divided->target_count - 1, parts = of->rows->parts;
    const gy_rows_store store = store_of(of);
    for (int p = 0; p < parts; p++) {
        of->divided[p] = NULL;
    }
    gy_status status =
        of->rows->is_range
            ? gy_rows_partition_range(frame, of->sort_keys, key_count, of->bounds, of->divided)
            : gy_rows_partition_hash(frame, of->keys, key_count, parts, of->divided);
    gy_frame_drop(frame);
    for (int p = 0; p < parts; p++) {
        gy_frame *kept = NULL;
        if (status == GY_OK && of->divided[p] != NULL && gy_frame_rows(of->divided[p]) > 0) {
            status = gy_frame_select(of->divided[p], of->columns, gy_schema_count(of->visible),
                                     &kept);
            status = status == GY_OK
                         ? gy_rows_store_add(&store, &of->parts[p], of->visible, kept)
                         : status;
        }
        gy_frame_drop(of->divided[p]);
    }
    return status;
}

/* ---- Ranges ---- */

/* Keep all rows, and find bounds of equal shares. */
static gy_status find_bounds(division *of, const gy_frame_source *source)
{
    const int key_count = (int)of->rows->divided->target_count - 1;
    const gy_rows_store store = store_of(of);
    gy_rows_sampler *sampler = NULL;
    gy_frame *frame = NULL, *sample = NULL;
    GY_TRY(gy_rows_sampler_new(of->schema, of->sort_keys, key_count,
                               SAMPLE_ROWS * of->rows->parts, 1, &sampler));
    gy_status status = source->next(source->arg, &frame);
    while (status == GY_OK) {
        status = gy_rows_sampler_add(sampler, frame);
        if (status == GY_OK) {
            status = gy_rows_store_add(&store, &of->whole, of->schema, frame);
        } else {
            gy_frame_drop(frame);
        }
        status = status == GY_OK ? source->next(source->arg, &frame) : status;
    }
    status = status == GY_DONE ? gy_rows_sampler_take(sampler, &sample) : status;
    if (status == GY_OK) {
        status = gy_rows_bounds(sample, NULL, of->bound_keys, key_count, of->rows->parts,
                                &of->bounds);
    }
    gy_frame_drop(sample);
    gy_rows_sampler_free(sampler);
    return status;
}

/* The frames that were kept become a source; the table has none then. */
static gy_status give(gy_rows_table_of *of, gy_schema *schema, gy_frame_source *source)
{
    gy_status status = gy_rows_source(of->table.frames, of->table.frame_count, source);
    if (status == GY_OK && of->table.rest != NULL) {
        const gy_rows_side sides[2] = {{.source = *source, .schema = schema},
                                       {gy_rows_file_source(of->table.rest), schema}};
        gy_schema *same = NULL;
        of->table.rest = NULL;
        status = gy_rows_chain(sides, 2, source, &same);
        gy_schema_drop(same);
    }
    gy_rows_table_drop(of);
    return status;
}

static gy_status divide_all(division *of, const gy_frame_source *source)
{
    gy_frame *frame = NULL;
    gy_status status = source->next(source->arg, &frame);
    while (status == GY_OK) {
        status = divide(of, frame);
        status = status == GY_OK ? source->next(source->arg, &frame) : status;
    }
    return status == GY_DONE ? GY_OK : status;
}

/* The source is closed. */
static gy_status divide_source(division *of, gy_frame_source *source)
{
    gy_status status = GY_OK;
    if (of->rows->is_range) {
        status = find_bounds(of, source);
        source->close(source->arg);
        GY_TRY(status);
        GY_TRY(give(&of->whole, of->schema, source));
    }
    status = divide_all(of, source);
    source->close(source->arg);
    return status;
}

static gy_status give_parts(division *of, gy_frame_source *sources)
{
    gy_status status = GY_OK;
    int given = 0;
    for (; given < of->rows->parts && status == GY_OK; given++) {
        status = give(&of->parts[given], of->visible, &sources[given]);
    }
    for (int p = 0; status != GY_OK && p < given - 1; p++) {
        sources[p].close(sources[p].arg);
    }
    return status;
}

gy_status gy_rows_run_parts(gy_rows *rows, gy_schema **schema, gy_frame_source *sources)
{
    division of = {.rows = rows};
    gy_schema *with_keys = NULL;
    gy_frame_source source;
    if (rows->failure == NULL && rows->parts == 0) {
        return gy_fail(GY_ARG, "gy_rows_run_parts: expected rows of gy_rows_hash_partition or "
                               "gy_rows_range_partition");
    }
    GY_TRY(gy_rows_run_tree(rows, rows->divided, &with_keys, &source));
    gy_status status = begin_division(&of, with_keys);
    if (status == GY_OK) {
        status = divide_source(&of, &source);
    } else {
        source.close(source.arg);
    }
    status = status == GY_OK ? give_parts(&of, sources) : status;
    if (status == GY_OK) {
        *schema = gy_schema_hold(of.visible);
        rows->schema = gy_schema_hold(of.visible);
    }
    drop_division(&of);
    return status;
}

/* ---- The calls ---- */

/* All columns, and behind them the keys. */
static gy_status add_keys(gy_rows_call *call, const gy_sql_select *order, gy_sql_select *select)
{
    gy_sql_target *targets =
        gy_rows_alloc(call->session, order->order_count + 1, sizeof(*targets));
    if (targets == NULL) {
        return GY_NOMEM;
    }
    targets[0] = select->targets[0];
    for (uint32_t i = 0; i < order->order_count; i++) {
        if (order->order[i].value->kind == GY_SQL_NUMBER) {
            return gy_rows_refuse(
                call, GY_FORMAT, "a key is a number: expected names of columns or expressions");
        }
        targets[i + 1] = (gy_sql_target){.value = order->order[i].value,
                                         .name = {.text = "key", .is_quoted = true}};
    }
    select->targets = targets;
    select->target_count = order->order_count + 1;
    return GY_OK;
}

static gy_rows *partition(gy_rows *rows, const char *name, const char *keys, int parts,
                          bool is_range)
{
    gy_rows_call call;
    gy_sql_select order = {.order_count = 0};
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = gy_rows_begin(rows->session, name, keys, &call);
    gy_sql_select *select = gy_rows_select_new(&call), *divided = gy_rows_select_new(&call);
    gy_sql_from *from = gy_rows_from(&call, rows, NULL);
    if (status == GY_OK && (select == NULL || divided == NULL || from == NULL)) {
        status = GY_NOMEM;
    }
    if (status == GY_OK && (parts < 1 || parts > PARTS_MAX)) {
        status =
            gy_rows_refuse(&call, GY_ARG, "%d partitions: expected 1 to %d", parts, PARTS_MAX);
    }
    status = status == GY_OK ? gy_rows_read_order(&call, &order) : status;
    status = status == GY_OK ? gy_rows_star(&call, select) : status;
    if (status == GY_OK) {
        select->from = from;
        *divided = *select;
        status = add_keys(&call, &order, divided);
    }
    gy_rows *made = gy_rows_end(&call, status, select, rows, NULL);
    if (made->failure == NULL) {
        made->divided = divided;
        made->keys = order.order;
        made->parts = parts;
        made->is_range = is_range;
    }
    return made;
}

gy_rows *gy_rows_hash_partition(gy_rows *rows, const char *keys, int parts)
{
    return partition(rows, "gy_rows_hash_partition", keys, parts, false);
}

gy_rows *gy_rows_range_partition(gy_rows *rows, const char *keys, int parts)
{
    return partition(rows, "gy_rows_range_partition", keys, parts, true);
}
