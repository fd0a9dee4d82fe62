/*
 * Matching: a hash table over the built side of a join, and the rows of the other side that are
 * looked up in it, piece by piece.
 *
 * Slots hold 32 bits of a hash and the first row with a key; rows of one key are chained in
 * their order. For a piece of probing rows their first matches are found, then candidate pairs
 * are made from where the last step ended, the condition leaves some out, and the pairs that
 * stay, with the rows that stand alone, are gathered into a frame.
 */
#include "query/rows/rows_priv.h"

#include <stdatomic.h>

enum {
    PIECE_ROWS = GY_ROWS_FRAME / 2,
    SLOT_BITS_MIN = 6,
    BUILD_BITS = 5, /* parts of a table, that workers fill, as a power of two */
    BUILD_PARTS = 1 << BUILD_BITS,
    BUILD_ROWS = 64 << 10, /* of a range */
};

/* The tag of a built row that has no probing row: behind all of those. */
#define BUILT_TAG (INT64_C(1) << 62)

/* The built side. While it is probed nothing of it changes but marks. */
typedef struct table {
    const gy_rows_match_plan *plan;
    gy_rows_not_in *right;
    gy_frame *built;
    uint64_t *keys; /* (rows, words) */
    uint64_t *slots;
    int32_t *next;       /* (rows) the next row with its key; -1 */
    atomic_uchar *marks; /* (rows) bits: it has a match */
    unsigned slot_bits;  /* slots, as a power of two; */
    size_t part_mask;    /* a key's slot lies where its home does in all bits but these */
} table;

struct gy_rows_matcher {
    const gy_rows_match_plan *plan;
    table *table;
    bool is_shared; /* the table is another one's */
    /* blocks of a built side that does not fit: bits of probing rows that had a match before */
    uint8_t *known;
    bool is_last;
    int64_t ordinal; /* of the piece's first row */
    /* the probing piece */
    gy_frame *whole, *piece;
    int64_t whole_at; /* rows of the whole that were made pieces */
    int64_t row;      /* the next one */
    int32_t chain;    /* the next match of that row, if it was begun */
    bool is_begun, has_match;
    int64_t built_at; /* built rows that were given at the end */
    bool is_probed;
    int32_t heads[PIECE_ROWS];
    int32_t probe_of[PIECE_ROWS], built_of[PIECE_ROWS]; /* candidates */
    int32_t out_probe[GY_ROWS_FRAME], out_built[GY_ROWS_FRAME];
    int64_t out_count;
    uint64_t hashes[GY_ROWS_BATCH];
    uint64_t *batch_keys; /* (GY_ROWS_BATCH, words) */
};

/* ---- the table ---- */

static inline size_t home_of(const table *of, uint64_t hash)
{
    return (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - of->slot_bits));
}

static bool has_null(const gy_rows_key_layout *layout, const uint64_t *key)
{
    uint64_t bits = 0;
    for (int i = 0; i < layout->words && (i << 6) < layout->column_count; i++) {
        bits |= key[i];
    }
    return bits != 0;
}

/* Find a key: the slot that has it, or the empty one where it would be. */
static inline size_t find_slot(const table *of, uint64_t hash, const uint64_t *key)
{
    const gy_rows_key_layout *layout = &of->plan->built_layout;
    const size_t words = (size_t)layout->words, mask = of->part_mask;
    for (size_t at = home_of(of, hash);; at = (at & ~mask) | ((at + 1) & mask)) {
        const uint64_t slot = of->slots[at];
        if (slot == 0 ||
            ((uint32_t)(slot >> 32) == (uint32_t)hash &&
             gy_rows_keys_equal(layout, of->keys + ((slot & UINT32_MAX) - 1) * words, key))) {
            return at;
        }
    }
}

/* Put a row before those that have its key: rows come from the last to the first, so that each
 * chain ascends. */
