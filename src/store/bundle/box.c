/* Boxes: which elements of a tensor a part has, and where they lie in the whole. */
#include "store/bundle/bundle_priv.h"

#include <string.h>

gy_box gy_box_whole(const gy_view *shape)
{
    gy_box box = {.offsets = {0}};
    memcpy(box.sizes, shape->sizes, sizeof(box.sizes));
    return box;
}

int64_t gy_box_count(const gy_view *shape, const gy_box *box)
{
    int64_t count = 1;
    for (int dim = 0; dim < shape->rank; dim++) {
        GY_ASSERT(box->offsets[dim] >= 0 && box->sizes[dim] >= 0);
        GY_ASSERT(box->sizes[dim] <= shape->sizes[dim] - box->offsets[dim]);
        count *= box->sizes[dim];
    }
    return count;
}

/* Elements that lie side by side: those of the last dimensions that the box has whole, and what
 * it has of the one before. */
static int64_t adjacent(const gy_view *shape, const gy_box *box)
{
    int64_t count = 1;
    for (int dim = shape->rank - 1; dim >= 0; dim--) {
        count *= box->sizes[dim];
        if (box->sizes[dim] != shape->sizes[dim]) {
            break;
        }
    }
    return count;
}

int64_t gy_box_index(const gy_view *shape, const gy_box *box, int64_t at, int64_t *run)
{
    int64_t index = 0, stride = 1, rest = at;
    for (int dim = shape->rank - 1; dim >= 0; dim--) {
        index += (box->offsets[dim] + rest % box->sizes[dim]) * stride;
        rest /= box->sizes[dim];
        stride *= shape->sizes[dim];
    }
    GY_ASSERT(rest == 0); /* `at` is in the box */
    const int64_t side = adjacent(shape, box);
    *run = side - at % side;
    return index;
}
