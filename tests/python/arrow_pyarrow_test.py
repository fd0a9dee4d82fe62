"""Goal: pyarrow reads what Gyre hands out through Arrow's C data and stream interfaces, Gyre reads what
pyarrow hands out, values, nulls and types alike, and each side gives the other's memory back.

usage: arrow_pyarrow_test.py LIBRARY (libgyre.so)
"""
import ctypes
import datetime
import decimal
import gc
import sys
import unittest

import pyarrow

GYRE = ctypes.CDLL(sys.argv.pop(1))
GYRE.gy_error_text.restype = ctypes.c_char_p
for name in ("gy_schema_drop", "gy_frame_drop"):
    getattr(GYRE, name).argtypes = [ctypes.c_void_p]
    getattr(GYRE, name).restype = None
GYRE.gy_frame_rows.argtypes = [ctypes.c_void_p]
GYRE.gy_frame_rows.restype = ctypes.c_int64
GYRE.gy_frame_slice.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
SCHEMA_BYTES, ARRAY_BYTES, STREAM_BYTES = 72, 80, 40
UTC = datetime.timezone.utc


class Source(ctypes.Structure):
    _fields_ = [("next", ctypes.c_void_p), ("close", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


def ok(status):
    if status != 0:
        raise AssertionError(f"status {status}: {GYRE.gy_error_text().decode()}")


def memory(size):
    return ctypes.create_string_buffer(size)


def batch(rows=1000):
    """Every type that Gyre has, a seventh of the values null, texts of several bytes a letter."""
    def column(values, kind):
        return pyarrow.array([None if i % 7 == 3 else value for i, value in enumerate(values)], kind)
    at = datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)
    return pyarrow.record_batch({
        "flag": column([i % 3 == 0 for i in range(rows)], pyarrow.bool_()),
        "count": column([i * i - 2**62 for i in range(rows)], pyarrow.int64()),
        "part": column([i / 8 for i in range(rows)], pyarrow.float64()),
        "price": column([decimal.Decimal(i * 10**25) / 100 for i in range(rows)], pyarrow.decimal128(38, 2)),
        "day": column([datetime.date(1969, 12, 1) + datetime.timedelta(i) for i in range(rows)], pyarrow.date32()),
        "at": column([at + datetime.timedelta(microseconds=i * 7919) for i in range(rows)], pyarrow.timestamp("us", "UTC")),
        "name": column(["größe " * (i % 5) for i in range(rows)], pyarrow.string()),
    })


def take(given):
    """A batch of pyarrow as a frame and its schema."""
    schema, array = memory(SCHEMA_BYTES), memory(ARRAY_BYTES)
    given._export_to_c(ctypes.addressof(array), ctypes.addressof(schema))
    held, frame = ctypes.c_void_p(), ctypes.c_void_p()
    status = GYRE.gy_schema_from_arrow(schema, ctypes.byref(held))
    pyarrow.Schema._import_from_c(ctypes.addressof(schema))  # which releases it
    if status == 0:
        ok(GYRE.gy_frame_from_arrow(held, array, ctypes.byref(frame)))
    else:
        pyarrow.Array._import_from_c(ctypes.addressof(array), pyarrow.struct(list(given.schema)))
        ok(status)
    return held, frame


def give(held, frame):
    """A frame as a batch of pyarrow."""
    schema, array = memory(SCHEMA_BYTES), memory(ARRAY_BYTES)
    ok(GYRE.gy_schema_to_arrow(held, schema))
    ok(GYRE.gy_frame_to_arrow(frame, array))
    found = pyarrow.RecordBatch._import_from_c(ctypes.addressof(array), ctypes.addressof(schema))
    found.validate(full=True)
    return found


class Exchange(unittest.TestCase):
    def test_batches_go_in_and_out(self):
        for rows in (1000, 1, 0):
            given = batch(rows)
            held, frame = take(given)
            self.assertEqual(GYRE.gy_frame_rows(frame), rows)
            found = give(held, frame)
            GYRE.gy_frame_drop(frame)
            GYRE.gy_schema_drop(held)
            self.assertTrue(found.equals(given))
            for was, found_column in zip(given.columns, found.columns):
                self.assertEqual(rows > 0 and found_column.buffers()[1].address,
                                 rows > 0 and was.buffers()[1].address)  # no copy
            del given
            self.assertEqual(found.column("count")[0:1].to_pylist(), [-2**62][:rows])

    def test_slices_of_both_sides(self):
        given = batch()
        held, frame = take(given.slice(13, 700))
        part = ctypes.c_void_p()
        ok(GYRE.gy_frame_slice(frame, 9, 600, ctypes.byref(part)))
        GYRE.gy_frame_drop(frame)
        found = give(held, part)
        GYRE.gy_frame_drop(part)
        GYRE.gy_schema_drop(held)
        self.assertTrue(found.equals(given.slice(22, 591)))

    def test_memory_is_given_back(self):
        gc.collect()
        before = pyarrow.total_allocated_bytes()
        held, frame = take(batch())
        self.assertGreater(pyarrow.total_allocated_bytes(), before)
        GYRE.gy_frame_drop(frame)
        GYRE.gy_schema_drop(held)
        gc.collect()
        self.assertEqual(pyarrow.total_allocated_bytes(), before)

    def test_streams_go_in_and_out(self):
        given = pyarrow.Table.from_batches([batch(10), batch(0), batch(300)])
        stream, again = memory(STREAM_BYTES), memory(STREAM_BYTES)
        given.to_reader()._export_to_c(ctypes.addressof(stream))
        held, source = ctypes.c_void_p(), Source()
        ok(GYRE.gy_frames_from_arrow(stream, ctypes.byref(held), ctypes.byref(source)))
        ok(GYRE.gy_frames_to_arrow(held, ctypes.byref(source), again))
        GYRE.gy_schema_drop(held)
        found = pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(again)).read_all()
        self.assertTrue(found.equals(given))

    def test_types_are_refused_by_name(self):
        for kind, words in ((pyarrow.int32(), "int32"), (pyarrow.large_string(), "large text"),
                            (pyarrow.list_(pyarrow.int64()), "list"), (pyarrow.timestamp("ns"), "nanoseconds"),
                            (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), "dictionary"),
                            (pyarrow.decimal256(50, 2), "decimal")):
            with self.assertRaisesRegex(AssertionError, f"'x' is .*{words}"):
                take(pyarrow.record_batch([pyarrow.array([], kind)], names=["x"]))


if __name__ == "__main__":
    unittest.main()
