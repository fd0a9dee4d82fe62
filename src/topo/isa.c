#include "topo/topo.h"

#include <stdatomic.h>
#include <string.h>

static const char *const names[GY_ISA_COUNT] = {
#define GY_X(name, text) [GY_ISA_##name] = (text),
    GY_ISA_LIST(GY_X)
#undef GY_X
};

#if defined(__x86_64__)
#include <cpuid.h>

/* Which register states the system saves (XCR0): 6 SSE and AVX, 0xE0 the three of AVX-512,
 * 0x60000 the two of AMX. */
static uint64_t saved_states(void)
{
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static uint32_t detect(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    const uint32_t osxsave = 1u << 27;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & osxsave) == 0) {
        return 0;
    }
    uint64_t states = saved_states();
    bool has_avx = (states & 6) == 6, has_512 = has_avx && (states & 0xE0) == 0xE0;
    const bool has_tiles = (states & 0x60000) == 0x60000;
    uint32_t basic = c, b7 = 0, c7 = 0, d7 = 0, a71 = 0, rest = 0, other = 0;
    if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) == 0) {
        b7 = c7 = d7 = 0;
    } else if (a >= 1) {
        (void)__get_cpuid_count(7, 1, &a71, &rest, &other, &d);
    }
    const struct {
        bool is_there;
        gy_isa isa;
    } facts[] = {
        {has_avx && (b7 >> 5 & 1) != 0, GY_ISA_AVX2},
        {has_avx && (basic >> 12 & 1) != 0, GY_ISA_FMA},
        {has_avx && (basic >> 29 & 1) != 0, GY_ISA_F16C},
        {has_512 && (b7 >> 16 & 1) != 0, GY_ISA_AVX512F},
        {has_512 && (b7 >> 30 & 1) != 0, GY_ISA_AVX512BW},
        {has_512 && (b7 >> 31 & 1) != 0, GY_ISA_AVX512VL},
        {has_512 && (b7 >> 17 & 1) != 0, GY_ISA_AVX512DQ},
        {has_512 && (c7 >> 11 & 1) != 0, GY_ISA_AVX512VNNI},
        {has_512 && (a71 >> 5 & 1) != 0, GY_ISA_AVX512BF16},
        {has_512 && (d7 >> 23 & 1) != 0, GY_ISA_AVX512FP16},
        {has_tiles && (d7 >> 24 & 1) != 0 && (d7 >> 22 & 1) != 0, GY_ISA_AMXBF16},
    };
    uint32_t found = 0;
    for (size_t i = 0; i < GY_COUNT(facts); i++) {
        found |= facts[i].is_there ? 1u << facts[i].isa : 0;
    }
    return found;
}
#else
static uint32_t detect(void)
{
    return 0;
}
#endif

bool gy_isa_has(gy_isa isa)
{
    const uint32_t is_known = 1u << 31;
    static _Atomic uint32_t known; /* relaxed: the value is the same whoever computes it */
    GY_ASSERT(isa < GY_ISA_COUNT);
    uint32_t found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == 0) {
        found = detect() | is_known;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return (found >> isa & 1) != 0;
}

const char *gy_isa_name(gy_isa isa)
{
    GY_ASSERT(isa < GY_ISA_COUNT);
    return names[isa];
}
