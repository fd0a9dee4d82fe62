/*
 * Prints texts, and which function prints which row. The table of rows is by operator code, so
 * that a new row without an entry has neither a writer nor a reason; a test lists those.
 */
#include "ops/cuda/text/text_priv.h"

#include <ctype.h>
#include <string.h>

/* ---- types ---- */

const char *gy_cuda_type_name(gy_dtype dtype)
{
    static const char *const names[GY_DTYPE_COUNT] = {
        [GY_F64] = "double",
        [GY_F32] = "float",
        [GY_F16] = "unsigned short",
        [GY_BF16] = "unsigned short",
        [GY_I64] = "long long",
        [GY_I32] = "int",
        [GY_I16] = "short",
        [GY_I8] = "signed char",
        [GY_U64] = "unsigned long long",
        [GY_U32] = "unsigned",
        [GY_U16] = "unsigned short",
        [GY_U8] = "unsigned char",
    };
    GY_ASSERT(gy_dtype_is_element(dtype));
    return names[dtype];
}

const char *gy_cuda_bits_name(gy_dtype dtype)
{
    const size_t bytes = gy_dtype_bytes(dtype);
    return bytes == 8   ? "unsigned long long"
           : bytes == 4 ? "unsigned"
           : bytes == 2 ? "unsigned short"
                        : "unsigned char";
}

const char *gy_cuda_suffix(gy_dtype dtype)
{
    return dtype == GY_F32 ? "f" : "";
}

const char *gy_cuda_index_name(int64_t reach)
{
    return reach < INT32_MAX / 2 ? "unsigned" : "long long";
}

const char *gy_cuda_whole_name(int64_t reach)
{
    return reach < INT32_MAX / 2 ? "int" : "long long";
}

/* ---- printing ---- */

void gy_cuda_print(gy_cuda_writer *w, const char *snippet, const gy_cuda_key *keys)
{
    const char *from = snippet;
    for (const char *at = strchr(from, '$'); at != NULL; at = strchr(from, '$')) {
        size_t length = 0;
        while (isalnum((unsigned char)at[1 + length]) != 0) {
            length++;
        }
        const gy_cuda_key *key = keys;
        while (key->name != NULL &&
               (strlen(key->name) != length || strncmp(key->name, at + 1, length) != 0)) {
            key++;
        }
        const bool is_whole = key->name == NULL && length == 1 && at[1] == 'N';
        GY_ASSERT(key->name != NULL || is_whole);
        gy_text_add_bytes(&w->kernels, from, (size_t)(at - from));
        gy_text_add(&w->kernels, "%s",
                    !is_whole     ? key->value
                    : w->is_short ? "int"
                                  : "long long");
        from = at + 1 + length;
    }
    gy_text_add(&w->kernels, "%s", from);
}

static void add_word(gy_cuda_writer *w, uint64_t word)
{
    if (w->text->number_count == GY_CUDA_NUMBERS_MAX) {
        gy_cuda_refuse(w, "its launch has more numbers than fit");
        return;
    }
    w->text->numbers[w->text->number_count++] = word;
}

void gy_cuda_number(gy_cuda_writer *w, const char *name, int64_t value)
{
    const bool is_short = w->is_short && value >= INT32_MIN && value <= INT32_MAX;
    gy_text_add(&w->fields, is_short ? "    int %s, %s_high;\n" : "    long long %s;\n", name,
                name);
    add_word(w, (uint64_t)value);
}

void gy_cuda_real(gy_cuda_writer *w, const char *name, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    gy_text_add(&w->fields, "    double %s;\n", name);
    add_word(w, bits);
}

void gy_cuda_shorten(gy_cuda_writer *w)
{
    int64_t reach = 0;
    GY_ASSERT(w->fields.size_bytes == 0);
    for (int i = 0; i < w->call->input_count; i++) {
        reach = GY_MAX(reach, gy_view_count(&w->call->inputs[i]));
    }
    for (int o = 0; o < w->call->output_count; o++) {
        reach = GY_MAX(reach, gy_view_count(&w->call->outputs[o]));
    }
    w->is_short = reach < INT32_MAX / 2;
}

