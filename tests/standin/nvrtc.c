/* The stand-in's libnvrtc.so.12: the same texts, compiled by the C compiler with host_kernel.h.
 */
#include "standin/standin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GY_X(result, member, symbol, parameters)                                               \
    STANDIN_EXPORT result standin_nvrtc_##member parameters __asm__(symbol);
#include "ops/cuda/compiler.def"
#undef GY_X

#if defined(GYRE_ASAN)
#define SANITIZE "-fsanitize=address,undefined -fno-sanitize-recover=all"
#else /* TSan knows nothing of the fibers' switches: it looks at what calls the kernels */
#define SANITIZE ""
#endif

enum {
    PROGRAMS_MAX = 8,
    TEXT_MAX = 1 << 20,
    IMAGE_MAX = 8 << 20,
    LOG_MAX = 1 << 16,
    INVALID_INPUT = 3,
    INVALID_PROGRAM = 4,
    INVALID_OPTION = 5,
    COMPILATION = 6
};

struct gy_cuda_program {
    bool is_alive, is_compiled, is_ptx;
    char text[TEXT_MAX], name[64], log[LOG_MAX];
    standin_image head;
    char image[IMAGE_MAX];
};

static gy_cuda_program programs[PROGRAMS_MAX];
static const int archs[] = {50, 80, 90};

static bool is_program(const gy_cuda_program *program, const char *symbol)
{
    const bool is_one =
        program >= programs && program < programs + PROGRAMS_MAX && program->is_alive;
    if (!is_one) {
        standin_complain("%s: no program", symbol);
    }
    return is_one;
}

static int begin(const char *symbol, const gy_cuda_program *program)
{
    const int code = standin_enter(symbol);
    return code != 0 || is_program(program, symbol) ? code : INVALID_PROGRAM;
}

int standin_nvrtc_version(int *major, int *minor)
{
    const char *version = getenv("GYRE_TEST_CUDA_NVRTC");
    const long whole = version != NULL ? strtol(version, NULL, 10) : 12040;
    *major = (int)(whole / 1000);
    *minor = (int)(whole % 1000 / 10);
    return standin_leave(standin_enter("nvrtcVersion"));
}

const char *standin_nvrtc_error_string(int code)
{
    return code == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int standin_nvrtc_arch_count(int *count)
{
    *count = (int)GY_COUNT(archs);
    return standin_leave(standin_enter("nvrtcGetNumSupportedArchs"));
}

int standin_nvrtc_archs(int *out)
{
    memcpy(out, archs, sizeof(archs));
    return standin_leave(standin_enter("nvrtcGetSupportedArchs"));
}

static int create(gy_cuda_program **program, const char *text, const char *name)
{
    for (int i = 0; i < PROGRAMS_MAX; i++) {
        if (!programs[i].is_alive) {
            programs[i].is_alive = true;
            programs[i].is_compiled = programs[i].is_ptx = false;
            programs[i].log[0] = '\0';
            snprintf(programs[i].text, sizeof(programs[i].text), "%s", text);
            snprintf(programs[i].name, sizeof(programs[i].name), "%s", name);
            standin_count_live(1);
            *program = &programs[i];
            return 0;
        }
    }
    return INVALID_INPUT;
}

int standin_nvrtc_create(gy_cuda_program **program, const char *text, const char *name,
                         int header_count, const char *const *headers,
                         const char *const *header_names)
{
    int code = standin_enter("nvrtcCreateProgram");
    if (code == 0 && (header_count != 0 || headers != NULL || header_names != NULL)) {
        standin_complain("nvrtcCreateProgram: headers");
        code = INVALID_INPUT;
    }
    return standin_leave(code != 0 ? code : create(program, text, name));
}

int standin_nvrtc_destroy(gy_cuda_program **program)
{
    const char *symbol = "nvrtcDestroyProgram";
    const int failure = standin_enter(symbol); /* it is released whatever the call returns */
    if (!is_program(*program, symbol)) {
        return standin_leave(INVALID_PROGRAM);
    }
    (*program)->is_alive = false;
    standin_count_live(-1);
    *program = NULL;
    return standin_leave(failure);
}

/* ---- compiling ---- */

/* What each word of `struct gy_arguments` is: a pointer that is read or written, or a number.
 */
static void write_words(FILE *out, const char *text)
{
    const char *field = strstr(text, "struct gy_arguments {");
    fprintf(out, "\nconst char standin_words[] = \"");
    for (field = field != NULL ? strchr(field, '{') + 1 : NULL; field != NULL;) {
        const char *end = strchr(field, ';');
        const char *close = strchr(field, '}');
        if (end == NULL || close == NULL || close < end) {
            break;
        }
        const bool points = memchr(field, '*', (size_t)(end - field)) != NULL;
        const char *constant = strstr(field, "const ");
        fputc(!points ? 'n' : constant != NULL && constant < end ? 'r' : 'w', out);
        field = end + 1;
    }
    fprintf(out, "\";\n_Static_assert(sizeof(gy_arguments) == 8 * (sizeof(standin_words) - 1), "
                 "\"words\");\n");
}

static bool write_source(const gy_cuda_program *program, const char *path)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        return false;
    }
    fprintf(out, "#line 1 \"%s\"\n%s", program->name, program->text);
    write_words(out, program->text);
    return fclose(out) == 0;
}

