/* How a vector is divided into blocks, which blocks a rank's buffers have, and which elements
 * these are. */
#include "plan/plan_priv.h"

#include "base/base.h"

static int largest_power(int ranks)
{
    int power = 1;
    while (power <= ranks / 2) {
        power *= 2;
    }
    return power;
}

int gy_cut_parts(gy_cut cut, const gy_plan_request *request)
{
    gy_plan_request outer;
    const gy_algorithm *row = NULL;
    switch (cut) {
    case GY_CUT_CHUNKS:
        return 1;
    case GY_CUT_RANKS:
    case GY_CUT_SEGMENTS:
        return request->ranks;
    case GY_CUT_WINDOWS:
        return gy_request_chunks(request);
    case GY_CUT_PAIRS:
        return request->ranks * request->ranks;
    case GY_CUT_HALVES:
        return 2;
    case GY_CUT_POWER:
        return largest_power(request->ranks);
    case GY_CUT_SERVERS:
        return GY_MIN(gy_plan_request_number(request, GY_SERVERS), request->ranks);
    case GY_CUT_OUTER:
        row = gy_plan_request_outer(request, &outer);
        return row == NULL ? 1 : gy_cut_parts(row->cut, &outer);
    }
    gy_panic("no cut %d", (int)cut);
}

int gy_cut_chunks(gy_cut cut, const gy_plan_request *request)
{
    gy_plan_request outer;
    if (cut == GY_CUT_OUTER) {
        const gy_algorithm *row = gy_plan_request_outer(request, &outer);
        return row == NULL ? gy_request_chunks(request) : gy_cut_chunks(row->cut, &outer);
    }
    if (cut == GY_CUT_SEGMENTS) {
        return gy_request_chunks(request) * gy_plan_request_number(request, GY_SEGMENTS);
    }
    return cut == GY_CUT_WINDOWS ? request->ranks : gy_request_chunks(request);
}

bool gy_plan_block_is_held(const gy_plan_request *request, int chunks, int rank, int buffer,
                           int32_t block)
{
    int part = block / chunks;
    bool is_in = buffer == GY_BUFFER_IN;
    switch (request->operation) {
    case GY_OPERATION_REDUCE:
        return is_in || rank == request->root;
    case GY_OPERATION_REDUCE_SCATTER:
        return is_in || part == rank;
    case GY_OPERATION_SCATTER:
        return is_in ? rank == request->root : part == rank;
    case GY_OPERATION_ALLGATHER:
        return !is_in || part == rank;
    case GY_OPERATION_GATHER:
        return is_in ? part == rank : rank == request->root;
    case GY_OPERATION_ALLTOALL:
        return (is_in ? part / request->ranks : part % request->ranks) == rank;
    case GY_OPERATION_ALLREDUCE:
    case GY_OPERATION_BROADCAST:
    case GY_OPERATION_BARRIER:
    case GY_OPERATION_SCAN:
    case GY_OPERATION_EXCLUSIVE_SCAN:
    case GY_OPERATION_COUNT:
    default:
        return true;
    }
}

/* The index of a part of the vector within the buffer, if the buffer has it. */
static int64_t local_part(const gy_plan_request *request, int buffer, int64_t part)
{
    gy_operation operation = request->operation;
    bool is_in = buffer == GY_BUFFER_IN;
    if (operation == GY_OPERATION_ALLTOALL) {
        return is_in ? part % request->ranks : part / request->ranks;
    }
    bool is_one =
        is_in ? operation == GY_OPERATION_ALLGATHER || operation == GY_OPERATION_GATHER
              : operation == GY_OPERATION_REDUCE_SCATTER || operation == GY_OPERATION_SCATTER;
    return is_one ? 0 : part;
}

int32_t gy_plan_block_local(const gy_plan_request *request, int chunks, int buffer,
                            int32_t block)
{
    return (int32_t)local_part(request, buffer, block / chunks) * chunks + block % chunks;
}

/* The length of each of `pieces` equal pieces of `count`, a multiple of `unit`. */
static int64_t piece_length(int64_t count, int64_t pieces, int64_t unit)
{
    int64_t length = (count + pieces - 1) / pieces;
    return (length + unit - 1) / unit * unit;
}

/* The length of a part, and the length from which its chunks are computed. */
typedef struct part_length {
    int64_t exact, cut;
} part_length;

static part_length length_of_part(const gy_layout *layout, int64_t part)
{
    if (layout->in_counts != NULL) {
        int64_t from = part / layout->ranks, to = part % layout->ranks;
        /* this rank knows no other pairs */
        GY_ASSERT(from == layout->rank || to == layout->rank);
        int64_t known = from == layout->rank ? layout->in_counts[to] : layout->out_counts[from];
        return (part_length){.exact = known, .cut = known};
    }
    if (layout->counts != NULL) {
        return (part_length){.exact = layout->counts[part], .cut = layout->counts[part]};
    }
    int64_t length = piece_length(layout->count, layout->parts, layout->part_unit);
    int64_t from = GY_MIN(layout->count, part * length);
    return (part_length){.exact = GY_MIN(layout->count, from + length) - from, .cut = length};
}

