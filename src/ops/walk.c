/*
 * Element walks that the plain definitions are made of, and the signatures that follow from
 * walking element by element.
 */
#include "ops/ops_priv.h"

#include <inttypes.h>

bool gy_ops_index_next(gy_ops_index *place, const int64_t *sizes, int rank)
{
    for (int dim = rank - 1; dim >= 0; dim--) {
        if (++place->at[dim] < sizes[dim]) {
            return true;
        }
        place->at[dim] = 0;
    }
    return false;
}

int64_t gy_place_count(const int64_t *sizes, int rank)
{
    int64_t count = 1;
    for (int dim = 0; dim < rank; dim++) {
        count *= sizes[dim];
    }
    return count;
}

int64_t gy_ops_index_offset(const gy_view *view, const gy_ops_index *place, int rank)
{
    const int shift = rank - view->rank;
    if (view->format == GY_FORMAT_BLOCKED) {
        int64_t index = 0;
        for (int dim = 0; dim < view->rank; dim++) {
            index =
                index * view->sizes[dim] + (view->sizes[dim] == 1 ? 0 : place->at[shift + dim]);
        }
        return gy_view_offset(view, index);
    }
    int64_t offset = 0;
    for (int dim = 0; dim < view->rank; dim++) {
        offset += view->sizes[dim] == 1 ? 0 : place->at[shift + dim] * view->strides[dim];
    }
    return offset;
}

double gy_real_at(const gy_view *view, const gy_ops_index *place, int rank)
{
    return gy_element_get(view->dtype, view->data, gy_ops_index_offset(view, place, rank));
}

int64_t gy_whole_at(const gy_view *view, const gy_ops_index *place, int rank)
{
    return gy_element_get_whole(view->dtype, view->data,
                                gy_ops_index_offset(view, place, rank));
}

void gy_real_put(const gy_view *view, const gy_ops_index *place, double value)
{
    gy_element_set(view->dtype, view->data, gy_ops_index_offset(view, place, view->rank),
                   value);
}

void gy_whole_put(const gy_view *view, const gy_ops_index *place, int64_t value)
{
    gy_element_set_whole(view->dtype, view->data, gy_ops_index_offset(view, place, view->rank),
                         value);
}

gy_status gy_walk(const gy_kernel_call *call, gy_real_formula real, gy_whole_formula whole)
{
    const gy_view *out = &call->outputs[0];
    const bool is_real = gy_dtype_is_real(call->inputs[call->input_count - 1].dtype);
    GY_ASSERT(call->input_count <= 3 && (is_real || whole != NULL));
    if (gy_view_count(out) == 0) {
        return GY_OK;
    }
    gy_ops_index place = {{0}};
    do {
        if (is_real) {
            double x[3] = {0};
            for (int i = 0; i < call->input_count; i++) {
                x[i] = gy_real_at(&call->inputs[i], &place, out->rank);
            }
            gy_real_put(out, &place, real(x));
        } else {
            int64_t x[3] = {0};
            for (int i = 0; i < call->input_count; i++) {
                x[i] = gy_whole_at(&call->inputs[i], &place, out->rank);
            }
            gy_whole_put(out, &place, whole(x));
        }
    } while (gy_ops_index_next(&place, out->sizes, out->rank));
    return GY_OK;
}

int64_t gy_call_size(const gy_kernel_call *call, int input, int dim)
{
    return call->input_types != NULL ? call->input_types[input].sizes[dim]
                                     : call->inputs[input].sizes[dim];
}

gy_status gy_call_index(const gy_kernel_call *call, int input, int64_t local, const char *what,
                        int64_t size, int64_t *index)
{
    const gy_view *view = &call->inputs[input];
    *index = gy_element_get_whole(view->dtype, view->data, gy_view_offset(view, local));
    if (*index >= 0 && *index < size) {
        return GY_OK;
    }
    int64_t number = 0, unit = 1, rest = local;
    for (int dim = view->rank - 1; dim >= 0; dim--) {
        int64_t begin = call->input_offsets != NULL ? call->input_offsets[input][dim] : 0;
        number += (begin + rest % view->sizes[dim]) * unit;
        rest /= view->sizes[dim];
        unit *= gy_call_size(call, input, dim);
    }
    return gy_fail(GY_ARG, "%s: %s %" PRId64 " at place %" PRId64 ", expected 0 to %" PRId64,
                   call->op->name, what, *index, number, size - 1);
}

gy_status gy_reference_copy(const gy_kernel_call *call)
{
    return gy_view_copy(&call->outputs[0], &call->inputs[0]);
}

gy_signature *gy_signatures_add(gy_signatures *signatures)
{
    /* Counted although there is no room: who asked for the list sees that it does not fit. */
    int at = signatures->count++;
    gy_signature *signature =
        at < GY_OP_SIGNATURES_MAX ? &signatures->list[at] : &signatures->spare;
    *signature = (gy_signature){.inputs = {{0}}};
    return signature;
}

void gy_signatures_elementwise(gy_signatures *signatures, const gy_type *inputs,
                               int input_count, const gy_type *output)
{
    for (int dim = 0; dim < output->rank; dim++) {
        if (output->sizes[dim] == 1) {
            continue;
        }
        gy_signature *signature = gy_signatures_add(signatures);
        signature->outputs[0] = gy_shard(dim);
        for (int i = 0; i < input_count; i++) {
            int own = dim - (output->rank - inputs[i].rank);
            if (own >= 0 && inputs[i].sizes[own] != 1) {
                signature->inputs[i] = gy_shard(own);
            }
        }
    }
}

int gy_placements_elementwise(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    gy_signatures made = {.list = signatures};
    gy_signatures_elementwise(&made, inputs, input_count, outputs);
    return made.count;
}

int gy_placements_linear(const gy_attributes *attributes, const gy_type *inputs,
                         int input_count, const gy_type *outputs, gy_signature *signatures)
{
    (void)attributes;
    (void)input_count;
    gy_signatures made = {.list = signatures};
    gy_signatures_elementwise(&made, inputs, 1, outputs);
    gy_signatures_partial(&made, 0);
    return made.count;
}

void gy_signatures_all_but(gy_signatures *signatures, const gy_type *x, int fixed)
{
    for (int dim = 0; dim < x->rank; dim++) {
        if (dim != fixed && x->sizes[dim] != 1) {
            gy_signatures_shard(signatures, dim, dim);
        }
    }
}

void gy_signatures_shard(gy_signatures *signatures, int from, int to)
{
    gy_signature *signature = gy_signatures_add(signatures);
    signature->inputs[0] = gy_shard(from);
    signature->outputs[0] = gy_shard(to);
}

void gy_signatures_partial(gy_signatures *signatures, int input)
{
    gy_signature *signature = gy_signatures_add(signatures);
    signature->inputs[input] = gy_partial(GY_SUM);
    signature->outputs[0] = gy_partial(GY_SUM);
}
