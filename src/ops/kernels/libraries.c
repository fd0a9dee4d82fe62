#include "ops/kernels/libraries.h"

#include "base/setting_numbers.h"

#include "coll/coll.h"

#include <gyre/info.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[] = {"baseline", "avx2", "avx512"};

const char *gy_tile_isa_name(gy_tile_isa isa)
{
    return isa_names[isa];
}

static gy_tile_isa cpu_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return GY_TILE_ISA_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return GY_TILE_ISA_AVX2;
    }
#endif
    return GY_TILE_ISA_BASELINE;
}

static gy_tile_isa chosen_isa;
static pthread_once_t isa_once = PTHREAD_ONCE_INIT;

static void choose_isa(void)
{
    chosen_isa = cpu_isa();
    int wanted = gy_setting_choose("GYRE_ISA", GY_TILE_ISA_CHOICES, (int)chosen_isa);
    chosen_isa = (gy_tile_isa)GY_MIN(wanted, (int)chosen_isa);
}

gy_tile_isa gy_tile_isa_level(void)
{
    pthread_once(&isa_once, choose_isa);
    return chosen_isa;
}

bool gy_kernel_has_bf16(void)
{
#if defined(__x86_64__)
    return gy_tile_isa_level() == GY_TILE_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

/* A library that was looked for once; a failure is kept, to be told to every caller. */
typedef struct library {
    const char *file, *package;
    void *handle;
    const char *missing; /* what was not found; NULL: all there */
} library;

static void *find(library *of, const char *name)
{
    void *symbol = of->handle != NULL ? dlsym(of->handle, name) : NULL;
    if (symbol == NULL && of->missing == NULL) {
        of->missing = of->handle != NULL ? name : of->file;
    }
    return symbol;
}

static gy_status told(const library *of)
{
    if (of->missing == NULL) {
        return GY_OK;
    }
    return gy_fail(GY_NOTFOUND, "%s not found in or as %s: install the Debian package %s",
                   of->missing, of->file, of->package);
}

/* ISO C knows no conversion from object to function pointers; POSIX gives them one size. */
#define SET(slot, symbol)                                                                      \
    do {                                                                                       \
        void *symbol_ = (symbol);                                                              \
        memcpy(&(slot), &symbol_, sizeof(slot));                                               \
    } while (0)

static library dnnl_library = {.file = "libdnnl.so.2", .package = "libdnnl2"};
static gy_dnnl dnnl_table;
static pthread_once_t dnnl_once = PTHREAD_ONCE_INIT;
static _Thread_local bool thread_is_alone;

static void open_dnnl(void)
{
    library *of = &dnnl_library;
    of->handle = dlopen(of->file, RTLD_LAZY | RTLD_LOCAL);
#define GY_X(name) SET(dnnl_table.name, find(of, "dnnl_" #name));
    GY_DNNL_LIST(GY_X)
#undef GY_X
    if (of->missing != NULL) {
        return;
    }
    /* libgomp comes with it and reads OMP_NUM_THREADS when it loads: too late to set. */
    SET(dnnl_table.omp_set_num_threads, dlsym(of->handle, "omp_set_num_threads"));
    if (gy_tile_isa_level() != GY_TILE_ISA_AVX512) {
        dnnl_table.set_max_cpu_isa(
            gy_tile_isa_level() == GY_TILE_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
    }
    if (dnnl_table.engine_create(&dnnl_table.engine, dnnl_cpu, 0) != dnnl_success) {
        of->missing = "a CPU engine";
    }
}

gy_status gy_dnnl_get(const gy_dnnl **dnnl)
{
    pthread_once(&dnnl_once, open_dnnl);
    GY_TRY(told(&dnnl_library));
    if (!thread_is_alone) {
        thread_is_alone = true;
        if (dnnl_table.omp_set_num_threads != NULL) {
            dnnl_table.omp_set_num_threads(1);
        }
    }
    *dnnl = &dnnl_table;
    return GY_OK;
}

gy_status gy_dnnl_check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success) {
        return GY_OK;
    }
    if (status == dnnl_out_of_memory) {
        return gy_fail(GY_NOMEM, "oneDNN: out of memory for %s", what);
    }
    return gy_fail(GY_UNSUPPORTED, "oneDNN: status %d for %s", (int)status, what);
}

gy_status gy_kernel_dnnl_attributes(const gy_dnnl *dnnl, dnnl_primitive_attr_t *attr)
{
    GY_TRY(gy_dnnl_check(dnnl->primitive_attr_create(attr), "attributes"));
    dnnl->primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    return GY_OK;
}