void gy_cuda_fields(gy_cuda_writer *w, uint32_t moves)
{
    const gy_kernel_call *call = w->call;
    GY_ASSERT(w->fields.size_bytes == 0);
    for (int i = 0; i < call->input_count; i++) {
        const gy_dtype dtype = call->inputs[i].dtype;
        const bool is_moved = (moves >> i & 1u) != 0;
        gy_text_add(&w->fields, "    const %s *in%d;\n",
                    is_moved ? gy_cuda_bits_name(dtype) : gy_cuda_type_name(dtype), i);
    }
    for (int o = 0; o < call->output_count; o++) {
        const gy_dtype dtype = call->outputs[o].dtype;
        const bool is_moved = (moves & GY_CUDA_MOVES_OUT) != 0;
        gy_text_add(&w->fields, "    %s *out%d;\n",
                    is_moved ? gy_cuda_bits_name(dtype) : gy_cuda_type_name(dtype), o);
    }
    gy_text_add(&w->fields, "    double *workspace;\n    unsigned long long *fault;\n");
}

void gy_cuda_launch_blocks(gy_cuda_writer *w, const char *name, int64_t blocks, int threads)
{
    gy_cuda_text *text = w->text;
    GY_ASSERT(text->launch_count < GY_CUDA_LAUNCHES_MAX);
    GY_ASSERT(threads >= 1 && threads <= GY_CUDA_THREADS);
    if (blocks < 0 || blocks > INT32_MAX) {
        gy_cuda_refuse(w, "it has more blocks than a grid");
        return;
    }
    gy_cuda_launch *launch = &text->launches[text->launch_count++];
    *launch = (gy_cuda_launch){.blocks = blocks, .threads = threads};
    (void)gy_print(launch->name, sizeof(launch->name), "%s", name);
}

void gy_cuda_launch_each(gy_cuda_writer *w, const char *name, int64_t count)
{
    enum { BLOCKS_MAX = 1 << 20 }; /* a thread then takes several elements */
    const int64_t blocks = (count + GY_CUDA_THREADS - 1) / GY_CUDA_THREADS;
    gy_cuda_launch_blocks(w, name, GY_MIN(blocks, (int64_t)BLOCKS_MAX), GY_CUDA_THREADS);
}

void gy_cuda_refuse(gy_cuda_writer *w, const char *reason)
{
    w->text->reason = w->text->reason == NULL ? reason : w->text->reason;
}

void gy_cuda_check_index(gy_cuda_writer *w, int input, const char *what, int64_t size)
{
    GY_ASSERT(w->text->index_input < 0);
    w->text->index_input = input;
    w->text->index_what = what;
    w->text->index_size = size;
}

int gy_cuda_line_threads(int64_t length)
{
    int threads = 32;
    while (threads < GY_CUDA_THREADS && (int64_t)threads * 4 < length) {
        threads *= 2;
    }
    return threads;
}

/* ---- rows ---- */

typedef struct writer_row {
    void (*write)(gy_cuda_writer *w);
    const char *reason; /* instead */
} writer_row;

static const char fed_reason[] = "it is fed, not computed";
static const char kept_reason[] = "the executor stores what it is given";
static const char product_reason[] = "cublasLt computes products";
static const char conv_reason[] = "convolutions are unfolded into products";
static const char expand_reason[] = "its expansion runs on the device instead";
static const char exchange_reason[] = "exchanges go through the host's memory";
static const char copy_reason[] = "a copy between two memories";
static const char layout_reason[] = "values of a device have no other layout";

