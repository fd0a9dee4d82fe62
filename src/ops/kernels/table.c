/* Which kernels run which operator, best first; what runs where nothing fits is the reference. */
#include "ops/kernels/kernels.h"
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"

#include <stdlib.h>
#include <string.h>

static const gy_kernel *const none[] = {NULL};
static const gy_kernel *const tiles[] = {&gy_kernel_tiles, NULL};
static const gy_kernel *const fused[] = {&gy_kernel_fused, NULL};
static const gy_kernel *const matmuls[] = {&gy_kernel_matmul_f32, &gy_kernel_matmul_f64, NULL};

const gy_kernel *const *gy_op_kernels(const gy_op *op)
{
    gy_op_code code = gy_op_code_of(op);
    if (code == GY_CODE_fused) {
        return fused;
    }
    if (code == GY_CODE_matmul) {
        return matmuls;
    }
    bool is_tiled = (op->flags & (GY_OP_ELEMENTWISE | GY_OP_REDUCTION)) != 0;
    return is_tiled || code == GY_CODE_mean ? tiles : none;
}

static bool only_reference(void)
{
    const char *wanted = getenv("GYRE_KERNEL");
    return wanted != NULL && strcmp(wanted, "reference") == 0;
}

const gy_kernel *gy_kernel_choose(const gy_kernel_query *query)
{
    if (only_reference() && query->op->reference != NULL) {
        return NULL;
    }
    for (const gy_kernel *const *kernel = gy_op_kernels(query->op); *kernel != NULL; kernel++) {
        if ((*kernel)->accepts(query)) {
            return *kernel;
        }
    }
    return NULL;
}

static const char *dnnl_isa_text(dnnl_cpu_isa_t isa)
{
    switch ((int)isa) {
    case dnnl_cpu_isa_sse41:
        return "SSE4.1";
    case dnnl_cpu_isa_avx:
        return "AVX";
    case dnnl_cpu_isa_avx2:
        return "AVX2";
    case dnnl_cpu_isa_avx512_core:
        return "AVX-512";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "AVX-512 VNNI";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "AVX-512 BF16";
    default:
        return "other";
    }
}

const char *gy_kernels_describe(gy_text *text)
{
    const gy_dnnl *dnnl;
    const gy_blas *blas;
    gy_text_add(text, "tiles: %s\n", gy_isa_name(gy_isa_level()));
    if (gy_blas_get(&blas) == GY_OK) {
        gy_text_add(text, "float64 products: %s, core type %s\n", blas->config(),
                    blas->core_name());
    } else {
        gy_text_add(text, "float64 products: %s\n", gy_error_text());
    }
    if (gy_dnnl_get(&dnnl) == GY_OK) {
        const dnnl_version_t *version = dnnl->version();
        gy_text_add(text, "float32 products, convolutions: oneDNN %d.%d.%d, %s\n",
                    version->major, version->minor, version->patch,
                    dnnl_isa_text(dnnl->get_effective_cpu_isa()));
    } else {
        gy_text_add(text, "float32 products, convolutions: %s\n", gy_error_text());
    }
    return gy_text_get(text);
}
