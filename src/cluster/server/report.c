/* The content of the status page: the name server's state, and the status that managers sent.
 */
#include "cluster/server/server_priv.h"

static const double second_ns = 1e9;

void gy_server_note(gy_server *server, const char *of, const char *text)
{
    server_note *note = &server->notes[server->note_count++ % SERVER_NOTES];
    *note = (server_note){.wall_ns = server->env->ops->wall_ns(server->env)};
    gy_net_clean_text(of, note->of, sizeof(note->of));
    gy_net_clean_text(text != NULL ? text : "", note->text, sizeof(note->text));
}

/* Append `"name":"value",`. */
static void add_text(gy_text *text, const char *name, const char *value)
{
    gy_text_add(text, "\"%s\":", name);
    gy_page_add_string(text, value);
    gy_text_add(text, ",");
}

static const char *truth(bool is_true)
{
    return is_true ? "true" : "false";
}

/* Remove the comma after the last item of a list. */
static void end_list(gy_text *text, const char *end)
{
    if (text->size_bytes > 0 && text->data[text->size_bytes - 1] == ',') {
        text->size_bytes--;
    }
    gy_text_add(text, "%s", end);
}

/* ---- One job's status from its manager ---- */

static void add_stage(gy_text *text, const Gy__Cluster__ViewStage *stage)
{
    gy_text_add(text, "{");
    add_text(text, "name", stage->name);
    gy_text_add(text,
                "\"tasks\":%u,\"committed\":%u,\"running\":%u,\"runs\":%u,\"failed\":%u,"
                "\"copies\":%u,\"copies_won\":%u,\"memoised\":%u,\"run_s\":%.3f,\"reads\":[",
                stage->tasks, stage->committed, stage->running, stage->runs, stage->failed,
                stage->copies, stage->backups_won, stage->memoised,
                (double)stage->run_ns / second_ns);
    for (size_t i = 0; i < stage->n_reads; i++) {
        gy_text_add(text, "%u,", stage->reads[i]);
    }
    end_list(text, "]},");
}

static void add_runs(gy_text *text, const Gy__Cluster__View *view)
{
    gy_text_add(text, "\"slow\":[");
    for (size_t i = 0; i < view->n_slow; i++) {
        const Gy__Cluster__ViewRun *run = view->slow[i];
        gy_text_add(text, "{");
        add_text(text, "host", run->host);
        gy_text_add(text, "\"stage\":%u,\"task\":%u,\"run_s\":%.3f,\"expected_s\":%.3f},",
                    run->stage, run->task, (double)run->run_ns / second_ns,
                    (double)run->expected_ns / second_ns);
    }
    end_list(text, "],");
}

static void add_view(gy_text *text, const server_outputs *outputs, gy_key job)
{
    Gy__Cluster__View *view = NULL;
    const gy_status status = gy_server_outputs_read_view(outputs, job, &view);
    if (view == NULL) {
        text->status = status < 0 ? status : text->status;
        return;
    }
    gy_text_add(text, "\"view\":{\"stages\":[");
    for (size_t i = 0; i < view->n_stages; i++) {
        add_stage(text, view->stages[i]);
    }
    end_list(text, "],");
    add_runs(text, view);
    gy_text_add(text, "\"notes\":[");
    for (size_t i = 0; i < view->n_notes; i++) {
        gy_text_add(text, "{");
        add_text(text, "text", view->notes[i]->text);
        gy_text_add(text, "\"at_s\":%.3f},", (double)view->notes[i]->wall_ns / second_ns);
    }
    end_list(text, "],");
    gy_text_add(text, "\"counters\":[");
    for (size_t i = 0; i < view->n_counters; i++) {
        gy_text_add(text, "{");
        add_text(text, "name", view->counters[i]->name);
        gy_text_add(text, "\"value\":%lld},", (long long)view->counters[i]->value);
    }
    end_list(text, "]},");
    gy__cluster__view__free_unpacked(view, NULL);
}

/* ---- Lists ---- */

