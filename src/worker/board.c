/* Shared memory that shows what runs in a process; the manager reads it after the process's
 * death. */
#include "worker/board.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

gy_status gy_worker_boards_new(uint32_t lines, int *file)
{
    int made = memfd_create("gyre-boards", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, (off_t)(lines * sizeof(gy_board))) != 0) {
        int error = errno;
        if (made >= 0) {
            close(made);
        }
        return gy_fail(GY_LIMIT, "cannot make the board of the processes: %s", strerror(error));
    }
    *file = made;
    return GY_OK;
}

gy_status gy_worker_boards_map(int file, uint32_t lines, gy_board **boards)
{
    void *at =
        mmap(NULL, lines * sizeof(gy_board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        return gy_fail(GY_NOMEM, "cannot map the board of the processes: %s", strerror(errno));
    }
    *boards = at;
    return GY_OK;
}

void gy_worker_boards_unmap(gy_board *boards, uint32_t lines)
{
    if (boards != NULL) {
        GY_ASSERT(munmap(boards, lines * sizeof(gy_board)) == 0);
    }
}
