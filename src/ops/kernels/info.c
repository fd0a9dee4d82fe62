#include "base/base.h"
#include "coll/coll.h"
#include "ops/kernels/libraries.h"

#include <gyre/info.h>

static void add_blas(gy_text *text)
{
    const gy_blas *blas = NULL;
    if (gy_blas_get(&blas) != GY_OK) {
        gy_text_add(text, "blas: none: %s\n", gy_error_text());
        return;
    }
    gy_text_add(text, "blas: %s, kernel %s%s\n",
                blas->config != NULL ? blas->config() : "unknown version",
                blas->core_name != NULL ? blas->core_name() : "unknown",
                blas->takes_turns ? ", one thread at a time (libopenblas0-pthread is faster)"
                                  : "");
}

static void add_dnnl(gy_text *text)
{
    const gy_dnnl *dnnl = NULL;
    if (gy_dnnl_get(&dnnl) != GY_OK) {
        gy_text_add(text, "onednn: none: %s\n", gy_error_text());
        return;
    }
    const dnnl_version_t *version = dnnl->version();
    gy_text_add(text, "onednn: %d.%d.%d\n", version->major, version->minor, version->patch);
}

const char *gy_info_libraries(char *out, size_t size_bytes)
{
    gy_text text = {.data = NULL};
    gy_text_add(&text, "kernels: %s\n", gy_tile_isa_name(gy_tile_isa_level()));
    add_blas(&text);
    add_dnnl(&text);
    return gy_text_move(&text, out, size_bytes);
}

gy_status gy_info_check_settings(void)
{
    int ignored = 0;
    GY_TRY(gy_log_check());
    GY_TRY(gy_setting_choice("GYRE_ISA", GY_TILE_ISA_CHOICES, &ignored));
    GY_TRY(gy_setting_choice("GYRE_KERNEL", GY_KERNEL_CHOICES, &ignored));
    return gy_comm_check_settings();
}
