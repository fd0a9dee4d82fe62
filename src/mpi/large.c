/*
 * Elements larger than the library's packing can count. MPICH has a wider function for them;
 * for Open MPI the type is decomposed along its construction until the parts are small.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#if MPI_VERSION >= 4

int gy_mpi_move_large(const gy_mpi_span *span, void *element, gy_mpi_packed *packed)
{
    MPI_Count bytes = (MPI_Count)span->element, position = 0;
    int code = packed->is_packing ? PMPI_Pack_c(element, 1, span->type, packed->at, bytes,
                                                &position, MPI_COMM_SELF)
                                  : PMPI_Unpack_c(packed->at, bytes, &position, element, 1,
                                                  span->type, MPI_COMM_SELF);
    packed->at += span->element;
    return code;
}

#else

static int move(gy_mpi_packed *packed, uint8_t *at, int64_t count, MPI_Datatype type);

/* The arguments from which a type was constructed. */
typedef struct contents {
    int combiner, number_count, address_count, type_count;
    int *numbers;
    MPI_Aint *addresses;
    MPI_Datatype *types;
} contents;

static int open_contents(MPI_Datatype type, contents *made)
{
    *made = (contents){.numbers = NULL};
    GY_MPI_TRY(PMPI_Type_get_envelope(type, &made->number_count, &made->address_count,
                                      &made->type_count, &made->combiner));
    if (made->combiner == MPI_COMBINER_NAMED) {
        return MPI_ERR_TYPE;
    }
    made->numbers =
        gy_alloc_zero("mpi.type", (size_t)made->number_count + 1, sizeof(*made->numbers));
    made->addresses =
        gy_alloc_zero("mpi.type", (size_t)made->address_count + 1, sizeof(*made->addresses));
    made->types = gy_alloc_zero("mpi.type", (size_t)made->type_count + 1, sizeof(*made->types));
    if (made->numbers == NULL || made->addresses == NULL || made->types == NULL) {
        made->type_count = 0;
        return MPI_ERR_NO_MEM;
    }
    int code =
        PMPI_Type_get_contents(type, made->number_count, made->address_count, made->type_count,
                               made->numbers, made->addresses, made->types);
    made->type_count = code == MPI_SUCCESS ? made->type_count : 0;
    return code;
}

static void close_contents(contents *made)
{
    for (int i = 0; i < made->type_count; i++) {
        int numbers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
        (void)PMPI_Type_get_envelope(made->types[i], &numbers, &addresses, &types, &combiner);
        if (combiner != MPI_COMBINER_NAMED) {
            (void)PMPI_Type_free(&made->types[i]);
        }
    }
    gy_free(made->numbers);
    gy_free(made->addresses);
    gy_free(made->types);
}

/* Move the rows of a subarray, along its fastest dimension. */
static int move_rows(gy_mpi_packed *packed, uint8_t *at, const contents *of, MPI_Aint extent)
{
    enum { DIMENSIONS_MAX = 16 };
    int dimensions = of->numbers[0], code = MPI_SUCCESS;
    const int *sizes = of->numbers + 1, *parts = sizes + dimensions,
              *starts = parts + dimensions;
    bool is_c = starts[dimensions] == MPI_ORDER_C;
    int64_t index[DIMENSIONS_MAX] = {0}, rows = 1;
    int fast = is_c ? dimensions - 1 : 0, step = is_c ? -1 : 1;
    if (dimensions > DIMENSIONS_MAX) {
        return MPI_ERR_TYPE;
    }
    for (int k = 0; k < dimensions; k++) {
        rows *= k == fast ? 1 : parts[k];
    }
    for (int64_t row = 0; row < rows && code == MPI_SUCCESS; row++) {
        int64_t first = 0, stride = 1;
        for (int k = fast; k >= 0 && k < dimensions; k += step) {
            first += (starts[k] + (k == fast ? 0 : index[k])) * stride;
            stride *= sizes[k];
        }
        code = move(packed, at + first * extent, parts[fast], of->types[0]);
        for (int k = fast + step; k >= 0 && k < dimensions && ++index[k] == parts[k];
             k += step) {
            index[k] = 0;
        }
    }
    return code;
}

