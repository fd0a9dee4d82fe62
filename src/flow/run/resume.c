/* The one setting of this room: which job the program was started again for. */
#include "flow/run/job.h"

#include <stdlib.h>
#include <string.h>

void gy_running_look_for_resume(gy_flow_job *job)
{
    const char *folder = gy_setting_get(GY_JOB_RESUME_VARIABLE);
    if (folder == NULL) {
        return;
    }
    char own[GY_JOB_PATH] = "";
    if (job->options.folder != NULL && realpath(job->options.folder, own) == NULL) {
        return; /* another one, which is not there so far */
    }
    if (own[0] == '\0' || strcmp(own, folder) == 0) {
        job->options.folder = folder;
        job->options.is_resume = true;
    }
}
