/**
 * Functions of a library that is opened when one of them is first called: a program that needs
 * none of them does not pay for its start (of OpenSSL 1.9 ms of 4.3, in every process that an
 * empty job starts).
 *
 * GY_LAZY defines the library's function itself, so that callers stay as they are; the build
 * does not link the library. Thread-safe. A library or function that is missing ends the
 * process and is named, as the system's loader would do at its start.
 */
#ifndef GY_BASE_LAZY_H
#define GY_BASE_LAZY_H

#include "base/fail.h"

#include <dlfcn.h>
#include <stdatomic.h>

#define GY_LATE_SSL    "libssl.so.3"
#define GY_LATE_CRYPTO "libcrypto.so.3" /* comes with libssl */
#define GY_LATE_SQLITE "libsqlite3.so.0"
#define GY_LATE_BZIP2  "libbz2.so.1.0"
#define GY_LATE_XZ     "liblzma.so.5"
#define GY_LATE_LZ4    "liblz4.so.1"
#define GY_LATE_SQL    "libpg_query.so.1504.0"
#define GY_LATE_PCRE   "libpcre2-8.so.0"
/** All of them, separated by commas: whether a process has one does not depend on its program
 * alone. */
#define GY_LATE_ALL                                                                            \
    GY_LATE_SSL, GY_LATE_CRYPTO, GY_LATE_SQLITE, GY_LATE_BZIP2, GY_LATE_XZ, GY_LATE_LZ4,       \
        GY_LATE_SQL, GY_LATE_PCRE

/* Two threads may find it at once, and find the same. */
static inline void *gy_lazy_find(_Atomic(void *) *found, const char *library, const char *name)
{
    void *function = atomic_load_explicit(found, memory_order_acquire);
    if (__builtin_expect(function == NULL, 0)) {
        void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* it stays */
        function = opened != NULL ? dlsym(opened, name) : NULL;
        if (function == NULL) {
            const char *reason = dlerror();
            gy_panic("%s of %s is needed: %s", name, library,
                     reason != NULL ? reason : "it exports nothing");
        }
        atomic_store_explicit(found, function, memory_order_release);
    }
    return function;
}

/* `call` is then the function of the library. ISO C knows no cast for it. */
#define GY_LAZY_CALL(library, name)                                                            \
    static _Atomic(void *) found;                                                              \
    __typeof__(&name) call = NULL;                                                             \
    *(void **)&call = gy_lazy_find(&found, library, #name)

/** Define `result name parameters` as the library's; `arguments`: their names, (a, b). */
#define GY_LAZY(library, result, name, parameters, arguments)                                  \
    result name parameters                                                                     \
    {                                                                                          \
        GY_LAZY_CALL(library, name);                                                           \
        return call arguments;                                                                 \
    }

/** The same of one that returns nothing. */
#define GY_LAZY_VOID(library, name, parameters, arguments)                                     \
    void name parameters                                                                       \
    {                                                                                          \
        GY_LAZY_CALL(library, name);                                                           \
        call arguments;                                                                        \
    }

#endif
