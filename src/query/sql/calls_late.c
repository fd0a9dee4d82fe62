/* The functions of libpg_query that Gyre calls; the library is loaded at the first call. */
#include "base/lazy.h"

#include <pg_query.h>
#include <pg_query/pg_query.pb-c.h>

GY_LAZY(GY_LATE_SQL, PgQueryScanResult, pg_query_scan, (const char *input), (input))
GY_LAZY(GY_LATE_SQL, PgQueryProtobufParseResult, pg_query_parse_protobuf, (const char *input),
        (input))
GY_LAZY_VOID(GY_LATE_SQL, pg_query_free_scan_result, (PgQueryScanResult result), (result))
GY_LAZY_VOID(GY_LATE_SQL, pg_query_free_protobuf_parse_result,
             (PgQueryProtobufParseResult result), (result))

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
GY_LAZY(GY_LATE_SQL, PgQuery__ScanResult *, pg_query__scan_result__unpack,
        (ProtobufCAllocator * allocator, size_t size, const uint8_t *data),
        (allocator, size, data))
GY_LAZY_VOID(GY_LATE_SQL, pg_query__scan_result__free_unpacked,
             (PgQuery__ScanResult * result, ProtobufCAllocator *allocator), (result, allocator))
GY_LAZY(GY_LATE_SQL, PgQuery__ParseResult *, pg_query__parse_result__unpack,
        (ProtobufCAllocator * allocator, size_t size, const uint8_t *data),
        (allocator, size, data))
GY_LAZY_VOID(GY_LATE_SQL, pg_query__parse_result__free_unpacked,
             (PgQuery__ParseResult * result, ProtobufCAllocator *allocator),
             (result, allocator))
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
