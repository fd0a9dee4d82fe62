/* NVRTC: a kernel text becomes an image that the driver loads. */
#include "ops/cuda/driver.h"
#include "ops/cuda/library_priv.h"

#include <string.h>

enum { ARCHS_MAX = 64, NVRTC_COMPILATION = 6, NVRTC_OUT_OF_MEMORY = 1 };

static gy_cuda_library compiler_library = {
    .what = "NVRTC",
    .package = "NVIDIA package cuda-nvrtc (Debian package libnvrtc11.2)",
    .names = {{.file = "libnvrtc.so.13", .major = 13},
              {.file = "libnvrtc.so.12", .major = 12},
              {.file = "libnvrtc.so.11.2", .major = 11}},
};
static gy_cuda_compiler compiler_table;
static gy_error compiler_error;
static pthread_once_t compiler_once = PTHREAD_ONCE_INIT;

/* What a code of NVRTC is as a failure. */
static gy_status check(const gy_cuda_compiler *compiler, int code, const char *what)
{
    if (code == 0) {
        return GY_OK;
    }
    return gy_fail(code == NVRTC_OUT_OF_MEMORY ? GY_NOMEM : GY_STATE, "NVRTC: %s: %s (%d)",
                   what, compiler->error_string(code), code);
}

static gy_status open_checked(void)
{
    gy_cuda_compiler *compiler = &compiler_table;
    const gy_cuda_driver *driver = NULL;
    GY_TRY(gy_cuda_driver_get(&driver));
    gy_cuda_library_open(&compiler_library, driver->version / 1000);
#define GY_X(result, member, symbol, parameters)                                               \
    GY_CUDA_FIND(compiler->member, &compiler_library, symbol);
#include "ops/cuda/compiler.def"
#undef GY_X
    GY_TRY(gy_cuda_library_check(&compiler_library));
    compiler->file = compiler_library.file;
    compiler->build = gy_cuda_library_build(&compiler_library);
    GY_TRY(check(compiler, compiler->version(&compiler->major, &compiler->minor), "version"));
    return gy_cuda_library_check_version(&compiler_library, compiler->major, compiler->minor,
                                         driver->version);
}

static void open_compiler(void)
{
    compiler_error.status = GY_OK;
    (void)gy_error_keep(&compiler_error, open_checked());
}

gy_status gy_cuda_compiler_get(const gy_cuda_compiler **compiler)
{
    pthread_once(&compiler_once, open_compiler);
    if (compiler_error.status < 0) {
        return gy_error_raise(&compiler_error);
    }
    *compiler = &compiler_table;
    return GY_OK;
}

/* The newest device that the compiler knows and that is not newer than `capability`. */
static gy_status nearest_arch(const gy_cuda_compiler *compiler, int capability, int *nearest)
{
    int count = 0, archs[ARCHS_MAX] = {0};
    GY_TRY(check(compiler, compiler->arch_count(&count), "count of devices that it knows"));
    if (count < 1 || count > ARCHS_MAX) {
        return gy_fail(GY_LIMIT, "%s knows %d kinds of devices: expected 1 to %d",
                       compiler->file, count, ARCHS_MAX);
    }
    GY_TRY(check(compiler, compiler->archs(archs), "devices that it knows"));
    *nearest = 0;
    for (int i = 0; i < count; i++) {
        *nearest = archs[i] <= capability ? GY_MAX(*nearest, archs[i]) : *nearest;
    }
    if (*nearest == 0) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s makes nothing for compute capability %d.%d: it begins with %d.%d",
                       compiler->file, capability / 10, capability % 10, archs[0] / 10,
                       archs[0] % 10);
    }
    return GY_OK;
}

/* A text of the compiler of that size, which counts its NUL, into `out`. */
static gy_status take(const gy_cuda_compiler *compiler, gy_cuda_program *program,
                      int (*size_of)(gy_cuda_program *program, size_t *size_bytes),
                      int (*get)(gy_cuda_program *program, char *out), gy_text *out)
{
    size_t size_bytes = 0;
    GY_TRY(check(compiler, size_of(program, &size_bytes), "size of its result"));
    char *bytes = gy_alloc("ops.cuda.image", size_bytes + 1);
    if (bytes == NULL) {
        return GY_NOMEM;
    }
    gy_status status = check(compiler, get(program, bytes), "its result");
    if (status == GY_OK) {
        gy_text_add_bytes(out, bytes, size_bytes);
        status = out->status;
    }
    gy_free(bytes);
    return status;
}

