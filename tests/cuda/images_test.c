/*
 * Goal: a text is compiled once on a machine, not once in a process; an image that is damaged,
 * linked, foreign or of another key is compiled again; a full or closed disk and processes that
 * write at once cost no run; the folder keeps its bound.
 */
#include "base/disk.h"
#include "ops/cuda/images.h"
#include "standin/standin_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { PROCESSES = 6, TEXTS = 3 };

static char folder[] = "/tmp/gyre-images-XXXXXX", kernels[64];

static int begin(void **state)
{
    if (mkdtemp(folder) == NULL || chdir(folder) != 0 ||
        setenv("GYRE_CACHE_DIR", folder, 1) != 0) {
        return 1;
    }
    (void)snprintf(kernels, sizeof(kernels), "%s/kernels", folder);
    return standin_find(state);
}

static int end(void **state)
{
    (void)state;
    return gy_disk_remove_tree(folder);
}

/* An empty folder, open. */
static gy_cuda_images fresh(void)
{
    gy_cuda_images images;
    assert_int_equal(gy_disk_remove_tree(kernels), 0);
    gy_cuda_images_open(&images);
    assert_string_equal(images.folder, kernels);
    return images;
}

static gy_cuda_image_key key_of(const char *text)
{
    static const char *const options[] = {"--one", "--two"};
    return gy_cuda_image_key_of(&(gy_cuda_image_source){.text = text,
                                                        .options = options,
                                                        .option_count = 2,
                                                        .compiler_major = 12,
                                                        .compiler_minor = 4});
}

static void put(gy_cuda_images *images, const char *text, size_t size_bytes)
{
    gy_text image = {.data = NULL};
    for (size_t i = 0; i < size_bytes; i++) {
        const char byte = (char)(i % 251 + (size_t)text[0]);
        gy_text_add_bytes(&image, &byte, 1);
    }
    gy_cuda_images_put(images, key_of(text), &image);
    gy_text_free(&image);
}

/* Is there an image of that text, of so many bytes, right to the last one? */
static bool has(gy_cuda_images *images, const char *text, size_t size_bytes)
{
    gy_text image = {.data = NULL};
    const bool is_found = gy_cuda_images_find(images, key_of(text), &image);
    for (size_t i = 0; is_found && i < size_bytes; i++) {
        assert_int_equal(image.data[i], (char)(i % 251 + (size_t)text[0]));
    }
    assert_int_equal(image.size_bytes, is_found ? size_bytes : 0);
    gy_text_free(&image);
    return is_found;
}

static const char *path_of(const char *text)
{
    static char path[128];
    const gy_cuda_image_key key = key_of(text);
    (void)snprintf(path, sizeof(path), "%s/%016llx%016llx", kernels,
                   (unsigned long long)key.hash[0], (unsigned long long)key.hash[1]);
    return path;
}

/* Files of the folder, whatever they are. */
static int count_files(void)
{
    char line[128], said[32];
    (void)snprintf(line, sizeof(line), "ls -A %s | wc -l", kernels);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    return (int)strtol(said, NULL, 10);
}

GY_TEST(whatever_makes_another_image_is_in_the_key)
{
    static const char *const options[] = {"--one", "--two"}, *const joined[] = {"--one--two"},
                             *const other[] = {"--one", "--tw"};
    const gy_cuda_image_source sources[] = {
        {"text", options, 2, 12, 4, 7}, {"texT", options, 2, 12, 4, 7},
        {"text", other, 2, 12, 4, 7},   {"text", options, 1, 12, 4, 7},
        {"text", joined, 1, 12, 4, 7},  {"text", options, 2, 12, 5, 7},
        {"text", options, 2, 13, 4, 7}, {"otext", other, 2, 12, 4, 7},
        {"text", options, 2, 12, 4, 8},
    };
    for (size_t i = 0; i < GY_COUNT(sources); i++) {
        const gy_cuda_image_key a = gy_cuda_image_key_of(&sources[i]);
        for (size_t k = 0; k < GY_COUNT(sources); k++) {
            const gy_cuda_image_key b = gy_cuda_image_key_of(&sources[k]);
            assert_int_equal(memcmp(&a, &b, sizeof(a)) == 0, i == k);
            assert_true(i == k || (a.hash[0] != b.hash[0] && a.hash[1] != b.hash[1]));
        }
    }
}

