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

#include "digits_kit.h"
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

static inline int kit_make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-bad-XXXXXX");
    if (mkdtemp(folder) == NULL || shell("mkdir digits; chmod 755 .") != 0) {
        return 1;
    }
    char digits[80];
    snprintf(digits, sizeof(digits), "%s/digits", folder);
    kit_write_digits(digits, DIGITS, SIDE);
    return 0;
}

static inline int kit_remove_folder(void **state)
{
    (void)state;
    return shell("chmod -R u+w .; rm -r ./*; rmdir \"$PWD\"");
}

#endif