/* Where chunk `chunk` in [0, chunks] begins in its part. */
static int64_t chunk_start(const gy_layout *layout, part_length part, int64_t chunk)
{
    int64_t length = piece_length(part.cut, layout->chunks, layout->chunk_unit);
    return chunk == layout->chunks ? part.exact : GY_MIN(part.exact, chunk * length);
}

int64_t gy_layout_at(const gy_layout *layout, int64_t block)
{
    int64_t blocks = (int64_t)layout->parts * layout->chunks;
    GY_ASSERT(block >= 0 && block <= blocks && layout->part_unit > 0 && layout->chunk_unit > 0);
    GY_ASSERT(layout->counts == NULL && layout->in_counts == NULL);
    /* fast path without divisions: whole vectors are the most frequent */
    if (block == 0 || block == blocks) {
        return block == 0 ? 0 : layout->count;
    }
    int64_t part = block / layout->chunks;
    int64_t length = piece_length(layout->count, layout->parts, layout->part_unit);
    return GY_MIN(layout->count, part * length) +
           chunk_start(layout, length_of_part(layout, part), block % layout->chunks);
}

static bool is_equal(const gy_layout *layout)
{
    return layout->counts == NULL && layout->in_counts == NULL;
}

int64_t gy_layout_length(const gy_layout *layout, int64_t first, int64_t run)
{
    if (is_equal(layout)) {
        return gy_layout_at(layout, first + run) - gy_layout_at(layout, first);
    }
    int64_t length = 0;
    for (int64_t block = first; block < first + run;) {
        int64_t part = block / layout->chunks, chunk = block % layout->chunks;
        int64_t end = GY_MIN(chunk + first + run - block, (int64_t)layout->chunks);
        part_length whole = length_of_part(layout, part);
        length += chunk_start(layout, whole, end) - chunk_start(layout, whole, chunk);
        block += end - chunk;
    }
    return length;
}

int64_t gy_layout_longest(const gy_layout *layout)
{
    int64_t longest = 0, parts = is_equal(layout) ? 1 : layout->parts;
    if (layout->in_counts != NULL) {
        for (int i = 0; i < layout->ranks; i++) {
            longest = GY_MAX(longest, GY_MAX(layout->in_counts[i], layout->out_counts[i]));
        }
        parts = 0;
    }
    for (int64_t part = 0; part < parts; part++) {
        longest = GY_MAX(longest, length_of_part(layout, part).exact);
    }
    int64_t cut = is_equal(layout)
                      ? piece_length(layout->count, layout->parts, layout->part_unit)
                      : longest;
    return GY_MIN(longest, piece_length(cut, layout->chunks, layout->chunk_unit));
}

int64_t gy_layout_start(const gy_layout *layout, const gy_plan_request *request, int buffer,
                        int32_t block)
{
    if (block == 0 && is_equal(layout)) {
        return 0;
    }
    int64_t part = block / layout->chunks;
    int64_t local = local_part(request, buffer, part);
    const int64_t *starts =
        buffer == GY_BUFFER_IN ? layout->in_displacements : layout->out_displacements;
    int64_t start = 0;
    if (!is_equal(layout)) {
        GY_ASSERT(starts != NULL || local == 0);
        start = starts == NULL ? 0 : starts[local];
    } else if (layout->stride > 0) {
        start = local * layout->stride;
    } else {
        int64_t length = piece_length(layout->count, layout->parts, layout->part_unit);
        start = GY_MIN(layout->count, local * length);
    }
    return start + chunk_start(layout, length_of_part(layout, part), block % layout->chunks);
}

bool gy_layout_is_dense(const gy_layout *layout, const gy_plan_request *request, int buffer,
                        int32_t first, int32_t run)
{
    for (int32_t block = first; block + 1 < first + run; block++) {
        int64_t end = gy_layout_start(layout, request, buffer, block) +
                      gy_layout_length(layout, block, 1);
        bool is_empty = gy_layout_length(layout, block + 1, 1) == 0;
        if (!is_empty && gy_layout_start(layout, request, buffer, block + 1) != end) {
            return false;
        }
    }
    return true;
}

double gy_plan_host_cost(const gy_topology *topology, int from, int to)
{
    if (topology == NULL) {
        return 1;
    }
    if (from == to) {
        return topology->within;
    }
    return topology->between == NULL
               ? topology->across
               : topology->between[(size_t)from * (size_t)topology->hosts + (size_t)to];
}

double gy_topology_cost(const gy_topology *topology, int from, int to)
{
    return gy_plan_host_cost(topology, gy_host_of(topology, from), gy_host_of(topology, to));
}