/* Find the length and the offset of block `i` in bytes; false: not such a type. */
static bool find_block(const contents *of, MPI_Aint extent, int i, int *length, MPI_Aint *place)
{
    const int *numbers = of->numbers;
    int blocks = numbers[0];
    switch (of->combiner) {
    case MPI_COMBINER_VECTOR:
        *length = numbers[1];
        *place = (MPI_Aint)i * numbers[2] * extent;
        return true;
    case MPI_COMBINER_HVECTOR:
        *length = numbers[1];
        *place = i * of->addresses[0];
        return true;
    case MPI_COMBINER_INDEXED:
        *length = numbers[1 + i];
        *place = numbers[1 + blocks + i] * extent;
        return true;
    case MPI_COMBINER_INDEXED_BLOCK:
        *length = numbers[1];
        *place = numbers[2 + i] * extent;
        return true;
    case MPI_COMBINER_HINDEXED_BLOCK:
        *length = numbers[1];
        *place = of->addresses[i];
        return true;
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        *length = numbers[1 + i];
        *place = of->addresses[i];
        return true;
    default:
        return false;
    }
}

static int move_parts(gy_mpi_packed *packed, uint8_t *at, const contents *of)
{
    MPI_Aint low = 0, extent = 0, place = 0;
    int length = 0, code = MPI_SUCCESS;
    GY_MPI_TRY(PMPI_Type_get_extent(of->types[0], &low, &extent));
    switch (of->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return move(packed, at, 1, of->types[0]);
    case MPI_COMBINER_CONTIGUOUS:
        return move(packed, at, of->numbers[0], of->types[0]);
    case MPI_COMBINER_SUBARRAY:
        return move_rows(packed, at, of, extent);
    default:
        break;
    }
    for (int i = 0; i < of->numbers[0] && code == MPI_SUCCESS; i++) {
        if (!find_block(of, extent, i, &length, &place)) {
            return MPI_ERR_TYPE;
        }
        bool is_struct = of->combiner == MPI_COMBINER_STRUCT;
        code = move(packed, at + place, length, of->types[is_struct ? i : 0]);
    }
    return code;
}

static int move_element(gy_mpi_packed *packed, uint8_t *at, MPI_Datatype type)
{
    contents of;
    int code = open_contents(type, &of);
    for (int i = 0; i < of.type_count && code == MPI_SUCCESS; i++) {
        code = PMPI_Type_commit(&of.types[i]); /* needed for packing */
    }
    if (code == MPI_SUCCESS) {
        code = move_parts(packed, at, &of);
    }
    close_contents(&of);
    return code;
}

static int move(gy_mpi_packed *packed, uint8_t *at, int64_t count, MPI_Datatype type)
{
    size_t element = 0;
    MPI_Aint low = 0, extent = 0;
    GY_MPI_TRY(gy_mpi_type_bytes(type, &element));
    GY_MPI_TRY(PMPI_Type_get_extent(type, &low, &extent));
    size_t most = element > 0 ? packed->piece_bytes / element : 0;
    for (int64_t done = 0; done < count && element > 0;) {
        int now = (int)GY_MIN((size_t)(count - done), GY_MIN(most, (size_t)INT32_MAX));
        uint8_t *from = at + done * extent;
        int bytes = (int)(element * (size_t)now), position = 0;
        if (now == 0) {
            GY_MPI_TRY(move_element(packed, from, type));
            done++;
            continue;
        }
        GY_MPI_TRY(
            packed->is_packing
                ? PMPI_Pack(from, now, type, packed->at, bytes, &position, MPI_COMM_SELF)
                : PMPI_Unpack(packed->at, bytes, &position, from, now, type, MPI_COMM_SELF));
        packed->at += bytes;
        done += now;
    }
    return MPI_SUCCESS;
}

int gy_mpi_move_large(const gy_mpi_span *span, void *element, gy_mpi_packed *packed)
{
    return move_element(packed, element, span->type);
}

#endif