static const char *job_state(const gy_names_job *job)
{
    return !job->is_ended         ? (job->is_up ? "running" : "waiting")
           : job->status == GY_OK ? "ended"
                                  : "failed";
}

static void add_jobs(gy_server *server, gy_text *text)
{
    gy_names_job job;
    gy_text_add(text, "\"jobs\":[");
    for (uint32_t i = 0; gy_names_job_at(server->names, i, &job); i++) {
        if (job.key.high == 0 && job.key.low == 0) {
            continue;
        }
        char id[GY_NET_KEY_TEXT];
        const server_speaker *manager = gy_server_speakers_find(&server->managers, job.key);
        gy_net_key_text(job.key, id);
        gy_text_add(text, "{");
        add_text(text, "id", id);
        add_text(text, "name", job.name);
        add_text(text, "state", job_state(&job));
        add_text(text, "reason", job.reason);
        add_text(text, "progress", manager != NULL ? manager->progress : NULL);
        add_view(text, &server->outputs, job.key);
        gy_text_add(text,
                    "\"epoch\":%u,\"weight\":%u,\"wanted\":%u,\"held\":%u,\"attempts\":%u},",
                    job.epoch, job.weight, job.slots_wanted, job.slots_held, job.attempts);
    }
    end_list(text, "],");
}

static void add_daemons(gy_server *server, gy_text *text)
{
    gy_names_daemon daemon;
    const int64_t now_ns = gy_now_ns(server->env);
    gy_text_add(text, "\"daemons\":[");
    for (uint32_t i = 0; gy_names_daemon_at(server->names, i, &daemon); i++) {
        if (daemon.id == 0) {
            continue;
        }
        gy_text_add(text, "{\"id\":\"%016llx\",", (unsigned long long)daemon.id);
        add_text(text, "address", daemon.address);
        add_text(text, "host", daemon.host);
        add_text(text, "labels", daemon.labels);
        add_text(text, "trouble", daemon.trouble);
        gy_text_add(text,
                    "\"slots\":%u,\"leased\":%u,\"managers\":%u,\"is_up\":%s,\"is_drained\":%s,"
                    "\"silent_s\":%.3f},",
                    daemon.slots, daemon.leased, daemon.managers, truth(daemon.is_up),
                    truth(daemon.is_drained),
                    daemon.heard_ns > 0 ? (double)(now_ns - daemon.heard_ns) / second_ns : 0.0);
    }
    end_list(text, "],");
}

/* The newest first. */
static void add_notes(const gy_server *server, gy_text *text)
{
    gy_text_add(text, "\"notes\":[");
    const uint64_t count = GY_MIN(server->note_count, (uint64_t)SERVER_NOTES);
    for (uint64_t i = 0; i < count; i++) {
        const server_note *note = &server->notes[(server->note_count - 1 - i) % SERVER_NOTES];
        gy_text_add(text, "{");
        add_text(text, "of", note->of);
        add_text(text, "text", note->text);
        gy_text_add(text, "\"at_s\":%.3f},", (double)note->wall_ns / second_ns);
    }
    end_list(text, "]");
}

void gy_server_write(void *arg, gy_page_path path, gy_text *text)
{
    gy_server *server = arg;
    if (path == GY_PAGE_METRICS) {
        gy_server_write_metrics(server, text);
        return;
    }
    const int64_t wall_ns = server->env->ops->wall_ns(server->env);
    gy_text_add(text, "{");
    add_text(text, "version", GYRE_VERSION);
    add_text(text, "address", server->is_listening ? server->address : "");
    add_text(text, "leader", server->is_elected ? "" : server->leader);
    gy_text_add(text, "\"now_s\":%.3f,\"began_s\":%.3f,\"is_elected\":%s,\"is_ready\":%s,",
                (double)wall_ns / second_ns, (double)server->began_wall_ns / second_ns,
                truth(server->is_elected), truth(server->names != NULL));
    if (server->names != NULL) {
        add_daemons(server, text);
        add_jobs(server, text);
    } else {
        gy_text_add(text, "\"daemons\":[],\"jobs\":[],");
    }
    add_notes(server, text);
    gy_text_add(text, "}\n");
}
