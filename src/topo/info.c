#include "topo/topo.h"

#include <gyre/info.h>

static void add_caches(gy_text *text)
{
    const gy_topo_caches *caches = gy_topo_cache_sizes();
    for (int level = 1; level < GY_TOPO_LEVELS; level++) {
        char size[32];
        if (caches->data_bytes[level] == 0) {
            continue;
        }
        gy_text_add(text, "cache level %d: %s", level,
                    gy_text_bytes(size, caches->data_bytes[level]));
        if (caches->shared_by[level] > 1) {
            gy_text_add(text, ", shared by %d cores", caches->shared_by[level]);
        }
        gy_text_add(text, "\n");
    }
}

int gy_info_cores(void)
{
    return gy_topo_cores();
}

/* What the CPU has for products of 16 bits. */
static void add_half_units(gy_text *text)
{
    static const struct {
        gy_isa isa;
        const char *name;
    } units[] = {{GY_ISA_AMXBF16, "AMX-BF16"},
                 {GY_ISA_AVX512BF16, "AVX512-BF16"},
                 {GY_ISA_AVX512FP16, "AVX512-FP16"}};
    bool has_any = false;
    gy_text_add(text, "16-bit units:");
    for (size_t i = 0; i < GY_COUNT(units); i++) {
        if (gy_isa_has(units[i].isa)) {
            gy_text_add(text, " %s", units[i].name);
            has_any = true;
        }
    }
    gy_text_add(text, has_any ? "\n" : " none\n");
}

const char *gy_info_machine(char *out, size_t size_bytes)
{
    gy_text text = {.data = NULL};
    char cpu[128];
    gy_topo_cpu_name(cpu, sizeof(cpu));
    gy_text_add(&text, "cpu: %s\n", cpu);
    gy_text_add(&text, "cores: %d usable of a cpuset of %d", gy_topo_cores(),
                gy_topo_cpuset_cores());
    double quota = gy_topo_quota_cores();
    if (quota > 0) {
        gy_text_add(&text, ", quota %.2f", quota);
    }
    gy_text_add(&text, "\n");
    add_caches(&text);
    gy_text_add(&text, "instruction sets:");
    for (int isa = 0; isa < GY_ISA_COUNT; isa++) {
        if (gy_isa_has((gy_isa)isa)) {
            gy_text_add(&text, " %s", gy_isa_name((gy_isa)isa));
        }
    }
    gy_text_add(&text, "\n");
    add_half_units(&text);
    return gy_text_move(&text, out, size_bytes);
}
