"""Goal: numpy reads what Gyre hands out by DLPack, Gyre reads what numpy hands out, values and strides
alike, and each side gives the other's memory back exactly once.

usage: dlpack_numpy_test.py LIBRARY (libgyre.so)
"""
import ctypes
import gc
import sys
import unittest

import numpy

GYRE = ctypes.CDLL(sys.argv.pop(1))
GYRE.gy_error_text.restype = ctypes.c_char_p
GYRE.gy_tensor_get.restype = ctypes.c_double
GYRE.gy_tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_int64]
GYRE.gy_tensor_set.restype = None
GYRE.gy_tensor_set.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_double]
GYRE.gy_tensor_size.restype = ctypes.c_int64
GYRE.gy_tensor_size.argtypes = [ctypes.c_void_p, ctypes.c_int]
GYRE.gy_tensor_rank.argtypes = GYRE.gy_tensor_dtype.argtypes = GYRE.gy_tensor_drop.argtypes = [ctypes.c_void_p]
GYRE.gy_tensor_drop.restype = None
GYRE.gy_dtype_name.restype = ctypes.c_char_p
GYRE.gy_dtype_parse.restype = ctypes.c_bool
CAPSULE = ctypes.pythonapi
CAPSULE.PyCapsule_New.restype = ctypes.py_object
CAPSULE.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CAPSULE.PyCapsule_GetPointer.restype = ctypes.c_void_p
CAPSULE.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
CAPSULE.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
DELETER_OFFSET = 56  # of DLManagedTensor: behind the tensor (48 bytes) and the maker's context
# numpy 1.24 knows neither bf16 nor any other type of Gyre that these miss.
TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i16": "int16",
         "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8"}


def ok(status):
    if status != 0:
        raise AssertionError(f"status {status}: {GYRE.gy_error_text().decode()}")


def sizes_of(*sizes):
    return (ctypes.c_int64 * len(sizes))(*sizes)


def new_tensor(name, rows, columns):
    dtype, tensor = ctypes.c_int(), ctypes.c_void_p()
    assert GYRE.gy_dtype_parse(name.encode(), ctypes.byref(dtype))
    ok(GYRE.gy_tensor_new(None, dtype, sizes_of(rows, columns), 2, ctypes.byref(tensor)))
    for i in range(rows * columns):
        GYRE.gy_tensor_set(tensor, i, float(i))
    return tensor


class Counted:
    """The deleter of a managed tensor, counted and passed on."""

    def __init__(self, managed):
        place = ctypes.c_void_p.from_address(managed + DELETER_OFFSET)
        self.calls, self.inner = 0, DELETER(place.value)
        self.outer = DELETER(self.release)
        place.value = ctypes.cast(self.outer, ctypes.c_void_p).value

    def release(self, managed):
        self.calls += 1
        if self.calls == 1:
            self.inner(managed)


