/**
 * `--update` of `gyre train`: how gradients become updates, and the parameter servers that a
 * training starts and ends.
 */
#ifndef GY_CLI_TRAIN_UPDATE_H
#define GY_CLI_TRAIN_UPDATE_H

#include "cli/options.h"

#include <gyre/ps.h>
#include <gyre/train.h>

#include <sys/types.h>

enum { GY_CLI_SERVERS_MAX = 64, GY_CLI_ADDRESSES_BYTES = 4096 };

typedef struct gy_cli_update {
    bool is_ps;                             /* else ranks exchange gradients by allreduce */
    int count;                              /* servers to start; 0: `addresses` stand */
    char addresses[GY_CLI_ADDRESSES_BYTES]; /* "HOST:PORT,..." of servers, or leads */
    bool has_lead;                          /* of leads: they say which servers there are */
    int replicas;                           /* of each part, at a lead; 0: any */
    char name[64]; /* of the training at the servers; "": the model's */
    gy_ps_sync sync;
    int fetch;
    gy_codec codec;
} gy_cli_update;

/** "allreduce" or "ps:KEY=VALUE,...". Reports what is wrong; returns the exit status. */
int gy_cli_update_read(const char *text, gy_cli_update *update);

enum { GY_CLI_PIN_BYTES = 128 };
/** What --pin gives, by gy_parameter_pin. */
typedef struct gy_cli_pins {
    gy_parameter_pin list[GY_OPTION_LIST_MAX];
    char texts[GY_OPTION_LIST_MAX][GY_CLI_PIN_BYTES];
    int count;
} gy_cli_pins;
/** "NAME:AXIS=S<dimension>" or "NAME:AXIS=R"; false: it is none of them. */
bool gy_cli_pin_read(const char *text, gy_cli_pins *pins);

/** Is it `--mesh auto`, which is chosen by cost? */
bool gy_cli_mesh_is_auto(const char *mesh);
/** Has the mesh of --mesh the axis? NULL: all ranks are along data; auto: it may have any. */
bool gy_cli_mesh_has(const char *mesh, const char *axis);

/** Read --pin, whose axes the mesh has. Reports what is wrong; returns the exit status. */
int gy_cli_pins_check(const gy_option_list *given, const char *mesh, gy_cli_pins *pins);
/** Whether --mesh, --ranks (0: not given; takes what the mesh says) and this launch agree.
 * Reports what is wrong; returns the exit status. */
int gy_cli_ranks_check(const char *mesh, long long *ranks);

/** Whether so many workers can have it, here or as a rank of a launch. Reports what is wrong;
 * returns the exit status. */
int gy_cli_update_check(const gy_cli_update *update, long long workers);

/**
 * The servers of this training; those that it has started need no key. servers->worker and
 * workers are the caller's. Reports what is wrong; returns the exit status.
 * @param key   of --key; NULL: the user's
 * @param kept  takes the path that servers->key_file names
 */
int gy_cli_update_find(const gy_cli_update *update, const char *key, bool is_plaintext,
                       char kept[GY_CLI_ADDRESSES_BYTES], gy_train_servers *servers);

/** Servers that are children of this process. */
typedef struct gy_cli_servers {
    pid_t processes[GY_CLI_SERVERS_MAX];
    int count;
} gy_cli_servers;
/** Start update->count servers on free ports of the loopback; update->addresses takes them.
 * Called before the process has threads. Reports a failure; returns the exit status. */
int gy_cli_servers_start(gy_cli_update *update, gy_cli_servers *servers);
void gy_cli_servers_end(gy_cli_servers *servers);
/** Run this command line on so many workers, which go on when one of them fails, unless it is
 * the one that saves the model in `folder`. Returns the exit status. */
int gy_cli_workers_start(const gy_cli_update *update, int workers, const char *folder);

#endif
