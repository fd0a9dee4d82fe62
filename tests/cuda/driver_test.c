/* Goal: what `gyre info` says of devices is what the driver says, or why there are none,
 * whatever is missing or fails; nothing else opens a library of a device. */
#include "standin/standin.h"

#include "command_kit.h"

static const char *libraries(void)
{
    const char *found = getenv("GYRE_CUDA_LIBRARIES");
    assert_non_null(found);
    return found;
}

/* `gyre info` under that environment. */
static void info(const char *environment)
{
    char line[1024];
    (void)gy_print(line, sizeof(line), "%s %s info", environment, getenv("GYRE_BIN"));
    if (shell(line) != 0) {
        fail_msg("'%s' failed: %s", line, output);
    }
}

static void expect(const char *environment, const char *text)
{
    info(environment);
    if (strstr(output, text) == NULL) {
        fail_msg("%s gyre info: expected '%s' in: %s", environment, text, output);
    }
}

GY_TEST(devices_are_listed)
{
    expect("", "\ndevice 0: Stand-in 0, 64.0 MiB, compute capability 8.0, 2 multiprocessors\n"
               "cuda driver: 12.4\nnvrtc: 12.4\ncublaslt: libcublasLt.so.12\n");
    expect("GYRE_TEST_CUDA_DEVICES=3 GYRE_TEST_CUDA_CAPABILITY=121",
           "\ndevice 2: Stand-in 2, 64.0 MiB, compute capability 12.1");
    assert_non_null(strstr(output, "\ndevice 1: "));
    info("GYRE_TEST_CUDA_DEVICES=3 GYRE_DEVICE=1");
    assert_non_null(strstr(output, "\ndevice 1: Stand-in 1"));
    assert_null(strstr(output, "\ndevice 0"));
    assert_null(strstr(output, "\ndevice 2"));
    expect("GYRE_TEST_CUDA_DEVICES=3 GYRE_DEVICE=3",
           "\ndevice 3: this machine shows devices 0 to 2\n");
}

