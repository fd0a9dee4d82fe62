/* Lists of a cluster, and the specifications of jobs. */
#include "cluster/server/server_priv.h"

/* ---- The list ---- */

static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)(text != NULL ? text : "");
}

static gy_status list_daemons(gy_server *server, gy_arena *arena, Gy__Cluster__List *list)
{
    gy_names_daemon daemon;
    uint32_t count = 0;
    while (gy_names_daemon_at(server->names, count, &daemon)) {
        count++;
    }
    Gy__Cluster__DaemonRow *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    list->daemons = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    if (rows == NULL || list->daemons == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)gy_names_daemon_at(server->names, i, &daemon);
        if (daemon.id == 0) {
            continue;
        }
        Gy__Cluster__DaemonRow *row = &rows[i];
        gy__cluster__daemon_row__init(row);
        row->daemon = daemon.id;
        row->incarnation = daemon.incarnation;
        row->address = borrowed(daemon.address);
        row->host = borrowed(daemon.host);
        row->labels = borrowed(daemon.labels);
        row->trouble = borrowed(daemon.trouble);
        row->slots = daemon.slots;
        row->leased = daemon.leased;
        row->managers = daemon.managers;
        row->is_up = daemon.is_up;
        row->is_drained = daemon.is_drained;
        row->silent_ns = daemon.heard_ns > 0 ? gy_now_ns(server->env) - daemon.heard_ns : 0;
        list->daemons[list->n_daemons++] = row;
    }
    return GY_OK;
}

static void fill_job(gy_server *server, const gy_names_job *job, Gy__Cluster__JobRow *row)
{
    const server_speaker *manager = gy_server_speakers_find(&server->managers, job->key);
    row->name = borrowed(job->name);
    row->address = borrowed(job->address);
    row->reason = borrowed(job->reason);
    row->progress = borrowed(manager != NULL ? manager->progress : NULL);
    row->epoch = job->epoch;
    row->weight = job->weight;
    row->slots_wanted = job->slots_wanted;
    row->slots_held = job->slots_held;
    row->attempts = job->attempts;
    row->is_ended = job->is_ended;
    row->is_up = job->is_up;
    row->status = job->status;
}

static gy_status list_jobs(gy_server *server, gy_arena *arena, Gy__Cluster__List *list)
{
    gy_names_job job;
    size_t count = 0;
    while (gy_names_job_at(server->names, (uint32_t)count, &job)) {
        count++;
    }
    Gy__Cluster__JobRow *rows = gy_arena_alloc(arena, (count + 1) * sizeof(*rows));
    Gy__Cluster__Key *keys = gy_arena_alloc(arena, (2 * count + 1) * sizeof(*keys));
    list->jobs = gy_arena_alloc(arena, (count + 1) * sizeof(void *));
    if (rows == NULL || keys == NULL || list->jobs == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        (void)gy_names_job_at(server->names, (uint32_t)i, &job);
        if (job.key.high == 0 && job.key.low == 0) {
            continue;
        }
        Gy__Cluster__JobRow *row = &rows[i];
        const gy_key of[] = {job.key, job.spec};
        gy__cluster__job_row__init(row);
        for (size_t k = 0; k < GY_COUNT(of); k++) {
            gy__cluster__key__init(&keys[2 * i + k]);
            keys[2 * i + k].high = of[k].high;
            keys[2 * i + k].low = of[k].low;
        }
        row->job = &keys[2 * i];
        row->spec = &keys[2 * i + 1];
        fill_job(server, &job, row);
        list->jobs[list->n_jobs++] = row;
    }
    return GY_OK;
}

gy_status gy_server_list(gy_server *server, const gy_rpc_asked *asked)
{
    gy_arena arena = {0};
    Gy__Cluster__List answer = GY__CLUSTER__LIST__INIT;
    gy_status status = list_daemons(server, &arena, &answer);
    status = status == GY_OK ? list_jobs(server, &arena, &answer) : status;
    status = status == GY_OK ? gy_rpc_answer(server->rpc, asked, &answer.base) : status;
    gy_arena_free(&arena);
    return status;
}

