/** One training on this rank: its data, mesh and model, the training itself, the report. */
#ifndef GY_CLI_TRAIN_JOB_H
#define GY_CLI_TRAIN_JOB_H

#include "cli/train/device.h"
#include "cli/train/mesh.h"
#include "cli/train/settings.h"

#include <gyre/demo/language.h>
#include <gyre/report.h>

enum { GY_CLI_TRAIN_PATH_BYTES = 4096 };

/** Zero it, but for what the command knows; gy_cli_train_job_end frees the rest. */
typedef struct gy_cli_train_job {
    const gy_cli_train_settings *settings;
    long long workers; /* threads; 0: cores / ranks */
    const char *name;
    bool is_language, is_text, is_first; /* rank 0 */
    gy_cli_update update;
    gy_train_servers servers; /* of update.is_ps */
    char key[GY_CLI_TRAIN_PATH_BYTES];
    gy_cli_device device;
    gy_comm *comm; /* NULL: this process alone, as each worker of parameter servers is */
    gy_mesh *mesh;
    gy_mesh_choice choice; /* of --mesh auto */
    gy_corpus *corpus;
    gy_dataset *train, *test;
    gy_model *model;
    gy_progress_bar *bar;
    gy_train_result result;
    double samples /* of a step */, epoch_steps[GY_CLI_EPOCHS_MAX],
        epoch_losses[GY_CLI_EPOCHS_MAX];
    size_t epoch_count;
    char folder[GY_CLI_TRAIN_PATH_BYTES / 2];
} gy_cli_train_job;

/** Read the data; rank 0 prints what they are. */
gy_status gy_cli_train_job_open_data(gy_cli_train_job *job);
/** What is costed on meshes, where the data are open; `step` stays where it is. */
void gy_cli_train_job_step(gy_cli_train_job *job, const gy_virtual_cluster *cluster,
                           gy_cli_step *step);
/** Read, train, report and save. All ranks of job->comm call it. */
gy_status gy_cli_train_job_run(gy_cli_train_job *job);
/** Free it, whose run ended with `done`. The groups of a mesh are left together: a rank that
 * failed ends instead, for the others may not know of the failure and wait for it elsewhere. */
void gy_cli_train_job_end(gy_cli_train_job *job, gy_status done);

#endif
