/* MPI types and operations: which ones Gyre combines, and how it transfers elements. */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of built-in types, as the operations that MPI allows on them. */
typedef enum group { INTEGER, FLOATING, COMPLEX, BYTES, LOGICAL } group;

typedef struct known_type {
    MPI_Datatype type;
    group group;
    gy_dtype dtype;
} known_type;

enum { TABLE = 128 };

/* by hash of the handle; MPI_DATATYPE_NULL: free. Constant after initialisation */
static known_type table[TABLE];

static size_t place_of(MPI_Datatype type)
{
    uintptr_t bits = (uintptr_t)type;
    return (size_t)((bits >> 4 ^ bits ^ bits >> 11) % TABLE);
}

static const known_type *find_type(MPI_Datatype type)
{
    for (size_t at = place_of(type);; at = (at + 1) % TABLE) {
        /* the first free slot: the type is unknown */
        if (table[at].type == MPI_DATATYPE_NULL) {
            return NULL;
        }
        if (table[at].type == type) {
            return &table[at];
        }
    }
}

static void add_type(MPI_Datatype type, group kind, gy_dtype dtype)
{
    if (type == MPI_DATATYPE_NULL || find_type(type) != NULL) {
        return; /* an alias of a known type */
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

/* Ranks of one program may be written in several languages: a Fortran number is combined like
 * a C number of the same width. */
static void add_fortran_types(void)
{
    const known_type fortran[] = {{MPI_INTEGER, INTEGER, GY_I32},
                                  {MPI_INTEGER1, INTEGER, GY_I8},
                                  {MPI_INTEGER2, INTEGER, GY_I16},
                                  {MPI_INTEGER4, INTEGER, GY_I32},
                                  {MPI_INTEGER8, INTEGER, GY_I64},
                                  {MPI_REAL, FLOATING, GY_F32},
                                  {MPI_REAL4, FLOATING, GY_F32},
                                  {MPI_REAL8, FLOATING, GY_F64},
                                  {MPI_DOUBLE_PRECISION, FLOATING, GY_F64},
                                  {MPI_COMPLEX, COMPLEX, GY_F32},
                                  {MPI_COMPLEX8, COMPLEX, GY_F32},
                                  {MPI_COMPLEX16, COMPLEX, GY_F64},
                                  {MPI_DOUBLE_COMPLEX, COMPLEX, GY_F64},
                                  {MPI_LOGICAL, LOGICAL, GY_I32}};
    for (size_t i = 0; i < GY_COUNT(fortran); i++) {
        const known_type *type = &fortran[i];
        size_t bytes = gy_dtype_bytes(type->dtype) * (type->group == COMPLEX ? 2 : 1);
        int size = 0; /* 0: the library has no Fortran; its default types may be wider */
        if (type->type != MPI_DATATYPE_NULL &&
            PMPI_Type_size(type->type, &size) == MPI_SUCCESS && (size_t)size == bytes) {
            add_type(type->type, type->group, type->dtype);
        }
    }
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
    add_fortran_types();
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

/* `bytes` is the width of a logical value. */
static gy_coll_combine logic_of(MPI_Op op, size_t bytes)
{
    static const gy_coll_combine loops[3][4] = {{and_8, and_16, and_32, and_64},
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
        *reduction = GY_MAX;
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
        fold->combine = gy_coll_combine_of(known->dtype, reduction);
        fold->reduction = reduction;
        fold->is_plain = true;
    } else if (has_logic) {
        fold->combine = logic_of(op, bytes);
        fold->how = op == MPI_LAND ? 1 : op == MPI_LOR ? 2 : 3;
    }
    return fold->combine != NULL;
}

/* ---- Moving ---- */

int gy_mpi_type_bytes(MPI_Datatype type, size_t *bytes)
{
    MPI_Count size = 0;
    const known_type *known = find_type(type);
    if (known != NULL) {
        *bytes = gy_dtype_bytes(known->dtype) * (known->group == COMPLEX ? 2 : 1);
        return MPI_SUCCESS;
    }
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) {
        return MPI_ERR_TYPE;
    }
    *bytes = (size_t)size;
    return MPI_SUCCESS;
}

/* The combiner of a type; MPI_COMBINER_NAMED: predefined. -1: a form that is not examined. */
static int combiner_of(MPI_Datatype type)
{
    int combiner = -1;
#if MPI_VERSION >= 4 /* the narrow function aborts the program for types with large counts */
    MPI_Count numbers = 0, addresses = 0, larges = 0, types = 0;
    int code = PMPI_Type_get_envelope_c(type, &numbers, &addresses, &larges, &types, &combiner);
    bool is_known = larges == 0;
#else
    int numbers = 0, addresses = 0, types = 0;
    int code = PMPI_Type_get_envelope(type, &numbers, &addresses, &types, &combiner);
    bool is_known = true;
#endif
    return code == MPI_SUCCESS && is_known ? combiner : -1;
}

/* The type from which it was constructed, if that is a single one: contiguous, a duplicate. */
static MPI_Datatype made_of(MPI_Datatype type, int combiner)
{
    int number = 0;
    MPI_Aint address = 0;
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    bool is_contiguous = combiner == MPI_COMBINER_CONTIGUOUS;
    if ((!is_contiguous && combiner != MPI_COMBINER_DUP) ||
        PMPI_Type_get_contents(type, is_contiguous, 0, 1, &number, &address, &inner) !=
            MPI_SUCCESS) {
        return MPI_DATATYPE_NULL;
    }
    return inner;
}

/* Are its bytes contiguous in transfer order? Derived types are examined only where
 * `is_large`, because there packing would cost more than examining. */
static bool is_solid(MPI_Datatype type, size_t bytes, int depth)
{
    enum { DEPTH_MAX = 8 };
    MPI_Count low = 0, extent = 0;
    if (find_type(type) != NULL) {
        return true;
    }
    if (PMPI_Type_get_extent_x(type, &low, &extent) != MPI_SUCCESS || low != 0 ||
        (size_t)extent != bytes) {
        return false;
    }
    int combiner = combiner_of(type);
    if (combiner == MPI_COMBINER_NAMED) {
        return true;
    }
    MPI_Datatype inner = depth < DEPTH_MAX ? made_of(type, combiner) : MPI_DATATYPE_NULL;
    size_t inner_bytes = 0;
    if (inner == MPI_DATATYPE_NULL) {
        return false;
    }
    bool is = gy_mpi_type_bytes(inner, &inner_bytes) == MPI_SUCCESS &&
              is_solid(inner, inner_bytes, depth + 1);
    if (combiner_of(inner) != MPI_COMBINER_NAMED) {
        (void)PMPI_Type_free(&inner);
    }
    return is;
}

int gy_mpi_span_of(const void *data, int64_t count, MPI_Datatype type, gy_mpi_span *span)
{
    enum { LARGE_BYTES = 64 * 1024, NO_LOOK = 1 << 20 };
    size_t element = 0;
    MPI_Aint low = 0;
    int code = count < 0 ? MPI_ERR_COUNT : gy_mpi_type_bytes(type, &element);
    if (code != MPI_SUCCESS) {
        return code;
    }
    *span = (gy_mpi_span){.data = (void *)(uintptr_t)data,
                          .count = count,
                          .type = type,
                          .element = element,
                          .bytes = element * (size_t)count,
                          .extent = (MPI_Aint)element};
    span->is_plain = is_solid(type, element, span->bytes < LARGE_BYTES ? NO_LOOK : 0);
    if (!span->is_plain && PMPI_Type_get_extent(type, &low, &span->extent) != MPI_SUCCESS) {
        return MPI_ERR_TYPE;
    }
    return MPI_SUCCESS;
}

/* The library counts bytes in ints: process groups of whole elements below that limit. */
static size_t piece_bytes(void)
{
    static _Atomic size_t limit;
    size_t bytes = atomic_load_explicit(&limit, memory_order_relaxed);
    if (bytes == 0) {
        const char *given = gy_setting_get("GYRE_MPI_CHUNK");
        long long number = given != NULL ? strtoll(given, NULL, 10) : 0;
        bytes = number > 0 ? (size_t)number : (size_t)1 << 30;
        atomic_store_explicit(&limit, bytes, memory_order_relaxed);
    }
    return bytes;
}

static int move_large(const gy_mpi_span *span, void *element, void *at, bool is_packing)
{
    gy_mpi_packed packed = {.at = at, .piece_bytes = piece_bytes(), .is_packing = is_packing};
    return gy_mpi_move_large(span, element, &packed);
}

/* Elements for one call; 0: a single one is too large. */
static int piece_of(const gy_mpi_span *span, int64_t left)
{
    size_t most = piece_bytes() / GY_MAX(span->element, (size_t)1);
    return (int)GY_MIN((size_t)left, GY_MIN(most, (size_t)INT32_MAX));
}

/* MPICH packs nothing into MPI_BOTTOM, which is NULL: the same elements, said from elsewhere.
 */
static int shift(const gy_mpi_span *span, gy_mpi_span *shifted)
{
    enum { ELSEWHERE = 64 };
    *shifted = *span;
    shifted->data = (void *)(uintptr_t)ELSEWHERE;
    GY_MPI_TRY(PMPI_Type_create_hindexed(1, (const int[]){1}, (const MPI_Aint[]){-ELSEWHERE},
                                         span->type, &shifted->type));
    return PMPI_Type_commit(&shifted->type);
}

int gy_mpi_pack(const gy_mpi_span *span, void *to)
{
    if (span->is_plain) {
        memcpy(to, span->data, span->bytes);
        return MPI_SUCCESS;
    }
    if (span->data == MPI_BOTTOM) {
        gy_mpi_span shifted;
        GY_MPI_TRY(shift(span, &shifted));
        int code = gy_mpi_pack(&shifted, to);
        (void)PMPI_Type_free(&shifted.type);
        return code;
    }
    for (int64_t done = 0; done < span->count;) {
        int count = piece_of(span, span->count - done), position = 0;
        uint8_t *from = (uint8_t *)span->data + done * span->extent;
        uint8_t *at = (uint8_t *)to + (size_t)done * span->element;
        int code = count == 0 ? move_large(span, from, at, true)
                              : PMPI_Pack(from, count, span->type, at,
                                          (int)(span->element * (size_t)count), &position,
                                          MPI_COMM_SELF);
        if (code != MPI_SUCCESS) {
            return code;
        }
        done += GY_MAX(count, 1);
    }
    return MPI_SUCCESS;
}

int gy_mpi_unpack(const gy_mpi_span *span, MPI_Aint first, int64_t count, const void *from)
{
    uint8_t *to = (uint8_t *)span->data + first * span->extent;
    if (span->is_plain) {
        memcpy(to, from, span->element * (size_t)count);
        return MPI_SUCCESS;
    }
    if (span->data == MPI_BOTTOM) {
        gy_mpi_span shifted;
        GY_MPI_TRY(shift(span, &shifted));
        int code = gy_mpi_unpack(&shifted, first, count, from);
        (void)PMPI_Type_free(&shifted.type);
        return code;
    }
    for (int64_t done = 0; done < count;) {
        int now = piece_of(span, count - done), position = 0;
        uint8_t *at = (uint8_t *)(uintptr_t)from + (size_t)done * span->element;
        int code = now == 0
                       ? move_large(span, to + done * span->extent, at, false)
                       : PMPI_Unpack(at, (int)(span->element * (size_t)now), &position,
                                     to + done * span->extent, now, span->type, MPI_COMM_SELF);
        if (code != MPI_SUCCESS) {
            return code;
        }
        done += GY_MAX(now, 1);
    }
    return MPI_SUCCESS;
}
