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

/* What a test puts before each of its lines: functions of the shell. Of a test that has none it
 * stays NULL. */
static const char *kit_words;

static inline int say(const char *line)
{
    char whole[3800];
    snprintf(whole, sizeof(whole), "%s%s", kit_words != NULL ? kit_words : "", line);
    return shell(whole);
}

static inline void must(const char *line)
{
    const int status = say(line);
    if (status != 0) {
        fail_msg("'%s' ended with %d: %s", line, status, output);
    }
}

/*
 * Words for jobs of `gyre mr`; `options` are more of its options, as a string.
 *   m JOB INPUT...    gyre mr into the folder mo, whatever was there
 *   all               the files of mo, one after the other
 *   same FILE         what comes in is FILE, else the difference is shown
 */
#define KIT_MR_WORDS(options)                                                                  \
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state; "                                              \
    "m() { rm -rf mo; gyre mr \"$@\" -o mo -q" options "; }; all() { cat mo/*-0*; }; "         \
    "same() { cmp -s - $1 || { echo \"not as in $1\"; return 1; }; }; "

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
