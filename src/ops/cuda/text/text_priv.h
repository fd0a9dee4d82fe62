/**
 * How texts are printed: snippets of CUDA C with $keys, and the fields of the struct that a
 * kernel gets, in the order of the launch's words.
 */
#ifndef GY_OPS_CUDA_TEXT_TEXT_PRIV_H
#define GY_OPS_CUDA_TEXT_TEXT_PRIV_H

#include "ops/cuda/text/text.h"
#include "ops/kernels/tiles.h"
#include "tensor/tensor.h"

enum { GY_CUDA_THREADS = 256, GY_CUDA_KEY_BYTES = 24 };

typedef struct gy_cuda_writer {
    const gy_kernel_call *call;
    gy_cuda_text *text;
    gy_text fields, kernels;
    bool is_short; /* places and numbers fit 32 bits */
} gy_cuda_writer;

/** A $name in a snippet, and what stands for it. */
typedef struct gy_cuda_key {
    const char *name, *value;
} gy_cuda_key;

/* ---- types ---- */

/** "float"; 16-bit floating types are their bits. */
const char *gy_cuda_type_name(gy_dtype dtype);
/** An unsigned type of as many bytes: for what moves without being looked at. */
const char *gy_cuda_bits_name(gy_dtype dtype);
/** "f" for float32, "" for float64: of functions and numbers. */
const char *gy_cuda_suffix(gy_dtype dtype);

/* ---- printing ---- */

/** An empty text of these inputs and outputs, and its end: put together, or why there is none.
 */
gy_cuda_writer gy_cuda_begin(const gy_kernel_call *call, gy_cuda_text *text);
GY_MUST_CHECK gy_status gy_cuda_end(gy_cuda_writer *w);

/** Add a snippet to the kernels; `keys` ends with a name that is NULL. A $name without a key is
 * a bug; $N without one is the type of a place: "int" in what is short, else "long long". */
void gy_cuda_print(gy_cuda_writer *w, const char *snippet, const gy_cuda_key *keys);
/** Before the fields: if no input or output has 2^30 elements, numbers are of 32 bits, and so
 * is the arithmetic on places: a device divides 64 bits in some hundred instructions. */
void gy_cuda_shorten(gy_cuda_writer *w);
/** A field of the struct, and its word of the launch: whole (its low half is what is short), or
 * double. */
void gy_cuda_number(gy_cuda_writer *w, const char *name, int64_t value);
void gy_cuda_real(gy_cuda_writer *w, const char *name, double value);
/** What moves without being looked at is declared as the unsigned type of its size. */
enum {
    GY_CUDA_MOVES_OUT = 1 << GY_OP_INPUTS_MAX, /* outputs; bit i: input i */
    GY_CUDA_MOVES = GY_CUDA_MOVES_OUT | 1,
    GY_CUDA_MOVES_ALL = 2 * GY_CUDA_MOVES_OUT - 1,
};
/** Fields for all inputs and outputs (in0 …, out0 …), workspace, fault: once, before numbers.
 */
void gy_cuda_fields(gy_cuda_writer *w, uint32_t moves);
/** `blocks` blocks of `threads` threads, or as many as `count` elements want. */
void gy_cuda_launch_blocks(gy_cuda_writer *w, const char *name, int64_t blocks, int threads);
void gy_cuda_launch_each(gy_cuda_writer *w, const char *name, int64_t count);
/** No kernel, and why. */
void gy_cuda_refuse(gy_cuda_writer *w, const char *reason);
/** That the integers of this input are checked. */
void gy_cuda_check_index(gy_cuda_writer *w, int input, const char *what, int64_t size);

/** Threads of a block that works on a line of `length` elements: a power of two. */
int gy_cuda_line_threads(int64_t length);
/** "unsigned" where no index reaches 2^31, else "long long". */
const char *gy_cuda_index_name(int64_t reach);
/** The same for what may be negative: "int", or "long long". */
const char *gy_cuda_whole_name(int64_t reach);

/* ---- what prints rows; each refuses what it cannot ---- */

void gy_cuda_write_program(gy_cuda_writer *w);
/* rows.c */
void gy_cuda_write_softmax(gy_cuda_writer *w);
void gy_cuda_write_cross_entropy(gy_cuda_writer *w);
void gy_cuda_write_argmax(gy_cuda_writer *w);
void gy_cuda_write_cumsum(gy_cuda_writer *w);
/* norm.c */
void gy_cuda_write_layer_norm(gy_cuda_writer *w);
/* moves.c */
void gy_cuda_write_copy(gy_cuda_writer *w);
void gy_cuda_write_slice(gy_cuda_writer *w);
void gy_cuda_write_shard(gy_cuda_writer *w);
void gy_cuda_write_pad(gy_cuda_writer *w);
void gy_cuda_write_concat(gy_cuda_writer *w);
void gy_cuda_write_fill(gy_cuda_writer *w);
void gy_cuda_write_count(gy_cuda_writer *w);
/* index.c */
void gy_cuda_write_gather(gy_cuda_writer *w);
void gy_cuda_write_scatter_add(gy_cuda_writer *w);
void gy_cuda_write_pick(gy_cuda_writer *w);
void gy_cuda_write_find(gy_cuda_writer *w);
void gy_cuda_write_one_hot(gy_cuda_writer *w);
/* attention.c */
void gy_cuda_write_attention(gy_cuda_writer *w);
/* attention_tiles.c */
/** In pieces; NULL ends them. */
extern const char *const gy_cuda_attention_text[], *const gy_cuda_attention_slopes_text[];
/* pool.c */
void gy_cuda_write_pool(gy_cuda_writer *w);

/* tiles.c */
/** Add products of tiles of float32, bf16 or f16, for blocks of 128 threads. */
void gy_cuda_print_tiles(gy_cuda_writer *w, gy_dtype dtype);
/** What their names end with: "f32", "bf16", "f16". */
const char *gy_cuda_tile_name(gy_dtype dtype);

/** What stands before every text, in pieces; NULL ends it. */
extern const char *const gy_cuda_prelude[];

#endif
