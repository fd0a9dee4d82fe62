/*
 * The roster: which ranks of the program have Gyre in front and share this host.
 *
 * A rank without Gyre cannot be asked: it would wait for nobody, or for something else. So each
 * rank that has it opens a socket, under a name that only ranks of its program on its host
 * know, before it enters the library's MPI_Init, which no rank leaves before all have entered
 * it. Who can then be reached is there. The name is abstract: it goes when its process does. It
 * has the number of the rank protocol, so that ranks of another build are as if they had no
 * Gyre.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { SETTLE_NS = 500000000, KEY_BYTES = 600 };

static bool has_key; /* has_key: the launcher identifies the program and the rank */
static uint64_t key; /* the same on the program's ranks on this host */
static int listener = -1;
static bool *is_here; /* (world) */
static bool is_crowded;

uint64_t gy_mpi_host_identity(void)
{
    char boot[64] = "";
    struct stat names = {.st_ino = 0};
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, boot, sizeof(boot)) : 0;
    if (file >= 0) {
        close(file);
    }
    (void)stat("/proc/self/ns/pid", &names);
    return gy_hash(boot, size > 0 ? (size_t)size : 0, (uint64_t)names.st_ino);
}

/* ---- The key ---- */

static const char *variable(const char *name)
{
    const char *value = gy_setting_get(name);
    return value != NULL ? value : "";
}

/* -1: no number. */
static int number_of(const char *name)
{
    const char *text = variable(name);
    char *end = NULL;
    long number = strtol(text, &end, 10);
    return end != text && *end == '\0' && number >= 0 && number <= INT32_MAX ? (int)number : -1;
}

/* The process at the other end of a connection; 0: unknown. */
static pid_t peer_of(int socket_fd)
{
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof(peer);
    return getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

/* Launchers give each program a name (PMIx), or its ranks on a host have a common parent at
 * the other end of their connection to it (PMI). */
static int find_key(char text[KEY_BYTES])
{
    int rank = number_of("PMIX_RANK"), connection = number_of("PMI_FD");
    if (rank >= 0) {
        snprintf(text, KEY_BYTES, "pmix %s %s", variable("PMIX_NAMESPACE"),
                 variable("OMPI_MCA_orte_hnp_uri"));
        return rank;
    }
    rank = number_of("PMI_RANK");
    pid_t parent = connection >= 0 ? peer_of(connection) : 0;
    if (rank >= 0 && (parent > 0 || number_of("SLURM_STEP_ID") >= 0)) {
        snprintf(text, KEY_BYTES, "pmi %d %s %s %s", (int)parent, variable("PMI_SIZE"),
                 variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID"));
        return rank;
    }
    return -1;
}

static socklen_t name_of(int rank, struct sockaddr_un *name)
{
    /* a path that begins with NUL is abstract */
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length =
        gy_print(name->sun_path + 1, sizeof(name->sun_path) - 1, "gyre-mpi-%d/%016llx/%d",
                 GY_RANK_PROTOCOL, (unsigned long long)key, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

void gy_mpi_roster_enter(void)
{
    char text[KEY_BYTES] = "";
    int rank = find_key(text);
    if (rank < 0) {
        return;
    }
    has_key = true;
    key = gy_hash(text, strlen(text), gy_mpi_host_identity() ^ (uint64_t)getuid());
    struct sockaddr_un name;
    socklen_t size = name_of(rank, &name);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && (bind(listener, (const struct sockaddr *)&name, size) != 0 ||
                          listen(listener, GY_RANKS_MAX) != 0)) {
        close(listener);
        listener = -1;
    }
}

void gy_mpi_roster_leave(void)
{
    if (listener >= 0) {
        close(listener);
        listener = -1;
    }
    gy_free(is_here);
    is_here = NULL;
}

/* ---- Looking ---- */

/* Add the cores that the rank's process may use; false: it does not use Gyre, or is on another
 * host. */
static bool look_for(int rank, cpu_set_t *cores)
{
    struct sockaddr_un name;
    socklen_t size = name_of(rank, &name);
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_there = to >= 0 && connect(to, (const struct sockaddr *)&name, size) == 0;
    cpu_set_t theirs;
    CPU_ZERO(&theirs);
    if (is_there && sched_getaffinity(peer_of(to), sizeof(theirs), &theirs) == 0) {
        CPU_OR(cores, cores, &theirs);
    }
    if (to >= 0) {
        close(to);
    }
    return is_there;
}

/* Number of ranks that the launcher started on this host; 0: unknown. */
static int local_ranks(void)
{
    int ranks = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    return GY_MAX(ranks > 0 ? ranks : number_of("MPI_LOCALNRANKS"), 0);
}

/* A launcher may let ranks leave MPI_Init early, so wait a moment for missing ones. */
static int look_for_all(int size, cpu_set_t *cores)
{
    int64_t end_ns = gy_now_ns(gy_env_real()) + SETTLE_NS;
    for (;;) {
        int count = 0;
        for (int rank = 0; rank < size; rank++) {
            is_here[rank] = is_here[rank] || look_for(rank, cores);
            count += is_here[rank];
        }
        if (count >= GY_MIN(local_ranks(), size) || gy_now_ns(gy_env_real()) > end_ns) {
            return count;
        }
        gy_env_real()->ops->pause(gy_env_real(), 1000000);
    }
}

/* Logged by the first rank with Gyre; the ranks of other hosts have other rosters. */
static void tell_missing(int rank, int size, int count)
{
    int first = 0, missing = 0;
    while (first < size && !is_here[first]) {
        first++;
    }
    while (missing < size && is_here[missing]) {
        missing++;
    }
    if (rank == first && count < GY_MIN(local_ranks(), size)) {
        gy_warn("%d of the %d ranks here have Gyre in front, rank %d has not: collectives with "
                "it stay with the MPI library; give LD_PRELOAD to all ranks",
                count, local_ranks(), missing);
    }
}

void gy_mpi_roster_read(void)
{
    int rank = 0, size = 1;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &size);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (!has_key || size == 1) {
        (void)sched_getaffinity(0, sizeof(cores), &cores);
        is_crowded = size > CPU_COUNT(&cores);
        return;
    }
    is_here = gy_alloc_zero("mpi.roster", (size_t)size, sizeof(*is_here));
    if (is_here == NULL || listener < 0) {
        gy_mpi_roster_leave(); /* so that the others do not find this rank either */
        is_crowded = true;
        return;
    }
    int count = look_for_all(size, &cores);
    is_crowded = count > CPU_COUNT(&cores);
    tell_missing(rank, size, count);
}

bool gy_mpi_roster_is_crowded(void)
{
    return is_crowded;
}

/* In a world without information from the launcher, all ranks are assumed to be like this
 * one. */
bool gy_mpi_roster_covers(MPI_Comm comm)
{
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    int size = 0;
    bool covers = !has_key || is_here != NULL;
    if (!has_key || is_here == NULL || PMPI_Comm_group(MPI_COMM_WORLD, &all) != MPI_SUCCESS ||
        PMPI_Comm_group(comm, &some) != MPI_SUCCESS) {
        return covers;
    }
    (void)PMPI_Group_size(some, &size);
    for (int rank = 0; rank < size && covers; rank++) {
        int in_world = MPI_UNDEFINED;
        covers = PMPI_Group_translate_ranks(some, 1, &rank, all, &in_world) == MPI_SUCCESS &&
                 in_world != MPI_UNDEFINED && is_here[in_world];
    }
    (void)PMPI_Group_free(&some);
    (void)PMPI_Group_free(&all);
    return covers;
}
