/*
 * What stands before every text: how a kernel is declared, and functions that CUDA C has not.
 * Written in what CUDA C++ and C17 have in common; tests/cuda/host_kernel.h gives the rest when
 * the C compiler reads it. No header is included: NVRTC needs none.
 */
#include "ops/cuda/text/text_priv.h"

/* Floats of 16 bits: the arithmetic of ops/kernels/tiles.inc, bit for bit. */
#define HALF                                                                                   \
    "GY_DEVICE float gy_float_of_bf16(unsigned short half)\n"                                  \
    "{\n"                                                                                      \
    "    const unsigned bits = (unsigned)half << 16;\n"                                        \
    "    return __uint_as_float(bits | ((bits & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0));\n"  \
    "}\n"                                                                                      \
    "GY_DEVICE unsigned short gy_bf16_of_float(float x)\n"                                     \
    "{\n"                                                                                      \
    "    const unsigned bits = __float_as_uint(x), nan = (bits >> 16 & 0x8000) | 0x7fc0;\n"    \
    "    const unsigned rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n"                 \
    "    return (unsigned short)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);\n"         \
    "}\n"                                                                                      \
    "GY_DEVICE float gy_float_of_f16(unsigned short half)\n"                                   \
    "{\n"                                                                                      \
    "    const unsigned sign = (unsigned)(half & 0x8000) << 16, size = half & 0x7fff;\n"       \
    "    const unsigned normal = (size << 13) + (112u << 23);\n"                               \
    "    const unsigned special = size << 13 | 0x7f800000 | (size > 0x7c00 ? 0x400000 : 0);\n" \
    "    const unsigned small = __float_as_uint((float)(int)size * 5.9604644775390625e-8f);\n" \
    "    const unsigned whole = size < 0x400 ? small : normal;\n"                              \
    "    return __uint_as_float(sign | (size >= 0x7c00 ? special : whole));\n"                 \
    "}\n"                                                                                      \
    "/* Next to 0.5 a float's last place is that of f16's subnormal numbers. */\n"             \
    "GY_DEVICE unsigned short gy_f16_of_float(float x)\n"                                      \
    "{\n"                                                                                      \
    "    const unsigned bits = __float_as_uint(x), size = bits & 0x7fffffff;\n"                \
    "    const unsigned normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;\n"    \
    "    const unsigned small = __float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000;\n" \
    "    const unsigned special = size > 0x7f800000 ? 0x7e00 : 0x7c00;\n"                      \
    "    const unsigned finite = size < 0x38800000 ? small : normal;\n"                        \
    "    const unsigned kept = size >= 0x47800000 ? special : finite;\n"                       \
    "    return (unsigned short)((bits >> 16 & 0x8000) | kept);\n"                             \
    "}\n"

/* IEEE 754-2019 minimum and maximum, as tensor/extreme.h: equal numbers differ in the sign of a
 * zero at most. */
#define EXTREME(name, type, bits, back, less, join)                                            \
    "GY_DEVICE " type " " name "(" type " x, " type " y)\n"                                    \
    "{\n"                                                                                      \
    "    const " type " joined = " back "(" bits "(x) " join " " bits "(y));\n"                \
    "    return x != x || y != y ? x + y : x == y ? joined : x " less " y ? x : y;\n"          \
    "}\n"

/* The counter-based numbers of gy_philox (Salmon et al., SC 2011), one of a block of four. */
#define PHILOX                                                                                 \
    "GY_DEVICE unsigned gy_dropout_number(const long long *seed, unsigned long long stream,\n" \
    "                                     unsigned long long index)\n"                         \
    "{\n"                                                                                      \
    "    const unsigned long long key =\n"                                                     \
    "        (unsigned long long)seed[0] ^ stream * 0x9E3779B97F4A7C15ull;\n"                  \
    "    const unsigned long long high = (unsigned long long)seed[1], low = index / 4;\n"      \
    "    unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);\n"                           \
    "    unsigned c0 = (unsigned)low, c1 = (unsigned)(low >> 32);\n"                           \
    "    unsigned c2 = (unsigned)high, c3 = (unsigned)(high >> 32);\n"                         \
    "    for (int round = 0; round < 10; round++) {\n"                                         \
    "        const unsigned long long p0 = (unsigned long long)c0 * 0xD2511F53u;\n"            \
    "        const unsigned long long p1 = (unsigned long long)c2 * 0xCD9E8D57u;\n"            \
    "        c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0;\n"                                           \
    "        c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;\n"                                           \
    "        c1 = (unsigned)p1;\n"                                                             \
    "        c3 = (unsigned)p0;\n"                                                             \
    "        k0 += 0x9E3779B9u;\n"                                                             \
    "        k1 += 0xBB67AE85u;\n"                                                             \
    "    }\n"                                                                                  \
    "    const unsigned pair = index % 4 < 2 ? 0 : 1;\n"                                       \
    "    return index % 2 == 0 ? (pair == 0 ? c0 : c2) : (pair == 0 ? c1 : c3);\n"             \
    "}\n"

