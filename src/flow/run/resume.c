/* The one setting of this room: which job the program was started again for. */
#include "flow/run/job.h"

void gy_running_look_for_resume(gy_flow_job *job)
{
    const char *folder = gy_setting_get(GY_JOB_RESUME_VARIABLE);
    if (folder != NULL && job->options.folder == NULL) {
        job->options.folder = folder;
        job->options.is_resume = true;
    }
}