/* The first line of a log that tells of an error, as a failure. */
static gy_status refuse(const gy_cuda_compiler *compiler, gy_cuda_program *program,
                        const char *name)
{
    gy_text log = {.data = NULL};
    gy_status status = take(compiler, program, compiler->log_size, compiler->log, &log);
    if (status == GY_OK) {
        const char *text = gy_text_get(&log);
        const char *line = strstr(text, "error");
        while (line != NULL && line > text && line[-1] != '\n') {
            line--;
        }
        line = line != NULL ? line : text;
        status = gy_fail(GY_FORMAT, "the kernel of %s does not compile: %.*s", name,
                         (int)strcspn(line, "\n"), line);
        gy_debug("the whole log of %s: %s", name, text);
    }
    gy_text_free(&log);
    return status;
}

/* Products and sums are not joined but where the text says so: the same bits everywhere. */
enum { OPTION_COUNT = 3 };
static const char *const plain_options[OPTION_COUNT - 1] = {"--std=c++14", "--fmad=false"};

static gy_status compile(const gy_cuda_compiler *compiler, gy_cuda_program *program,
                         const char *name, const gy_cuda_image_source *source, gy_text *image)
{
    const int code = compiler->compile(program, source->option_count, source->options);
    if (code == NVRTC_COMPILATION) {
        return refuse(compiler, program, name);
    }
    GY_TRY(check(compiler, code, "nvrtcCompileProgram"));
    return strstr(source->options[0], "=sm_") != NULL
               ? take(compiler, program, compiler->cubin_size, compiler->cubin, image)
               : take(compiler, program, compiler->ptx_size, compiler->ptx, image);
}

static gy_status make_image(const gy_cuda_compiler *compiler, const char *name,
                            const gy_cuda_image_source *source, gy_text *image)
{
    gy_cuda_program *program = NULL;
    gy_status status =
        check(compiler, compiler->create(&program, source->text, name, 0, NULL, NULL),
              "nvrtcCreateProgram");
    if (status < 0) {
        return gy_fail_within(status, "kernel of %s", name);
    }
    status = compile(compiler, program, name, source, image);
    const int code = compiler->destroy(&program);
    if (code != 0 && status == GY_OK) {
        status = check(compiler, code, "nvrtcDestroyProgram");
    }
    if (status < 0) {
        gy_text_free(image);
        *image = (gy_text){.data = NULL};
        /* A text that does not compile is named already. */
        status = status == GY_FORMAT ? status : gy_fail_within(status, "kernel of %s", name);
    }
    return status;
}

gy_status gy_cuda_compile(const char *text, const char *name, int capability,
                          gy_cuda_images *images, gy_text *image)
{
    GY_ASSERT(text != NULL && name != NULL);
    GY_ASSERT(capability >= 10 && image->data == NULL);
    const gy_cuda_compiler *compiler = NULL;
    int arch = 0;
    GY_TRY(gy_cuda_compiler_get(&compiler));
    GY_ASSERT(compiler != NULL);
    const gy_status status = nearest_arch(compiler, capability, &arch);
    if (status < 0) {
        return gy_fail_within(status, "kernel of %s", name);
    }
    char option[48];
    gy_print(option, sizeof(option), "--gpu-architecture=%s_%d",
             arch == capability ? "sm" : "compute", arch);
    const char *const options[OPTION_COUNT] = {option, plain_options[0], plain_options[1]};
    const gy_cuda_image_source source = {.text = text,
                                         .options = options,
                                         .option_count = OPTION_COUNT,
                                         .compiler_major = compiler->major,
                                         .compiler_minor = compiler->minor,
                                         .compiler_build = compiler->build};
    const gy_cuda_image_key key = gy_cuda_image_key_of(&source);
    if (images != NULL && gy_cuda_images_find(images, key, image)) {
        return GY_OK;
    }
    GY_TRY(make_image(compiler, name, &source, image));
    if (images != NULL) {
        gy_cuda_images_put(images, key, image);
    }
    return GY_OK;
}
