/*
 * Convolutions as products: images are unfolded into columns, as many at once as the workspace
 * holds, and multiplied by the filters (or by the gradients of the results); columns of an
 * input's gradient are folded back. With T the operands' type and R the sums':
 *
 *     conv2d, each piece of n images:  columns (n, C R S, P Q) of T;  y_n = f columns_n
 *     conv2d_input_gradient:           columns_n = t(f) dy_n, of R;   fold
 *     conv2d_filter_gradient:          partial (n, K, C R S) of R += dy_n t(columns_n); sum
 *
 * The last one adds piece to piece, image i of each to partial i, in their order, and then the
 * partials: the same bits on every run. That moves a filter's gradient twice for each image.
 * Where results are smaller, images are joined instead: dy to (K, n P Q) and columns to
 * (C R S, n P Q), one product a piece that adds to the one before, and no partials. So are
 * those of the other two whose lines of 16 bits would not be aligned.
 *
 * Images may be their own columns, and nothing moves: where filters are one element large and
 * their places those of the image, and where an image is as large as its filters. The latter,
 * N lines of C R S elements, are one matrix for all images: y = x t(f), dx = dy f, df = t(dy)
 * x.
 *
 * @cost  columns: C R S P Q elements an image, written once and read once
 */
#include "ops/cuda/plan/plan_priv.h"

enum { COLUMNS_BYTES = 64 << 20, PARTIALS_MAX = 32, IMAGES_MULTIPLE = 8 };

typedef struct conv {
    const gy_kernel_call *call;
    const gy_view *x, *filters, *y;                /* what plays the part of each */
    gy_cuda_product_shape shape;                   /* but for batch and adds */
    int64_t images, piece, taps, places, channels; /* taps C R S, places P Q, channels K */
    size_t x_bytes, y_bytes;                       /* of an image and its result */
    gy_dtype columns_dtype;
    gy_cuda_place columns, workspace; /* the latter is the products' */
    bool is_direct, is_whole;         /* images are columns; and of one place */
    bool is_joined;                   /* places of all images stand behind each tap */
} conv;

static bool is_input_gradient(const conv *c)
{
    return c->call->op == &gy_ops_row_conv2d_input_gradient;
}

static bool is_filter_gradient(const conv *c)
{
    return c->call->op == &gy_ops_row_conv2d_filter_gradient;
}

static bool has_same_sizes(const gy_view *a, const gy_view *b)
{
    return a->sizes[2] == b->sizes[2] && a->sizes[3] == b->sizes[3];
}

static conv conv_of(const gy_kernel_call *call)
{
    conv c = {.call = call, .x = &call->inputs[0], .filters = &call->inputs[1]};
    c.y = &call->outputs[0];
    if (is_input_gradient(&c)) {
        c.x = &call->outputs[0];
        c.y = &call->inputs[0];
    } else if (call->op == &gy_ops_row_conv2d_filter_gradient) {
        c.y = &call->inputs[1];
        c.filters = &call->outputs[0];
    }
    c.images = c.x->sizes[0];
    c.channels = c.filters->sizes[0];
    c.taps = c.x->sizes[1] * c.filters->sizes[2] * c.filters->sizes[3];
    c.places = c.y->sizes[2] * c.y->sizes[3];
    c.columns_dtype = c.x->dtype;
    const gy_attributes *of = call->attributes;
    const bool is_padded = of->conv.pad[0] > 0 || of->conv.pad[1] > 0;
    c.is_whole = !is_padded && has_same_sizes(c.x, c.filters);
    c.is_direct = c.is_whole || (!is_padded && has_same_sizes(c.x, c.y) &&
                                 c.filters->sizes[2] * c.filters->sizes[3] == 1);
    GY_ASSERT(!c.is_whole || c.places == 1);
    c.x_bytes =
        (size_t)(c.x->sizes[1] * c.x->sizes[2] * c.x->sizes[3]) * gy_dtype_bytes(c.x->dtype);
    c.y_bytes = (size_t)(c.channels * c.places) * gy_dtype_bytes(c.y->dtype);
    return c;
}

