/* Products by cuBLASLt, which counts columns first: what lies row-major as (rows, columns) lies
 * there as (columns, rows), so it computes c' = b' a' of the same bytes. */
#include "ops/cuda/product.h"
#include "ops/cuda/blas.h"
#include "ops/cuda/device_priv.h"

#include <string.h>

enum { ALIGNMENT = 16 };

struct gy_cuda_products {
    gy_cuda_device *device;
    const gy_cuda_blas *blas;
    gy_cuda_blas_handle *handle;
};

struct gy_cuda_product {
    gy_cuda_products *products;
    gy_cuda_product_shape shape;
    gy_cuda_blas_desc *desc;
    gy_cuda_blas_layout *first, *second, *result; /* of b, a and c */
    gy_cuda_blas_choice choice;
};

#define TRY(products, member, ...)                                                             \
    GY_TRY(                                                                                    \
        gy_cuda_blas_check((products)->blas->member(__VA_ARGS__), gy_cuda_blas_symbol.member))
/* What gives something back. */
#define RELEASE(products, member, ...)                                                         \
    gy_cuda_device_warn(                                                                       \
        (products)->device,                                                                    \
        gy_cuda_blas_check((products)->blas->member(__VA_ARGS__), gy_cuda_blas_symbol.member))

/* Of each gy_cuda_number. */
static const struct {
    int type, result, compute, scale;
    const char *name;
} numbers[] = {
    [GY_CUDA_F32] = {GY_CUDA_REAL_32, GY_CUDA_REAL_32, GY_CUDA_COMPUTE_32, GY_CUDA_REAL_32,
                     "f32"},
    [GY_CUDA_F64] = {GY_CUDA_REAL_64, GY_CUDA_REAL_64, GY_CUDA_COMPUTE_64, GY_CUDA_REAL_64,
                     "f64"},
    [GY_CUDA_F16] = {GY_CUDA_REAL_16, GY_CUDA_REAL_32, GY_CUDA_COMPUTE_32, GY_CUDA_REAL_32,
                     "f16"},
    [GY_CUDA_BF16] = {GY_CUDA_BRAIN_16, GY_CUDA_REAL_32, GY_CUDA_COMPUTE_32, GY_CUDA_REAL_32,
                      "bf16"},
};

gy_status gy_cuda_products_open(gy_cuda_device *device, gy_cuda_products **products)
{
    gy_cuda_products made = {.device = device};
    GY_TRY(gy_cuda_blas_get(&made.blas));
    GY_TRY(gy_cuda_device_enter(device));
    gy_cuda_products *kept = gy_alloc("ops.cuda.products", sizeof(*kept));
    if (kept == NULL) {
        return GY_NOMEM;
    }
    const gy_status status =
        gy_cuda_blas_check(made.blas->create(&made.handle), gy_cuda_blas_symbol.create);
    if (status < 0) {
        gy_free(kept);
        return status;
    }
    *kept = made;
    *products = kept;
    return GY_OK;
}

void gy_cuda_products_close(gy_cuda_products *products)
{
    if (products != NULL) {
        RELEASE(products, destroy, products->handle);
        gy_free(products);
    }
}

static gy_status transpose(const gy_cuda_products *products, gy_cuda_blas_desc *desc,
                           int attribute, bool is_transposed)
{
    const int32_t value = is_transposed ? 1 : 0;
    TRY(products, desc_set, desc, attribute, &value, sizeof(value));
    return GY_OK;
}

static int alignment_of(const gy_cuda_product_shape *shape)
{
    return shape->alignment != 0 ? shape->alignment : ALIGNMENT;
}

/* A row-major matrix of the product, of which `columns` lie side by side. */
static gy_status lay_out(const gy_cuda_product *product, int type, const int64_t sizes[2],
                         int64_t stride, gy_cuda_blas_layout **layout)
{
    const gy_cuda_products *products = product->products;
    TRY(products, layout_create, layout, type, (uint64_t)sizes[1], (uint64_t)sizes[0],
        sizes[1]);
    if (product->shape.batch > 1) {
        const int32_t batch = (int32_t)product->shape.batch;
        TRY(products, layout_set, *layout, GY_CUDA_LAYOUT_BATCH, &batch, sizeof(batch));
        TRY(products, layout_set, *layout, GY_CUDA_LAYOUT_BATCH_STRIDE, &stride,
            sizeof(stride));
    }
    return GY_OK;
}

