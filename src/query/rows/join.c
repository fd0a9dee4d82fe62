/*
 * Joins: the built side is collected. If it fits, a table of it is probed by the other side's
 * frames as they come. If not, both sides get the number of each row as a tag and are divided
 * by hash into partitions in a file, again where a partition's built rows do not fit; a
 * partition that does not get smaller so (one key) is joined block by block. What partitions
 * give are runs that ascend by tag, and merging them by tag gives the order of the join that
 * fits.
 */
#include "query/rows/rows_priv.h"

enum {
    PARTS_BITS = 4,
    PARTS = 1 << PARTS_BITS,
    LEVELS_MOST = 5,
    PORTION_BYTES = 64 << 20 /* that are divided at once where memory has no bound */
};

/* A partition that is still to be joined. */
typedef struct part {
    gy_rows_run built, probe;
    int level;
    bool is_stuck; /* dividing it did not help */
} part;

typedef struct join_source {
    gy_frame_source built, probe;
    gy_rows_match_plan plan;
    gy_schema *given_schema; /* of what comes out */
    gy_rows_limits limits;
    bool is_not_in;
    gy_rows_not_in right;
    bool is_begun;
    gy_rows_list list; /* of the built side */
    uint64_t *texts;   /* (columns) bytes of text in the list */
    gy_rows_matcher *matcher;
    gy_rows_probing probing; /* NULL: in this thread */
    gy_frame_source probe_timed, probed;
    gy_rows_spill *spill;
    part *parts;
    size_t part_count, part_capacity;
    gy_rows_runs runs; /* of what comes out */
    gy_frame_source merged;
    int64_t source_ns; /* in sources */
} join_source;

/* ---- making ---- */

static void set_kind(join_source *it, gy_rows_join_kind kind)
{
    gy_rows_match_plan *plan = &it->plan;
    const bool is_left = plan->builds_left;
    const bool left_alone = kind == GY_ROWS_JOIN_LEFT || kind == GY_ROWS_JOIN_FULL ||
                            kind == GY_ROWS_JOIN_ANTI || kind == GY_ROWS_JOIN_NOT_IN;
    const bool right_alone = kind == GY_ROWS_JOIN_RIGHT || kind == GY_ROWS_JOIN_FULL;
    const bool left_matched = kind == GY_ROWS_JOIN_SEMI;
    it->is_not_in = kind == GY_ROWS_JOIN_NOT_IN;
    plan->gives_pairs = !left_matched && kind != GY_ROWS_JOIN_ANTI && !it->is_not_in;
    plan->gives_built_unmatched = is_left ? left_alone : right_alone;
    plan->gives_probe_unmatched = is_left ? right_alone : left_alone;
    plan->gives_built_matched = is_left && left_matched;
    plan->gives_probe_matched = !is_left && left_matched;
    plan->marks_built = plan->gives_built_matched || plan->gives_built_unmatched;
}

static gy_status check(const gy_schema *left, const gy_schema *right,
                       const gy_rows_match_options *options)
{
    GY_TRY(gy_rows_check_columns(left, options->left_keys, options->key_count, "left key"));
    GY_TRY(gy_rows_check_columns(right, options->right_keys, options->key_count, "right key"));
    for (int k = 0; k < options->key_count; k++) {
        GY_TRY(gy_rows_check_same(gy_schema_field(left, options->left_keys[k]),
                                  gy_schema_field(right, options->right_keys[k])));
    }
    if (options->kind == GY_ROWS_JOIN_NOT_IN &&
        (options->key_count != 1 || options->keep != NULL)) {
        return gy_fail(GY_UNSUPPORTED, "not in: one key, and no condition");
    }
    return GY_OK;
}

/* Which columns come out. */
static gy_status set_columns(join_source *it, const gy_schema *left, const gy_schema *right,
                             const gy_rows_match_options *options)
{
    gy_rows_match_plan *plan = &it->plan;
    const bool is_left_alone = options->kind >= GY_ROWS_JOIN_SEMI;
    const int all = gy_schema_count(left) + (is_left_alone ? 0 : gy_schema_count(right));
    plan->column_count = options->columns == NULL ? all : options->column_count;
    plan->columns =
        gy_alloc("query.join", ((size_t)plan->column_count + 1) * sizeof(*plan->columns));
    if (plan->columns == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < plan->column_count; k++) {
        plan->columns[k] = options->columns == NULL ? k : options->columns[k];
        if (plan->columns[k] < 0 || plan->columns[k] >= all) {
            return gy_fail(GY_ARG, "column %d of %d", plan->columns[k], all);
        }
    }
    return gy_rows_schema_of(left, right, plan->columns, plan->column_count, &it->given_schema);
}

