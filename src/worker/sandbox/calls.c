/*
 * Filters system calls with seccomp: calls that reach other processes or the whole system, or
 * that circumvent the other parts, fail with EPERM. The list names what is forbidden, not what
 * is allowed: user code may need any other call, and the other parts isolate files, processes
 * and network.
 */
#include "worker/sandbox/sandbox_priv.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const forbidden[] = {
    /* access to other processes */
    "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    "migrate_pages", "move_pages",
#if !defined(GYRE_ASAN) /* LeakSanitizer uses it at the end of a process */
    "ptrace",
#endif
    /* namespaces and mounts */
    "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount",
    "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    /* ways around this filter, and calls with too much power */
    "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open",
    "userfaultfd", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "lookup_dcookie",
    /* kernel keys */
    "add_key", "request_key", "keyctl",
    /* control of the whole system */
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
    "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "sethostname",
    "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime",
    "iopl", "ioperm", "vhangup", "nfsservctl", "vm86", "vm86old", "modify_ldt"};

/* The allowed address families: others reach hosts, devices or kernel internals in any network
 * namespace. */
static const int families[] = {AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static int forbid_calls(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < GY_COUNT(forbidden); i++) {
        int number = seccomp_syscall_resolve_name(forbidden[i]);
        /* A call unknown to this library or machine cannot be called by its name either. */
        int error = number == __NR_SCMP_ERROR
                        ? 0
                        : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
        if (error != 0 && error != -EDOM) {
            return error;
        }
    }
    return 0;
}

static int forbid_families(scmp_filter_ctx filter)
{
    int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                 SCMP_A0(SCMP_CMP_GT, AF_MAX, 0));
    for (int family = 0; family <= AF_MAX && error == 0; family++) {
        size_t at = 0;
        while (at < GY_COUNT(families) && families[at] != family) {
            at++;
        }
        if (at == GY_COUNT(families)) {
            error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family, 0));
        }
    }
    return error;
}

/* Forbid new namespaces by clone, whose flags are an argument. The flags of clone3 lie in
 * memory that a filter cannot read, so it fails with ENOSYS and libraries fall back to clone.
 */
static int forbid_clones(scmp_filter_ctx filter)
{
    static const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNS,    CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; i < GY_COUNT(flags) && error == 0; i++) {
        error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                 SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
    }
    return error;
}

/* Forbid injecting input into a terminal, which its owner would execute. */
static int forbid_terminals(scmp_filter_ctx filter)
{
    static const uint64_t orders[] = {TIOCSTI, TIOCLINUX};
    int error = 0;
    for (size_t i = 0; i < GY_COUNT(orders) && error == 0; i++) {
        error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, orders[i]));
    }
    return error;
}

int gy_sandbox_calls_probe(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ? 0 : errno;
}

gy_status gy_sandbox_calls_enter(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL) {
        return gy_fail(GY_STATE, "no filter of calls");
    }
    int error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
    error = error != 0 ? error : forbid_calls(filter);
    error = error != 0 ? error : forbid_families(filter);
    error = error != 0 ? error : forbid_clones(filter);
    error = error != 0 ? error : forbid_terminals(filter);
    error = error != 0 ? error : seccomp_load(filter);
    seccomp_release(filter);
    return error == 0
               ? GY_OK
               : gy_fail(GY_STATE, "the filter of calls does not hold: %s", strerror(-error));
}