static inline void insert_row(table *of, int64_t row, uint64_t hash)
{
    const gy_rows_key_layout *layout = &of->plan->built_layout;
    const uint64_t *key = of->keys + row * layout->words;
    of->next[row] = -1;
    if (!has_null(layout, key)) {
        uint64_t *slot = &of->slots[find_slot(of, hash, key)];
        of->next[row] = (int32_t)((int64_t)(*slot & UINT32_MAX) - 1);
        *slot = hash << 32 | (uint64_t)(row + 1);
    }
}

/* What workers build a table of. */
typedef struct builder {
    table *table;
    uint64_t *hashes; /* (rows) */
    int32_t *order;   /* (rows) by part, ascending in each */
    int64_t *begins;  /* (ranges, BUILD_PARTS) where a range's rows of a part begin */
    int64_t rows, ranges;
} builder;

static inline size_t part_of(const builder *in, int64_t row)
{
    return home_of(in->table, in->hashes[row]) >> (in->table->slot_bits - BUILD_BITS);
}

/* Hashes and keys of a range of rows, and how many are of each part. */
static void read_ranges(void *arg, int64_t begin, int64_t end)
{
    const builder *in = arg;
    const gy_rows_key_layout *layout = &in->table->plan->built_layout;
    for (int64_t range = begin; range < end; range++) {
        const int64_t from = range * BUILD_ROWS;
        const int64_t count = GY_MIN(in->rows - from, (int64_t)BUILD_ROWS);
        gy_rows_hash_range(in->table->built, layout->columns, layout->column_count, from, count,
                           in->hashes + from);
        gy_rows_keys_write(layout, in->table->built, from, count,
                           in->table->keys + from * layout->words, (size_t)layout->words);
        for (int64_t row = from; row < from + count; row++) {
            in->begins[range * BUILD_PARTS + (int64_t)part_of(in, row)]++;
        }
    }
}

static void order_ranges(void *arg, int64_t begin, int64_t end)
{
    const builder *in = arg;
    for (int64_t range = begin; range < end; range++) {
        int64_t *at = in->begins + range * BUILD_PARTS;
        const int64_t last = GY_MIN(in->rows, (range + 1) * (int64_t)BUILD_ROWS);
        for (int64_t row = range * BUILD_ROWS; row < last; row++) {
            in->order[at[part_of(in, row)]++] = (int32_t)row;
        }
    }
}

/* Slots of two parts are apart. */
static void insert_parts(void *arg, int64_t begin, int64_t end)
{
    enum { AHEAD = 16 };
    const builder *in = arg;
    const int64_t *ends = in->begins + (in->ranges - 1) * BUILD_PARTS;
    for (int64_t part = begin; part < end; part++) {
        const int64_t from = part == 0 ? 0 : ends[part - 1];
        for (int64_t i = ends[part] - 1; i >= from; i--) {
            if (i - AHEAD >= from) {
                const uint64_t hash = in->hashes[in->order[i - AHEAD]];
                __builtin_prefetch(&in->table->slots[home_of(in->table, hash)], 1);
            }
            insert_row(in->table, in->order[i], in->hashes[in->order[i]]);
        }
    }
}

/* Counts of ranges become where their rows begin. The most rows of a part. */
static int64_t add_up(const builder *in)
{
    int64_t at = 0, most = 0;
    for (int64_t part = 0; part < BUILD_PARTS; part++) {
        const int64_t begin = at;
        for (int64_t range = 0; range < in->ranges; range++) {
            int64_t *count = &in->begins[range * BUILD_PARTS + part];
            at += *count;
            *count = at - *count;
        }
        most = GY_MAX(most, at - begin);
    }
    GY_ASSERT(at == in->rows);
    return most;
}

