/* The stand-in's memory: each block lies between guard pages, its end beside the upper one, and
 * can be read and written while work on it runs, but not by the host. */
#include "standin/standin_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALIGNMENT = 256, FILLING = 0xff /* NaN in floating point */ };

static standin_block blocks[STANDIN_BLOCKS_MAX];
static size_t used_bytes;

int64_t standin_number(const char *variable, int64_t otherwise)
{
    const char *value = getenv(variable);
    return value != NULL ? strtoll(value, NULL, 10) : otherwise;
}

size_t standin_memory_used(void)
{
    return used_bytes;
}

size_t standin_memory_total(void)
{
    return (size_t)standin_number("GYRE_TEST_CUDA_MEMORY", 64 << 20);
}

static char *data_of(const standin_block *block)
{
    return (char *)(uintptr_t)block->address; // NOLINT(performance-no-int-to-ptr)
}

void standin_block_open(const standin_block *block, bool is_open)
{
    STANDIN_EXPECT(mprotect(block->mapping + PAGE, block->mapping_bytes - 2 * PAGE,
                            is_open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

/* What the alignment leaves free behind the block. */
static size_t slack_bytes(const standin_block *block)
{
    return gy_round_up(block->size_bytes, ALIGNMENT) - block->size_bytes;
}

gy_status standin_block_new(size_t size_bytes, standin_block **made)
{
    int i = 0;
    while (i < STANDIN_BLOCKS_MAX && blocks[i].is_alive) {
        i++;
    }
    if (i == STANDIN_BLOCKS_MAX || used_bytes + size_bytes > standin_memory_total()) {
        return GY_NOMEM;
    }
    standin_block *block = &blocks[i];
    const size_t whole = gy_round_up(size_bytes, PAGE);
    *block = (standin_block){.size_bytes = size_bytes, .mapping_bytes = whole + 2 * PAGE};
    block->mapping =
        mmap(NULL, block->mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->mapping == MAP_FAILED) {
        return GY_NOMEM;
    }
    STANDIN_FORGET(block->mapping, block->mapping_bytes);
    block->is_alive = true;
    block->address =
        (uintptr_t)block->mapping + PAGE + whole - gy_round_up(size_bytes, ALIGNMENT);
    used_bytes += size_bytes;
    standin_count_live(1);
    standin_block_open(block, true);
    memset(data_of(block), FILLING, size_bytes + slack_bytes(block));
    standin_block_open(block, false);
    *made = block;
    return GY_OK;
}

void standin_block_end(standin_block *block)
{
    standin_block_open(block, true);
    for (size_t i = 0; i < slack_bytes(block); i++) {
        if ((unsigned char)data_of(block)[block->size_bytes + i] != FILLING) {
            standin_complain("something was written %zu bytes behind a block of %zu", i,
                             block->size_bytes);
            break;
        }
    }
    STANDIN_EXPECT(munmap(block->mapping, block->mapping_bytes) == 0);
    block->is_alive = false;
    used_bytes -= block->size_bytes;
    standin_count_live(-1);
}

standin_block *standin_block_of(gy_cuda_address address, size_t size_bytes, const char *by)
{
    for (int i = 0; i < STANDIN_BLOCKS_MAX; i++) {
        standin_block *block = &blocks[i];
        if (!block->is_alive || address < block->address ||
            address >= block->address + block->size_bytes) {
            continue;
        }
        if (block->is_freed) {
            standin_complain("%s uses a block of %zu bytes that is freed", by,
                             block->size_bytes);
            return NULL;
        }
        if (size_bytes > block->address + block->size_bytes - address) {
            standin_complain("%s of %zu bytes goes beyond its block of %zu", by, size_bytes,
                             block->size_bytes);
            return NULL;
        }
        return block;
    }
    standin_complain("%s: 0x%llx is no device memory", by, (unsigned long long)address);
    return NULL;
}