/* What is done to the result. The bias is named by each run; until then by an address that is
 * as aligned as it will be, for from it an algorithm is chosen. */
static gy_status add_epilogue(const gy_cuda_product *product)
{
    const gy_cuda_products *products = product->products;
    const gy_cuda_address aligned = ALIGNMENT;
    const int32_t epilogue = (product->shape.has_bias ? GY_CUDA_EPILOGUE_BIAS : 0) +
                             (product->shape.has_relu ? GY_CUDA_EPILOGUE_RELU : 0);
    if (epilogue != 0) {
        TRY(products, desc_set, product->desc, GY_CUDA_DESC_EPILOGUE, &epilogue,
            sizeof(epilogue));
    }
    if (product->shape.has_bias) {
        TRY(products, desc_set, product->desc, GY_CUDA_DESC_BIAS, &aligned, sizeof(aligned));
    }
    return GY_OK;
}

static gy_status describe(gy_cuda_product *product)
{
    const gy_cuda_products *products = product->products;
    const gy_cuda_product_shape *shape = &product->shape;
    const int compute = shape->may_round && shape->number == GY_CUDA_F32
                            ? GY_CUDA_COMPUTE_TF32
                            : numbers[shape->number].compute;
    const int type = numbers[shape->number].type;
    const int64_t a[] = {shape->is_a_transposed ? shape->k : shape->m,
                         shape->is_a_transposed ? shape->m : shape->k};
    const int64_t b[] = {shape->is_b_transposed ? shape->n : shape->k,
                         shape->is_b_transposed ? shape->k : shape->n};
    TRY(products, desc_create, &product->desc, compute, numbers[shape->number].scale);
    GY_TRY(
        transpose(products, product->desc, GY_CUDA_DESC_TRANSPOSE_A, shape->is_b_transposed));
    GY_TRY(
        transpose(products, product->desc, GY_CUDA_DESC_TRANSPOSE_B, shape->is_a_transposed));
    if (shape->has_scales) {
        const int32_t are_there = 1;
        TRY(products, desc_set, product->desc, GY_CUDA_DESC_SCALARS, &are_there,
            sizeof(are_there));
    }
    GY_TRY(add_epilogue(product));
    GY_TRY(lay_out(product, type, b, shape->b_stride, &product->first));
    GY_TRY(lay_out(product, type, a, shape->a_stride, &product->second));
    return lay_out(product, numbers[shape->number].result, (int64_t[]){shape->m, shape->n},
                   shape->c_stride != 0 ? shape->c_stride : shape->m * shape->n,
                   &product->result);
}

static gy_status choose_with(gy_cuda_product *product, gy_cuda_blas_preference *preference,
                             uint64_t workspace_max)
{
    const gy_cuda_products *products = product->products;
    const gy_cuda_product_shape *shape = &product->shape;
    const uint32_t alignment = (uint32_t)alignment_of(shape);
    int found = 0;
    TRY(products, preference_set, preference, GY_CUDA_PREFERENCE_WORKSPACE, &workspace_max,
        sizeof(workspace_max));
    for (int i = 0; i < 4; i++) { /* else it reckons with 256 bytes */
        TRY(products, preference_set, preference, GY_CUDA_PREFERENCE_ALIGNMENT_A + i,
            &alignment, sizeof(alignment));
    }
    const int code = products->blas->heuristic(
        products->handle, product->desc, product->first, product->second, product->result,
        product->result, preference, 1, &product->choice, &found);
    if (code == GY_CUDA_BLAS_NOT_SUPPORTED ||
        (code == 0 && (found == 0 || product->choice.state != 0))) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s has no algorithm for a product of %s (%lld, %lld) x (%lld, %lld)",
                       products->blas->file, numbers[shape->number].name, (long long)shape->m,
                       (long long)shape->k, (long long)shape->k, (long long)shape->n);
    }
    return gy_cuda_blas_check(code, gy_cuda_blas_symbol.heuristic);
}

