/* Types and operations of MPI: which of them Gyre combines, and how elements are moved. */
#include "mpi/door_priv.h"

#include "base/base.h"

#include <string.h>

/* Kinds of built-in types, as the operations that MPI allows on them. */
typedef enum group { INTEGER, FLOATING, COMPLEX, BYTES, LOGICAL } group;

typedef struct known_type {
    MPI_Datatype type;
    group group;
    gy_dtype dtype;
} known_type;

enum { TABLE = 128 };

static known_type
    table[TABLE]; /* by hash of the handle; MPI_DATATYPE_NULL: free. Written once */

static size_t place_of(MPI_Datatype type)
{
    uintptr_t bits = (uintptr_t)type;
    return (size_t)((bits >> 4 ^ bits ^ bits >> 11) % TABLE);
}

static const known_type *find_type(MPI_Datatype type)
{
    for (size_t at = place_of(type);; at = (at + 1) % TABLE) {
        if (table[at].type == type) {
            return &table[at];
        }
        if (table[at].type == MPI_DATATYPE_NULL) {
            return NULL;
        }
    }
}

static void add_type(MPI_Datatype type, group kind, gy_dtype dtype)
{
    if (type == MPI_DATATYPE_NULL || find_type(type) != NULL) {
        return; /* an alias */
    }
    size_t at = place_of(type);
    while (table[at].type != MPI_DATATYPE_NULL) {
        at = (at + 1) % TABLE;
    }
    table[at] = (known_type){.type = type, .group = kind, .dtype = dtype};
}

static gy_dtype integer_of(size_t bytes, bool is_signed)
{
    static const gy_dtype types[2][4] = {{GY_U8, GY_U16, GY_U32, GY_U64},
                                         {GY_I8, GY_I16, GY_I32, GY_I64}};
    return types[is_signed][bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
}

void gy_mpi_types_init(void)
{
    for (size_t i = 0; i < TABLE; i++) {
        table[i].type = MPI_DATATYPE_NULL;
    }
#define GY_INTEGER(mpi, type)                                                                  \
    add_type((mpi), INTEGER, integer_of(sizeof(type), (type)-1 < (type)1));
    GY_INTEGER(MPI_INT, int)
    GY_INTEGER(MPI_LONG, long)
    GY_INTEGER(MPI_SHORT, short)
    GY_INTEGER(MPI_SIGNED_CHAR, signed char)
    GY_INTEGER(MPI_UNSIGNED_CHAR, unsigned char)
    GY_INTEGER(MPI_UNSIGNED_SHORT, unsigned short)
    GY_INTEGER(MPI_UNSIGNED, unsigned)
    GY_INTEGER(MPI_UNSIGNED_LONG, unsigned long)
    GY_INTEGER(MPI_LONG_LONG_INT, long long)
    GY_INTEGER(MPI_UNSIGNED_LONG_LONG, unsigned long long)
    GY_INTEGER(MPI_INT8_T, int8_t)
    GY_INTEGER(MPI_INT16_T, int16_t)
    GY_INTEGER(MPI_INT32_T, int32_t)
    GY_INTEGER(MPI_INT64_T, int64_t)
    GY_INTEGER(MPI_UINT8_T, uint8_t)
    GY_INTEGER(MPI_UINT16_T, uint16_t)
    GY_INTEGER(MPI_UINT32_T, uint32_t)
    GY_INTEGER(MPI_UINT64_T, uint64_t)
    GY_INTEGER(MPI_AINT, MPI_Aint)
    GY_INTEGER(MPI_OFFSET, MPI_Offset)
    GY_INTEGER(MPI_COUNT, MPI_Count)
#undef GY_INTEGER
    add_type(MPI_FLOAT, FLOATING, GY_F32);
    add_type(MPI_DOUBLE, FLOATING, GY_F64);
    add_type(MPI_C_FLOAT_COMPLEX, COMPLEX, GY_F32);
    add_type(MPI_C_DOUBLE_COMPLEX, COMPLEX, GY_F64);
    add_type(MPI_BYTE, BYTES, GY_U8);
    add_type(MPI_C_BOOL, LOGICAL, GY_U8);
}

/* ---- Operations ---- */

#define LOGIC(name, type, operator)                                                            \
    static void name(void *to, const void *a, const void *b, size_t count)                     \
    {                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                   \
            ((type *)to)[i] = (((const type *)a)[i] != 0) operator(((const type *)b)[i] != 0); \
        }                                                                                      \
    }