static const writer_row writer_rows[GY_CODE_COUNT] = {
    [GY_CODE_input] = {NULL, fed_reason},
    [GY_CODE_parameter] = {NULL, fed_reason},
    [GY_CODE_literal] = {NULL, fed_reason},
    [GY_CODE_assign] = {NULL, kept_reason},
    [GY_CODE_dropout] = {gy_cuda_write_program, NULL},
    [GY_CODE_mean] = {gy_cuda_write_program, NULL},
    [GY_CODE_fused] = {gy_cuda_write_program, NULL},
    [GY_CODE_identity] = {gy_cuda_write_copy, NULL},
    [GY_CODE_pin] = {gy_cuda_write_copy, NULL},
    [GY_CODE_reshape] = {gy_cuda_write_copy, NULL},
    [GY_CODE_transpose] = {gy_cuda_write_copy, NULL},
    [GY_CODE_broadcast_to] = {gy_cuda_write_copy, NULL},
    [GY_CODE_slice] = {gy_cuda_write_slice, NULL},
    [GY_CODE_take_shard] = {gy_cuda_write_shard, NULL},
    [GY_CODE_pad] = {gy_cuda_write_pad, NULL},
    [GY_CODE_concat] = {gy_cuda_write_concat, NULL},
    [GY_CODE_fill] = {gy_cuda_write_fill, NULL},
    [GY_CODE_count] = {gy_cuda_write_count, NULL},
    [GY_CODE_gather] = {gy_cuda_write_gather, NULL},
    [GY_CODE_scatter_add] = {gy_cuda_write_scatter_add, NULL},
    [GY_CODE_pick] = {gy_cuda_write_pick, NULL},
    [GY_CODE_pick_gradient] = {gy_cuda_write_pick, NULL},
    [GY_CODE_find] = {gy_cuda_write_find, NULL},
    [GY_CODE_one_hot] = {gy_cuda_write_one_hot, NULL},
    [GY_CODE_softmax] = {gy_cuda_write_softmax, NULL},
    [GY_CODE_log_softmax] = {gy_cuda_write_softmax, NULL},
    [GY_CODE_cross_entropy] = {gy_cuda_write_cross_entropy, NULL},
    [GY_CODE_cross_entropy_gradient] = {gy_cuda_write_cross_entropy, NULL},
    [GY_CODE_argmax] = {gy_cuda_write_argmax, NULL},
    [GY_CODE_cumsum] = {gy_cuda_write_cumsum, NULL},
    [GY_CODE_layer_norm] = {gy_cuda_write_layer_norm, NULL},
    [GY_CODE_layer_norm_gradient] = {gy_cuda_write_layer_norm, NULL},
    [GY_CODE_attention] = {gy_cuda_write_attention, NULL},
    [GY_CODE_attention_gradient] = {gy_cuda_write_attention, NULL},
    [GY_CODE_attention_packed] = {gy_cuda_write_attention, NULL},
    [GY_CODE_attention_packed_gradient] = {gy_cuda_write_attention, NULL},
    [GY_CODE_max_pool] = {gy_cuda_write_pool, NULL},
    [GY_CODE_max_pool_pick] = {gy_cuda_write_pool, NULL},
    [GY_CODE_max_pool_gradient] = {gy_cuda_write_pool, NULL},
    [GY_CODE_average_pool] = {gy_cuda_write_pool, NULL},
    [GY_CODE_average_pool_gradient] = {gy_cuda_write_pool, NULL},
    [GY_CODE_matmul] = {NULL, product_reason},
    [GY_CODE_matmul_over_rows] = {NULL, product_reason},
    [GY_CODE_matmul_update] = {NULL, product_reason},
    [GY_CODE_conv2d] = {NULL, conv_reason},
    [GY_CODE_conv2d_input_gradient] = {NULL, conv_reason},
    [GY_CODE_conv2d_filter_gradient] = {NULL, conv_reason},
    [GY_CODE_batch_norm] = {NULL, expand_reason},
    [GY_CODE_variance] = {NULL, expand_reason},
    [GY_CODE_reorder] = {NULL, layout_reason},
    [GY_CODE_to_device] = {NULL, copy_reason},
    [GY_CODE_to_host] = {NULL, copy_reason},
    [GY_CODE_allreduce] = {NULL, exchange_reason},
    [GY_CODE_reduce_scatter] = {NULL, exchange_reason},
    [GY_CODE_allgather] = {NULL, exchange_reason},
    [GY_CODE_alltoall] = {NULL, exchange_reason},
    [GY_CODE_send] = {NULL, exchange_reason},
    [GY_CODE_receive] = {NULL, exchange_reason},
};