GY_TEST(an_image_is_this_users_and_is_found_again)
{
    struct stat about;
    gy_cuda_images images = fresh(), again;
    assert_false(has(&images, "text", 0));
    put(&images, "text", 1000);
    gy_cuda_images_open(&again);
    assert_true(has(&again, "text", 1000));
    assert_false(has(&again, "another", 0));
    assert_int_equal(stat(kernels, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);
    assert_int_equal(stat(path_of("text"), &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(count_files(), 1);
}

/* Each byte changed, each length cut to. */
GY_TEST(a_damaged_image_is_not_taken)
{
    enum { SIZE = 60, HEAD = 40 };
    gy_cuda_images images = fresh();
    for (off_t at = 0; at < SIZE + HEAD; at++) {
        put(&images, "text", SIZE);
        const int file = open(path_of("text"), O_RDWR);
        char byte = 0;
        assert_int_equal(pread(file, &byte, 1, at), 1);
        byte = (char)(byte ^ (1 << (at % 8)));
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        assert_false(has(&images, "text", SIZE));
        byte = (char)(byte ^ (1 << (at % 8)));
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        assert_true(has(&images, "text", SIZE));
        assert_int_equal(ftruncate(file, at), 0);
        assert_false(has(&images, "text", SIZE));
        assert_int_equal(close(file), 0);
    }
    put(&images, "text", SIZE); /* one of another key, by its name */
    assert_int_equal(link(path_of("text"), "moved"), 0);
    assert_int_equal(unlink(path_of("text")), 0);
    assert_int_equal(rename("moved", path_of("another")), 0);
    assert_false(has(&images, "another", SIZE));
}

GY_TEST(what_others_may_have_written_is_not_taken)
{
    gy_cuda_images images = fresh();
    put(&images, "text", 100);
    assert_true(has(&images, "text", 100));
    assert_int_equal(link(path_of("text"), "second"), 0); /* a second name */
    assert_false(has(&images, "text", 100));
    assert_int_equal(unlink(path_of("text")), 0);
    assert_int_equal(symlink("../second", path_of("text")), 0);
    assert_int_equal(symlinkat("/dev/zero", AT_FDCWD, path_of("zero")), 0);
    assert_false(has(&images, "text", 100));
    assert_false(has(&images, "zero", 100));
    put(&images, "text", 100); /* in place of the link; what it led to stays */
    assert_true(has(&images, "text", 100));
    assert_int_equal(truncate("second", 0), 0); /* another file since */
    assert_true(has(&images, "text", 100));
    assert_int_equal(unlink("second"), 0);
    assert_int_equal(chmod(path_of("text"), 0620), 0);
    assert_false(has(&images, "text", 100));
    assert_int_equal(chmod(path_of("text"), 0600), 0);
    assert_true(has(&images, "text", 100));
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_false(has(&images, "pipe", 0));
    if (geteuid() == 0) {
        assert_int_equal(chown(path_of("text"), 65534, 65534), 0);
        assert_false(has(&images, "text", 100));
        assert_int_equal(chown(path_of("text"), 0, 0), 0);
    }
    assert_true(has(&images, "text", 100));
}

/* No folder is better than a foreign one. */
GY_TEST(a_folder_that_others_write_to_is_not_used)
{
    gy_cuda_images images = fresh();
    gy_log_set_level(GY_LOG_ERROR);
    assert_int_equal(chmod(kernels, 0770), 0);
    gy_cuda_images_open(&images);
    assert_string_equal(images.folder, "");
    put(&images, "text", 100);
    assert_false(has(&images, "text", 100));
    assert_int_equal(chmod(kernels, 0700), 0);
    assert_int_equal(rename(kernels, "aside"), 0);
    assert_int_equal(symlink("aside", kernels), 0);
    gy_cuda_images_open(&images);
    assert_string_equal(images.folder, "");
    assert_int_equal(unlink(kernels), 0);
    assert_int_equal(rename("aside", kernels), 0);
    put(&images, "file", 100);
    assert_false(has(&images, "file", 100));
    gy_cuda_images_open(&images);
    put(&images, "file", 100);
    assert_int_equal(setenv("GYRE_CACHE_DIR", path_of("file"), 1), 0); /* below a plain file */
    gy_cuda_images_open(&images);
    assert_string_equal(images.folder, "");
    assert_int_equal(setenv("GYRE_CACHE_DIR", "none", 1), 0);
    gy_cuda_images_open(&images);
    assert_string_equal(images.folder, "");
    assert_int_equal(setenv("GYRE_CACHE_DIR", folder, 1), 0);
    gy_log_set_level(GY_LOG_WARN);
}

/* ---- disks and processes ---- */

/* Run it in a process of its own; its status is `wanted`. */
static void in_process(int (*run)(int), int argument, int wanted)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run(argument));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), wanted);
}

