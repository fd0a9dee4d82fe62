/*
 * What parameters begin with: element i is a function of (seed, hash of the name, i), so that
 * every rank and every run draws the same, whatever else the graph holds.
 *
 * Source: Glorot & Bengio 2010; He et al. 2015; Box & Muller 1958; Salmon et al. 2011.
 */
#include "graph/session.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 16384 }; /* about half a millisecond of draws */

/* Inputs and outputs of one unit: (in, out), (K, C, R, S). */
static void fans(const gy_type *type, double *in, double *out)
{
    const int rank = type->rank;
    double count = (double)gy_type_count(type);
    if (rank == 4) {
        *in = count / (double)GY_MAX(type->sizes[0], 1);
        *out = count / (double)GY_MAX(type->sizes[1], 1);
    } else if (rank >= 2) {
        *out = (double)type->sizes[rank - 1];
        *in = count / fmax(*out, 1);
    } else {
        *in = *out = count;
    }
    GY_ASSERT(count >= 0);
    *in = fmax(*in, 1);
    *out = fmax(*out, 1);
}

static double unit(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 32 | low;
    return gy_random_part(bits);
}

static double uniform_at(uint64_t key, uint64_t name, int64_t element)
{
    uint32_t random[4];
    gy_philox(key, name, (uint64_t)element, random);
    return unit(random[0], random[1]);
}

static double normal_at(uint64_t key, uint64_t name, int64_t element)
{
    uint32_t random[4];
    gy_philox(key, name, (uint64_t)element, random);
    double radius = sqrt(-2 * log(1 - unit(random[0], random[1])));
    return radius * cos(2 * 3.14159265358979323846 * unit(random[2], random[3]));
}

typedef struct draw {
    const gy_init *init;
    uint64_t seed, stream;
    double scale;
    const gy_view *view; /* of tensor */
    gy_tensor *tensor;
    const gy_type *type;    /* of the whole */
    const int64_t *offsets; /* of the tensor in it */
    bool is_whole;
} draw;

/* The number in the whole of element `local` of the part, both row-major. */
static int64_t whole_element(const draw *what, int64_t local)
{
    int64_t number = 0, stride = 1;
    for (int dim = what->view->rank - 1; !what->is_whole && dim >= 0; dim--) {
        const int64_t size = what->view->sizes[dim];
        number += (local % size + what->offsets[dim]) * stride;
        stride *= what->type->sizes[dim];
        local /= size;
    }
    return what->is_whole ? local : number;
}

static double draw_at(const draw *what, int64_t element)
{
    switch (what->init->kind) {
    case GY_INIT_CONSTANT:
        return what->scale;
    case GY_INIT_UNIFORM:
    case GY_INIT_GLOROT:
        return what->scale * (2 * uniform_at(what->seed, what->stream, element) - 1);
    case GY_INIT_NORMAL:
    case GY_INIT_HE:
        return what->scale * normal_at(what->seed, what->stream, element);
    case GY_INIT_ZEROS:
    case GY_INIT_TENSOR:
        break;
    }
    return 0;
}

static void fill_range(void *arg, int64_t begin, int64_t end)
{
    const draw *what = arg;
    const gy_view *view = what->view;
    GY_ASSERT(begin >= 0 && begin <= end && end <= gy_view_count(view));
    for (int64_t i = begin; i < end; i++) {
        double value = draw_at(what, whole_element(what, i));
        if (view->dtype == GY_F32) {
            ((float *)view->data)[i] = (float)value;
        } else if (view->dtype == GY_F64) {
            ((double *)view->data)[i] = value;
        } else {
            gy_tensor_set(what->tensor, i, value);
        }
    }
}

static gy_status copy_part(gy_tensor *whole, const int64_t *offsets, gy_tensor *part)
{
    gy_view from = gy_tensor_pin(whole), to = gy_tensor_pin(part);
    GY_ASSERT(from.rank == to.rank);
    for (int dim = 0; dim < to.rank; dim++) {
        from = gy_view_cut(&from, dim, offsets[dim], to.sizes[dim], 1);
    }
    gy_status status = gy_view_copy(&to, &from);
    gy_tensor_unpin(part);
    gy_tensor_unpin(whole);
    return status;
}

gy_status gy_init_fill(gy_session *session, const gy_graph_node *node, const gy_type *type,
                       const int64_t *offsets, gy_tensor *tensor)
{
    GY_ASSERT(tensor != NULL && gy_tensor_rank(tensor) == type->rank);
    const gy_init *init = node->init;
    GY_ASSERT(init != NULL);
    if (init->kind == GY_INIT_TENSOR) {
        return copy_part(init->tensor, offsets, tensor);
    }
    double in, out, scale = init->scale;
    fans(type, &in, &out);
    GY_ASSERT(in >= 1 && out >= 1);
    if (init->kind == GY_INIT_GLOROT) {
        scale = sqrt(6 / (in + out));
    } else if (init->kind == GY_INIT_HE) {
        scale = sqrt(2 / in);
    }
    gy_view view = gy_tensor_pin(tensor);
    draw what = {.init = init,
                 .seed = session->seed,
                 .stream = gy_hash(node->name, strlen(node->name), 0),
                 .scale = scale,
                 .view = &view,
                 .tensor = tensor,
                 .type = type,
                 .offsets = offsets,
                 .is_whole = gy_view_count(&view) == gy_type_count(type)};
    gy_parallel_for(session->engine, gy_view_count(&view), GRAIN, fill_range, &what);
    gy_tensor_unpin(tensor);
    return GY_OK;
}