/* Places in pieces are aligned for the library: whatever an image has, eight of them are. */
static void choose_piece(conv *c, size_t columns_bytes, int64_t images_max)
{
    const size_t each = (size_t)(c->taps * c->places) * gy_dtype_bytes(c->columns_dtype);
    const size_t bytes = columns_bytes > 0 ? columns_bytes : (size_t)COLUMNS_BYTES;
    int64_t piece = c->is_direct ? c->images : (int64_t)(bytes / GY_MAX(each, (size_t)1));
    piece = GY_MIN(piece, images_max);
    if (piece < c->images) {
        piece = GY_MAX(piece / IMAGES_MULTIPLE, (int64_t)1) * IMAGES_MULTIPLE;
    }
    c->piece = GY_MIN(piece, c->images);
    GY_ASSERT(c->piece == c->images || c->piece % IMAGES_MULTIPLE == 0);
}

/* The text that moves `images` of them. */
static gy_status add_columns_text(gy_cuda_plan *plan, const conv *c, int64_t images, int *index)
{
    gy_view inputs[3], output = c->call->outputs[0];
    int64_t sizes[3];
    gy_kernel_call part = *c->call;
    for (int i = 0; i < part.input_count; i++) {
        inputs[i] = part.inputs[i];
        if (part.inputs + i == c->x || part.inputs + i == c->y) {
            inputs[i].sizes[0] = images;
        }
    }
    if (&c->call->outputs[0] != c->filters) {
        output.sizes[0] = images;
    }
    part.inputs = inputs;
    part.outputs = &output;
    return gy_cuda_text_columns(&part, c->is_joined, sizes, gy_cuda_plan_text(plan, index));
}

/* What moves and multiplies a piece: of whole pieces, the first of which may differ, and of
 * what is left. */
typedef struct pieces {
    int text, product, first, last_text, last;
} pieces;

static int add_product(gy_cuda_plan *plan, const conv *c, int64_t images, bool adds)
{
    gy_cuda_product_shape shape = c->shape;
    shape.batch = c->is_joined ? 0 : images;
    if (c->is_joined) {
        *(is_filter_gradient(c) ? &shape.k : &shape.n) = images * c->places;
    }
    shape.adds = adds;
    return gy_cuda_plan_product(plan, &shape);
}

static gy_status make_pieces(gy_cuda_plan *plan, conv *c, bool adds, pieces *made)
{
    const int64_t rest = c->images % c->piece;
    *made = (pieces){.last = -1};
    if (!c->is_direct) {
        c->columns = gy_cuda_plan_take(plan, (size_t)(c->piece * c->taps * c->places) *
                                                 gy_dtype_bytes(c->columns_dtype));
        GY_TRY(add_columns_text(plan, c, c->piece, &made->text));
    }
    made->last_text = made->text;
    made->first = made->product = add_product(plan, c, c->piece, false);
    if (adds && c->images >= 2 * c->piece) {
        made->product = add_product(plan, c, c->piece, true);
    }
    if (rest > 0) {
        made->last = add_product(plan, c, rest, adds);
    }
    return rest > 0 && !c->is_direct ? add_columns_text(plan, c, rest, &made->last_text)
                                     : GY_OK;
}

static int text_of(const pieces *made, const conv *c, int64_t from)
{
    return from + c->piece <= c->images ? made->text : made->last_text;
}

static int product_of(const pieces *made, const conv *c, int64_t from)
{
    return from + c->piece > c->images ? made->last : from == 0 ? made->first : made->product;
}

/* The images of the piece that begins with image `at`. */
static gy_cuda_place images_of(const conv *c, int64_t at)
{
    const size_t offset_bytes = (size_t)at * c->x_bytes;
    return is_input_gradient(c) ? gy_cuda_plan_output(offset_bytes)
                                : gy_cuda_plan_input(0, offset_bytes);
}

static gy_cuda_place columns_of(const conv *c, int64_t at)
{
    return c->is_direct ? images_of(c, at) : c->columns;
}

/* Images to columns, or back, unless they are the same. */
static gy_status add_move(gy_cuda_plan *plan, const conv *c, const pieces *made, int64_t at)
{
    const gy_cuda_place images = images_of(c, at);
    const bool is_back = is_input_gradient(c);
    const gy_cuda_step move = {.index = text_of(made, c, at),
                               .in = is_back ? c->columns : images,
                               .out = is_back ? images : c->columns};
    return c->is_direct ? GY_OK : gy_cuda_plan_add(plan, &move);
}