static int put_on_full_disk(int size)
{
    gy_cuda_images images;
    const struct rlimit limit = {.rlim_cur = 512, .rlim_max = 512};
    gy_log_set_level(GY_LOG_ERROR);
    gy_cuda_images_open(&images);
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 2;
    }
    put(&images, "large", (size_t)size);
    put(&images, "small", 10);
    return has(&images, "large", (size_t)size) ? 3 : has(&images, "small", 10) ? 0 : 4;
}

GY_TEST(a_full_disk_leaves_nothing_half_written)
{
    gy_cuda_images images = fresh();
    in_process(put_on_full_disk, 4000, 0);
    assert_int_equal(count_files(), 1);
    assert_true(has(&images, "small", 10));
}

static int put_and_find(int seed)
{
    static const char *const texts[] = {"a", "b", "c"};
    gy_cuda_images images;
    gy_cuda_images_open(&images);
    for (int i = 0; i < 60; i++) {
        const char *text = texts[(i + seed) % 3];
        put(&images, text, 20000);
        if (!has(&images, text, 20000)) { /* nobody removes one, and none is half there */
            return 1;
        }
    }
    return 0;
}

GY_TEST(processes_write_the_same_images_at_once)
{
    gy_cuda_images images = fresh();
    pid_t children[PROCESSES];
    int status = 0;
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(put_and_find(i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_true(has(&images, "a", 20000));
    assert_int_equal(count_files(), 3);
}

/* ---- the bound ---- */

static void set_use(const char *text, time_t at)
{
    const struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(text), times, 0), 0);
}

GY_TEST(what_was_used_longest_ago_goes)
{
    char path[96];
    gy_cuda_images images = fresh();
    images.bytes_max = 5000;
    images.unmeasured_bytes = 0;
    put(&images, "a", 1000);
    put(&images, "b", 1000);
    put(&images, "c", 1000);
    set_use("a", 1000);
    set_use("b", 2000);
    set_use("c", 3000);
    assert_true(has(&images, "a", 1000)); /* used now */
    put(&images, "d", 1000);
    assert_true(has(&images, "b", 1000));
    set_use("b", 2000);
    put(&images, "e", 1000); /* the fifth: b was used longest ago */
    assert_false(has(&images, "b", 1000));
    assert_true(has(&images, "a", 1000));
    assert_true(has(&images, "c", 1000));
    assert_true(has(&images, "d", 1000));
    assert_true(has(&images, "e", 1000));
    /* What a killed process has left goes once it is old; a stranger's file stays. */
    (void)gy_print(path, sizeof(path), "%s.abcdef", path_of("x"));
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0 && close(file) == 0);
    put(&images, "f", 1000);
    assert_int_equal(access(path, F_OK), 0);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(symlink("nowhere", path_of("link")), 0);
    put(&images, "g", 1000);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(count_files(), 5);
    assert_int_equal(unlink(path_of("link")), 0);
}

