/**
 * Gyre's binary blocks of matrices and frames, format "binary" of scripts. All numbers are
 * little-endian; checksums are XXH3 of 64 bits (gy_hash).
 *
 *     head          64 bytes: gy_dml_blocks_head
 *     description   of a frame: for each column a type and a name, each a size (4 bytes,
 *                   2^32 - 1: no name) and its bytes; of a matrix nothing
 *     blocks        of a matrix by rows of blocks, from left to right; of a frame the columns
 * of the first rows, then those of the next ones: 16 + 8 bytes: gy_dml_block_head payload
 * dense: the cells by rows, 8 bytes each; of a frame's column 8 bytes a number, 1 a boolean, 4
 * the size of each text (2^32 - 1: missing), then the texts; sparse: the places of the cells
 * that are not 0 (4 bytes each, ascending, counted in the block by rows), then their values (8
 * bytes each)
 *
 * The last block of a row or column of blocks is smaller. A head's checksum covers the head and
 * the description; a block's covers its own head and payload, seeded with the block's number,
 * so that a block in another's place is found.
 */
#ifndef GY_DML_FILES_BLOCKS_H
#define GY_DML_FILES_BLOCKS_H

#include "dml/files/files_priv.h"
#include "dml/matrix/matrix.h"

#include <stddef.h>

enum {
    GY_DML_BLOCKS_VERSION = 1,
    GY_DML_BLOCK_SIZE = 1000 /* rows and columns, when unsaid */
};

typedef struct gy_dml_blocks_head {
    char magic[8]; /* "GYBLOCKS" */
    uint32_t version;
    uint32_t is_frame;
    int64_t rows, columns;
    int64_t block_rows, block_columns; /* of a frame: rows and 1 */
    uint64_t description_bytes;
    uint64_t checksum; /* of the bytes before it and the description */
} gy_dml_blocks_head;

typedef struct gy_dml_block_head {
    uint64_t bytes; /* of the payload */
    uint32_t form;  /* 0 dense, 1 sparse */
    uint32_t zero;
    uint64_t checksum;
} gy_dml_block_head;

/** Of block `number`: what `head` has before its checksum, and the payload. */
static inline uint64_t gy_dml_block_sum(const gy_dml_block_head *head, const void *payload,
                                        int64_t number)
{
    gy_hash_stream sum;
    gy_hash_stream_begin(&sum, (uint64_t)number);
    gy_hash_feed(&sum, head, offsetof(gy_dml_block_head, checksum));
    gy_hash_feed(&sum, payload, head->bytes);
    return gy_hash_end(&sum);
}

#endif