static gy_status choose(gy_cuda_product *product, size_t workspace_max)
{
    const gy_cuda_products *products = product->products;
    gy_cuda_blas_preference *preference = NULL;
    TRY(products, preference_create, &preference);
    const gy_status status = choose_with(product, preference, workspace_max);
    gy_error error;
    (void)gy_error_keep(&error, status);
    RELEASE(products, preference_destroy, preference);
    return status < 0 ? gy_error_raise(&error) : GY_OK;
}

gy_status gy_cuda_product_new(gy_cuda_products *products, const gy_cuda_product_shape *shape,
                              size_t workspace_max, gy_cuda_product **product)
{
    GY_ASSERT(shape->m > 0 && shape->n > 0 && shape->k > 0);
    GY_ASSERT(shape->batch >= 0 && shape->batch <= INT32_MAX);
    GY_ASSERT(ALIGNMENT % alignment_of(shape) == 0);
    GY_TRY(gy_cuda_device_enter(products->device));
    gy_cuda_product *made = gy_alloc_zero("ops.cuda.product", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->products = products;
    made->shape = *shape;
    gy_status status = describe(made);
    status = status == GY_OK ? choose(made, workspace_max) : status;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_cuda_product_free(made);
        return gy_error_raise(&error);
    }
    *product = made;
    return GY_OK;
}

void gy_cuda_product_free(gy_cuda_product *product)
{
    if (product == NULL) {
        return;
    }
    gy_cuda_blas_layout *layouts[] = {product->first, product->second, product->result};
    for (size_t i = 0; i < GY_COUNT(layouts); i++) {
        if (layouts[i] != NULL) {
            RELEASE(product->products, layout_destroy, layouts[i]);
        }
    }
    if (product->desc != NULL) {
        RELEASE(product->products, desc_destroy, product->desc);
    }
    gy_free(product);
}

size_t gy_cuda_product_workspace(const gy_cuda_product *product)
{
    return product->choice.workspace_bytes;
}

/* What the product and what it adds to are multiplied by, in the type that scales. */
typedef struct factors {
    double of_64[2];
    float of_32[2];
} factors;

typedef struct factors_at {
    const void *alpha, *beta;
} factors_at;

static factors_at factors_of(const gy_cuda_product *product, const gy_cuda_operands *operands,
                             factors *host)
{
    enum { APART = 16 };
    if (product->shape.has_scales) {
        GY_ASSERT(operands->scales != 0 && operands->scales % APART == 0);
        // NOLINTBEGIN(performance-no-int-to-ptr)
        return (factors_at){(const void *)(uintptr_t)operands->scales,
                            (const void *)(uintptr_t)(operands->scales + APART)};
        // NOLINTEND(performance-no-int-to-ptr)
    }
    const int adds = product->shape.adds ? 1 : 0;
    *host = (factors){.of_64 = {1, adds}, .of_32 = {1, (float)adds}};
    return product->shape.number == GY_CUDA_F64
               ? (factors_at){&host->of_64[0], &host->of_64[1]}
               : (factors_at){&host->of_32[0], &host->of_32[1]};
}

gy_status gy_cuda_product_run(gy_cuda_product *product, gy_cuda_stream *stream,
                              const gy_cuda_operands *operands)
{
    const gy_cuda_address addresses = operands->a | operands->b | operands->c;
    GY_ASSERT(stream != NULL &&
              addresses % (gy_cuda_address)alignment_of(&product->shape) == 0);
    GY_ASSERT(!product->shape.has_bias || operands->bias != 0);
    GY_ASSERT(product->choice.workspace_bytes == 0 || operands->workspace != 0);
    const gy_cuda_products *products = product->products;
    GY_TRY(gy_cuda_device_enter(products->device));
    if (product->shape.has_bias) {
        TRY(products, desc_set, product->desc, GY_CUDA_DESC_BIAS, &operands->bias,
            sizeof(operands->bias));
    }
    factors host;
    const factors_at read = factors_of(product, operands, &host);
    const gy_cuda_address added = operands->added != 0 ? operands->added : operands->c;
    TRY(products, matmul, products->handle, product->desc, read.alpha, operands->b,
        product->first, operands->a, product->second, read.beta, added, product->result,
        operands->c, product->result, &product->choice.algorithm, operands->workspace,
        product->choice.workspace_bytes, stream);
    return GY_OK;
}