static size_t read_whole(FILE *file, char *out, size_t size)
{
    const size_t got = fread(out, 1, size - 1, file);
    out[got] = '\0';
    return got;
}

#define COMPILE                                                                                \
    GYRE_TEST_CC " -std=c17 -O1 -fPIC -shared -Wall -Wextra -Werror -Wno-unused "              \
                 "-ffp-contract=off -fno-strict-aliasing " SANITIZE                            \
                 " -include " GYRE_TEST_FOLDER "/cuda/host_kernel.h "

static bool read_image(gy_cuda_program *program, const char *path)
{
    FILE *image = fopen(path, "rb");
    if (image == NULL) {
        return false;
    }
    const size_t size = read_whole(image, program->image, sizeof(program->image));
    program->head = (standin_image){.magic = STANDIN_MAGIC, .size_bytes = size};
    fclose(image);
    return size > 0 && size < sizeof(program->image) - 1;
}

/* Compile what stands in `folder`; false with the compiler's words in the log. */
static bool compile_in(gy_cuda_program *program, const char *folder)
{
    char path[128], line[2048];
    snprintf(path, sizeof(path), "%s/kernel.c", folder);
    if (!write_source(program, path)) {
        return false;
    }
    snprintf(line, sizeof(line), COMPILE "%s -o %s/kernel.so -lm 2>&1", path, folder);
    FILE *compiler = popen(line, "r");
    if (compiler == NULL) {
        return false;
    }
    read_whole(compiler, program->log, sizeof(program->log));
    if (pclose(compiler) != 0) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/kernel.so", folder);
    return read_image(program, path);
}

static bool compile(gy_cuda_program *program)
{
    char folder[] = "/tmp/gyre-kernel-XXXXXX", line[64];
    if (mkdtemp(folder) == NULL) {
        return false;
    }
    const bool is_compiled = compile_in(program, folder);
    for (const char *const *name = (const char *[]){"kernel.c", "kernel.so", NULL};
         *name != NULL; name++) {
        snprintf(line, sizeof(line), "%s/%s", folder, *name);
        (void)unlink(line);
    }
    (void)rmdir(folder);
    return is_compiled;
}

/* ---- images that are kept: the C compiler is most of what a test of kernels costs ---- */

/* @source Fowler, Noll, Vo: FNV-1a, 64 bits */
static uint64_t hash(uint64_t state, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        state = (state ^ (unsigned char)data[i]) * UINT64_C(1099511628211);
    }
    return state;
}

/* The file of a text: named by all that makes its image. */
static bool name_kept(const gy_cuda_program *program, char *path, size_t size)
{
    static char header[1 << 16];
    FILE *file = fopen(GYRE_TEST_FOLDER "/cuda/host_kernel.h", "r");
    if (file == NULL) {
        return false;
    }
    const size_t header_size = read_whole(file, header, sizeof(header));
    fclose(file);
    uint64_t key = UINT64_C(14695981039346656037);
    key = hash(key, COMPILE __VERSION__, sizeof(COMPILE __VERSION__));
    key = hash(key, header, header_size + 1);
    key = hash(key, program->text, strlen(program->text));
    snprintf(path, size, "%s/%016llx", GYRE_TEST_KERNELS, (unsigned long long)key);
    return mkdir(GYRE_TEST_KERNELS, 0755) == 0 || errno == EEXIST;
}

