/* The SQLite functions that Gyre calls; the library is loaded at the first call. */
#include "base/lazy.h"

#include <sqlite3.h>
#include <stdarg.h>

#define SQLITE(result, name, parameters, arguments)                                            \
    GY_LAZY(GY_LATE_SQLITE, result, name, parameters, arguments)

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names come from a macro
 */
SQLITE(int, sqlite3_bind_blob,
       (sqlite3_stmt * a, int b, const void *c, int d, void (*e)(void *)), (a, b, c, d, e))
SQLITE(int, sqlite3_bind_blob64,
       (sqlite3_stmt * a, int b, const void *c, sqlite3_uint64 d, void (*e)(void *)),
       (a, b, c, d, e))
SQLITE(int, sqlite3_bind_double, (sqlite3_stmt * a, int b, double c), (a, b, c))
SQLITE(int, sqlite3_bind_int, (sqlite3_stmt * a, int b, int c), (a, b, c))
SQLITE(int, sqlite3_bind_int64, (sqlite3_stmt * a, int b, sqlite3_int64 c), (a, b, c))
SQLITE(int, sqlite3_bind_text,
       (sqlite3_stmt * a, int b, const char *c, int d, void (*e)(void *)), (a, b, c, d, e))
SQLITE(int, sqlite3_busy_timeout, (sqlite3 * a, int b), (a, b))
SQLITE(int, sqlite3_clear_bindings, (sqlite3_stmt * a), (a))
SQLITE(int, sqlite3_close, (sqlite3 * a), (a))
SQLITE(const void *, sqlite3_column_blob, (sqlite3_stmt * a, int b), (a, b))
SQLITE(int, sqlite3_column_bytes, (sqlite3_stmt * a, int b), (a, b))
SQLITE(double, sqlite3_column_double, (sqlite3_stmt * a, int b), (a, b))
SQLITE(int, sqlite3_column_int, (sqlite3_stmt * a, int b), (a, b))
SQLITE(sqlite3_int64, sqlite3_column_int64, (sqlite3_stmt * a, int b), (a, b))
SQLITE(const unsigned char *, sqlite3_column_text, (sqlite3_stmt * a, int b), (a, b))
SQLITE(int, sqlite3_column_type, (sqlite3_stmt * a, int b), (a, b))
SQLITE(int, sqlite3_errcode, (sqlite3 * a), (a))
SQLITE(const char *, sqlite3_errmsg, (sqlite3 * a), (a))
SQLITE(int, sqlite3_exec,
       (sqlite3 * a, const char *b, int (*c)(void *, int, char **, char **), void *d, char **e),
       (a, b, c, d, e))
SQLITE(int, sqlite3_extended_errcode, (sqlite3 * a), (a))
SQLITE(int, sqlite3_finalize, (sqlite3_stmt * a), (a))
SQLITE(int, sqlite3_get_autocommit, (sqlite3 * a), (a))
SQLITE(int, sqlite3_open_v2, (const char *a, sqlite3 **b, int c, const char *d), (a, b, c, d))
SQLITE(int, sqlite3_prepare_v2,
       (sqlite3 * a, const char *b, int c, sqlite3_stmt **d, const char **e), (a, b, c, d, e))
SQLITE(int, sqlite3_reset, (sqlite3_stmt * a), (a))
SQLITE(int, sqlite3_step, (sqlite3_stmt * a), (a))

/* Only the form with a number and a pointer for the result. */
int sqlite3_db_config(sqlite3 *a, int b, ...)
{
    va_list rest;
    va_start(rest, b);
    const int wanted = va_arg(rest, int);
    int *const answer = va_arg(rest, int *);
    va_end(rest);
    GY_LAZY_CALL(GY_LATE_SQLITE, sqlite3_db_config);
    return call(a, b, wanted, answer);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