static gy_status insert_rows(table *of, gy_engine *engine)
{
    const int64_t rows = gy_frame_rows(of->built);
    const int64_t ranges = (rows + BUILD_ROWS - 1) / BUILD_ROWS;
    builder in = {.table = of, .rows = rows, .ranges = GY_MAX(ranges, INT64_C(1))};
    in.hashes = gy_alloc("query.match", ((size_t)rows + 1) * sizeof(*in.hashes));
    in.order = gy_alloc("query.match", ((size_t)rows + 1) * sizeof(*in.order));
    in.begins = gy_alloc_zero("query.match", (size_t)in.ranges * BUILD_PARTS, sizeof(int64_t));
    gy_status status =
        in.hashes == NULL || in.order == NULL || in.begins == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        gy_parallel_for(engine, ranges, 1, read_ranges, &in);
        const size_t slots = (size_t)1 << (of->slot_bits - BUILD_BITS);
        if ((size_t)add_up(&in) < slots) {
            of->part_mask = slots - 1;
            gy_parallel_for(engine, ranges, 1, order_ranges, &in);
            gy_parallel_for(engine, BUILD_PARTS, 1, insert_parts, &in);
        } else { /* most rows have one key, or hashes that somebody chose */
            of->part_mask = ((size_t)1 << of->slot_bits) - 1;
            for (int64_t row = rows - 1; row >= 0; row--) {
                insert_row(of, row, in.hashes[row]);
            }
        }
    }
    gy_free(in.hashes);
    gy_free(in.order);
    gy_free(in.begins);
    return status;
}

static gy_status build(table *of, gy_engine *engine)
{
    const size_t rows = (size_t)gy_frame_rows(of->built);
    const size_t words = (size_t)of->plan->built_layout.words;
    of->slot_bits = SLOT_BITS_MIN;
    while ((size_t)1 << of->slot_bits < 2 * rows) {
        of->slot_bits++;
    }
    of->keys = gy_alloc("query.match", (rows * words + 1) * sizeof(*of->keys));
    of->next = gy_alloc("query.match", (rows + 1) * sizeof(*of->next));
    of->marks = gy_alloc_zero("query.match", rows / 8 + 1, sizeof(*of->marks));
    of->slots = gy_alloc_zero("query.match", (size_t)1 << of->slot_bits, sizeof(*of->slots));
    if (of->keys == NULL || of->next == NULL || of->marks == NULL || of->slots == NULL) {
        return GY_NOMEM;
    }
    return insert_rows(of, engine);
}

uint64_t gy_rows_matcher_bytes(const gy_rows_match_plan *plan, uint64_t bytes, int64_t rows)
{
    const uint64_t row = (uint64_t)plan->built_layout.words * sizeof(uint64_t) +
                         2 * sizeof(int32_t) + 5 * sizeof(uint64_t);
    return 2 * bytes + (uint64_t)rows * row;
}

static void table_free(table *of)
{
    gy_frame_drop(of->built);
    gy_free(of->keys);
    gy_free(of->slots);
    gy_free(of->next);
    gy_free(of->marks);
    gy_free(of);
}

static gy_status prober(const gy_rows_match_plan *plan, gy_rows_matcher **matcher)
{
    const size_t words = (size_t)plan->probe_layout.words;
    gy_rows_matcher *it = gy_alloc_zero("query.match", 1, sizeof(*it));
    if (it == NULL) {
        return GY_NOMEM;
    }
    it->plan = plan;
    it->is_last = true;
    it->batch_keys = gy_alloc("query.match", GY_ROWS_BATCH * words * sizeof(*it->batch_keys));
    if (it->batch_keys == NULL) {
        gy_free(it);
        return GY_NOMEM;
    }
    *matcher = it;
    return GY_OK;
}

