/*
 * The state as numbers in Prometheus' text format.
 *
 * Source: "Exposition formats" and "Metric and label naming" of its documentation: all samples
 * of a name follow its HELP and TYPE, times are in seconds, names of counters end with _total.
 */
#include "cluster/server/server_priv.h"

static void head(gy_text *text, const char *name, const char *kind, const char *help)
{
    gy_text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* ---- Daemons ---- */

typedef double (*of_daemon)(const gy_names_daemon *daemon, int64_t now_ns);

static double is_up(const gy_names_daemon *daemon, int64_t now_ns)
{
    (void)now_ns;
    return daemon->is_up;
}

static double is_usable(const gy_names_daemon *daemon, int64_t now_ns)
{
    (void)now_ns;
    return daemon->is_up && !daemon->is_drained && daemon->trouble[0] == '\0';
}

static double slots(const gy_names_daemon *daemon, int64_t now_ns)
{
    (void)now_ns;
    return daemon->slots;
}

static double leased(const gy_names_daemon *daemon, int64_t now_ns)
{
    (void)now_ns;
    return daemon->leased;
}

static double silence(const gy_names_daemon *daemon, int64_t now_ns)
{
    return daemon->heard_ns > 0 ? (double)(now_ns - daemon->heard_ns) / 1e9 : 0.0;
}

static void write_daemons(gy_server *server, gy_text *text)
{
    static const struct {
        const char *name, *help;
        of_daemon value;
    } wanted[] = {
        {"gyre_daemon_up", "Whether the daemon sends heartbeats.", is_up},
        {"gyre_daemon_usable", "Whether it takes new work: up, not drained, no trouble.",
         is_usable},
        {"gyre_daemon_slots", "Slots that it offers.", slots},
        {"gyre_daemon_slots_leased", "Slots of it that jobs have.", leased},
        {"gyre_daemon_silence_seconds", "Time since its last heartbeat.", silence},
    };
    const int64_t now_ns = gy_now_ns(server->env);
    for (size_t i = 0; i < GY_COUNT(wanted); i++) {
        gy_names_daemon daemon;
        head(text, wanted[i].name, "gauge", wanted[i].help);
        for (uint32_t k = 0; gy_names_daemon_at(server->names, k, &daemon); k++) {
            if (daemon.id != 0) {
                gy_text_add(text, "%s{daemon=\"%016llx\",host=", wanted[i].name,
                            (unsigned long long)daemon.id);
                gy_page_add_label(text, daemon.host);
                gy_text_add(text, "} %.9g\n", wanted[i].value(&daemon, now_ns));
            }
        }
    }
}

/* ---- Jobs ---- */

static void write_job_states(const gy_server *server, gy_text *text)
{
    static const char *const names[] = {"waiting", "running", "ended", "failed"};
    uint32_t counts[GY_COUNT(names)] = {0};
    gy_names_job job;
    for (uint32_t i = 0; gy_names_job_at(server->names, i, &job); i++) {
        if (job.key.high != 0 || job.key.low != 0) {
            counts[job.is_ended ? 2 + (job.status != GY_OK) : job.is_up]++;
        }
    }
    head(text, "gyre_jobs", "gauge", "Jobs that are known, by state.");
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        gy_text_add(text, "gyre_jobs{state=\"%s\"} %u\n", names[i], counts[i]);
    }
}

typedef double (*of_job)(const gy_names_job *job);

static double wanted_slots(const gy_names_job *job)
{
    return job->slots_wanted;
}

static double held_slots(const gy_names_job *job)
{
    return job->slots_held;
}

static double epoch(const gy_names_job *job)
{
    return job->epoch;
}

static void add_job(gy_text *text, const char *name, const gy_names_job *job)
{
    char id[GY_NET_KEY_TEXT];
    gy_net_key_text(job->key, id);
    gy_text_add(text, "%s{job=\"%s\",name=", name, id);
    gy_page_add_label(text, job->name);
}

