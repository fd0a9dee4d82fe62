/**
 * Room base: everything that all rooms stand on. Reading order: fail, alloc, text, thread,
 * random, hash, env, setting, log, trace.
 */
#ifndef GY_BASE_BASE_H
#define GY_BASE_BASE_H

#include "base/alloc.h"
#include "base/disk.h"
#include "base/env.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/random.h"
#include "base/setting.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/trace.h"

#include <gyre/base.h>

#define GY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GY_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define GY_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define GY_CACHE_LINE   64

/** n rounded up to a multiple of unit (a power of two). */
static inline size_t gy_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) & ~(unit - 1);
}

#endif
