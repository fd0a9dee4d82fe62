/* The MPI library below: finds its entries, and checks that it is the one that the program
 * uses. */
#include "mpi/pmpi_priv.h"

#include "base/base.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OPEN_MPI
#define OWN_NAME "openmpi"
static const char *const own_library = "libmpi.so.40";
#else
#define OWN_NAME "mpich"
static const char *const own_library = "libmpich.so.12";
#endif

gy_pmpi_table gy_pmpi;

static uintptr_t first_address, end_address; /* of the library below */

/* Record the address range of the library that contains PMPI_Init. */
static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t first = UINTPTR_MAX, end = 0, wanted = *(const uintptr_t *)arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD) {
            first = GY_MIN(first, (uintptr_t)(info->dlpi_addr + part->p_vaddr));
            end = GY_MAX(end, (uintptr_t)(info->dlpi_addr + part->p_vaddr + part->p_memsz));
        }
    }
    if (wanted < first || wanted >= end) {
        return 0;
    }
    first_address = first;
    end_address = end;
    return 1;
}

bool gy_mpi_pmpi_is_inside(const void *address)
{
    return (uintptr_t)address - first_address < end_address - first_address;
}

/* Find another MPI that is loaded; NULL: none. */
static const char *find_other(void)
{
    static const struct {
        const char *library, *name;
    } others[] = {{"libmpi.so.40", "Open MPI"},
                  {"libmpich.so.12", "MPICH"},
                  {"libmpi.so.12", "MPICH or one of its kind"}};
    void *ours = dlopen(own_library, RTLD_NOLOAD | RTLD_LAZY);
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        void *other = dlopen(others[i].library, RTLD_NOLOAD | RTLD_LAZY);
        if (other != NULL && other != ours) {
            return others[i].name;
        }
    }
    return NULL;
}

void gy_mpi_pmpi_check_front(void)
{
    const char *other = find_other();
    if (other != NULL) {
        fprintf(stderr,
                "gyre: libgyre-mpi-" OWN_NAME ".so is loaded in front of %s, expected the "
                "library of that MPI (libgyre-mpi-%s.so): set LD_PRELOAD to it\n",
                other, strcmp(other, "Open MPI") == 0 ? "openmpi" : "mpich");
        _exit(2);
    }
}

/* Runs before any entry can be called. Does nothing in a program without MPI. */
__attribute__((constructor)) static void find_entries(void)
{
    void *library = dlopen(own_library, RTLD_NOLOAD | RTLD_LAZY);
    void *at = NULL;
#define GY_X(name)                                                                             \
    at = library != NULL ? dlsym(library, "PMPI_" #name) : NULL;                               \
    memcpy(&gy_pmpi.name, &at, sizeof(at));
    GY_PMPI_LIST(GY_X)
    GY_PMPI_WIDE_LIST(GY_X)
#undef GY_X
    uintptr_t known = (uintptr_t)at;
    (void)dl_iterate_phdr(find_library, &known);
    gy_mpi_pmpi_check_front();
}