static gy_status init(join_source *it, gy_schema *left, gy_schema *right,
                      const gy_rows_match_options *options)
{
    gy_rows_match_plan *plan = &it->plan;
    const bool is_left = options->builds_left;
    GY_TRY(check(left, right, options));
    GY_TRY(gy_rows_limits_copy(&options->limits, &it->limits));
    plan->builds_left = is_left;
    plan->left_count = gy_schema_count(left);
    plan->keep = options->keep;
    plan->keep_arg = options->keep_arg;
    set_kind(it, options->kind);
    plan->built_schema = gy_schema_hold(is_left ? left : right);
    plan->probe_schema = gy_schema_hold(is_left ? right : left);
    GY_TRY(gy_rows_key_layout_init(&plan->built_layout, plan->built_schema,
                                   is_left ? options->left_keys : options->right_keys,
                                   options->key_count));
    GY_TRY(gy_rows_key_layout_init(&plan->probe_layout, plan->probe_schema,
                                   is_left ? options->right_keys : options->left_keys,
                                   options->key_count));
    it->texts = gy_alloc_zero("query.join", (size_t)gy_schema_count(plan->built_schema) + 1,
                              sizeof(*it->texts));
    if (it->texts == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(set_columns(it, left, right, options));
    plan->out_schema = gy_schema_hold(it->given_schema);
    return gy_rows_schema_of(left, right, NULL, 0, &plan->pair_schema);
}

/* ---- the built side ---- */

static gy_status next_timed(join_source *it, gy_frame_source *source, gy_frame **frame)
{
    const int64_t begin_ns = gy_now_ns(it->limits.env);
    const gy_status status = gy_rows_next(source, it->limits.counts, frame);
    it->source_ns += gy_now_ns(it->limits.env) - begin_ns;
    return status;
}

static gy_status probe_next(void *arg, gy_frame **frame)
{
    join_source *it = arg;
    return next_timed(it, &it->probe, frame);
}

static bool fits(const join_source *it, uint64_t bytes, int64_t rows)
{
    return it->limits.memory_bytes == 0 ||
           gy_rows_matcher_bytes(&it->plan, bytes, rows) <= it->limits.memory_bytes;
}

static uint64_t text_most(const join_source *it)
{
    return it->limits.text_bytes != 0 ? it->limits.text_bytes : (uint64_t)INT32_MAX;
}

/* The same of rows on disk, whose texts are not counted: all of it is no half of the most. */
static bool fits_read(const join_source *it, uint64_t bytes, int64_t rows)
{
    bool has_texts = false;
    for (int k = 0; k < gy_schema_count(it->plan.built_schema); k++) { /* one is the tag */
        has_texts = has_texts || it->texts[k] > 0;
    }
    return fits(it, bytes, rows) && (!has_texts || bytes <= text_most(it) / 2);
}

/* Count the texts of a frame of the built side; false: one column has too many, and there is
 * a folder to divide them in. */
static bool see_texts(join_source *it, const gy_frame *frame)
{
    bool has_room = true;
    for (int k = 0; k < gy_schema_count(gy_frame_schema(frame)); k++) {
        const gy_column column = gy_frame_column(frame, k);
        if (column.field->kind == GY_FIELD_TEXT && column.rows > 0) {
            const int32_t *offsets = (const int32_t *)column.values + column.offset;
            it->texts[k] += (uint64_t)(offsets[column.rows] - offsets[0]);
            has_room = has_room && it->texts[k] <= text_most(it);
        }
    }
    return has_room || it->limits.spill_folder == NULL;
}

/* Collect frames of the built side until they end, or do not fit. GY_DONE: they ended. */
static gy_status collect(join_source *it)
{
    bool has_room = true;
    while (has_room && fits(it, it->list.bytes, it->list.rows)) {
        gy_frame *frame = NULL;
        const gy_status status = next_timed(it, &it->built, &frame);
        if (status != GY_OK) {
            return status;
        }
        if (it->is_not_in && !it->plan.builds_left) {
            gy_rows_not_in_see(&it->right, frame, it->plan.built_layout.columns[0]);
        }
        has_room = see_texts(it, frame);
        GY_TRY(gy_rows_list_add(&it->list, frame));
    }
    return GY_OK;
}

/* ---- partitions ---- */

/* Divide a frame, whose last column is its tag, into runs. */
static gy_status divide(join_source *it, const gy_rows_key_layout *layout, gy_frame *frame,
                        int level, part *parts, bool is_built)
{
    const int64_t rows = gy_frame_rows(frame);
    uint64_t *hashes = gy_alloc("query.hashes", ((size_t)rows + 1) * sizeof(*hashes));
    int32_t *order = gy_alloc("query.parts", ((size_t)rows + 1) * sizeof(*order));
    gy_status status = hashes == NULL || order == NULL ? GY_NOMEM : GY_OK;
    int64_t ends[PARTS + 1] = {0};
    if (status == GY_OK) {
        gy_rows_hash(frame, layout->columns, layout->column_count, hashes);
        for (int64_t i = 0; i < rows; i++) { /* bits that neither shuffles nor tables use */
            hashes[i] =
                (hashes[i] * UINT64_C(0xc2b2ae3d27d4eb4f)) >> (64 - PARTS_BITS * (level + 1)) &
                (PARTS - 1);
            ends[hashes[i] + 1]++;
        }
        for (int p = 0; p < PARTS; p++) {
            ends[p + 1] += ends[p];
        }
        for (int64_t i = 0; i < rows; i++) {
            order[ends[hashes[i]]++] = (int32_t)i;
        }
    }
    for (int p = 0; p < PARTS && status == GY_OK; p++) {
        const int64_t begin = p == 0 ? 0 : ends[p - 1];
        gy_frame *piece = NULL;
        if (begin == ends[p]) {
            continue;
        }
        status = gy_rows_gather(frame, order + begin, ends[p] - begin, &piece);
        if (status == GY_OK) {
            gy_rows_run *run = is_built ? &parts[p].built : &parts[p].probe;
            status = gy_rows_spill_add(it->spill, run, piece);
            gy_frame_drop(piece);
        }
    }
    gy_free(hashes);
    gy_free(order);
    return status;
}

/* Put frames together, with the number of each row behind them; empties the list. */
static gy_status tag(gy_rows_list *list, gy_schema *schema, int64_t *number, gy_frame **tagged)
{
    const int columns = gy_schema_count(schema) - 1;
    const int64_t rows = list->rows;
    gy_frame_maker *makers = gy_rows_makers_new(schema);
    gy_status status = makers == NULL ? GY_NOMEM : GY_OK;
    for (size_t f = 0; f < list->count && status == GY_OK; f++) {
        for (int k = 0; k < columns && status == GY_OK; k++) {
            const gy_column column = gy_frame_column(list->frames[f], k);
            status = gy_rows_append_range(&makers[k], &column, 0, column.rows);
        }
    }
    if (status == GY_OK) {
        status = gy_frame_maker_reserve(&makers[columns], rows);
    }
    for (int64_t i = 0; i < rows && status == GY_OK; i++) {
        ((int64_t *)makers[columns].values)[i] = (*number)++;
        gy_frame_maker_set(&makers[columns]);
    }
    if (status == GY_OK) {
        status = gy_frame_make(schema, makers, rows, tagged);
    }
    gy_rows_makers_free(makers, columns + 1);
    gy_rows_list_free(list);
    return status;
}

/* The next frame of a side: of the list, which has `*at` fewer, then of its source. */
static gy_status next_of_side(join_source *it, bool is_built, size_t *at, gy_frame **frame)
{
    const gy_rows_match_plan *plan = &it->plan;
    if (*at < it->list.count) {
        *frame = it->list.frames[*at];
        it->list.frames[(*at)++] = NULL;
        return GY_OK;
    }
    const gy_status status = next_timed(it, is_built ? &it->built : &it->probe, frame);
    if (status == GY_OK && it->is_not_in && is_built != plan->builds_left) {
        const gy_rows_key_layout *layout = is_built ? &plan->built_layout : &plan->probe_layout;
        gy_rows_not_in_see(&it->right, *frame, layout->columns[0]);
    }
    return status;
}

/* Write a whole side to partitions: what is in the list, then what its source has. */
static gy_status divide_side(join_source *it, bool is_built, part *parts)
{
    const gy_rows_match_plan *plan = &it->plan;
    gy_schema *schema = is_built ? plan->built_schema : plan->probe_schema;
    const gy_rows_key_layout *layout = is_built ? &plan->built_layout : &plan->probe_layout;
    const uint64_t bound =
        it->limits.memory_bytes != 0 ? it->limits.memory_bytes / 8 : (uint64_t)PORTION_BYTES;
    const uint64_t most = GY_MIN(bound, text_most(it) / 4);
    int64_t number = 0;
    size_t at = 0;
    for (gy_status more = GY_OK; more == GY_OK;) {
        gy_rows_list portion = {.count = 0};
        gy_status status = GY_OK;
        while (more == GY_OK && status == GY_OK && portion.bytes <= most) {
            gy_frame *frame = NULL;
            more = next_of_side(it, is_built, &at, &frame);
            status = more == GY_OK ? gy_rows_list_add(&portion, frame) : GY_OK;
        }
        status = status == GY_OK && more != GY_DONE ? more : status;
        gy_frame *tagged = NULL;
        if (status == GY_OK) {
            status = tag(&portion, schema, &number, &tagged);
        }
        if (status == GY_OK) {
            status = divide(it, layout, tagged, 0, parts, is_built);
        }
        gy_frame_drop(tagged);
        gy_rows_list_free(&portion);
        GY_TRY(status);
    }
    gy_rows_list_free(&it->list);
    return GY_OK;
}

static void part_free(part *p)
{
    gy_rows_run_free(&p->built);
    gy_rows_run_free(&p->probe);
}

/* Add the parts that have rows to those to be joined. Takes them, also on failure. */
static gy_status add_parts(join_source *it, part parts[PARTS], int level, int64_t built_before)
{
    gy_status status =
        GY_GROW("query.parts", it->parts, it->part_capacity, it->part_count + PARTS);
    for (int p = 0; p < PARTS; p++) {
        const bool has_rows = parts[p].built.rows > 0 || parts[p].probe.rows > 0;
        if (status < 0 || !has_rows) {
            part_free(&parts[p]);
            continue;
        }
        parts[p].level = level;
        parts[p].is_stuck = level > LEVELS_MOST || parts[p].built.rows > built_before / 4 * 3;
        it->parts[it->part_count++] = parts[p];
    }
    return status;
}

/* Divide a part once more. */
static gy_status divide_part(join_source *it, const part *from)
{
    const gy_rows_match_plan *plan = &it->plan;
    part parts[PARTS];
    memset(parts, 0, sizeof(parts));
    gy_status status = GY_OK;
    for (int side = 0; side < 2; side++) {
        const gy_rows_run *run = side == 0 ? &from->built : &from->probe;
        for (size_t i = 0; i < run->count && status == GY_OK; i++) {
            gy_frame *frame = NULL;
            status = gy_rows_spill_get(
                it->spill, side == 0 ? plan->built_schema : plan->probe_schema, run, i, &frame);
            if (status == GY_OK) {
                status = divide(it, side == 0 ? &plan->built_layout : &plan->probe_layout,
                                frame, from->level, parts, side == 0);
                gy_frame_drop(frame);
            }
        }
    }
    if (status < 0) {
        for (int p = 0; p < PARTS; p++) {
            part_free(&parts[p]);
        }
        return status;
    }
    return add_parts(it, parts, from->level + 1, from->built.rows);
}

/* Write what a table gives for the probing rows of a part, as a run. */
static gy_status join_block(join_source *it, const part *from, gy_rows_matcher *matcher)
{
    gy_frame_source probe = {.next = NULL};
    GY_TRY(gy_rows_runs_add(&it->runs, &it->limits));
    GY_TRY(gy_rows_run_source(it->spill, it->plan.probe_schema, &from->probe, &probe));
    gy_status status = GY_OK;
    while (status == GY_OK) {
        gy_frame *frame = NULL;
        status = gy_rows_matcher_next(matcher, &probe, &frame);
        if (status == GY_OK) {
            status =
                gy_rows_spill_add(it->runs.spill, &it->runs.runs[it->runs.count - 1], frame);
            gy_frame_drop(frame);
        }
    }
    gy_rows_close(&probe);
    return status == GY_DONE ? GY_OK : status;
}

/* Join a part: at once, or by blocks of its built rows. */
static gy_status join_part(join_source *it, const part *from)
{
    uint8_t *known = NULL;
    size_t at = 0;
    gy_status status = GY_OK;
    do {
        gy_rows_list list = {.count = 0};
        while (at < from->built.count && status == GY_OK &&
               (list.count == 0 || fits_read(it, list.bytes, list.rows))) {
            gy_frame *frame = NULL;
            status =
                gy_rows_spill_get(it->spill, it->plan.built_schema, &from->built, at++, &frame);
            if (status == GY_OK) {
                status = gy_rows_list_add(&list, frame);
            }
        }
        if (at < from->built.count && known == NULL && status == GY_OK) {
            known = gy_alloc_zero("query.known", (size_t)from->probe.rows / 8 + 1, 1);
            status = known == NULL ? GY_NOMEM : GY_OK;
        }
        if (status < 0) {
            gy_rows_list_free(&list);
            break;
        }
        gy_rows_matcher *matcher = NULL;
        status = gy_rows_matcher_new(&it->plan, it->is_not_in ? &it->right : NULL, &list, NULL,
                                     &matcher);
        if (status == GY_OK) {
            gy_rows_matcher_blocks(matcher, known, at == from->built.count);
            status = join_block(it, from, matcher);
        }
        gy_rows_matcher_free(matcher);
    } while (status == GY_OK && at < from->built.count);
    gy_free(known);
    return status;
}

/* The schemas with a tag behind their columns. */
static gy_status tag_schemas(join_source *it)
{
    gy_schema **schemas[] = {&it->plan.built_schema, &it->plan.probe_schema,
                             &it->plan.out_schema};
    for (size_t i = 0; i < GY_COUNT(schemas); i++) {
        gy_schema *tagged = NULL;
        GY_TRY(gy_rows_schema_tagged(*schemas[i], &tagged));
        gy_schema_drop(*schemas[i]);
        *schemas[i] = tagged;
    }
    it->plan.is_tagged = true;
    return GY_OK;
}

/* Join what does not fit: all of it, into runs. */
static gy_status join_parts(join_source *it)
{
    part parts[PARTS];
    memset(parts, 0, sizeof(parts));
    GY_TRY(tag_schemas(it));
    gy_status status = gy_rows_spill_new(&it->limits, &it->spill);
    for (int side = 0; side < 2 && status == GY_OK; side++) {
        status = divide_side(it, side == 0, parts);
    }
    if (status != GY_OK) {
        for (int p = 0; p < PARTS; p++) {
            part_free(&parts[p]);
        }
        return status;
    }
    if (it->limits.counts != NULL) {
        it->limits.counts->spills++;
    }
    int64_t rows = 0;
    for (int p = 0; p < PARTS; p++) {
        rows += parts[p].built.rows;
    }
    GY_TRY(add_parts(it, parts, 1, rows));
    while (it->part_count > 0 && status == GY_OK) {
        part now = it->parts[--it->part_count];
        const bool is_joined = now.is_stuck || fits_read(it, now.built.bytes, now.built.rows);
        status = is_joined ? join_part(it, &now) : divide_part(it, &now);
        part_free(&now);
    }
    return status;
}

/* ---- as a source ---- */

static gy_status begin(join_source *it)
{
    const gy_status status = collect(it);
    if (status == GY_DONE) {
        it->is_begun = true;
        GY_TRY(gy_rows_matcher_new(&it->plan, it->is_not_in ? &it->right : NULL, &it->list,
                                   it->limits.engine, &it->matcher));
        return it->probing == NULL
                   ? GY_OK
                   : it->probing(it->matcher, &it->probe_timed, &it->limits, &it->probed);
    }
    if (status != GY_OK) {
        return status;
    }
    it->is_begun = true;
    const gy_status joined = join_parts(it);
    if (joined != GY_OK) {
        return joined;
    }
    gy_rows_spill_free(it->spill);
    it->spill = NULL;
    if (it->runs.count == 0) {
        return GY_OK; /* neither side has rows */
    }
    const gy_rows_sort_key key = {.column = it->plan.column_count};
    const gy_rows_sort_options options = {.keys = &key,
                                          .key_count = 1,
                                          .limit = -1,
                                          .limits = {.memory_bytes = it->limits.memory_bytes,
                                                     .spill_folder = it->limits.spill_folder,
                                                     .env = it->limits.env}};
    return gy_rows_runs_merge(&it->runs, it->plan.out_schema, &options, &it->merged);
}

/* The next merged frame, without its tags. */
static gy_status next_merged(join_source *it, gy_frame **frame)
{
    gy_frame *tagged = NULL;
    const gy_status status =
        it->merged.next == NULL ? GY_DONE : it->merged.next(it->merged.arg, &tagged);
    if (status != GY_OK) {
        return status;
    }
    gy_frame_maker *makers = gy_rows_makers_new(it->given_schema);
    gy_status made = makers == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < it->plan.column_count && made == GY_OK; k++) {
        const gy_column column = gy_frame_column(tagged, k);
        made = gy_rows_append_range(&makers[k], &column, 0, column.rows);
    }
    if (made == GY_OK) {
        made = gy_frame_make(it->given_schema, makers, gy_frame_rows(tagged), frame);
    }
    gy_rows_makers_free(makers, it->plan.column_count);
    gy_frame_drop(tagged);
    return made;
}