static writer_row row_of(const gy_op *op)
{
    const gy_ops_code code = gy_ops_code_of(op);
    GY_ASSERT(code < GY_CODE_COUNT);
    const writer_row row = writer_rows[code];
    if (row.write == NULL && row.reason == NULL &&
        (op->flags & (GY_OP_ELEMENTWISE | GY_OP_REDUCTION)) != 0) {
        return (writer_row){gy_cuda_write_program, NULL};
    }
    return row;
}

/* Programs look at strides themselves. */
static const char *odd_views(const gy_kernel_call *call, bool takes_strides)
{
    for (int i = 0; i < call->input_count; i++) {
        const gy_view *view = &call->inputs[i];
        if (view->format != GY_FORMAT_DENSE) {
            return "an input is blocked";
        }
        if (!takes_strides && !gy_view_is_contiguous(view)) {
            return "an input is strided";
        }
    }
    for (int o = 0; o < call->output_count; o++) {
        if (call->outputs[o].format != GY_FORMAT_DENSE ||
            !gy_view_is_contiguous(&call->outputs[o])) {
            return "an output is strided or blocked";
        }
    }
    return NULL;
}

static void put_together(gy_cuda_writer *w)
{
    gy_text *source = &w->text->source;
    for (const char *const *piece = gy_cuda_prelude; *piece != NULL; piece++) {
        gy_text_add(source, "%s", *piece);
    }
    gy_text_add(source, "typedef struct gy_arguments {\n%s} gy_arguments;\n",
                gy_text_get(&w->fields));
    gy_text_add(source, "%s", gy_text_get(&w->kernels));
    if (w->fields.status != GY_OK || w->kernels.status != GY_OK) {
        source->status = GY_NOMEM;
    }
}

const char *gy_cuda_text_reason(const gy_op *op)
{
    const writer_row row = row_of(op);
    return row.write == NULL && row.reason == NULL ? "no text is written for it" : row.reason;
}

gy_cuda_writer gy_cuda_begin(const gy_kernel_call *call, gy_cuda_text *text)
{
    memset(text, 0, sizeof(*text));
    text->index_input = -1;
    text->input_count = call->input_count;
    text->output_count = call->output_count;
    return (gy_cuda_writer){.call = call, .text = text};
}

gy_status gy_cuda_end(gy_cuda_writer *w)
{
    gy_cuda_text *text = w->text;
    if (text->reason == NULL) {
        put_together(w);
    }
    gy_text_free(&w->fields);
    gy_text_free(&w->kernels);
    if (text->source.status != GY_OK) {
        gy_cuda_text_fini(text);
        return GY_NOMEM;
    }
    GY_ASSERT((text->reason == NULL) == (text->source.size_bytes > 0));
    return GY_OK;
}

gy_status gy_cuda_text_make(const gy_kernel_call *call, gy_cuda_text *text)
{
    const writer_row row = row_of(call->op);
    gy_cuda_writer w = gy_cuda_begin(call, text);
    text->reason = row.write != NULL ? odd_views(call, row.write == gy_cuda_write_program)
                                     : gy_cuda_text_reason(call->op);
    if (text->reason == NULL) {
        row.write(&w);
    }
    return gy_cuda_end(&w);
}

void gy_cuda_text_fini(gy_cuda_text *text)
{
    gy_text_free(&text->source);
}

int gy_cuda_text_words(const gy_cuda_text *text, const uint64_t *inputs,
                       const uint64_t *outputs, uint64_t workspace, uint64_t fault,
                       uint64_t words[GY_CUDA_WORDS_MAX])
{
    int count = 0;
    GY_ASSERT(text->reason == NULL);
    GY_ASSERT((fault != 0) == (text->index_input >= 0));
    for (int i = 0; i < text->input_count; i++) {
        words[count++] = inputs[i];
    }
    for (int o = 0; o < text->output_count; o++) {
        words[count++] = outputs[o];
    }
    words[count++] = workspace;
    words[count++] = fault;
    memcpy(words + count, text->numbers, (size_t)text->number_count * sizeof(words[0]));
    return count + text->number_count;
}
