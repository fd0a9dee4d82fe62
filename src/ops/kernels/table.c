/* Which kernels run which operator, best first; what runs where nothing fits is the reference.
 */
#include "ops/kernels/kernels.h"
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"

#include <stdlib.h>
#include <string.h>

#define LIST(name, ...) static const gy_kernel *const name[] = {__VA_ARGS__, NULL};
static const gy_kernel *const none[] = {NULL};
LIST(tiles, &gy_kernel_tiles)
LIST(fused, &gy_kernel_fused)
LIST(matmuls, &gy_kernel_matmul_f32, &gy_kernel_matmul_f64, &gy_kernel_matmul_bf16,
     &gy_kernel_widened)
LIST(convs, &gy_kernel_winograd, &gy_kernel_conv_f32, &gy_kernel_conv_f64, &gy_kernel_conv_bf16,
     &gy_kernel_widened)
LIST(pools, &gy_kernel_pool)
LIST(softmaxes, &gy_kernel_softmax)
LIST(cross_entropies, &gy_kernel_cross_entropy)
LIST(cross_entropy_gradients, &gy_kernel_cross_entropy_gradient)
LIST(attentions, &gy_kernel_attention, &gy_kernel_attention_bf16, &gy_kernel_widened)
LIST(argmaxes, &gy_kernel_argmax)
LIST(layer_norms, &gy_kernel_layer_norm)
LIST(layer_norm_gradients, &gy_kernel_layer_norm_gradient)
LIST(transposes, &gy_kernel_transpose)
LIST(slices, &gy_kernel_slice)
LIST(pads, &gy_kernel_pad)
LIST(concats, &gy_kernel_concat)
LIST(broadcasts, &gy_kernel_broadcast)
LIST(gathers, &gy_kernel_gather)
LIST(scatters, &gy_kernel_scatter_add)
LIST(picks, &gy_kernel_pick)
LIST(finds, &gy_kernel_find)
LIST(one_hots, &gy_kernel_one_hot)
LIST(fills, &gy_kernel_fill)
LIST(reorders, &gy_kernel_reorder)
LIST(updates, &gy_kernel_matmul_update)

const gy_kernel *const *gy_ops_kernels(const gy_op *op)
{
    static const gy_kernel *const *const table[GY_CODE_COUNT + 1] = {
        [GY_CODE_fused] = fused,
        [GY_CODE_mean] = tiles,
        [GY_CODE_dropout] = tiles,
        [GY_CODE_matmul] = matmuls,
        [GY_CODE_matmul_over_rows] = matmuls,
        [GY_CODE_conv2d] = convs,
        [GY_CODE_conv2d_input_gradient] = convs,
        [GY_CODE_conv2d_filter_gradient] = convs,
        [GY_CODE_max_pool] = pools,
        [GY_CODE_max_pool_gradient] = pools,
        [GY_CODE_max_pool_pick] = pools,
        [GY_CODE_average_pool] = pools,
        [GY_CODE_average_pool_gradient] = pools,
        [GY_CODE_softmax] = softmaxes,
        [GY_CODE_log_softmax] = softmaxes,
        [GY_CODE_cross_entropy] = cross_entropies,
        [GY_CODE_cross_entropy_gradient] = cross_entropy_gradients,
        [GY_CODE_attention] = attentions,
        [GY_CODE_attention_gradient] = attentions,
        [GY_CODE_attention_packed] = attentions,
        [GY_CODE_attention_packed_gradient] = attentions,
        [GY_CODE_argmax] = argmaxes,
        [GY_CODE_layer_norm] = layer_norms,
        [GY_CODE_layer_norm_gradient] = layer_norm_gradients,
        [GY_CODE_transpose] = transposes,
        [GY_CODE_slice] = slices,
        [GY_CODE_pad] = pads,
        [GY_CODE_concat] = concats,
        [GY_CODE_broadcast_to] = broadcasts,
        [GY_CODE_gather] = gathers,
        [GY_CODE_scatter_add] = scatters,
        [GY_CODE_pick] = picks,
        [GY_CODE_pick_gradient] = picks,
        [GY_CODE_find] = finds,
        [GY_CODE_one_hot] = one_hots,
        [GY_CODE_fill] = fills,
        [GY_CODE_reorder] = reorders,
        [GY_CODE_matmul_update] = updates,
    };
    const gy_kernel *const *list = table[gy_ops_code_of(op)];
    if (list != NULL) {
        return list;
    }
    return (op->flags & (GY_OP_ELEMENTWISE | GY_OP_REDUCTION)) != 0 ? tiles : none;
}

static bool is_reference_chosen;

static void read_choice(void)
{
    is_reference_chosen = gy_setting_choose("GYRE_KERNEL", GY_KERNEL_CHOICES, 0) == 1;
}

static bool only_reference(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    GY_ASSERT(pthread_once(&once, read_choice) == 0);
    return is_reference_chosen;
}

const gy_kernel *gy_kernel_choose(const gy_kernel_query *query)
{
    if (only_reference() && query->op->reference != NULL) {
        return NULL;
    }
    for (const gy_kernel *const *kernel = gy_ops_kernels(query->op); *kernel != NULL;
         kernel++) {
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
    gy_text_add(text, "tiles: %s\n", gy_tile_isa_name(gy_tile_isa_level()));
    gy_text_add(text, "bf16 products: %s\n",
                gy_kernel_has_bf16() ? "AVX512-BF16" : "no unit, widened to float32");
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
