/*
 * Restricts files with Landlock: a path that is not listed cannot be opened, created, removed
 * or executed. The kernel reports its Landlock version, and an older version enforces less, as
 * landlock(7) recommends: 2 adds links and renames between folders, 3 truncation, 4 TCP ports
 * (unused here: the network is its own part), 5 ioctl on devices, 6 signals and abstract
 * sockets to processes outside.
 */
#include "worker/sandbox/sandbox_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in <linux/landlock.h>, which may be older here than the kernel. */
enum {
    RUN = 1 << 0,
    WRITE = 1 << 1,
    READ = 1 << 2,
    LIST = 1 << 3,
    ALL_OF_1 = (1 << 13) - 1,
    MAKE_DEVICES = 1 << 6 | 1 << 11, /* character and block devices */
    REFER = 1 << 13,
    TRUNCATE = 1 << 14,
    DEVICES = 1 << 15,
    OF_FILES = RUN | WRITE | READ | TRUNCATE | DEVICES,
    SCOPE_ABSTRACT = 1 << 0,
    SCOPE_SIGNAL = 1 << 1
};

typedef struct ruleset_attributes {
    uint64_t files, ports, scoped;
} ruleset_attributes;

typedef struct rules {
    int file;
    uint64_t handled;
    gy_status status; /* of the first rule that failed */
} rules;

int gy_sandbox_files_version(int *error)
{
    long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    *error = version < 0 ? errno : 0;
    return version < 0 ? 0 : (int)version;
}

/* ---- rules ---- */

/* Allow `access` at a path and below; a path that does not exist is skipped. */
static void permit(rules *to, const char *path, uint64_t access)
{
    struct stat about;
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0 || to->status < 0) {
        if (place >= 0) {
            close(place);
        }
        return;
    }
    bool is_known = fstat(place, &about) == 0;
    uint64_t fits = is_known && S_ISDIR(about.st_mode) ? access : access & OF_FILES;
    struct landlock_path_beneath_attr rule = {.allowed_access = fits & to->handled,
                                              .parent_fd = place};
    if (!is_known ||
        syscall(SYS_landlock_add_rule, to->file, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
        to->status = gy_fail(GY_STATE, "cannot permit %s: %s", path, strerror(errno));
    }
    close(place);
}

/* Allow the program's own libraries, wherever they are. */
static int permit_library(struct dl_phdr_info *library, size_t size, void *arg)
{
    (void)size;
    if (library->dlpi_name != NULL && library->dlpi_name[0] == '/') {
        permit(arg, library->dlpi_name, READ | RUN);
    }
    return 0;
}

static char program_folder[PATH_MAX];
static pthread_once_t program_once = PTHREAD_ONCE_INIT;

static void find_program_folder(void)
{
    ssize_t size = readlink("/proc/self/exe", program_folder, sizeof(program_folder) - 1);
    program_folder[size > 0 ? size : 0] = '\0';
    char *end = strrchr(program_folder, '/');
    if (end != NULL) {
        *end = '\0';
    }
}

const char *gy_sandbox_program_folder(void)
{
    (void)pthread_once(&program_once, find_program_folder);
    return program_folder;
}

static void permit_program(rules *to, const char *folder)
{
    if (folder[0] != '\0') {
        permit(to, folder, READ | LIST | RUN);
    }
    (void)dl_iterate_phdr(permit_library, to);
}

/* Allow the files that programs expect on a Unix system, none of which belong to a user. */
static void permit_system(rules *to, bool has_shm)
{
    static const char *const programs[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                           "/lib32", "/lib64", "/libx32"};
    static const char *const facts[] = {
        "/proc",
        "/sys/devices",
        "/sys/class",
        "/sys/bus",
        "/sys/fs/cgroup",
        "/sys/kernel/mm",
        "/dev/random",
        "/dev/urandom",
        "/etc/alternatives",
        "/etc/ca-certificates",
        "/etc/default/locale",
        "/etc/fonts",
        "/etc/gai.conf",
        "/etc/group",
        "/etc/host.conf",
        "/etc/hostname",
        "/etc/hosts",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/locale.alias",
        "/etc/localtime",
        "/etc/magic",
        "/etc/mime.types",
        "/etc/nsswitch.conf",
        "/etc/openmpi",
        "/etc/os-release",
        "/etc/passwd",
        "/etc/perl",
        "/etc/protocols",
        "/etc/python3",
        "/etc/resolv.conf",
        "/etc/services",
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
        "/etc/terminfo",
        "/etc/timezone",
    };
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full"};
    for (size_t i = 0; i < GY_COUNT(programs); i++) {
        permit(to, programs[i], READ | LIST | RUN);
    }
    for (size_t i = 0; i < GY_COUNT(facts); i++) {
        permit(to, facts[i], READ | LIST);
    }
    for (size_t i = 0; i < GY_COUNT(devices); i++) {
        permit(to, devices[i], READ | WRITE | TRUNCATE);
    }
    if (has_shm) {
        permit(to, "/dev/shm", to->handled & ~(uint64_t)(MAKE_DEVICES | DEVICES));
    }
}

static void permit_paths(rules *to, const gy_sandbox_paths *sandbox)
{
    for (size_t at = 0; at < sandbox->paths_bytes;) {
        const char *text = sandbox->paths + at;
        permit(to, text + 1,
               text[0] == 'w' ? to->handled & ~(uint64_t)(MAKE_DEVICES | DEVICES)
                              : (uint64_t)(READ | LIST | RUN));
        at += strlen(text) + 1;
    }
}

gy_status gy_sandbox_files_enter(const gy_sandbox_paths *sandbox, const char *program,
                                 bool has_shm)
{
    int error = 0, version = gy_sandbox_files_version(&error);
    if (version == 0) {
        return gy_fail(GY_STATE, "no Landlock: %s", strerror(error));
    }
    rules to = {.handled = ALL_OF_1};
    to.handled |= version >= 2 ? REFER : 0;
    to.handled |= version >= 3 ? TRUNCATE : 0;
    to.handled |= version >= 5 ? DEVICES : 0;
    ruleset_attributes all = {.files = to.handled,
                              .scoped = version >= 6 ? SCOPE_ABSTRACT | SCOPE_SIGNAL : 0};
    size_t size = version >= 6 ? sizeof(all) : sizeof(all.files);
    to.file = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (to.file < 0) {
        return gy_fail(GY_STATE, "no set of Landlock's rules: %s", strerror(errno));
    }
    permit_program(&to, program);
    permit_system(&to, has_shm);
    permit_paths(&to, sandbox);
    if (to.status == GY_OK && syscall(SYS_landlock_restrict_self, to.file, 0) != 0) {
        to.status = gy_fail(GY_STATE, "Landlock's rules do not hold: %s", strerror(errno));
    }
    close(to.file);
    return to.status;
}