gy_status gy_rows_matcher_new(const gy_rows_match_plan *plan, gy_rows_not_in *right,
                              gy_rows_list *built, gy_engine *engine, gy_rows_matcher **matcher)
{
    gy_rows_matcher *it = NULL;
    if (built->rows > INT32_MAX) { /* chains and pairs have numbers of 32 bits */
        gy_rows_list_free(built);
        return gy_fail(GY_LIMIT, "a join keeps over %d rows of a side", INT32_MAX);
    }
    gy_status status = prober(plan, &it);
    if (status == GY_OK) {
        it->table = gy_alloc_zero("query.match", 1, sizeof(*it->table));
        status = it->table == NULL ? GY_NOMEM : GY_OK;
    }
    if (status == GY_OK) {
        it->table->plan = plan;
        it->table->right = right;
        status = gy_rows_concat_by(engine, plan->built_schema, built->frames, built->count,
                                   &it->table->built);
    }
    gy_rows_list_free(built);
    if (status == GY_OK) {
        status = build(it->table, engine);
    }
    if (status < 0) {
        gy_rows_matcher_free(it);
        return status;
    }
    *matcher = it;
    return GY_OK;
}

gy_status gy_rows_matcher_share(const gy_rows_matcher *of, gy_rows_matcher **matcher)
{
    GY_TRY(prober(of->plan, matcher));
    (*matcher)->table = of->table;
    (*matcher)->is_shared = true;
    return GY_OK;
}

void gy_rows_matcher_blocks(gy_rows_matcher *it, uint8_t *known, bool is_last)
{
    it->known = known;
    it->is_last = is_last;
}

void gy_rows_matcher_free(gy_rows_matcher *it)
{
    if (it == NULL) {
        return;
    }
    if (!it->is_shared && it->table != NULL) {
        table_free(it->table);
    }
    gy_frame_drop(it->whole);
    gy_frame_drop(it->piece);
    gy_free(it->batch_keys);
    gy_free(it);
}

/* ---- probing ---- */

/* The first match of each row of the piece; -1: none. */
static void find_heads(gy_rows_matcher *it)
{
    enum { AHEAD_SLOT = 32, AHEAD_KEY = 16 };
    const gy_rows_key_layout *layout = &it->plan->probe_layout;
    const table *of = it->table;
    const size_t words = (size_t)layout->words;
    const int64_t rows = gy_frame_rows(it->piece);
    for (int64_t begin = 0; begin < rows; begin += GY_ROWS_BATCH) {
        const int64_t count = GY_MIN(rows - begin, (int64_t)GY_ROWS_BATCH);
        gy_rows_hash_range(it->piece, layout->columns, layout->column_count, begin, count,
                           it->hashes);
        gy_rows_keys_write(layout, it->piece, begin, count, it->batch_keys, words);
        for (int64_t i = 0; i < count; i++) {
            if (i + AHEAD_SLOT < count) {
                __builtin_prefetch(&of->slots[home_of(of, it->hashes[i + AHEAD_SLOT])]);
            }
            if (i + AHEAD_KEY < count) {
                const uint64_t hash = it->hashes[i + AHEAD_KEY];
                const uint64_t slot = of->slots[home_of(of, hash)];
                if (slot != 0 && (uint32_t)(slot >> 32) == (uint32_t)hash) {
                    __builtin_prefetch(of->keys + ((slot & UINT32_MAX) - 1) * words);
                    __builtin_prefetch(of->next + ((slot & UINT32_MAX) - 1));
                }
            }
            const uint64_t *key = it->batch_keys + (size_t)i * words;
            const uint64_t slot =
                has_null(layout, key) ? 0 : of->slots[find_slot(of, it->hashes[i], key)];
            it->heads[begin + i] = (int32_t)((int64_t)(slot & UINT32_MAX) - 1);
        }
    }
}

static bool is_marked(const table *of, int64_t row)
{
    return (atomic_load_explicit(&of->marks[row >> 3], memory_order_relaxed) >> (row & 7) &
            1) != 0;
}

static void mark(table *of, int64_t row)
{
    if (!is_marked(of, row)) {
        atomic_fetch_or_explicit(&of->marks[row >> 3], (unsigned char)(1 << (row & 7)),
                                 memory_order_relaxed);
    }
}

