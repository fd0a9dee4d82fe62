#include "ops/cuda/devices.h"

#include "base/setting_numbers.h"
#include "ops/cuda/blas.h"

#include <gyre/info.h>

#include <string.h>

gy_status gy_cuda_device_count(int *count)
{
    const gy_cuda_driver *driver = NULL;
    GY_TRY(gy_cuda_driver_get(&driver));
    GY_CUDA_TRY(driver, device_count, count);
    GY_ASSERT(*count >= 0);
    return GY_OK;
}

static gy_status attribute(const gy_cuda_driver *driver, int device, int which, int *value)
{
    GY_CUDA_TRY(driver, device_attribute, value, which, device);
    return GY_OK;
}

static gy_status read_attributes(const gy_cuda_driver *driver, gy_cuda_properties *properties)
{
    int major = 0, minor = 0, clock_khz = 0, bus_bits = 0, has_pools = 0;
    const struct {
        int which, *value;
    } rows[] = {
        {GY_CUDA_DEVICE_CAPABILITY_MAJOR, &major},
        {GY_CUDA_DEVICE_CAPABILITY_MINOR, &minor},
        {GY_CUDA_DEVICE_MULTIPROCESSORS, &properties->multiprocessors},
        {GY_CUDA_DEVICE_CLOCK_KHZ, &properties->clock_khz},
        {GY_CUDA_DEVICE_SHARED_BYTES_MAX, &properties->shared_bytes_max},
        {GY_CUDA_DEVICE_MEMORY_CLOCK_KHZ, &clock_khz},
        {GY_CUDA_DEVICE_MEMORY_BUS_BITS, &bus_bits},
        {GY_CUDA_DEVICE_HAS_POOLS, &has_pools},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        GY_TRY(attribute(driver, properties->handle, rows[i].which, rows[i].value));
    }
    properties->capability = 10 * major + minor;
    properties->memory_bytes_per_second = 2e3 * clock_khz * bus_bits / 8; /* two a cycle */
    if (has_pools == 0) {
        return gy_fail(GY_UNSUPPORTED,
                       "device %d (%s) has no pools of memory, which Gyre allocates from",
                       properties->index, properties->name);
    }
    return GY_OK;
}

gy_status gy_cuda_device_describe(int index, gy_cuda_properties *properties)
{
    GY_ASSERT(index >= 0);
    const gy_cuda_driver *driver = NULL;
    GY_TRY(gy_cuda_driver_get(&driver));
    int count = 0;
    GY_TRY(gy_cuda_device_count(&count));
    if (index >= count) {
        char shown[32];
        (void)gy_print(shown, sizeof(shown), "devices 0 to %d", count - 1);
        return gy_fail(GY_NOTFOUND, "device %d: this machine shows %s", index,
                       count > 1    ? shown
                       : count == 1 ? "device 0 alone"
                                    : "none");
    }
    gy_cuda_properties made = {.index = index};
    GY_CUDA_TRY(driver, device_get, &made.handle, index);
    char name[GY_COUNT(made.name)] = "";
    GY_CUDA_TRY(driver, device_name, name, (int)sizeof(name) - 1, made.handle);
    gy_printable(made.name, sizeof(made.name), name, strlen(name), "");
    GY_CUDA_TRY(driver, device_memory, &made.memory_bytes, made.handle);
    GY_TRY(read_attributes(driver, &made));
    *properties = made;
    return GY_OK;
}

/* ---- what `gyre info` says ---- */

static void add_device(gy_text *text, int index)
{
    gy_cuda_properties device;
    if (gy_cuda_device_describe(index, &device) < 0) {
        char named[24]; /* what went wrong may begin with it already */
        const size_t size = gy_print(named, sizeof(named), "device %d", index);
        const bool is_named = strncmp(gy_error_text(), named, size) == 0;
        gy_text_add(text, "%s%s%s\n", is_named ? "" : named,
                    is_named ? "" : ": none: ", gy_error_text());
        return;
    }
    char bytes[32];
    gy_text_add(text, "device %d: %s, %s, compute capability %d.%d, %d multiprocessors\n",
                index, device.name, gy_text_bytes(bytes, device.memory_bytes),
                device.capability / 10, device.capability % 10, device.multiprocessors);
}

static void add_libraries(gy_text *text)
{
    const gy_cuda_driver *driver = NULL;
    const gy_cuda_compiler *compiler = NULL;
    gy_status status = gy_cuda_driver_get(&driver);
    GY_ASSERT(status == GY_OK); /* a device has been found by it */
    gy_text_add(text, "cuda driver: %d.%d\n", driver->version / 1000,
                driver->version % 1000 / 10);
    if (gy_cuda_compiler_get(&compiler) < 0) {
        gy_text_add(text, "nvrtc: none: %s\n", gy_error_text());
    } else {
        gy_text_add(text, "nvrtc: %d.%d\n", compiler->major, compiler->minor);
    }
    const gy_cuda_blas *blas = NULL;
    if (gy_cuda_blas_get(&blas) < 0) {
        gy_text_add(text, "cublaslt: none: %s\n", gy_error_text());
    } else {
        gy_text_add(text, "cublaslt: %s\n", blas->file);
    }
}

/* The devices that are said, each once, or all. */
static void add_devices(gy_text *text, const gy_setting_numbers *said, int count)
{
    for (int i = 0; i < count && said->count == 0; i++) {
        add_device(text, i);
    }
    for (int i = 0; i < said->count; i++) {
        bool is_again = false;
        for (int k = 0; k < i; k++) {
            is_again = is_again || said->numbers[k] == said->numbers[i];
        }
        if (!is_again) {
            add_device(text, said->numbers[i]);
        }
    }
}

const char *gy_info_devices(char *out, size_t size_bytes)
{
    gy_text text = {.data = NULL};
    gy_setting_numbers said = {.count = 0};
    int count = 0;
    gy_status status =
        gy_base_setting_numbers("GYRE_DEVICE", gy_setting_get("GYRE_DEVICE"), &said);
    const bool is_none = said.is_said && !said.is_auto && said.count == 0;
    if (status >= 0 && !is_none) {
        status = gy_cuda_device_count(&count);
    }
    if (status < 0) {
        gy_text_add(&text, "devices: none: %s\n", gy_error_text());
    } else if (is_none) {
        gy_text_add(&text, "devices: none: GYRE_DEVICE is none\n");
    } else if (count == 0) {
        gy_text_add(&text, "devices: none: the CUDA driver shows none\n");
    } else {
        add_devices(&text, &said, count);
        add_libraries(&text);
    }
    return gy_text_move(&text, out, size_bytes);
}