class Exported:
    """What numpy.from_dlpack asks for a tensor of Gyre."""

    def __init__(self, tensor):
        managed = ctypes.c_void_p()
        ok(GYRE.gy_tensor_to_dlpack_unversioned(tensor, ctypes.byref(managed)))
        self.managed, self.counted = managed.value, Counted(managed.value)

    def __dlpack__(self, stream=None):
        return CAPSULE.PyCapsule_New(self.managed, b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0  # the processor's memory


def take_in(array):
    """A tensor of Gyre over an array's memory, and the count of its releases."""
    capsule = array.__dlpack__()
    managed = CAPSULE.PyCapsule_GetPointer(capsule, b"dltensor")
    counted, tensor = Counted(managed), ctypes.c_void_p()
    ok(GYRE.gy_tensor_from_dlpack_unversioned(ctypes.c_void_p(managed), ctypes.byref(tensor)))
    CAPSULE.PyCapsule_SetName(capsule, b"used_dltensor")  # so that the capsule does not release it, too
    return tensor, counted


class Exchange(unittest.TestCase):
    def test_numpy_reads_each_element_type(self):
        for name, theirs in TYPES.items():
            with self.subTest(name):
                tensor = new_tensor(name, 3, 4)
                exported = Exported(tensor)
                array = numpy.from_dlpack(exported)
                self.assertEqual(array.dtype, numpy.dtype(theirs))
                numpy.testing.assert_array_equal(array, numpy.arange(12).reshape(3, 4))
                del array
                gc.collect()
                self.assertEqual(exported.counted.calls, 1)
                GYRE.gy_tensor_drop(tensor)

    def test_numpy_shares_a_view_with_its_strides(self):
        tensor, turned, part = new_tensor("f32", 4, 6), ctypes.c_void_p(), ctypes.c_void_p()
        ok(GYRE.gy_tensor_permute(tensor, (ctypes.c_int * 2)(1, 0), ctypes.byref(turned)))
        ok(GYRE.gy_tensor_slice(turned, 0, ctypes.c_int64(1), ctypes.c_int64(6), ctypes.c_int64(2),
                                ctypes.byref(part)))
        exported = Exported(part)
        array = numpy.from_dlpack(exported)
        self.assertEqual(array.shape, (3, 4))
        self.assertEqual(array.strides, (2 * 4, 6 * 4))
        whole = numpy.arange(24, dtype="float32").reshape(4, 6)
        numpy.testing.assert_array_equal(array, whole.T[1:6:2])
        GYRE.gy_tensor_set(tensor, 1, 77.0)  # row 0, column 1: the first of the view
        self.assertEqual(array[0, 0], 77)
        for held in (part, turned, tensor):
            GYRE.gy_tensor_drop(held)
        other = array[1:]  # numpy's view holds the memory after all of Gyre's holds are gone
        del array
        gc.collect()
        self.assertEqual(exported.counted.calls, 0)
        self.assertEqual(other[0, 0], 3)
        del other
        gc.collect()
        self.assertEqual(exported.counted.calls, 1)

    def test_gyre_reads_each_element_type(self):
        for name, theirs in TYPES.items():
            with self.subTest(name):
                array = numpy.arange(10, dtype=theirs).reshape(2, 5)
                tensor, counted = take_in(array)
                self.assertEqual(GYRE.gy_dtype_name(GYRE.gy_tensor_dtype(tensor)).decode(), name)
                self.assertEqual([GYRE.gy_tensor_get(tensor, i) for i in range(10)], list(range(10)))
                GYRE.gy_tensor_drop(tensor)
                self.assertEqual(counted.calls, 1)

    def test_gyre_shares_a_view_with_its_strides(self):
        whole = numpy.arange(24, dtype="int32").reshape(4, 6)
        view = whole[::2, 5:0:-2].T[::-1]  # (3,2): columns 1, 3, 5 of rows 0 and 2
        before = sys.getrefcount(view)
        tensor, counted = take_in(view)
        self.assertGreater(sys.getrefcount(view), before)
        self.assertEqual(GYRE.gy_tensor_rank(tensor), 2)
        self.assertEqual([GYRE.gy_tensor_size(tensor, i) for i in range(2)], [3, 2])
        self.assertEqual([GYRE.gy_tensor_get(tensor, i) for i in range(6)], [1, 13, 3, 15, 5, 17])
        GYRE.gy_tensor_set(tensor, 3, -9.0)
        self.assertEqual(whole[2, 3], -9)
        row = ctypes.c_void_p()
        ok(GYRE.gy_tensor_slice(tensor, 0, ctypes.c_int64(1), ctypes.c_int64(2), ctypes.c_int64(1),
                                ctypes.byref(row)))
        GYRE.gy_tensor_drop(tensor)
        self.assertEqual(counted.calls, 0)  # a view of it still lives
        self.assertEqual(GYRE.gy_tensor_get(row, 1), -9)
        GYRE.gy_tensor_drop(row)
        self.assertEqual(counted.calls, 1)
        self.assertEqual(sys.getrefcount(view), before)


if __name__ == "__main__":
    unittest.main()