/* ---- the three rows ---- */

static gy_status finish(gy_cuda_plan *plan, const conv *c)
{
    const bool is_plain = !c->call->attributes->conv.has_bias &&
                          c->call->attributes->conv.activation == GY_ACTIVATION_NONE;
    return is_plain ? GY_OK : gy_cuda_plan_finish(plan, c->call);
}

static gy_status plan_forward(gy_cuda_plan *plan, conv *c)
{
    pieces made;
    c->shape.m = c->channels;
    c->shape.n = c->places;
    c->shape.k = c->taps;
    c->shape.b_stride = c->taps * c->places;
    GY_TRY(make_pieces(plan, c, false, &made));
    for (int64_t at = 0; at < c->images; at += c->piece) {
        const gy_cuda_step product = {.is_product = true,
                                      .index = product_of(&made, c, at),
                                      .a = gy_cuda_plan_input(1, 0),
                                      .b = columns_of(c, at),
                                      .c = gy_cuda_plan_output((size_t)at * c->y_bytes),
                                      .workspace = c->workspace};
        GY_TRY(add_move(plan, c, &made, at));
        GY_TRY(gy_cuda_plan_add(plan, &product));
    }
    return finish(plan, c);
}

static gy_status plan_input_gradient(gy_cuda_plan *plan, conv *c)
{
    pieces made;
    c->shape.m = c->taps;
    c->shape.n = c->places;
    c->shape.k = c->channels;
    c->shape.is_a_transposed = true;
    c->shape.b_stride = c->channels * c->places;
    GY_TRY(make_pieces(plan, c, false, &made));
    for (int64_t at = 0; at < c->images; at += c->piece) {
        const gy_cuda_step product = {.is_product = true,
                                      .index = product_of(&made, c, at),
                                      .a = gy_cuda_plan_input(1, 0),
                                      .b = gy_cuda_plan_input(0, (size_t)at * c->y_bytes),
                                      .c = columns_of(c, at),
                                      .workspace = c->workspace};
        GY_TRY(gy_cuda_plan_add(plan, &product));
        GY_TRY(add_move(plan, c, &made, at));
    }
    return GY_OK;
}

/* The sum of `count` partial results into the output. */
static gy_status add_sum(gy_cuda_plan *plan, const conv *c, gy_cuda_place partials)
{
    const gy_dtype dtype = c->filters->dtype;
    const int64_t sizes[2] = {c->piece, c->channels * c->taps};
    const gy_attributes attributes = {.reduce = {.axes = 1}};
    const gy_view of = gy_view_of(NULL, dtype, sizes, 2);
    gy_view sum = gy_view_of(NULL, dtype, sizes + 1, 1);
    gy_cuda_step step = {.in = partials, .out = gy_cuda_plan_output(0)};
    const gy_kernel_call call = {.op = &gy_ops_row_sum,
                                 .attributes = &attributes,
                                 .inputs = &of,
                                 .input_count = 1,
                                 .outputs = &sum,
                                 .output_count = 1};
    gy_cuda_text *text = gy_cuda_plan_text(plan, &step.index);
    GY_TRY(gy_cuda_text_make(&call, text));
    step.workspace = gy_cuda_plan_take(plan, text->workspace_bytes);
    return gy_cuda_plan_add(plan, &step);
}

static gy_status plan_filter_gradient(gy_cuda_plan *plan, conv *c)
{
    pieces made;
    const size_t partial_bytes =
        (size_t)(c->channels * c->taps) * gy_dtype_bytes(c->filters->dtype);
    const bool has_partials = c->piece > 1;
    c->shape.m = c->channels;
    c->shape.n = c->taps;
    c->shape.k = c->places;
    c->shape.is_b_transposed = true;
    c->shape.a_stride = c->channels * c->places;
    c->shape.b_stride = c->taps * c->places;
    const gy_cuda_place result = has_partials
                                     ? gy_cuda_plan_take(plan, (size_t)c->piece * partial_bytes)
                                     : gy_cuda_plan_output(0);
    GY_TRY(make_pieces(plan, c, true, &made));
    for (int64_t at = 0; at < c->images; at += c->piece) {
        const gy_cuda_step product = {.is_product = true,
                                      .index = product_of(&made, c, at),
                                      .a = gy_cuda_plan_input(1, (size_t)at * c->y_bytes),
                                      .b = columns_of(c, at),
                                      .c = result,
                                      .workspace = c->workspace};
        GY_TRY(add_move(plan, c, &made, at));
        GY_TRY(gy_cuda_plan_add(plan, &product));
    }
    return has_partials ? add_sum(plan, c, result) : GY_OK;
}