/* Whether the rest of a chain tells nothing new. Of a row that is marked the next one is, or
 * will be by who marked this one first: it was not marked when that one went on. */
static bool ends_chain(const gy_rows_matcher *it, int32_t match)
{
    const gy_rows_match_plan *plan = it->plan;
    if (plan->keep != NULL || plan->gives_pairs) {
        return false;
    }
    return !plan->marks_built || is_marked(it->table, match);
}

/* Make candidate pairs from where the last step ended; rows [*first, it->row) are complete. */
static int64_t make_candidates(gy_rows_matcher *it)
{
    const int64_t rows = gy_frame_rows(it->piece);
    int64_t count = 0;
    while (it->row < rows) {
        if (!it->is_begun) {
            it->chain = it->heads[it->row];
            it->is_begun = true;
        }
        while (it->chain >= 0 && count < PIECE_ROWS) {
            it->probe_of[count] = (int32_t)it->row;
            it->built_of[count++] = it->chain;
            it->chain = ends_chain(it, it->chain) ? -1 : it->table->next[it->chain];
        }
        if (it->chain >= 0) {
            break; /* no room */
        }
        it->is_begun = false;
        it->row++;
    }
    return count;
}

/* Rows side by side; -1: none. */
typedef struct candidates {
    const int32_t *probe_of, *built_of; /* (count) */
    int64_t count;
    bool misses_probe, misses_built;
} candidates;

/* A column of the pairs, counted through both sides. */
static gy_status gather_side(const gy_rows_matcher *it, int column, const candidates *pairs,
                             gy_frame_maker *maker)
{
    const gy_rows_match_plan *plan = it->plan;
    const bool is_left = column < plan->left_count;
    const bool is_built = is_left == plan->builds_left;
    const gy_column from = gy_frame_column(is_built ? it->table->built : it->piece,
                                           is_left ? column : column - plan->left_count);
    return gy_rows_append(maker, &from, is_built ? pairs->built_of : pairs->probe_of,
                          pairs->count, is_built ? pairs->misses_built : pairs->misses_probe);
}

/* Which candidates the condition keeps. */
static gy_status ask(gy_rows_matcher *it, int64_t count, gy_frame **mask)
{
    const gy_rows_match_plan *plan = it->plan;
    const int columns = gy_schema_count(plan->pair_schema);
    gy_frame_maker *makers = gy_rows_makers_new(plan->pair_schema);
    gy_frame *pairs = NULL;
    gy_status status = makers == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < columns && status == GY_OK; k++) {
        const candidates all = {it->probe_of, it->built_of, count, false, false};
        status = gather_side(it, k, &all, &makers[k]);
    }
    if (status == GY_OK) {
        status = gy_frame_make(plan->pair_schema, makers, count, &pairs);
    }
    gy_rows_makers_free(makers, columns);
    if (status == GY_OK) {
        status = plan->keep(plan->keep_arg, pairs, mask);
        GY_ASSERT(status != GY_OK || gy_frame_rows(*mask) == count);
    }
    gy_frame_drop(pairs);
    return status;
}

static void give(gy_rows_matcher *it, int32_t probe, int32_t built)
{
    GY_CHECK_DEEP(it->out_count < GY_ROWS_FRAME);
    it->out_probe[it->out_count] = probe;
    it->out_built[it->out_count++] = built;
}

/* A row of NOT IN that has no match: whether it is true. */
static bool is_not_in(const gy_rows_matcher *it, const gy_frame *left, int key, int64_t row)
{
    const gy_rows_not_in *right = it->table->right;
    if (right == NULL || !right->has_rows) {
        return true;
    }
    const gy_column column = gy_frame_column(left, key);
    return !right->has_null && !gy_column_is_null(&column, row);
}