/* ---- Specifications ---- */

/* Read a job's specification; free it with gy__cluster__job_spec__free_unpacked. */
static gy_status read_spec(gy_blobs *blobs, gy_key key, Gy__Cluster__JobSpec **spec)
{
    gy_arena arena = {0};
    void *data = NULL;
    size_t size = 0;
    gy_status status = gy_blobs_read(blobs, key, GY_NET_SPEC_BYTES, &arena, &data, &size);
    Gy__Cluster__JobSpec *read =
        status == GY_OK ? gy__cluster__job_spec__unpack(NULL, size, data) : NULL;
    gy_arena_free(&arena);
    if (status == GY_OK && read == NULL) {
        status = gy_fail(GY_FORMAT, "a job's spec cannot be read");
    }
    status = status == GY_OK ? gy_net_check_spec(read) : status;
    if (status < 0) {
        gy__cluster__job_spec__free_unpacked(read, NULL);
        return status;
    }
    *spec = read;
    return GY_OK;
}

gy_status gy_server_check_spec(gy_server *server, gy_key key)
{
    Gy__Cluster__JobSpec *spec = NULL;
    gy_status status = read_spec(server->blobs, key, &spec);
    if (spec == NULL) {
        return gy_fail_within(status, "the job's spec");
    }
    for (size_t i = 0; status == GY_OK && i < spec->n_files; i++) {
        const Gy__Cluster__SpecFile *file = spec->files[i];
        uint64_t size = 0;
        if (!gy_blobs_touch(server->blobs, gy_net_key(file->content), &size)) {
            status = gy_fail(GY_NOTFOUND, "file %s was not uploaded", file->name);
        } else if (size != file->size_bytes) {
            status =
                gy_fail(GY_FORMAT, "file %s has %llu bytes, its spec says %llu", file->name,
                        (unsigned long long)size, (unsigned long long)file->size_bytes);
        }
    }
    gy__cluster__job_spec__free_unpacked(spec, NULL);
    return status;
}

gy_status gy_server_mark(void *arg, gy_blobs *blobs)
{
    const gy_server *server = arg;
    gy_names_job job;
    if (server->names == NULL) {
        return gy_fail(GY_STATE, "the list of unfinished jobs is not loaded yet");
    }
    for (uint32_t i = 0; gy_names_job_at(server->names, i, &job); i++) {
        Gy__Cluster__JobSpec *spec = NULL;
        if (job.is_ended || (job.key.high == 0 && job.key.low == 0)) {
            continue;
        }
        gy_blobs_mark(blobs, job.spec);
        gy_status status = read_spec(blobs, job.spec, &spec);
        if (status == GY_IO || status == GY_NOMEM) {
            return status;
        }
        if (spec == NULL) { /* no daemon could start it either */
            gy_warn("the files of job %s: %s", job.name, gy_error_text());
            continue;
        }
        for (size_t k = 0; k < spec->n_files; k++) {
            gy_blobs_mark(blobs, gy_net_key(spec->files[k]->content));
        }
        gy__cluster__job_spec__free_unpacked(spec, NULL);
    }
    return GY_OK;
}

gy_status gy_server_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                         size_t name_bytes, gy_bulk_region *region)
{
    const gy_server *server = arg;
    (void)role; /* checked before */
    (void)subject;
    Gy__Cluster__BulkName *asks = gy__cluster__bulk_name__unpack(NULL, name_bytes, name);
    if (asks == NULL || asks->blob == NULL) {
        gy__cluster__bulk_name__free_unpacked(asks, NULL);
        return gy_fail(GY_FORMAT, "no file of a job is named");
    }
    const gy_key content = gy_net_key(asks->blob);
    gy__cluster__bulk_name__free_unpacked(asks, NULL);
    return gy_blobs_find(server->blobs, content, region);
}
