/* Enters namespaces. Root creates them directly; other users create a user namespace first, in
 * which only they are mapped. Both use unshare: root's also works in a process with threads or
 * with a changed root (chroot), for which the kernel refuses user namespaces. */
#include "worker/sandbox/sandbox_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_capability(int which)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
    return syscall(SYS_capget, &head, now) == 0 &&
           (now[which / 32].effective & (1U << (which % 32))) != 0;
}

static gy_status write_text(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool is_written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;
    if (file >= 0) {
        close(file);
    }
    return is_written ? GY_OK : gy_fail(GY_STATE, "cannot write %s: %s", path, strerror(error));
}

/* Enter a user namespace in which this user keeps its id and no other is mapped. */
static gy_status be_alone(int more)
{
    char text[64];
    const unsigned user = getuid(), group = getgid();
    if (unshare(CLONE_NEWUSER | more) != 0) {
        return gy_fail(GY_STATE, "no namespace of users: %s", strerror(errno));
    }
    GY_TRY(write_text("/proc/self/setgroups", "deny"));
    snprintf(text, sizeof(text), "%u %u 1", user, user);
    GY_TRY(write_text("/proc/self/uid_map", text));
    snprintf(text, sizeof(text), "%u %u 1", group, group);
    return write_text("/proc/self/gid_map", text);
}

gy_status gy_sandbox_spaces_prepare(uint32_t parts)
{
    const int own = (parts & GY_SANDBOX_PROCESSES) != 0 ? CLONE_NEWPID : 0;
    if ((parts & (GY_SANDBOX_PROCESSES | GY_SANDBOX_NETWORK)) == 0) {
        return GY_OK;
    }
    if (!has_capability(CAP_SYS_ADMIN)) {
        return be_alone(own);
    }
    return unshare(own) == 0
               ? GY_OK
               : gy_fail(GY_STATE, "no namespace of processes: %s", strerror(errno));
}

/* ---- mounts ---- */

/* Make mounts private, so that other namespaces do not see ours. If the root is no mount point,
 * only the few mount points that are needed. */
static gy_status make_mounts_private(bool *are_all)
{
    static const char *const places[] = {"/proc", "/dev", "/dev/shm"};
    *are_all = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (*are_all) {
        return GY_OK;
    }
    if (errno != EINVAL) {
        return gy_fail(GY_STATE, "cannot keep mounts to itself: %s", strerror(errno));
    }
    for (size_t i = 0; i < GY_COUNT(places); i++) {
        if (mount(NULL, places[i], NULL, MS_PRIVATE, NULL) != 0 &&
            (i == 0 || (errno != EINVAL && errno != ENOENT))) {
            return gy_fail(GY_STATE, "cannot keep mounts at %s to itself: %s", places[i],
                           strerror(errno));
        }
    }
    return GY_OK;
}

/* Is the path a mount point, so that a mount over it stays private? */
static bool is_mount(const char *path, const char *above)
{
    struct stat own, parent;
    return stat(path, &own) == 0 && stat(above, &parent) == 0 && own.st_dev != parent.st_dev;
}

static gy_status mount_own(const gy_sandbox_paths *sandbox, bool *has_shm)
{
    bool are_all = false;
    const unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    GY_TRY(make_mounts_private(&are_all));
    if (mount("proc", "/proc", "proc", plain, NULL) != 0) {
        return gy_fail(GY_STATE, "no /proc of its own: %s", strerror(errno));
    }
    *has_shm = false;
    if (is_mount("/dev/shm", "/dev") || is_mount("/dev", "/")) {
        *has_shm = mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
        if (!*has_shm && errno != ENOENT) {
            return gy_fail(GY_STATE, "no /dev/shm of its own: %s", strerror(errno));
        }
    }
    return are_all && (sandbox->parts & GY_SANDBOX_FILES) != 0
               ? gy_sandbox_sockets_cover(sandbox)
               : GY_OK;
}

/* ---- network ---- */

static gy_status raise_loopback(void)
{
    struct ifreq loopback = {.ifr_flags = IFF_UP};
    memcpy(loopback.ifr_name, "lo", sizeof("lo"));
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_up = any >= 0 && ioctl(any, SIOCSIFFLAGS, &loopback) == 0;
    int error = errno;
    if (any >= 0) {
        close(any);
    }
    return is_up
               ? GY_OK
               : gy_fail(GY_STATE, "no loopback in a network of its own: %s", strerror(error));
}

gy_status gy_sandbox_spaces_enter(const gy_sandbox_paths *sandbox, bool *has_shm)
{
    const uint32_t parts = sandbox->parts;
    *has_shm = false;
    if ((parts & GY_SANDBOX_PROCESSES) != 0) {
        if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) != 0) {
            return gy_fail(GY_STATE, "no namespace of mounts: %s", strerror(errno));
        }
        GY_TRY(mount_own(sandbox, has_shm));
    }
    if ((parts & GY_SANDBOX_NETWORK) != 0) {
        if (unshare(CLONE_NEWNET) != 0) {
            return gy_fail(GY_STATE, "no namespace of networks: %s", strerror(errno));
        }
        GY_TRY(raise_loopback());
    }
    return GY_OK;
}