/* A probing row is complete: is it given alone? */
static void complete(gy_rows_matcher *it, int64_t row, bool has_match)
{
    const gy_rows_match_plan *plan = it->plan;
    if (it->known != NULL) {
        const int64_t at = it->ordinal + row;
        it->known[at >> 3] |= (uint8_t)(has_match << (at & 7));
        has_match = (it->known[at >> 3] >> (at & 7) & 1) != 0;
    }
    if (!it->is_last) {
        return;
    }
    if ((has_match && plan->gives_probe_matched) ||
        (!has_match && plan->gives_probe_unmatched &&
         is_not_in(it, it->piece, plan->probe_layout.columns[0], row))) {
        give(it, (int32_t)row, -1);
    }
}

/* What is given of the rows [first, it->row) and of a begun one. */
static void choose(gy_rows_matcher *it, int64_t first, int64_t count, const gy_frame *mask)
{
    const gy_rows_match_plan *plan = it->plan;
    gy_column keeps = {.rows = 0};
    if (mask != NULL) {
        keeps = gy_frame_column(mask, 0);
    }
    const int64_t end = it->row + it->is_begun;
    int64_t at = 0;
    for (int64_t row = first; row < end; row++) {
        bool has_match = row == first && it->has_match;
        for (; at < count && it->probe_of[at] == row; at++) {
            if (mask != NULL &&
                (gy_column_is_null(&keeps, at) || !gy_column_bool(&keeps, at))) {
                continue;
            }
            has_match = true;
            if (plan->gives_pairs) {
                give(it, (int32_t)row, it->built_of[at]);
            }
            if (plan->marks_built) {
                mark(it->table, it->built_of[at]);
            }
        }
        if (row < it->row) {
            complete(it, row, has_match);
            has_match = false;
        }
        it->has_match = has_match;
    }
    GY_ASSERT(at == count);
}

/* ---- giving ---- */

/* The pairs as a frame, with the tag of each behind them where the sides have some. */
static gy_status make_frame(gy_rows_matcher *it, gy_frame **frame)
{
    const gy_rows_match_plan *plan = it->plan;
    const int columns = gy_schema_count(plan->out_schema);
    gy_frame_maker *makers = gy_rows_makers_new(plan->out_schema);
    gy_status status = makers == NULL ? GY_NOMEM : GY_OK;
    candidates pairs = {it->out_probe, it->out_built, it->out_count, false, false};
    for (int64_t i = 0; i < it->out_count; i++) {
        pairs.misses_probe |= it->out_probe[i] < 0;
        pairs.misses_built |= it->out_built[i] < 0;
    }
    for (int k = 0; k < plan->column_count && status == GY_OK; k++) {
        status = gather_side(it, plan->columns[k], &pairs, &makers[k]);
    }
    if (status == GY_OK && plan->is_tagged) {
        gy_frame_maker *maker = &makers[columns - 1];
        status = gy_frame_maker_reserve(maker, it->out_count);
        const gy_column built =
            gy_frame_column(it->table->built, gy_schema_count(plan->built_schema) - 1);
        const gy_column probe =
            gy_frame_column(it->piece, gy_schema_count(plan->probe_schema) - 1);
        for (int64_t i = 0; i < it->out_count && status == GY_OK; i++) {
            ((int64_t *)maker->values)[i] =
                it->out_probe[i] >= 0 ? gy_column_int64(&probe, it->out_probe[i])
                                      : BUILT_TAG + gy_column_int64(&built, it->out_built[i]);
            gy_frame_maker_set(maker);
        }
    }
    if (status == GY_OK) {
        status = gy_frame_make(plan->out_schema, makers, it->out_count, frame);
    }
    gy_rows_makers_free(makers, columns);
    return status;
}

/* The next piece of what probes. GY_DONE: there is none. */
static gy_status next_piece(gy_rows_matcher *it)
{
    if (it->whole == NULL || it->whole_at == gy_frame_rows(it->whole)) {
        return GY_DONE;
    }
    const int64_t end = GY_MIN(it->whole_at + PIECE_ROWS, gy_frame_rows(it->whole));
    gy_frame *piece = NULL;
    GY_TRY(gy_frame_slice(it->whole, it->whole_at, end, &piece));
    it->ordinal += it->piece == NULL ? 0 : gy_frame_rows(it->piece);
    gy_frame_drop(it->piece);
    it->piece = piece;
    it->whole_at = end;
    it->row = 0;
    it->is_begun = it->has_match = false;
    find_heads(it);
    return GY_OK;
}

