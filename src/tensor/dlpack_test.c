/* Goal: tensors handed out and taken in by DLPack share their memory, are released once, and
 * what Gyre cannot read is refused by name. */
#include "tensor/tensor.h"

#include "base/base.h"

#include <gyre/dlpack.h>

#include <string.h>

#include "gy_test.h"

static void expect_text(const char *text)
{
    if (strstr(gy_error_text(), text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, gy_error_text());
    }
}

static gy_tensor *numbers(gy_dtype dtype, int64_t rows, int64_t columns)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_new(NULL, dtype, (int64_t[]){rows, columns}, 2, &tensor));
    for (int64_t i = 0; i < rows * columns; i++) {
        gy_tensor_set(tensor, i, (double)i);
    }
    return tensor;
}

GY_TEST(a_tensor_is_handed_out_with_its_memory)
{
    const int64_t live = gy_alloc_live();
    gy_tensor *all = numbers(GY_F32, 3, 4), *turned = NULL;
    assert_ok(gy_tensor_permute(all, (int[]){1, 0}, &turned));
    gy_dlpack *out = NULL;
    assert_ok(gy_tensor_to_dlpack(turned, &out));
    gy_tensor_drop(all);
    gy_tensor_drop(turned); /* what was handed out still holds it */
    assert_int_equal(out->major, 1);
    assert_int_equal(out->flags, 0);
    const gy_dlpack_tensor *t = &out->tensor;
    assert_int_equal(t->device.type, GY_DLPACK_CPU);
    assert_int_equal(t->rank, 2);
    assert_true(t->dtype.code == GY_DLPACK_FLOAT && t->dtype.bits == 32 && t->dtype.lanes == 1);
    assert_true(t->sizes[0] == 4 && t->sizes[1] == 3);
    assert_true(t->strides[0] == 1 && t->strides[1] == 4);
    assert_true(((const float *)t->data)[2 * t->strides[0] + t->strides[1]] == 6);
    gy_tensor *back = NULL;
    assert_ok(gy_tensor_from_dlpack(out, &back));
    ((float *)out->tensor.data)[4] = 44; /* row 0, column 1 of the turned one */
    assert_true(gy_tensor_get(back, 1) == 44);
    gy_tensor *row = NULL;
    assert_ok(gy_tensor_slice(back, 0, 1, 2, 1, &row));
    gy_tensor_drop(back);
    assert_true(gy_tensor_get(row, 2) == 9);
    gy_tensor_drop(row); /* the last: the deleter gives all back */
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(every_element_type_goes_and_comes_back)
{
    const int64_t live = gy_alloc_live();
    for (int type = GY_DTYPE_NONE + 1; type < GY_DTYPE_COUNT; type++) {
        gy_tensor *tensor = numbers((gy_dtype)type, 2, 3), *back = NULL, *older = NULL;
        gy_dlpack *out = NULL;
        gy_dlpack_unversioned *old = NULL;
        assert_ok(gy_tensor_to_dlpack(tensor, &out));
        assert_int_equal(out->tensor.dtype.bits, 8 * gy_dtype_bytes((gy_dtype)type));
        assert_ok(gy_tensor_from_dlpack(out, &back));
        assert_ok(gy_tensor_to_dlpack_unversioned(tensor, &old));
        assert_ok(gy_tensor_from_dlpack_unversioned(old, &older));
        gy_tensor_drop(tensor);
        assert_int_equal(gy_tensor_dtype(back), type);
        assert_int_equal(gy_tensor_dtype(older), type);
        for (int64_t i = 0; i < 6; i++) {
            assert_true(gy_tensor_get(back, i) == (double)i);
            assert_true(gy_tensor_get(older, i) == (double)i);
        }
        gy_tensor_drop(back);
        gy_tensor_drop(older);
    }
    assert_int_equal(gy_alloc_live(), live);
}

/* ---- another library's tensors ---- */

typedef struct foreign {
    gy_dlpack managed;
    int16_t memory[24];
    int64_t sizes[2], strides[2];
    int deleted;
} foreign;

static void count_deleted(gy_dlpack *self)
{
    ((foreign *)self->context)->deleted++;
}

/* Rows 3 and 2 (backwards), every other column from the second on, of a 4 x 6 matrix. */
static void make_foreign(foreign *of)
{
    *of = (foreign){.sizes = {2, 3}, .strides = {-6, 2}};
    for (int i = 0; i < 24; i++) {
        of->memory[i] = (int16_t)i;
    }
    of->managed = (gy_dlpack){.major = 1,
                              .minor = 7,
                              .context = of,
                              .deleter = count_deleted,
                              .tensor = {.data = of->memory,
                                         .device = {.type = GY_DLPACK_CPU},
                                         .rank = 2,
                                         .dtype = {GY_DLPACK_INT, 16, 1},
                                         .sizes = of->sizes,
                                         .strides = of->strides,
                                         .byte_offset = 19 * sizeof(int16_t)}};
}

GY_TEST(strides_and_offsets_are_those_of_the_other_side)
{
    static const double expected[] = {19, 21, 23, 13, 15, 17};
    foreign of;
    make_foreign(&of);
    gy_tensor *tensor = NULL, *copy = NULL;
    assert_ok(gy_tensor_from_dlpack(&of.managed, &tensor));
    assert_ok(gy_tensor_new(NULL, GY_F32, of.sizes, 2, &copy));
    assert_ok(gy_tensor_copy(copy, tensor));
    for (int64_t i = 0; i < 6; i++) {
        assert_true(gy_tensor_get(tensor, i) == expected[i]);
        assert_true(gy_tensor_get(copy, i) == expected[i]);
    }
    gy_tensor_set(tensor, 5, -1);
    assert_int_equal(of.memory[17], -1);
    gy_tensor_hold(tensor);
    gy_tensor_drop(tensor);
    assert_int_equal(of.deleted, 0);
    gy_tensor_drop(tensor);
    assert_int_equal(of.deleted, 1);
    gy_tensor_drop(copy);
    make_foreign(&of); /* without strides: row-major; without a deleter: nothing to free */
    of.managed.tensor.strides = NULL;
    of.managed.tensor.byte_offset = 0;
    of.managed.deleter = NULL;
    assert_ok(gy_tensor_from_dlpack(&of.managed, &tensor));
    assert_true(gy_tensor_get(tensor, 5) == 5);
    gy_tensor_drop(tensor);
}

static void expect_refused(const foreign *of, gy_status status, const char *text)
{
    foreign copy = *of;
    copy.managed.context = &copy;
    gy_tensor *tensor = NULL;
    assert_status(gy_tensor_from_dlpack(&copy.managed, &tensor), status);
    expect_text(text);
    assert_null(tensor);
    assert_int_equal(copy.deleted, 0); /* it stays its owner's */
}

GY_TEST(what_cannot_be_read_is_refused_by_name)
{
    foreign good, of;
    make_foreign(&good);
    of = good;
    of.managed.major = 2;
    expect_refused(&of, GY_UNSUPPORTED, "dlpack: version 2.7, expected 1");
    of = good;
    of.managed.flags = GY_DLPACK_READ_ONLY;
    expect_refused(&of, GY_UNSUPPORTED, "read-only");
    of = good;
    of.managed.tensor.device.type = 2;
    expect_refused(&of, GY_UNSUPPORTED, "memory of device type 2");
    of = good;
    of.managed.tensor.dtype.lanes = 4;
    expect_refused(&of, GY_UNSUPPORTED, "16 bits, 4 lanes");
    of = good;
    of.managed.tensor.dtype = (gy_dlpack_dtype){5, 128, 1}; /* complex */
    expect_refused(&of, GY_UNSUPPORTED, "elements of kind 5");
    of = good;
    of.managed.tensor.rank = 9;
    expect_refused(&of, GY_ARG, "9 dimensions");
    of = good;
    of.managed.tensor.sizes = NULL;
    expect_refused(&of, GY_ARG, "without sizes");
    of = good;
    of.managed.tensor.sizes = (int64_t[]){2, -3};
    expect_refused(&of, GY_ARG, "size -3");
    of = good;
    of.managed.tensor.strides = (int64_t[]){INT64_MIN, 1};
    expect_refused(&of, GY_ARG, "leads out of memory");
    of = good;
    of.managed.tensor.byte_offset = 1;
    expect_refused(&of, GY_ARG, "1 bytes behind a multiple of 2");
    of = good;
    of.managed.tensor.data = NULL;
    expect_refused(&of, GY_ARG, "over no memory");
    gy_tensor *blocked = NULL;
    gy_dlpack *out = NULL;
    assert_ok(gy_tensor_new_blocked(NULL, GY_F32, (int64_t[]){1, 3, 2, 2}, &blocked));
    assert_status(gy_tensor_to_dlpack(blocked, &out), GY_UNSUPPORTED);
    expect_text("blocked");
    gy_tensor_drop(blocked);
}

GY_TEST(no_memory_is_said_and_leaks_nothing)
{
    gy_tensor *tensor = numbers(GY_F64, 1, 2), *taken = NULL;
    gy_dlpack *out = NULL;
    const int64_t live = gy_alloc_live();
    gy_alloc_fail_after(1);
    assert_status(gy_tensor_to_dlpack(tensor, &out), GY_NOMEM);
    gy_alloc_fail_after(0);
    assert_null(out);
    assert_ok(gy_tensor_to_dlpack(tensor, &out));
    gy_alloc_fail_after(1);
    assert_status(gy_tensor_from_dlpack(out, &taken), GY_NOMEM);
    gy_alloc_fail_after(0);
    out->deleter(out); /* it stayed ours */
    assert_int_equal(gy_alloc_live(), live);
    gy_tensor_drop(tensor);
}

GY_TEST_MAIN(NULL, NULL)