/* Values of all threads of a block folded in a fixed tree: `least` sums, of every least-th
 * thread; least is a power of two. All threads get theirs. */
#define TREE(name, type, fold)                                                                 \
    "GY_DEVICE " type " " name "_columns(" type " *shared, " type " x, unsigned least)\n"      \
    "{\n"                                                                                      \
    "    const unsigned t = threadIdx.x;\n"                                                    \
    "    shared[t] = x;\n"                                                                     \
    "    for (unsigned half = blockDim.x / 2; half >= least; half /= 2) {\n"                   \
    "        __syncthreads();\n"                                                               \
    "        if (t < half) {\n"                                                                \
    "            const " type " a = shared[t], b = shared[t + half];\n"                        \
    "            shared[t] = " fold ";\n"                                                      \
    "        }\n"                                                                              \
    "    }\n"                                                                                  \
    "    __syncthreads();\n"                                                                   \
    "    x = shared[t % least];\n"                                                             \
    "    __syncthreads();\n"                                                                   \
    "    return x;\n"                                                                          \
    "}\n"                                                                                      \
    "GY_DEVICE " type " " name "(" type " *shared, " type " x)\n"                              \
    "{\n"                                                                                      \
    "    return " name "_columns(shared, x, 1);\n"                                             \
    "}\n"
/* Of rows [box[0], box[1]) and columns [box[2], box[3]): where the first maximum stands; what
 * is no number is more than any. */
#define FIRST_MAXIMUM(name, type)                                                              \
    "GY_DEVICE long long " name "(const " type " *x, const long long *box, long long width)\n" \
    "{\n"                                                                                      \
    "    long long best = box[0] * width + box[2];\n"                                          \
    "    for (long long y = box[0]; y < box[1]; y++) {\n"                                      \
    "        for (long long k = y * width + box[2]; k < y * width + box[3]; k++) {\n"          \
    "            best = x[k] > x[best] || (x[k] != x[k] && x[best] == x[best]) ? k : best;\n"  \
    "        }\n"                                                                              \
    "    }\n"                                                                                  \
    "    return best;\n"                                                                       \
    "}\n"
#define WIDE  "unsigned long long"
#define WHOLE "long long"

#define BEGIN                                                                                  \
    "#ifndef GY_PRELUDE\n"                                                                     \
    "#define GY_PRELUDE\n"                                                                     \
    "#ifndef GY_KERNEL /* for a device; threads of a block kernel meet at barriers */\n"       \
    "#define GY_KERNEL(name) extern \"C\" __global__ void name(const gy_arguments g)\n"        \
    "#define GY_BLOCK_KERNEL(name) GY_KERNEL(name)\n"                                          \
    "#define GY_DEVICE static __device__ __forceinline__\n"                                    \
    "#define GY_UNROLL _Pragma(\"unroll\")\n"                                                  \
    "#endif\n"
#define CONSTANTS                                                                              \
    "GY_DEVICE float gy_infinity(void)\n"                                                      \
    "{\n"                                                                                      \
    "    return __uint_as_float(0x7f800000);\n"                                                \
    "}\n"                                                                                      \
    "/* Toward zero, the ends of the range for what lies beyond, 0 for no number. */\n"        \
    "#define GY_CUT(type, x, least, most, past) \\\n"                                          \
    "    ((x) != (x) ? (type)0 : (x) <= (least) ? (type)(least) \\\n"                          \
    "     : (x) >= (past) ? (type)(most) : (type)(x))\n"
#define EXTREMES                                                                               \
    EXTREME("gy_minimumf", "float", "__float_as_uint", "__uint_as_float", "<", "|")            \
    EXTREME("gy_maximumf", "float", "__float_as_uint", "__uint_as_float", ">", "&")            \
    EXTREME("gy_minimum", "double", "__double_as_longlong", "__longlong_as_double", "<", "|")  \
    EXTREME("gy_maximum", "double", "__double_as_longlong", "__longlong_as_double", ">", "&")
#define TREES                                                                                  \
    TREE("gy_tree_sum", "double", "a + b")                                                     \
    TREE("gy_tree_prod", "double", "a * b")                                                    \
    TREE("gy_tree_max", "double", "gy_maximum(a, b)")                                          \
    TREE("gy_tree_min", "double", "gy_minimum(a, b)")
#define WHOLE_TREES                                                                            \
    TREE("gy_tree_whole_sum", WIDE, "a + b")                                                   \
    TREE("gy_tree_whole_prod", WIDE, "a * b")                                                  \
    TREE("gy_tree_whole_max", WHOLE, "a > b ? a : b")                                          \
    TREE("gy_tree_whole_min", WHOLE, "a < b ? a : b")

#define MAXIMA                                                                                 \
    FIRST_MAXIMUM("gy_first_maximumf", "float") FIRST_MAXIMUM("gy_first_maximum", "double")

const char *const gy_cuda_prelude[] = {BEGIN CONSTANTS, HALF,   EXTREMES,   PHILOX, TREES,
                                       WHOLE_TREES,     MAXIMA, "#endif\n", NULL};