/* Images of one place: a product of matrices. */
static gy_status plan_whole(gy_cuda_plan *plan, conv *c)
{
    const bool is_filter = c->call->op == &gy_ops_row_conv2d_filter_gradient;
    const bool is_forward = c->call->op == &gy_ops_row_conv2d;
    gy_cuda_step step = {.is_product = true,
                         .a = gy_cuda_plan_input(is_filter ? 1 : 0, 0),
                         .b = gy_cuda_plan_input(is_filter ? 0 : 1, 0),
                         .c = gy_cuda_plan_output(0),
                         .workspace = c->workspace};
    c->shape.m = is_filter ? c->channels : c->images;
    c->shape.n = is_forward ? c->channels : c->taps;
    c->shape.k = is_filter ? c->images : is_forward ? c->taps : c->channels;
    c->shape.is_a_transposed = is_filter;
    c->shape.is_b_transposed = is_forward;
    step.index = gy_cuda_plan_product(plan, &c->shape);
    GY_TRY(gy_cuda_plan_add(plan, &step));
    return is_forward ? finish(plan, c) : GY_OK;
}

/*
 * Are images better joined? A gradient of the filters is then not read and written for each of
 * them, but results are once more, and images too where they were their own columns. Results
 * of 16 bits whose lines are aligned to less than 8 bytes leave the others the library's
 * slowest kernels, which run at half the rate at most; joined lines of 8 images are aligned.
 * Rates: a device computes 300 operations of 16 bits in the time that it moves a byte, and y
 * takes 8 bytes an element more, dy 4.
 */
static bool is_join_cheaper(const conv *c)
{
    enum { OPERATIONS = 300, FORWARD_BYTES = 8, BACK_BYTES = 4 };
    if (is_filter_gradient(c)) {
        const double lines = (double)c->channels + (c->is_direct ? (double)c->taps : 0);
        const double moved = lines * (double)c->places * (double)gy_dtype_bytes(c->y->dtype);
        const double gradient =
            (double)c->channels * (double)c->taps * (double)gy_dtype_bytes(c->filters->dtype);
        return c->images > 1 && moved < gradient;
    }
    const int64_t bytes = is_input_gradient(c) ? BACK_BYTES : FORWARD_BYTES;
    return gy_dtype_bytes(c->call->inputs[0].dtype) == 2 && c->places % 4 != 0 &&
           c->images >= IMAGES_MULTIPLE && !c->is_direct && 2 * c->taps >= OPERATIONS * bytes;
}

/* The results of `images` images from (n, K, P Q) to (K, n, P Q), or back. */
static gy_status add_turn_text(gy_cuda_plan *plan, const conv *c, int64_t images, int *index)
{
    const bool is_back = !is_input_gradient(c) && !is_filter_gradient(c);
    const int64_t apart[3] = {images, c->channels, c->places};
    const int64_t joined[3] = {c->channels, images, c->places};
    const gy_attributes attributes = {.permute = {.dims = {1, 0, 2}}};
    const gy_view input = gy_view_of(NULL, c->y->dtype, is_back ? joined : apart, 3);
    gy_view output = gy_view_of(NULL, c->y->dtype, is_back ? apart : joined, 3);
    const gy_kernel_call call = {.op = &gy_ops_row_transpose,
                                 .attributes = &attributes,
                                 .inputs = &input,
                                 .input_count = 1,
                                 .outputs = &output,
                                 .output_count = 1};
    return gy_cuda_text_make(&call, gy_cuda_plan_text(plan, index));
}

