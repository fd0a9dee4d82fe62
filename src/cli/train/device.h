/** The devices of a training's ranks: what the options say, and what the report does. */
#ifndef GY_CLI_TRAIN_DEVICE_H
#define GY_CLI_TRAIN_DEVICE_H

#include <gyre/train.h>

/** Zero: none. */
typedef struct gy_cli_device {
    const char *words; /* of --device; NULL: not given */
    int rank, ranks;   /* of this process, of its host */
    int number;        /* of this process, of all */
} gy_cli_device;

/** Returns an exit status, reported: --device is none, auto or numbers. NULL is fine. */
int gy_cli_device_check(const char *words);
/** Of a rank that trains. */
gy_cli_device gy_cli_device_of(const char *words, const gy_comm *comm);
/** Warn where the options name more devices than this rank's host has ranks. */
void gy_cli_device_warn(const gy_cli_device *device);
/** Put it into the options of the training. */
void gy_cli_device_choose(const gy_cli_device *device, gy_train_options *options);
/** Rank 0 prints which ranks trained on which device, and how much ran there; where none did,
 * it says so of `auto` alone. All ranks of `comm` call it; NULL: this process is alone. */
gy_status gy_cli_device_report(const gy_cli_device *device, gy_model *model, gy_comm *comm);
/** Print what the device of this rank has done in the training and its tests; nothing where it
 * has none. */
void gy_cli_device_report_counts(gy_model *model);

#endif
