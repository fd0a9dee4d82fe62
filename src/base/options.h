/**
 * Options structs of any Gyre that a caller was compiled with (GY_OPTIONS in gyre/base.h).
 */
#ifndef GY_BASE_OPTIONS_H
#define GY_BASE_OPTIONS_H

#include <gyre/base.h>

/**
 * Take a caller's options: `known` becomes what this library knows of them. Every public
 * function with options begins with it.
 *
 * @param known       (size_bytes) a struct that begins with `size_t struct_size`; written whole
 * @param size_bytes  of the struct in this library
 * @param options     the caller's struct, as long as its struct_size says; NULL: the defaults
 * @param name        the struct's type, for the failure
 * @return GY_OK; GY_ARG struct_size is below sizeof(size_t); GY_UNSUPPORTED a member that this
 *         library does not know is set. `known` is untouched on failure.
 * @threads any
 */
GY_MUST_CHECK gy_status gy_base_options_take(void *known, size_t size_bytes,
                                             const void *options, const char *name);

/** gy_base_options_take, size and name being those of `type`: gy_options_take(gy_x_options, …).
 */
#define gy_options_take(type, known, options)                                                  \
    gy_base_options_take((type *){(known)},                                                    \
                         sizeof(type) *                                                        \
                             sizeof(char[offsetof(type, struct_size) == 0 ? 1 : -1]),          \
                         (const type *){(options)}, #type)

#endif
