#include "ops/cuda/library_priv.h"

#include "base/hash.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Does the file hold the segments that its headers tell of? The loader maps them unseen, and
 * what touches a page behind the end of a file gets SIGBUS. What is no library the loader says.
 */
static bool holds_segments(FILE *file)
{
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    if (fread(&head, sizeof(head), 1, file) != 1 ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(segment) || fseek(file, 0, SEEK_END) != 0) {
        return true;
    }
    const long size = ftell(file);
    for (int i = 0; i < head.e_phnum; i++) {
        const uint64_t at = head.e_phoff + (uint64_t)i * sizeof(segment);
        if (at > (uint64_t)size || fseek(file, (long)at, SEEK_SET) != 0 ||
            fread(&segment, sizeof(segment), 1, file) != 1 ||
            segment.p_filesz > (uint64_t)size ||
            segment.p_offset > (uint64_t)size - segment.p_filesz) {
            return false;
        }
    }
    return true;
}

static void *open_path(gy_cuda_library *library, const char *path)
{
    FILE *file = fopen(path, "rb");
    const bool is_whole = file == NULL || holds_segments(file);
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!is_whole) {
        gy_print(library->reason, sizeof(library->reason), "%s: the file is cut off", path);
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Open `file` in one of the folders of `list`, or by name where the list is NULL. */
static void *open_in(gy_cuda_library *library, const char *list, const char *file)
{
    if (list == NULL) {
        return dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    void *handle = NULL;
    while (handle == NULL && *list != '\0') {
        const size_t size = strcspn(list, ":");
        char path[1024];
        if (gy_print_whole(path, sizeof(path), "%.*s/%s", (int)size, list, file)) {
            handle = open_path(library, path);
        }
        list += size + (list[size] == ':' ? 1 : 0);
    }
    return handle;
}

/* Of several reasons the first that tells more than that there is no such file. */
static void keep_reason(gy_cuda_library *library)
{
    const char *reason = dlerror();
    const char *none = "No such file";
    if (reason != NULL &&
        (library->reason[0] == '\0' ||
         (strstr(library->reason, none) != NULL && strstr(reason, none) == NULL))) {
        gy_print(library->reason, sizeof(library->reason), "%s", reason);
    }
}

static bool open_names(gy_cuda_library *library, int major_min, int major_max)
{
    const char *folders = gy_setting_get("GYRE_CUDA_LIBRARIES");
    for (int i = 0; i < GY_CUDA_LIBRARY_NAMES && library->names[i].file != NULL; i++) {
        const gy_cuda_library_name *name = &library->names[i];
        if (name->major < major_min || name->major > major_max) {
            continue;
        }
        library->handle = open_in(library, folders, name->file);
        if (library->handle != NULL) {
            library->file = name->file;
            library->major = name->major;
            return true;
        }
        keep_reason(library);
    }
    return false;
}

void gy_cuda_library_open(gy_cuda_library *library, int major)
{
    GY_ASSERT(library->handle == NULL);
    GY_ASSERT(library->names[0].file != NULL);
    if (!open_names(library, 0, major)) {
        open_names(library, major + 1, INT32_MAX);
    }
}

void *gy_cuda_library_find(gy_cuda_library *library, const char *symbol)
{
    GY_ASSERT(symbol != NULL);
    void *found = library->handle != NULL ? dlsym(library->handle, symbol) : NULL;
    if (found == NULL && library->symbol == NULL) {
        library->symbol = symbol;
    }
    return found;
}

gy_status gy_cuda_library_check(const gy_cuda_library *library)
{
    if (library->handle == NULL) {
        return gy_fail(GY_NOTFOUND, "no %s: %s: install the %s%s", library->what,
                       library->reason, library->package,
                       gy_setting_get("GYRE_CUDA_LIBRARIES") != NULL
                           ? ", or correct GYRE_CUDA_LIBRARIES, where alone it is looked for"
                           : "");
    }
    if (library->symbol != NULL) {
        return gy_fail(GY_NOTFOUND, "%s is not in %s: it is too old, install a newer %s",
                       library->symbol, library->file, library->package);
    }
    return GY_OK;
}

uint64_t gy_cuda_library_build(const gy_cuda_library *library)
{
    const struct link_map *map = NULL;
    struct stat about;
    GY_ASSERT(library->handle != NULL);
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0 || map == NULL ||
        stat(map->l_name, &about) != 0) {
        return 0;
    }
    const int64_t words[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
    return gy_hash(words, sizeof(words), 0);
}

gy_status gy_cuda_library_check_version(const gy_cuda_library *library, int major, int minor,
                                        int driver_version)
{
    GY_ASSERT(library->file != NULL);
    if (major > driver_version / 1000) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s is of CUDA %d.%d, and the driver runs what is of CUDA %d.%d at the "
                       "newest: install a newer driver or an older %s",
                       library->file, major, minor, driver_version / 1000,
                       driver_version % 1000 / 10, library->package);
    }
    return GY_OK;
}