#define LOGIC_OF(type, bits)                                                                   \
    LOGIC(and_##bits, type, &&) LOGIC(or_##bits, type, ||) LOGIC(xor_##bits, type, !=)
LOGIC_OF(uint8_t, 8)
LOGIC_OF(uint16_t, 16)
LOGIC_OF(uint32_t, 32)
LOGIC_OF(uint64_t, 64)

/* `bytes` is the width of a number. */
static gy_combine logic_of(MPI_Op op, size_t bytes)
{
    static const gy_combine loops[3][4] = {{and_8, and_16, and_32, and_64},
                                           {or_8, or_16, or_32, or_64},
                                           {xor_8, xor_16, xor_32, xor_64}};
    size_t width = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
    if (op == MPI_LAND) {
        return loops[0][width];
    }
    if (op == MPI_LOR) {
        return loops[1][width];
    }
    return op == MPI_LXOR ? loops[2][width] : NULL;
}

static bool bits_of(MPI_Op op, gy_reduction *reduction)
{
    if (op == MPI_BAND) {
        *reduction = GY_BIT_AND;
    } else if (op == MPI_BOR) {
        *reduction = GY_BIT_OR;
    } else if (op == MPI_BXOR) {
        *reduction = GY_BIT_XOR;
    } else {
        return false;
    }
    return true;
}

static bool arithmetic_of(MPI_Op op, gy_reduction *reduction)
{
    if (op == MPI_SUM) {
        *reduction = GY_SUM;
    } else if (op == MPI_MAX) {
        *reduction = GY_MAX_OF;
    } else if (op == MPI_MIN) {
        *reduction = GY_MIN;
    } else if (op == MPI_PROD) {
        *reduction = GY_PROD;
    } else {
        return false;
    }
    return true;
}

bool gy_mpi_fold_of(MPI_Datatype type, MPI_Op op, gy_mpi_fold *fold)
{
    const known_type *known = find_type(type);
    if (known == NULL) {
        return false;
    }
    size_t bytes = gy_dtype_bytes(known->dtype);
    gy_reduction reduction = GY_SUM;
    bool has_bits = known->group == INTEGER || known->group == BYTES;
    bool has_logic = known->group == INTEGER || known->group == LOGICAL;
    bool has_numbers = known->group == INTEGER || known->group == FLOATING ||
                       (known->group == COMPLEX && op == MPI_SUM);
    *fold = (gy_mpi_fold){
        .item_bytes = bytes, .items = known->group == COMPLEX ? 2 : 1, .dtype = known->dtype};
    if ((has_numbers && arithmetic_of(op, &reduction)) ||
        (has_bits && bits_of(op, &reduction))) {
        fold->combine = gy_combine_of(known->dtype, reduction);
        fold->reduction = reduction;
        fold->is_plain = true;
    } else if (has_logic) {
        fold->combine = logic_of(op, bytes);
    }
    return fold->combine != NULL;
}

/* ---- Moving ---- */

bool gy_mpi_type_bytes(MPI_Datatype type, size_t *bytes)
{
    int size = 0;
    const known_type *known = find_type(type);
    if (known != NULL) {
        *bytes = gy_dtype_bytes(known->dtype) * (known->group == COMPLEX ? 2 : 1);
        return true;
    }
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0) {
        return false;
    }
    *bytes = (size_t)size;
    return true;
}

/* A built-in type, whose elements have no gaps: what it moves is what lies there. */
static bool is_plain(MPI_Datatype type, size_t bytes, MPI_Aint *extent)
{
    MPI_Aint low = 0;
    int numbers = 0, addresses = 0, types = 0, combiner = 0;
    if (find_type(type) != NULL) {
        *extent = (MPI_Aint)bytes;
        return true;
    }
    if (PMPI_Type_get_extent(type, &low, extent) != MPI_SUCCESS ||
        PMPI_Type_get_envelope(type, &numbers, &addresses, &types, &combiner) != MPI_SUCCESS) {
        return false;
    }
    return combiner == MPI_COMBINER_NAMED && low == 0 && *extent == (MPI_Aint)bytes;
}

bool gy_mpi_span_of(const void *data, int count, MPI_Datatype type, gy_mpi_span *span)
{
    size_t element = 0;
    if (count < 0 || !gy_mpi_type_bytes(type, &element)) {
        return false;
    }
    *span = (gy_mpi_span){.data = (void *)(uintptr_t)data,
                          .count = count,
                          .type = type,
                          .bytes = element * (size_t)count};
    span->is_plain = is_plain(type, element, &span->extent);
    return true;
}

/* The library's counts of bytes are ints: pieces of whole elements that stay below. */
static int piece_of(const gy_mpi_span *span, int left)
{
    size_t element = span->bytes / (size_t)GY_MAX(span->count, 1);
    size_t most = (size_t)(1 << 30) / GY_MAX(element, (size_t)1);
    return (int)GY_MIN((size_t)left, GY_MAX(most, (size_t)1));
}

int gy_mpi_pack(const gy_mpi_span *span, void *to)
{
    if (span->is_plain) {
        memcpy(to, span->data, span->bytes);
        return MPI_SUCCESS;
    }
    size_t element = span->bytes / (size_t)GY_MAX(span->count, 1);
    for (int done = 0; done < span->count;) {
        int count = piece_of(span, span->count - done), position = 0;
        int code = PMPI_Pack((const uint8_t *)span->data + done * span->extent, count,
                             span->type, (uint8_t *)to + (size_t)done * element,
                             (int)(element * (size_t)count), &position, MPI_COMM_SELF);
        if (code != MPI_SUCCESS) {
            return code;
        }
        done += count;
    }
    return MPI_SUCCESS;
}

int gy_mpi_unpack(const gy_mpi_span *span, MPI_Aint first, int count, const void *from)
{
    size_t element = span->bytes / (size_t)GY_MAX(span->count, 1);
    uint8_t *to = (uint8_t *)span->data + first * span->extent;
    if (span->is_plain) {
        memcpy(to, from, element * (size_t)count);
        return MPI_SUCCESS;
    }
    for (int done = 0; done < count;) {
        int now = piece_of(span, count - done), position = 0;
        int code = PMPI_Unpack((const uint8_t *)from + (size_t)done * element,
                               (int)(element * (size_t)now), &position,
                               to + done * span->extent, now, span->type, MPI_COMM_SELF);
        if (code != MPI_SUCCESS) {
            return code;
        }
        done += now;
    }
    return MPI_SUCCESS;
}
