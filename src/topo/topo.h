/**
 * Room topo: what this machine is. The cheap part reads a few small files and CPUID; the
 * description for people goes through hwloc, which is loaded only when asked for.
 */
#ifndef GY_TOPO_TOPO_H
#define GY_TOPO_TOPO_H

#include "base/base.h"

/** Instruction sets: name as Linux prints it, and how the compiler asks for it. */
#define GY_ISA_LIST(X)                                                                         \
    X(AVX2, "avx2")                                                                            \
    X(FMA, "fma")                                                                              \
    X(F16C, "f16c")                                                                            \
    X(AVX512F, "avx512f")                                                                      \
    X(AVX512BW, "avx512bw")                                                                    \
    X(AVX512VL, "avx512vl")                                                                    \
    X(AVX512DQ, "avx512dq")                                                                    \
    X(AVX512VNNI, "avx512_vnni")                                                               \
    X(AVX512BF16, "avx512_bf16")                                                               \
    X(AVX512FP16, "avx512_fp16")                                                               \
    X(AMXBF16, "amx_bf16")

typedef enum gy_isa {
#define GY_X(name, text) GY_ISA_##name,
    GY_ISA_LIST(GY_X)
#undef GY_X
        GY_ISA_COUNT
} gy_isa;

/** True when CPU and system both allow it. First call some 100 ns, then a load. @threads any */
bool gy_isa_has(gy_isa isa);
/** "avx2"; static. */
const char *gy_isa_name(gy_isa isa);

/** Cores this thread may run on (its affinity mask), at least 1. One system call. @threads any
 */
int gy_topo_cpuset_cores(void);
/** CPU time a second that the control group allows, in cores; 0: no limit. Reads files.
 * @threads any */
double gy_topo_quota_cores(void);
/**
 * Cores worth of work this process can do: the cpuset, cut by the quota (rounded up). At
 * least 1. The quota is read once a process. @threads any
 */
int gy_topo_cores(void);

/** The quota in the text of a cgroup v2 cpu.max ("max 100000", "150000 100000"); 0: none or
 * malformed. */
double gy_topo_parse_cpu_max(const char *text);

enum { GY_TOPO_LEVELS = 4 };

typedef struct gy_topo_caches {
    size_t data_bytes[GY_TOPO_LEVELS]; /* [1] level 1 data (or unified) ... ; 0 unknown */
    int shared_by[GY_TOPO_LEVELS];     /* cores that share one such cache; 0 unknown */
} gy_topo_caches;

/** The caches of the first core, read once. @threads any */
const gy_topo_caches *gy_topo_cache_sizes(void);

/** "Intel(R) Xeon(R) ..." into out; "unknown" where the system does not say. */
void gy_topo_cpu_name(char *out, size_t size_bytes);

/**
 * Describe the machine for people, one fact a line: "package 1, cores 2, ..." through hwloc.
 * Some milliseconds. GY_UNSUPPORTED where hwloc cannot be loaded (names the library); GY_NOMEM.
 */
GY_MUST_CHECK gy_status gy_topo_describe(gy_text *out);

#endif
