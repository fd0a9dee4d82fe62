/* Privileges that a process drops for itself and all it starts. */
#include "worker/sandbox/sandbox_priv.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_MAX = 65536, TASKS_OF_A_USER = 16384 };

gy_status gy_sandbox_rights_hold(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return gy_fail(GY_STATE, "cannot give up new privileges: %s", strerror(errno));
    }
    return GY_OK;
}

/* Drop all capabilities, also those that exec would give to root. */
static gy_status drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3], now[_LINUX_CAPABILITY_U32S_3];
    memset(none, 0, sizeof(none));
    if (syscall(SYS_capget, &head, now) != 0) {
        return gy_fail(GY_STATE, "cannot see the capabilities: %s", strerror(errno));
    }
    const bool has_setpcap = (now[0].effective & (1U << CAP_SETPCAP)) != 0;
    for (unsigned long one = 0; has_setpcap && prctl(PR_CAPBSET_READ, one, 0, 0, 0) >= 0;
         one++) {
        if (prctl(PR_CAPBSET_DROP, one, 0, 0, 0) != 0) {
            return gy_fail(GY_STATE, "cannot give up capability %lu: %s", one, strerror(errno));
        }
    }
    /* Without CAP_SETPCAP they stay in the bounding set, which has no effect with no_new_privs.
     */
    if (syscall(SYS_capset, &head, none) != 0) {
        return gy_fail(GY_STATE, "cannot give up the capabilities: %s", strerror(errno));
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) {
        return gy_fail(GY_STATE, "cannot give up ambient capabilities: %s", strerror(errno));
    }
    return GY_OK;
}

/* Lower both limits, never raise them. */
static gy_status lower(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        return gy_fail(GY_STATE, "cannot see a limit: %s", strerror(errno));
    }
    limit.rlim_max = GY_MIN(limit.rlim_max, most);
    limit.rlim_cur = GY_MIN(limit.rlim_cur, limit.rlim_max);
    if (setrlimit(resource, &limit) != 0) {
        return gy_fail(GY_STATE, "cannot lower a limit: %s", strerror(errno));
    }
    return GY_OK;
}

gy_status gy_sandbox_close_files(int one, int other)
{
    const unsigned low = (unsigned)GY_MIN(one, other), high = (unsigned)GY_MAX(one, other);
    GY_ASSERT(low > STDERR_FILENO && low < high);
    const unsigned ranges[3][2] = {
        {STDERR_FILENO + 1, low - 1}, {low + 1, high - 1}, {high + 1, ~0U}};
    for (size_t i = 0; i < GY_COUNT(ranges); i++) {
        if (ranges[i][0] <= ranges[i][1] && close_range(ranges[i][0], ranges[i][1], 0) != 0) {
            return gy_fail(GY_STATE, "cannot close descriptors: %s", strerror(errno));
        }
    }
    return GY_OK;
}

gy_status gy_sandbox_rights_drop(void)
{
    GY_TRY(lower(RLIMIT_CORE, 0));
    GY_TRY(lower(RLIMIT_NOFILE, FILES_MAX));
    GY_TRY(lower(RLIMIT_NPROC, TASKS_OF_A_USER));
    return drop_capabilities();
}