GY_TEST(why_there_are_none_is_told)
{
    static const char *const cases[][2] = {
        {"GYRE_DEVICE=none GYRE_TEST_CUDA_FAIL=cuInit:1:999",
         "\ndevices: none: GYRE_DEVICE is none\n"},
        {"GYRE_TEST_CUDA_DEVICES=0",
         "\ndevices: none: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device"},
        {"GYRE_TEST_CUDA_VERSION=10020", "\ndevices: none: the CUDA driver is of CUDA 10.2, "
                                         "and 11.4 or newer is needed: install a "
                                         "newer NVIDIA driver (Debian"},
        {"GYRE_TEST_CUDA_NVRTC=13000", "\nnvrtc: none: libnvrtc.so.12 is of CUDA 13.0, and the "
                                       "driver runs what is of CUDA 12.4 "
                                       "at the newest: install a newer driver or an "
                                       "older NVIDIA package cuda-nvrtc (Debian"},
        {"GYRE_TEST_CUDA_POOLS=0", "\ndevice 0 (Stand-in 0) has no pools"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        expect(cases[i][0], cases[i][1]);
    }
}

GY_TEST(what_is_missing_is_named)
{
    char line[1024];
    const char *from = libraries();
    (void)gy_print(
        line, sizeof(line),
        "mkdir empty driver text other && ln -s %s/libcuda.so.1 driver/ && "
        "echo text > text/libcuda.so.1 && ln -s $(dirname %s)/libgyre.so.0 other/libcuda.so.1",
        from, getenv("GYRE_BIN"));
    must(line);
    expect("GYRE_CUDA_LIBRARIES=empty",
           "\ndevices: none: no CUDA driver: empty/libcuda.so.1: ");
    assert_non_null(strstr(output, "No such file"));
    assert_non_null(strstr(output,
                           "install the NVIDIA driver (Debian package libcuda1), or "
                           "correct GYRE_CUDA_LIBRARIES, where alone it is looked for\n"));
    expect("GYRE_CUDA_LIBRARIES=driver", "\nnvrtc: none: no NVRTC: driver/libnvrtc.so.12: ");
    assert_non_null(strstr(output, "\ndevice 0: "));
    assert_non_null(strstr(output, "install the NVIDIA package cuda-nvrtc"));
    assert_non_null(
        strstr(output, "\ncublaslt: none: no cuBLASLt: driver/libcublasLt.so.12: "));
    expect("GYRE_CUDA_LIBRARIES=text", "\ndevices: none: no CUDA driver: text/libcuda.so.1: ");
    assert_null(strstr(output, "No such file"));
    expect("GYRE_CUDA_LIBRARIES=other", "\ndevices: none: cu");
    assert_non_null(strstr(output, " is not in libcuda.so.1"));
    (void)gy_print(line, sizeof(line), "GYRE_CUDA_LIBRARIES=empty:none:%s", from);
    expect(line, "\ndevice 0: ");
    assert_non_null(strstr(output, "\nnvrtc: 12.4"));
}

GY_TEST(each_call_that_fails_is_named)
{
    static const char *const symbols[] = {
        "cuInit",          "cuDriverGetVersion",   "cuDeviceGetCount",   "cuDeviceGet",
        "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2"};
    for (size_t i = 0; i < GY_COUNT(symbols); i++) {
        char environment[80], text[80];
        (void)gy_print(environment, sizeof(environment), "GYRE_TEST_CUDA_FAIL=%s:1:719",
                       symbols[i]);
        (void)gy_print(text, sizeof(text),
                       "none: %s: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure\n",
                       symbols[i]);
        if (strcmp(symbols[i], "cuDriverGetVersion") == 0) {
            environment[strlen(environment) - 5] =
                '2'; /* the first asks whether it is too old */
        }
        expect(environment, text);
    }
    expect("GYRE_TEST_CUDA_FAIL=nvrtcVersion:1:3",
           "\nnvrtc: none: NVRTC: version: NVRTC_ERROR (3)");
}

/* The loader itself would end by a signal. */
GY_TEST(a_library_that_is_cut_off_is_named)
{
    char line[1024];
    static const int sizes[] = {0, 3, 64, 100, 5000, 12000};
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        (void)gy_print(line, sizeof(line),
                       "mkdir -p cut && for f in libcuda.so.1 libnvrtc.so.12; do head -c %d "
                       "%s/$f > cut/$f; done",
                       sizes[i], libraries());
        must(line);
        expect("GYRE_CUDA_LIBRARIES=cut",
               "\ndevices: none: no CUDA driver: cut/libcuda.so.1: ");
        (void)gy_print(line, sizeof(line), "ln -sf %s/libcuda.so.1 cut/", libraries());
        must(line);
        expect("GYRE_CUDA_LIBRARIES=cut", "\nnvrtc: none: no NVRTC: cut/libnvrtc.so.12: ");
        must("rm cut/libcuda.so.1");
    }
}

/* The loader tells what it opens. */
GY_TEST(nothing_is_opened_unless_somebody_asks)
{
    static const char *const commands[] = {"--version",
                                           "plan list",
                                           "run -n 2 true",
                                           "train mlp --help",
                                           "train softmax -q -d digits --steps 2",
                                           ("train softmax -q -d digits --steps 2 -n 2 "
                                            "--device none")};
    char line[512];
    for (size_t i = 0; i < GY_COUNT(commands); i++) {
        (void)gy_print(line, sizeof(line),
                       "LD_DEBUG=files %s %s >opened 2>&1 && grep -q libgyre opened && "
                       "! grep libcuda opened",
                       getenv("GYRE_BIN"), commands[i]);
        must(line);
    }
    (void)gy_print(line, sizeof(line), "LD_DEBUG=files %s info 2>&1 | grep -c libcuda",
                   getenv("GYRE_BIN"));
    must(line);
    (void)gy_print(line, sizeof(line), "! ldd %s | grep -i -e libcuda -e libnvrtc -e libcublas",
                   getenv("GYRE_BIN"));
    must(line);
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