/* Only open jobs: an ended one would remain a useless series. */
static bool next_open(const gy_server *server, uint32_t *index, gy_names_job *job)
{
    while (gy_names_job_at(server->names, *index, job)) {
        (*index)++;
        if (!job->is_ended && (job->key.high != 0 || job->key.low != 0)) {
            return true;
        }
    }
    return false;
}

static void write_jobs(const gy_server *server, gy_text *text)
{
    static const struct {
        const char *name, *help;
        of_job value;
    } wanted[] = {
        {"gyre_job_slots_wanted", "Slots that an open job could use.", wanted_slots},
        {"gyre_job_slots_held", "Slots that it has.", held_slots},
        {"gyre_job_epoch", "Which of its managers it has: grows when one is lost.", epoch},
    };
    for (size_t i = 0; i < GY_COUNT(wanted); i++) {
        gy_names_job job;
        uint32_t index = 0;
        head(text, wanted[i].name, "gauge", wanted[i].help);
        while (next_open(server, &index, &job)) {
            add_job(text, wanted[i].name, &job);
            gy_text_add(text, "} %.9g\n", wanted[i].value(&job));
        }
    }
}

/* ---- Stages of jobs ---- */

static uint64_t of_stage(const Gy__Cluster__ViewStage *stage, size_t which)
{
    const uint32_t values[] = {stage->tasks, stage->committed, stage->running,
                               stage->runs,  stage->failed,    stage->copies};
    return values[which];
}

/* Write one family of samples; stages have their numbers too, as names may repeat. */
static void write_stages(const gy_server *server, gy_text *text, const char *name, size_t which)
{
    gy_names_job job;
    uint32_t index = 0;
    while (next_open(server, &index, &job)) {
        Gy__Cluster__View *view = NULL;
        const gy_status status = gy_server_outputs_read_view(&server->outputs, job.key, &view);
        text->status = status < 0 ? status : text->status;
        for (size_t i = 0; view != NULL && i < view->n_stages; i++) {
            add_job(text, name, &job);
            gy_text_add(text, ",number=\"%zu\",stage=", i);
            gy_page_add_label(text, view->stages[i]->name);
            gy_text_add(text, "} %llu\n", (unsigned long long)of_stage(view->stages[i], which));
        }
        gy__cluster__view__free_unpacked(view, NULL);
    }
}

static void write_all_stages(const gy_server *server, gy_text *text)
{
    static const struct {
        const char *name, *kind, *help;
    } wanted[] = {
        {"gyre_stage_tasks", "gauge", "Tasks of a stage of an open job."},
        {"gyre_stage_committed", "gauge", "Tasks of it that are done."},
        {"gyre_stage_running", "gauge", "Running tasks."},
        {"gyre_stage_runs_total", "counter", "Attempts started by the job's manager."},
        {"gyre_stage_failures_total", "counter", "Failed attempts."},
        {"gyre_stage_copies_total", "counter", "Backup tasks."},
    };
    for (size_t i = 0; i < GY_COUNT(wanted); i++) {
        head(text, wanted[i].name, wanted[i].kind, wanted[i].help);
        write_stages(server, text, wanted[i].name, i);
    }
}

void gy_server_write_metrics(gy_server *server, gy_text *text)
{
    head(text, "process_start_time_seconds", "gauge", "Start of the process, since 1970.");
    gy_text_add(text, "process_start_time_seconds %.3f\n", (double)server->began_wall_ns / 1e9);
    head(text, "gyre_nameserver_elected", "gauge", "Whether this name server serves.");
    gy_text_add(text, "gyre_nameserver_elected %d\n", server->is_elected);
    head(text, "gyre_notes_total", "counter", "Losses, failures and the like that were noted.");
    gy_text_add(text, "gyre_notes_total %llu\n", (unsigned long long)server->note_count);
    if (server->names != NULL) {
        write_daemons(server, text);
        write_job_states(server, text);
        write_jobs(server, text);
        write_all_stages(server, text);
    }
}
