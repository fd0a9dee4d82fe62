/**
 * What tests of the command share: lines of shell in a folder of their own, and digits to train
 * on.
 */
#ifndef GY_COMMAND_KIT_H
#define GY_COMMAND_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { OUTPUT_BYTES = 65536, SIDE = 8, DIGITS = 24 };
static char output[OUTPUT_BYTES];
static char folder[64];

/*
 * Runs lines of shell in the folder, "gyre" being the command under test, and nothing longer
 * than a minute; the exit status. All that was started bears the folder's name in MARK.
 */
static inline int shell(const char *line)
{
    const char *binary = getenv("GYRE_BIN");
    char whole[4096];
    snprintf(whole, sizeof(whole),
             "cd %s && export MARK=%s && gyre() { timeout -k 5 60 %s \"$@\"; } && { %s; } 2>&1",
             folder, folder, binary != NULL ? binary : "build/dev/gyre", line);
    return gy_test_shell(whole, output, sizeof(output));
}

static inline void write_idx(const char *name, int rank, const int *sizes, int count)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/digits/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    uint8_t head[16] = {0, 0, 8, (uint8_t)rank};
    for (int i = 0; i < rank; i++) {
        head[7 + 4 * i] = (uint8_t)sizes[i];
    }
    fwrite(head, 1, (size_t)(4 + 4 * rank), file);
    for (int i = 0; i < count; i++) {
        fputc(rank == 1 ? i % 10 : i * 7 % 256, file);
    }
    assert_int_equal(fclose(file), 0);
}

static inline int kit_make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-bad-XXXXXX");
    if (mkdtemp(folder) == NULL || shell("mkdir digits; chmod 755 .") != 0) {
        return 1;
    }
    static const int sizes[3] = {DIGITS, SIDE, SIDE};
    write_idx("train-images-idx3-ubyte", 3, sizes, DIGITS * SIDE * SIDE);
    write_idx("train-labels-idx1-ubyte", 1, sizes, DIGITS);
    write_idx("t10k-images-idx3-ubyte", 3, sizes, DIGITS * SIDE * SIDE);
    write_idx("t10k-labels-idx1-ubyte", 1, sizes, DIGITS);
    return 0;
}

static inline int kit_remove_folder(void **state)
{
    (void)state;
    return shell("chmod -R u+w .; rm -r ./*; rmdir \"$PWD\"");
}

#endif