/* ---- with a compiler ---- */

static const char *const kernel_texts[TEXTS] = {
    "typedef struct gy_arguments {\n long long n;\n float *x;\n} gy_arguments;\n"
    "GY_KERNEL(one) { g.x[0] = 1; }\n",
    "typedef struct gy_arguments {\n long long n;\n float *x;\n} gy_arguments;\n"
    "GY_KERNEL(two) { g.x[0] = 2; }\n",
    "typedef struct gy_arguments {\n long long n;\n float *x;\n} gy_arguments;\n"
    "GY_KERNEL(three) { g.x[0] = 3; }\n"};

/* Compile all for a device of that capability; how often the compiler was called, or 100. */
static int compile_all(int capability)
{
    gy_cuda_images images;
    standin->reset(1);
    gy_cuda_images_open(&images);
    for (int i = 0; i < TEXTS; i++) {
        gy_text image = {.data = NULL};
        if (gy_cuda_compile(kernel_texts[i], "a kernel", capability, &images, &image) < 0 ||
            image.size_bytes < sizeof(standin_image)) {
            return 100;
        }
        gy_text_free(&image);
    }
    return standin->complaints(NULL, 0) == 0 && standin->live() == 0
               ? standin->count("nvrtcCompileProgram")
               : 101;
}

GY_TEST(a_second_process_compiles_nothing)
{
    char line[160], said[32];
    (void)fresh();
    in_process(compile_all, 80, TEXTS);
    in_process(compile_all, 80, 0);
    in_process(compile_all, 86, TEXTS); /* for another device, as PTX */
    in_process(compile_all, 86, 0);
    in_process(compile_all, 80, 0);
    assert_int_equal(setenv("GYRE_TEST_CUDA_NVRTC", "12030", 1), 0);
    in_process(compile_all, 80, TEXTS);
    assert_int_equal(unsetenv("GYRE_TEST_CUDA_NVRTC"), 0);
    in_process(compile_all, 80, 0);
    /* Damage in each of them: all are compiled again, and then they are there. */
    (void)snprintf(line, sizeof(line), "for f in %s/*; do echo >> $f; done", kernels);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    in_process(compile_all, 80, TEXTS);
    in_process(compile_all, 80, 0);
    assert_int_equal(setenv("GYRE_CACHE_DIR", "none", 1), 0);
    in_process(compile_all, 80, TEXTS);
    assert_int_equal(setenv("GYRE_CACHE_DIR", folder, 1), 0);
}

/* Another build of NVRTC that tells the same version, as an update of CUDA does: the same bytes
 * of another time. */
GY_TEST(another_build_of_the_compiler_compiles_anew)
{
    char said[64], kept[1024];
    const char *libraries = getenv("GYRE_CUDA_LIBRARIES");
    if (getenv("GYRE_TEST_DEVICE") != NULL || libraries == NULL) {
        standin_leave_out();
    }
    assert_true(gy_print_whole(kept, sizeof(kept), "%s", libraries));
    (void)fresh();
    in_process(compile_all, 80, TEXTS);
    in_process(compile_all, 80, 0);
    assert_int_equal(gy_test_shell("mkdir l && cp -L $GYRE_CUDA_LIBRARIES/lib*.so* l && "
                                   "touch -d 2001-01-01 l/libnvrtc.so.12 && "
                                   "ln -sf $GYRE_CUDA_LIBRARIES/libcuda.so.1 l",
                                   said, sizeof(said)),
                     0);
    assert_int_equal(setenv("GYRE_CUDA_LIBRARIES", "./l", 1), 0);
    in_process(compile_all, 80, TEXTS);
    in_process(compile_all, 80, 0);
    assert_int_equal(setenv("GYRE_CUDA_LIBRARIES", kept, 1), 0);
    in_process(compile_all, 80, 0);
}

GY_TEST_MAIN(begin, end)
