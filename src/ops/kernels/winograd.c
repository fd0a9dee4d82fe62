/**
 * Gradients of float32 convolutions of 5 by 5 filters at stride 1 by Winograd's F(2x2, 5x5),
 * own code for AVX-512 on nChw16c: 2.8 times fewer products than the definition, which is what
 * oneDNN computes. Rounding errors are a few times those of the definition. An infinity or NaN
 * in an image reaches the results of all tiles that read it.
 *
 * The convolution itself stays the definition: equal windows then give equal results, which
 * max pooling decides between. With Winograd's errors the decision is left to rounding, and the
 * loss of one rank and of two parted by up to 3e-4 in ten steps.
 *
 * Images are cut into pieces that depend on the shape alone; filter gradients of the pieces are
 * added in order.
 */
#include "ops/avx512/winograd.h"

#include "ops/kernels/conv_priv.h"
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/libraries.h"

enum { MAX_PIECES = 8, PIECE_TILES = 4 * GY_WINOGRAD_TILES };

/* Transformed filters of more than this leave the caches to nothing else. */
static const int64_t filter_floats_max = (int64_t)GY_WINOGRAD_POINTS * 128 * 128;

typedef struct plan {
    gy_conv_kind kind;
    gy_winograd shape;
    int64_t images, pieces, piece_images;
    int64_t filter_sets; /* (36,from,to) each: one, or one a piece for the filters' gradient */
} plan;

static bool winograd_accepts(const gy_kernel_query *query)
{
    if (gy_tile_isa_level() != GY_TILE_ISA_AVX512 || !gy_conv_accepts(query)) {
        return false;
    }
    gy_conv_kind kind = gy_conv_kind_of(query->op);
    if (kind == GY_CONV_FORWARD) {
        return false;
    }
    const gy_view *x = gy_conv_x(query, kind), *y = gy_conv_y(query, kind);
    const gy_view *filter = gy_conv_filter(query, kind);
    const gy_attributes *attributes = query->attributes;
    for (int d = 0; d < 2; d++) {
        if (attributes->conv.stride[d] != 1 || filter->sizes[2 + d] != GY_WINOGRAD_TAPS ||
            attributes->conv.pad[d] > GY_WINOGRAD_TAPS - 1) {
            return false;
        }
    }
    int64_t floats = GY_WINOGRAD_POINTS * filter->sizes[0] * filter->sizes[1];
    return x->format == GY_FORMAT_BLOCKED && y->format == GY_FORMAT_BLOCKED &&
           floats <= filter_floats_max && x->sizes[0] > 0 && x->sizes[2] > 0 && x->sizes[3] > 0;
}

static plan plan_of(const gy_kernel_query *query)
{
    plan p = {.kind = gy_conv_kind_of(query->op)};
    bool is_adjoint = p.kind == GY_CONV_INPUT_GRADIENT;
    const gy_view *x = gy_conv_x(query, p.kind), *y = gy_conv_y(query, p.kind);
    const gy_view *from = is_adjoint ? y : x, *to = is_adjoint ? x : y;
    p.images = x->sizes[0];
    p.shape.from_channels = from->sizes[1];
    p.shape.to_channels = to->sizes[1];
    int64_t tiles = p.images;
    for (int d = 0; d < 2; d++) {
        int64_t pad = query->attributes->conv.pad[d];
        p.shape.from[d] = from->sizes[2 + d];
        p.shape.to[d] = to->sizes[2 + d];
        p.shape.pad[d] = is_adjoint ? GY_WINOGRAD_TAPS - 1 - pad : pad;
        tiles *= (p.shape.to[d] + 1) / 2;
    }
    int64_t pieces = GY_MIN(GY_MIN(tiles / PIECE_TILES, (int64_t)MAX_PIECES), p.images);
    p.piece_images = (p.images + GY_MAX(pieces, (int64_t)1) - 1) / GY_MAX(pieces, (int64_t)1);
    p.pieces = (p.images + p.piece_images - 1) / p.piece_images;
    p.filter_sets = p.kind == GY_CONV_FILTER_GRADIENT ? p.pieces : 1;
    return p;
}

static size_t winograd_workspace(const gy_kernel_query *query)
{
    plan p = plan_of(query);
    return sizeof(float) * (size_t)(p.filter_sets * gy_winograd_filter_floats(&p.shape) +
                                    p.pieces * gy_winograd_scratch(&p.shape));
}

typedef struct work {
    plan plan;
    const float *from, *dy; /* dy: of the filters' gradient */
    float *to, *filters, *scratch;
} work;

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const work *w = arg;
    const gy_winograd *s = &w->plan.shape;
    int64_t from_image = s->from_channels * s->from[0] * s->from[1];
    int64_t to_image = s->to_channels * s->to[0] * s->to[1];
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t image = piece * w->plan.piece_images;
        int64_t count = GY_MIN(w->plan.piece_images, w->plan.images - image);
        float *scratch = w->scratch + piece * gy_winograd_scratch(s);
        const float *from = w->from + image * from_image;
        if (w->plan.kind == GY_CONV_FILTER_GRADIENT) {
            const float *const values[2] = {from, w->dy + image * to_image};
            gy_winograd_filter_sums(s, count, values,
                                    w->filters + piece * gy_winograd_filter_floats(s), scratch);
        } else {
            const float *const values[2] = {from, w->filters};
            gy_winograd_images(s, count, values, w->to + image * to_image, scratch);
        }
    }
}

static void add_pieces(const work *w)
{
    int64_t floats = gy_winograd_filter_floats(&w->plan.shape);
    for (int64_t piece = 1; piece < w->plan.pieces; piece++) {
        const float *part = w->filters + piece * floats;
        for (int64_t i = 0; i < floats; i++) {
            w->filters[i] += part[i];
        }
    }
}

static gy_status winograd_run(const gy_kernel_call *call)
{
    gy_kernel_query query = gy_kernel_query_of(call, 0);
    work w = {.plan = plan_of(&query),
              .from = call->inputs[0].data,
              .dy = call->inputs[1].data,
              .to = call->outputs[0].data,
              .filters = call->workspace};
    gy_winograd *s = &w.plan.shape;
    w.scratch = w.filters + w.plan.filter_sets * gy_winograd_filter_floats(s);
    if (w.plan.kind != GY_CONV_FILTER_GRADIENT) {
        gy_winograd_filters(s, call->inputs[1].data, w.filters);
    }
    gy_parallel_for(call->engine, w.plan.pieces, 1, run_pieces, &w);
    if (w.plan.kind == GY_CONV_FILTER_GRADIENT) {
        add_pieces(&w);
        gy_winograd_filter_gradient(s, w.filters, w.to);
    }
    return GY_OK;
}

const gy_kernel gy_kernel_winograd = {
    .name = "winograd gradient",
    .accepts = winograd_accepts,
    .formats = gy_conv_formats,
    .workspace_bytes = winograd_workspace,
    .run = winograd_run,
};
