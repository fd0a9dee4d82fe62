/* Which device a process takes, and with how many it shares it. */
#include "base/setting_numbers.h"
#include "ops/cuda/devices.h"
#include "ops/cuda/executor.h"

#include <gyre/info.h>

/* What the words say; a number is words with one. */
static gy_status read_choice(const gy_device_choice *choice, gy_setting_numbers *said)
{
    GY_ASSERT(choice->ranks >= 0 && choice->rank >= 0);
    *said = (gy_setting_numbers){.is_said = true};
    if (choice->number != 0) {
        said->count = choice->number > 0 ? 1 : 0;
        said->numbers[0] = choice->number - 1;
        return GY_OK;
    }
    return choice->names != NULL
               ? gy_base_setting_numbers("the device", choice->names, said)
               : gy_base_setting_numbers("GYRE_DEVICE", gy_setting_get("GYRE_DEVICE"), said);
}

/* -1: none. */
static int device_of(const gy_setting_numbers *said, int shown, int rank)
{
    GY_ASSERT(shown >= 0 && rank >= 0);
    if (said->is_auto) {
        return shown > 0 ? rank % shown : -1;
    }
    return said->count > 0 ? said->numbers[rank % said->count] : -1;
}

gy_status gy_device_choose(const gy_device_choice *choice, int shown, int *index, int *sharers)
{
    gy_setting_numbers said;
    int same = 0;
    GY_TRY(read_choice(choice, &said));
    const int ranks = GY_MAX(choice->ranks, 1);
    if (choice->rank >= ranks) {
        return gy_fail(GY_ARG, "a device for rank %d of %d of a host", choice->rank, ranks);
    }
    *index = device_of(&said, shown, choice->rank);
    for (int rank = 0; rank < ranks; rank++) {
        same += device_of(&said, shown, rank) == *index ? 1 : 0;
    }
    GY_ASSERT(same >= 1 && same <= ranks);
    *sharers = same;
    return GY_OK;
}

/* Where the driver is missing there are none to choose from. */
static gy_status count_shown(int *shown)
{
    const gy_status status = gy_cuda_device_count(shown);
    if (status == GY_NOTFOUND) {
        gy_debug("no device is taken: %s", gy_error_text());
        *shown = 0;
        return GY_OK;
    }
    return status;
}

gy_status gy_device_open(const gy_device_choice *choice, gy_device **device)
{
    gy_setting_numbers said;
    int shown = 0, index = -1, sharers = 1;
    GY_TRY(read_choice(choice, &said));
    *device = NULL;
    if (said.is_auto) {
        GY_TRY(count_shown(&shown));
    }
    GY_TRY(gy_device_choose(choice, shown, &index, &sharers));
    if (index < 0) {
        return GY_OK;
    }
    GY_TRY(gy_cuda_executor_open(index, device));
    gy_cuda_executor_share(*device, sharers);
    return GY_OK;
}

void gy_device_close(gy_device *device)
{
    gy_cuda_executor_close(device);
}

gy_status gy_info_check_devices(const char *name, const char *devices)
{
    gy_setting_numbers said;
    return gy_base_setting_numbers(name, devices, &said);
}