void gy_rows_not_in_see(gy_rows_not_in *right, const gy_frame *frame, int key)
{
    const gy_column column = gy_frame_column(frame, key);
    right->has_rows |= column.rows > 0;
    right->has_null |= gy_column_nulls(&column) > 0;
}

void gy_rows_matcher_see(const gy_rows_matcher *it, const gy_frame *frame)
{
    if (it->table->right != NULL && it->plan->builds_left) {
        gy_rows_not_in_see(it->table->right, frame, it->plan->probe_layout.columns[0]);
    }
}

void gy_rows_matcher_probe(gy_rows_matcher *it, gy_frame *frame)
{
    GY_ASSERT(it->whole == NULL || it->whole_at == gy_frame_rows(it->whole));
    GY_ASSERT(!it->is_probed);
    gy_frame_drop(it->whole);
    it->whole = frame;
    it->whole_at = 0;
}

gy_status gy_rows_matcher_more(gy_rows_matcher *it, gy_frame **frame)
{
    it->out_count = 0;
    for (;;) {
        if (it->piece == NULL || it->row == gy_frame_rows(it->piece)) {
            const gy_status status = next_piece(it);
            if (status != GY_OK) {
                return status;
            }
        }
        const int64_t first = it->row, count = make_candidates(it);
        gy_frame *mask = NULL;
        if (it->plan->keep != NULL && count > 0) {
            const gy_status status = ask(it, count, &mask);
            if (status != GY_OK) {
                return status;
            }
        }
        choose(it, first, count, mask);
        gy_frame_drop(mask);
        if (it->out_count > 0) {
            return make_frame(it, frame);
        }
    }
}

/* A piece without rows, so that built rows can stand alone. */
static gy_status end_probe(gy_rows_matcher *it)
{
    gy_frame *none = NULL;
    GY_TRY(gy_rows_concat(it->plan->probe_schema, NULL, 0, &none));
    gy_frame_drop(it->piece);
    it->piece = none;
    it->is_probed = true;
    return GY_OK;
}

gy_status gy_rows_matcher_built(gy_rows_matcher *it, gy_frame **frame)
{
    const gy_rows_match_plan *plan = it->plan;
    const int64_t rows = gy_frame_rows(it->table->built);
    if (!it->is_probed) {
        GY_TRY(end_probe(it));
    }
    it->out_count = 0;
    while (it->built_at < rows && it->out_count < GY_ROWS_FRAME &&
           (plan->gives_built_matched || plan->gives_built_unmatched)) {
        const int64_t row = it->built_at++;
        const bool has_match = is_marked(it->table, row);
        if (has_match
                ? plan->gives_built_matched
                : plan->gives_built_unmatched &&
                      is_not_in(it, it->table->built, plan->built_layout.columns[0], row)) {
            give(it, -1, (int32_t)row);
        }
    }
    return it->out_count == 0 ? GY_DONE : make_frame(it, frame);
}

gy_status gy_rows_matcher_next(gy_rows_matcher *it, const gy_frame_source *probe,
                               gy_frame **frame)
{
    while (!it->is_probed) {
        gy_status status = gy_rows_matcher_more(it, frame);
        if (status != GY_DONE) {
            return status;
        }
        gy_frame *next = NULL;
        status = probe->next(probe->arg, &next);
        if (status == GY_DONE) {
            break;
        }
        if (status != GY_OK) {
            return status;
        }
        gy_rows_matcher_see(it, next);
        gy_rows_matcher_probe(it, next);
    }
    return gy_rows_matcher_built(it, frame);
}