static gy_status join_next(void *arg, gy_frame **frame)
{
    join_source *it = arg;
    const int64_t begin_ns = gy_now_ns(it->limits.env);
    it->source_ns = 0;
    gy_status status = it->is_begun ? GY_OK : begin(it);
    if (status == GY_OK) {
        status = it->probed.next != NULL ? it->probed.next(it->probed.arg, frame)
                 : it->matcher != NULL
                     ? gy_rows_matcher_next(it->matcher, &it->probe_timed, frame)
                     : next_merged(it, frame);
    }
    if (it->limits.counts != NULL) {
        it->limits.counts->rows_out += status == GY_OK ? gy_frame_rows(*frame) : 0;
        it->limits.counts->time_ns += gy_now_ns(it->limits.env) - begin_ns - it->source_ns;
    }
    return status;
}

static void join_close(void *arg)
{
    join_source *it = arg;
    gy_rows_close(&it->built);
    gy_rows_close(&it->probe);
    gy_rows_close(&it->merged);
    gy_rows_list_free(&it->list);
    gy_free(it->texts);
    gy_rows_close(&it->probed);
    gy_rows_matcher_free(it->matcher);
    for (size_t i = 0; i < it->part_count; i++) {
        part_free(&it->parts[i]);
    }
    gy_free(it->parts);
    gy_rows_runs_free(&it->runs);
    gy_rows_spill_free(it->spill);
    gy_rows_key_layout_fini(&it->plan.built_layout);
    gy_rows_key_layout_fini(&it->plan.probe_layout);
    gy_schema_drop(it->plan.built_schema);
    gy_schema_drop(it->plan.probe_schema);
    gy_schema_drop(it->plan.out_schema);
    gy_schema_drop(it->plan.pair_schema);
    gy_schema_drop(it->given_schema);
    gy_free(it->plan.columns);
    gy_rows_limits_fini(&it->limits);
    gy_free(it);
}