/*
 * A serial OpenBLAS built without USE_LOCKING (Debian's libopenblas0-serial) hands one work
 * area to all threads, which then get wrong products: its calls take turns.
 */
static gy_blas unlocked_blas;
static gy_mutex blas_turn;

static void dgemm_in_turn(int order, int transpose_a, int transpose_b, int m, int n, int k,
                          double alpha, const double *a, int lda, const double *b, int ldb,
                          double beta, double *c, int ldc)
{
    gy_mutex_lock(&blas_turn);
    unlocked_blas.dgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta,
                        c, ldc);
    gy_mutex_unlock(&blas_turn);
}

static void dgemv_in_turn(int order, int transpose, int m, int n, double alpha, const double *a,
                          int lda, const double *x, int incx, double beta, double *y, int incy)
{
    gy_mutex_lock(&blas_turn);
    unlocked_blas.dgemv(order, transpose, m, n, alpha, a, lda, x, incx, beta, y, incy);
    gy_mutex_unlock(&blas_turn);
}

static library blas_library = {.file = "libopenblas.so.0", .package = "libopenblas0-pthread"};
static gy_blas blas_table;
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;

static void open_blas(void)
{
    static const char *const cores[] = {"NEHALEM", "HASWELL", "SKYLAKEX"};
    library *of = &blas_library;
    /* What the user has set stays. */
    setenv("OPENBLAS_CORETYPE", cores[gy_tile_isa_level()], 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    of->handle = dlopen(of->file, RTLD_LAZY | RTLD_LOCAL);
    SET(blas_table.dgemm, find(of, "cblas_dgemm"));
    SET(blas_table.dgemv, find(of, "cblas_dgemv"));
    SET(blas_table.config, find(of, "openblas_get_config"));
    SET(blas_table.core_name, find(of, "openblas_get_corename"));
    const char *config = blas_table.config != NULL ? blas_table.config() : "";
    blas_table.takes_turns =
        strstr(config, "SINGLE_THREADED") != NULL && strstr(config, "USE_LOCKING") == NULL;
    if (of->missing == NULL && blas_table.takes_turns) {
        gy_mutex_init(&blas_turn, 0);
        unlocked_blas = blas_table;
        blas_table.dgemm = dgemm_in_turn;
        blas_table.dgemv = dgemv_in_turn;
    }
}

gy_status gy_blas_get(const gy_blas **blas)
{
    pthread_once(&blas_once, open_blas);
    GY_TRY(told(&blas_library));
    *blas = &blas_table;
    return GY_OK;
}

static gy_lapack lapack_table;
static const char *lapack_missing;
static pthread_once_t lapack_once = PTHREAD_ONCE_INIT;

static void open_lapack(void)
{
    library found = {.handle = blas_library.handle};
    SET(lapack_table.dgesv, find(&found, "dgesv_"));
    SET(lapack_table.dgetrf, find(&found, "dgetrf_"));
    SET(lapack_table.dpotrf, find(&found, "dpotrf_"));
    SET(lapack_table.dsyev, find(&found, "dsyev_"));
    SET(lapack_table.dgels, find(&found, "dgels_"));
    SET(lapack_table.dgesdd, find(&found, "dgesdd_"));
    lapack_missing = found.missing;
}

gy_status gy_lapack_get(const gy_lapack **lapack)
{
    const gy_blas *blas = NULL;
    GY_TRY(gy_blas_get(&blas));
    pthread_once(&lapack_once, open_lapack);
    if (lapack_missing != NULL) {
        return gy_fail(GY_NOTFOUND, "%s has no %s: install the Debian package %s",
                       blas_library.file, lapack_missing, blas_library.package);
    }
    *lapack = &lapack_table;
    return GY_OK;
}

void gy_lapack_begin(void)
{
    if (blas_table.takes_turns) {
        gy_mutex_lock(&blas_turn);
    }
}

void gy_lapack_end(void)
{
    if (blas_table.takes_turns) {
        gy_mutex_unlock(&blas_turn);
    }
}

/* ---- what `gyre info` says ---- */

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
    gy_text_add(&text, "16-bit products: bf16 %s, f16 widened to f32\n",
                gy_kernel_has_bf16() ? "by AVX512-BF16" : "widened to f32");
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
    gy_setting_numbers devices;
    GY_TRY(gy_base_setting_numbers("GYRE_DEVICE", gy_setting_get("GYRE_DEVICE"), &devices));
    GY_TRY(gy_setting_choice("GYRE_DEVICE_GRAPHS", "on|off", &ignored)); /* as ops/cuda reads */
    GY_TRY(gy_setting_choice("GYRE_TF32", "0|1", &ignored));
    return gy_comm_check_settings();
}
