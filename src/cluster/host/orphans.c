/* A daemon adopts the children of a killed shim, or of a killed fork server and reaper, and
 * kills them. Children that belong to a job are known; all others are orphans. */
#include "cluster/host/host_priv.h"

#include "worker/reap.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

static const int64_t look_for_ns = 1000000000; /* the kernel reparents them within moments */

gy_status gy_host_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
               ? GY_OK
               : gy_fail(GY_LIMIT, "cannot adopt processes: %s", strerror(errno));
}

void gy_host_expect_orphans(gy_host *host)
{
    host->orphans_ns = gy_now_ns(host->env) + look_for_ns;
}

static size_t spare(pid_t *spared, size_t known, const gy_supervisor *supervisor)
{
    if (supervisor != NULL && supervisor->fork_server_count > 0) {
        spared[known++] = supervisor->fork_servers[supervisor->fork_server_count - 1];
    }
    return known;
}

void gy_host_end_orphans(gy_host *host, int64_t now_ns)
{
    size_t jobs = 0, known = 0;
    if (host->orphans_ns == 0) {
        return;
    }
    for (const host_job *job = host->jobs; job != NULL; job = job->next) {
        jobs++;
    }
    pid_t *spared = gy_alloc("host.orphans", (3 * jobs + 1) * sizeof(*spared));
    if (spared == NULL) { /* the next round tries again */
        return;
    }
    for (const host_job *job = host->jobs; job != NULL; job = job->next) {
        if (job->manager.shim != 0) {
            spared[known++] = job->manager.shim;
        }
        known = spare(spared, known, job->supervisor);
        known = spare(spared, known, job->ahead.supervisor);
    }
    if (gy_worker_reap_kill(spared, known, true) == 0 && now_ns >= host->orphans_ns) {
        host->orphans_ns = 0;
    }
    gy_free(spared);
}