/* As one that is whole or not there: tests run at once. What cannot be kept is not. */
static void keep(const gy_cuda_program *program, const char *path)
{
    char made[300];
    snprintf(made, sizeof(made), "%s.%d", path, (int)getpid());
    FILE *file = fopen(made, "wb");
    if (file == NULL) {
        return;
    }
    const bool is_whole =
        fwrite(program->image, 1, program->head.size_bytes, file) == program->head.size_bytes;
    if (fclose(file) != 0 || !is_whole || rename(made, path) != 0) {
        (void)unlink(made);
    }
}

static bool take_options(gy_cuda_program *program, int count, const char *const *options)
{
    bool has_arch = false;
    for (int i = 0; i < count; i++) {
        int arch = 0;
        if (sscanf(options[i], "--gpu-architecture=sm_%d", &arch) == 1 ||
            sscanf(options[i], "--gpu-architecture=compute_%d", &arch) == 1) {
            program->is_ptx = strstr(options[i], "compute_") != NULL;
            has_arch = arch == 50 || arch == 80 || arch == 90;
        } else if (strcmp(options[i], "--std=c++14") != 0 &&
                   strcmp(options[i], "--fmad=false") != 0) {
            return false;
        }
    }
    return has_arch;
}

int standin_nvrtc_compile(gy_cuda_program *program, int option_count,
                          const char *const *options)
{
    int code = begin("nvrtcCompileProgram", program);
    if (code == 0 && !take_options(program, option_count, options)) {
        standin_complain("nvrtcCompileProgram: unknown options");
        code = INVALID_OPTION;
    }
    if (code == 0) {
        char path[256];
        const bool is_named = name_kept(program, path, sizeof(path));
        program->is_compiled = is_named && read_image(program, path);
        if (!program->is_compiled) {
            program->is_compiled = compile(program);
            if (is_named && program->is_compiled) {
                keep(program, path);
            }
        }
        code = program->is_compiled ? 0 : COMPILATION;
    }
    return standin_leave(code);
}

/* ---- results ---- */

static int take(const char *symbol, gy_cuda_program *program, bool wants_ptx,
                size_t *size_bytes, char *out)
{
    int code = begin(symbol, program);
    if (code == 0 && (!program->is_compiled || program->is_ptx != wants_ptx)) {
        standin_complain("%s: there is none of this program", symbol);
        code = INVALID_PROGRAM;
    }
    if (code == 0 && size_bytes != NULL) {
        *size_bytes = sizeof(program->head) + program->head.size_bytes;
    }
    if (code == 0 && out != NULL) {
        memcpy(out, &program->head, sizeof(program->head));
        memcpy(out + sizeof(program->head), program->image, program->head.size_bytes);
    }
    return standin_leave(code);
}

int standin_nvrtc_cubin_size(gy_cuda_program *program, size_t *size_bytes)
{
    return take("nvrtcGetCUBINSize", program, false, size_bytes, NULL);
}

int standin_nvrtc_cubin(gy_cuda_program *program, char *cubin)
{
    return take("nvrtcGetCUBIN", program, false, NULL, cubin);
}

int standin_nvrtc_ptx_size(gy_cuda_program *program, size_t *size_bytes)
{
    return take("nvrtcGetPTXSize", program, true, size_bytes, NULL);
}

int standin_nvrtc_ptx(gy_cuda_program *program, char *ptx)
{
    return take("nvrtcGetPTX", program, true, NULL, ptx);
}

int standin_nvrtc_log_size(gy_cuda_program *program, size_t *size_bytes)
{
    const int code = begin("nvrtcGetProgramLogSize", program);
    *size_bytes = code == 0 ? strlen(program->log) + 1 : 0;
    return standin_leave(code);
}

int standin_nvrtc_log(gy_cuda_program *program, char *log)
{
    const int code = begin("nvrtcGetProgramLog", program);
    if (code == 0) {
        memcpy(log, program->log, strlen(program->log) + 1);
    }
    return standin_leave(code);
}
