/**
 * Digits to train on as files of MNIST's form, for tests that compare what comes of them and do
 * not ask whether it is good.
 */
#ifndef GY_DIGITS_KIT_H
#define GY_DIGITS_KIT_H

#include <stdint.h>
#include <stdio.h>

#include "gy_test.h"

/* One file: labels (rank 1), or images of side x side (rank 3). */
static inline void kit_write_idx(const char *path, int rank, int count, int side)
{
    FILE *file = fopen(path, "wb");
    const int sizes[3] = {count, side, side};
    const int bytes = rank == 1 ? count : count * side * side;
    uint8_t head[16] = {0, 0, 8, (uint8_t)rank};
    assert_non_null(file);
    for (int i = 0; i < rank; i++) {
        head[6 + 4 * i] = (uint8_t)(sizes[i] >> 8);
        head[7 + 4 * i] = (uint8_t)sizes[i];
    }
    fwrite(head, 1, (size_t)(4 + 4 * rank), file);
    for (int i = 0; i < bytes; i++) {
        fputc(rank == 1 ? i % 10 : i * 7 % 256, file);
    }
    assert_int_equal(fclose(file), 0);
}

/* As many digits to train on and to test with, in a folder that is there. */
static inline void kit_write_digits(const char *folder, int count, int side)
{
    static const char *const parts[] = {"train", "t10k"};
    char path[512];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s-images-idx3-ubyte", folder, parts[i]);
        kit_write_idx(path, 3, count, side);
        snprintf(path, sizeof(path), "%s/%s-labels-idx1-ubyte", folder, parts[i]);
        kit_write_idx(path, 1, count, side);
    }
}

#endif
