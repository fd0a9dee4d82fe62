/**
 * For tests of kernels' texts: many texts are put into one file, compiled by the C compiler
 * with host_kernel.h, and run on memory that ends where the views do.
 *
 *     texts all;
 *     texts_open(&all);
 *     int at = texts_add(&all, &call);    … of each case; -1: no text, all.reason says why
 *     texts_compile(&all);
 *     texts_run(&all, at, &call);         … now with data
 *     texts_close(&all);
 *
 * Where GYRE_TEST_DEVICE is set they run on device 0 instead (cuda_text_device.h).
 */
#ifndef GY_TESTS_CUDA_TEXT_KIT_H
#define GY_TESTS_CUDA_TEXT_KIT_H

#include "cuda_text_device.h"

enum { TEXTS_MAX = 4096 };

typedef struct texts {
    gy_cuda_text *of[TEXTS_MAX]; /* of each case */
    int source[TEXTS_MAX];       /* which distinct source it has */
    int count, source_count;
    const char *reason; /* of the last case without a text */
    char folder[64];
    void *library;
    texts_device on;
} texts;

static inline void texts_open(texts *all)
{
    memset(all, 0, sizeof(*all));
    (void)gy_print(all->folder, sizeof(all->folder), "/tmp/gyre-texts-XXXXXX");
    assert_non_null(mkdtemp(all->folder));
}

/* Keep a text that was made; what it is a copy of is compiled once. */
static inline int texts_keep(texts *all, gy_cuda_text *text)
{
    assert_true(all->count < TEXTS_MAX);
    int same = all->count - 1;
    while (same >= 0 &&
           strcmp(gy_text_get(&all->of[same]->source), gy_text_get(&text->source)) != 0) {
        same--;
    }
    all->source[all->count] = same >= 0 ? all->source[same] : all->source_count++;
    all->of[all->count] = text;
    return all->count++;
}

static inline int texts_add(texts *all, const gy_kernel_call *call)
{
    gy_cuda_text *text = gy_alloc("test.text", sizeof(*text));
    assert_non_null(text);
    assert_ok(gy_cuda_text_make(call, text));
    if (text->reason != NULL) {
        all->reason = text->reason;
        gy_free(text);
        return -1;
    }
    return texts_keep(all, text);
}

static inline void texts_write(const texts *all, const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    int next = 0;
    for (int i = 0; i < all->count; i++) {
        if (all->source[i] != next) {
            continue;
        }
        fprintf(file, "#undef gy_arguments\n#define gy_arguments gy_arguments_%d\n", next);
        for (int n = 0; n < all->of[i]->launch_count; n++) {
            const char *name = all->of[i]->launches[n].name;
            fprintf(file, "#undef %s\n#define %s %s_%d\n", name, name, name, next);
        }
        fprintf(file, "%s", gy_text_get(&all->of[i]->source));
        next++;
    }
    assert_int_equal(next, all->source_count);
    assert_int_equal(fclose(file), 0);
}

static inline void texts_compile_for_device(texts *all)
{
    int next = 0;
    texts_device_open(&all->on, all->source_count);
    for (int i = 0; i < all->count; i++) {
        if (all->source[i] == next) {
            texts_device_compile(&all->on, next++, all->of[i]);
        }
    }
    assert_int_equal(next, all->source_count);
    printf("%d cases, %d texts on a device\n", all->count, all->source_count);
}

static inline void texts_compile(texts *all)
{
    if (texts_wants_device()) {
        texts_compile_for_device(all);
        return;
    }
#if defined(GYRE_ASAN)
    static const char extra[] = "-fsanitize=address,undefined -fno-sanitize-recover=all";
#else /* TSan knows nothing of the fibers' switches: it looks at what calls the kernels */
    static const char extra[] = "";
#endif
    char path[128], said[4096];
    gy_text line = {0};
    (void)gy_print(path, sizeof(path), "%s/texts.c", all->folder);
    texts_write(all, path);
    gy_text_add(
        &line,
        "%s -std=c17 -O0 -fPIC -shared -Wall -Wextra -Werror -Wno-unused -ffp-contract=off "
        "-fno-strict-aliasing %s -include %s %s -o %s/texts.so -lm 2>&1",
        GYRE_TEST_CC, extra,
        GYRE_TEST_FOLDER "/cuda/"
                         "host_kernel.h",
        path, all->folder);
    if (gy_test_shell(gy_text_get(&line), said, sizeof(said)) != 0) {
        fail_msg("%s: %s", gy_text_get(&line), said);
    }
    gy_text_free(&line);
    (void)gy_print(path, sizeof(path), "%s/texts.so", all->folder);
    all->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (all->library == NULL) {
        fail_msg("%s", dlerror());
    }
    printf("%d cases, %d texts\n", all->count, all->source_count);
}