/* One piece: images unfold, are multiplied, and their results turn; or the other way. */
static gy_status add_joined_piece(gy_cuda_plan *plan, const conv *c, const pieces *made,
                                  int64_t at, const gy_cuda_step *turn_of)
{
    const bool is_back = is_input_gradient(c), is_filter = is_filter_gradient(c);
    const bool is_forward = !is_back && !is_filter;
    const gy_cuda_place turned = turn_of->out;
    const gy_cuda_place filters = is_filter ? gy_cuda_plan_output(0) : gy_cuda_plan_input(1, 0);
    const size_t offset_bytes = (size_t)at * c->y_bytes;
    const gy_cuda_place results = is_forward
                                      ? gy_cuda_plan_output(offset_bytes)
                                      : gy_cuda_plan_input(is_filter ? 1 : 0, offset_bytes);
    const gy_cuda_step turn = {.index = turn_of->index,
                               .in = is_forward ? turned : results,
                               .out = is_forward ? results : turned};
    const gy_cuda_step product = {.is_product = true,
                                  .index = product_of(made, c, at),
                                  .a = is_filter ? turned : filters,
                                  .b = is_back ? turned : c->columns,
                                  .c = is_filter ? filters
                                       : is_back ? c->columns
                                                 : turned,
                                  .workspace = c->workspace};
    if (!is_forward) {
        GY_TRY(gy_cuda_plan_add(plan, &turn));
    }
    if (!is_back) {
        GY_TRY(add_move(plan, c, made, at));
    }
    GY_TRY(gy_cuda_plan_add(plan, &product));
    if (is_back) {
        GY_TRY(add_move(plan, c, made, at));
    }
    return is_forward ? gy_cuda_plan_add(plan, &turn) : GY_OK;
}

static gy_status plan_joined(gy_cuda_plan *plan, conv *c)
{
    const int64_t rest = c->images % c->piece;
    const bool is_back = is_input_gradient(c), is_filter = is_filter_gradient(c);
    gy_cuda_step whole = {.out = gy_cuda_plan_take(plan, (size_t)c->piece * c->y_bytes)};
    gy_cuda_step last = whole;
    pieces made;
    c->shape.m = is_back ? c->taps : c->channels;
    c->shape.n = c->taps; /* of the other two the places of a piece */
    c->shape.k = is_back ? c->channels : c->taps;
    c->shape.is_a_transposed = is_back;
    c->shape.is_b_transposed = is_filter;
    GY_TRY(make_pieces(plan, c, is_filter, &made));
    GY_TRY(add_turn_text(plan, c, c->piece, &whole.index));
    if (rest > 0) {
        GY_TRY(add_turn_text(plan, c, rest, &last.index));
    }
    for (int64_t at = 0; at < c->images; at += c->piece) {
        GY_TRY(
            add_joined_piece(plan, c, &made, at, at + c->piece <= c->images ? &whole : &last));
    }
    return is_back || is_filter ? GY_OK : finish(plan, c);
}

gy_status gy_cuda_plan_conv(gy_cuda_plan *plan, const gy_kernel_call *call,
                            const gy_cuda_plan_options *options)
{
    conv c = conv_of(call);
    const bool is_filter = call->op == &gy_ops_row_conv2d_filter_gradient;
    GY_ASSERT(call->input_count >= 2 && call->output_count == 1);
    if (c.images < 1 || c.taps < 1 || c.places < 1 || c.channels < 1) {
        gy_cuda_plan_refuse(plan, "it is empty");
        return GY_OK;
    }
    c.shape.may_round = options->may_round;
    gy_cuda_plan_number(plan, call->inputs[0].dtype, &c.shape);
    c.workspace = gy_cuda_plan_take(plan, plan->product_bytes);
    if (c.is_whole) {
        return plan_whole(plan, &c);
    }
    if (is_join_cheaper(&c) || options->joins_images) {
        c.is_joined = true;
        c.is_direct = false;
        choose_piece(&c, options->columns_bytes, INT32_MAX);
        return plan_joined(plan, &c);
    }
    choose_piece(&c, options->columns_bytes, is_filter ? PARTIALS_MAX : INT32_MAX);
    return is_filter                        ? plan_filter_gradient(plan, &c)
           : call->op == &gy_ops_row_conv2d ? plan_forward(plan, &c)
                                            : plan_input_gradient(plan, &c);
}
