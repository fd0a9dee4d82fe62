/* Element types: names, sizes, and the value of one element. */
#include "tensor/tensor.h"

#include "base/base.h"
#include "tensor/convert_priv.h"

#include <string.h>

static const char *const names[] = {
    [GY_DTYPE_NONE] = "none", [GY_F64] = "f64", [GY_F32] = "f32", [GY_F16] = "f16",
    [GY_BF16] = "bf16",       [GY_I64] = "i64", [GY_I32] = "i32", [GY_I16] = "i16",
    [GY_I8] = "i8",           [GY_U64] = "u64", [GY_U32] = "u32", [GY_U16] = "u16",
    [GY_U8] = "u8",
};
_Static_assert(GY_COUNT(names) == GY_DTYPE_COUNT, "a name for each element type");

static const uint8_t item_bytes[] = {
#define GY_X(name, bytes, type) [GY_##name] = (bytes),
    GY_DTYPE_LIST(GY_X)
#undef GY_X
};

#define GY_X(name, bytes, type) _Static_assert(sizeof(type) == (bytes), "size of " #name);
GY_DTYPE_LIST(GY_X)
#undef GY_X

size_t gy_dtype_bytes(gy_dtype dtype)
{
    GY_ASSERT(gy_dtype_is_element(dtype));
    return item_bytes[dtype];
}

const char *gy_dtype_name(gy_dtype dtype)
{
    GY_ASSERT((unsigned)dtype < GY_DTYPE_COUNT);
    return names[dtype];
}

bool gy_dtype_parse(const char *name, gy_dtype *dtype)
{
    GY_ASSERT(name != NULL);
    GY_ASSERT(dtype != NULL);
    for (int i = GY_DTYPE_NONE + 1; i < GY_DTYPE_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *dtype = (gy_dtype)i;
            return true;
        }
    }
    return false;
}

/* Read the element at index `offset` of data, as the wide type of `value`. */
static void get(gy_dtype dtype, const void *data, int64_t offset, gy_run value)
{
    GY_ASSERT(data != NULL);
    const char *at = (const char *)data + offset * (int64_t)gy_dtype_bytes(dtype);
    gy_convert_run(value, (gy_const_run){at, dtype, 1}, 1);
}

static void set(gy_dtype dtype, void *data, int64_t offset, gy_const_run value)
{
    GY_ASSERT(data != NULL);
    char *at = (char *)data + offset * (int64_t)gy_dtype_bytes(dtype);
    gy_convert_run((gy_run){at, dtype, 1}, value, 1);
}

double gy_element_get(gy_dtype dtype, const void *data, int64_t offset)
{
    double value = 0;
    GY_ASSERT(data != NULL);
    if (dtype == GY_F64) { /* what references compute in: nothing is converted */
        memcpy(&value, (const double *)data + offset, sizeof(value));
        return value;
    }
    get(dtype, data, offset, (gy_run){&value, GY_F64, 1});
    return value;
}

void gy_element_set(gy_dtype dtype, void *data, int64_t offset, double value)
{
    set(dtype, data, offset, (gy_const_run){&value, GY_F64, 1});
}

int64_t gy_element_get_whole(gy_dtype dtype, const void *data, int64_t offset)
{
    int64_t value = 0;
    get(dtype, data, offset, (gy_run){&value, GY_I64, 1});
    return value;
}

void gy_element_set_whole(gy_dtype dtype, void *data, int64_t offset, int64_t value)
{
    set(dtype, data, offset, (gy_const_run){&value, GY_I64, 1});
}