/* Is there so much memory where kernels run? The host's is mapped on demand. */
static inline bool texts_fit(const texts *all, size_t size_bytes)
{
    gy_cuda_memory memory;
    if (all->on.device == NULL) {
        return true;
    }
    assert_ok(gy_cuda_memory_read(all->on.device, &memory));
    return size_bytes < memory.free_bytes / 2;
}

/* Run the case's kernels on the call's views; the place of the first bad index, or UINT64_MAX.
 */
static inline uint64_t texts_run(const texts *all, int at, const gy_kernel_call *call)
{
    typedef int (*kernel)(const unsigned *grid, const unsigned *block, unsigned shared_bytes,
                          void **parameters);
    const gy_cuda_text *text = all->of[at];
    if (all->on.device != NULL) {
        return texts_device_run(&all->on, all->source[at], text, call);
    }
    uint64_t inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX], words[GY_CUDA_WORDS_MAX];
    uint64_t fault = UINT64_MAX;
    for (int i = 0; i < call->input_count; i++) {
        inputs[i] = (uint64_t)(uintptr_t)call->inputs[i].data;
    }
    for (int o = 0; o < call->output_count; o++) {
        outputs[o] = (uint64_t)(uintptr_t)call->outputs[o].data;
    }
    void *workspace = gy_alloc("test.workspace", text->workspace_bytes);
    if (text->workspace_bytes > 0) {
        memset(workspace, 0x7b, text->workspace_bytes);
    }
    const uint64_t checked = text->index_input >= 0 ? (uint64_t)(uintptr_t)&fault : 0;
    (void)gy_cuda_text_words(text, inputs, outputs, (uint64_t)(uintptr_t)workspace, checked,
                             words);
    for (int n = 0; n < text->launch_count; n++) {
        const gy_cuda_launch *launch = &text->launches[n];
        char name[64];
        (void)gy_print(name, sizeof(name), "%s_%d", launch->name, all->source[at]);
        kernel run = NULL;
        void *found = dlsym(all->library, name);
        assert_non_null(found);
        memcpy(&run, &found, sizeof(run)); /* as POSIX has it, and ISO C has not */
        const unsigned grid[3] = {(unsigned)launch->blocks, 1, 1};
        const unsigned block[3] = {(unsigned)launch->threads, 1, 1};
        void *parameters[1] = {words};
        if (launch->blocks > 0) {
            assert_int_equal(run(grid, block, 0, parameters), 0);
        }
    }
    gy_free(workspace);
    return fault;
}

/* In which order threads run between barriers: 0 ascending, 1 descending. A device has its own.
 */
static inline void texts_order(const texts *all, int order)
{
    if (all->on.device != NULL) {
        return;
    }
    int *of_library = dlsym(all->library, "gy_host_order");
    assert_non_null(of_library);
    *of_library = order;
}

/* The texts as a compiler for a device reads them: C++, with its keywords. */
static inline void texts_check(const texts *all)
{
    if (all->on.device != NULL) {
        return; /* its own compiler has read them */
    }
    char line[512], said[4096];
    (void)gy_print(line, sizeof(line), "%s -x c++ -fsyntax-only -w -include %s %s/texts.c 2>&1",
                   GYRE_TEST_CXX,
                   GYRE_TEST_FOLDER "/cuda/"
                                    "device_check.h",
                   all->folder);
    if (gy_test_shell(line, said, sizeof(said)) != 0) {
        fail_msg("%s: %s", line, said);
    }
}

static inline void texts_close(texts *all)
{
    char line[128], said[256];
    for (int i = 0; i < all->count; i++) {
        gy_cuda_text_fini(all->of[i]);
        gy_free(all->of[i]);
    }
    texts_device_close(&all->on);
    if (all->library != NULL) {
        assert_int_equal(dlclose(all->library), 0);
    }
    (void)gy_print(line, sizeof(line), "rm -r %s", all->folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

#endif