gy_status gy_rows_join_probed(const gy_rows_side sides[2], const gy_rows_match_options *options,
                              gy_rows_probing probing, gy_frame_source *out, gy_schema **schema)
{
    const int built = options->builds_left ? 0 : 1;
    gy_frame_source sources[] = {sides[0].source, sides[1].source};
    join_source *it = gy_alloc_zero("query.join", 1, sizeof(*it));
    if (it == NULL) {
        gy_rows_close(&sources[0]);
        gy_rows_close(&sources[1]);
        return GY_NOMEM;
    }
    it->built = sources[built];
    it->probe = sources[1 - built];
    it->probing = probing;
    it->probe_timed = (gy_frame_source){.next = probe_next, .arg = it};
    const gy_status status = init(it, sides[0].schema, sides[1].schema, options);
    if (status < 0) {
        join_close(it);
        return status;
    }
    *out = (gy_frame_source){.next = join_next, .close = join_close, .arg = it};
    *schema = gy_schema_hold(it->given_schema);
    return GY_OK;
}

gy_status gy_rows_match(gy_rows_side left, gy_rows_side right,
                        const gy_rows_match_options *options, gy_frame_source *out,
                        gy_schema **schema)
{
    const gy_rows_side sides[2] = {left, right};
    return gy_rows_join_probed(sides, options, NULL, out, schema);
}
