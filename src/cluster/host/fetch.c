/* Sections that lie at other daemons, and those of ours that others want. */
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double fetch_seconds = 3600; /* a silent peer is given up long before */

gy_status gy_host_check_name(const char *name)
{
    GY_TRY(gy_net_check_text(name, GY_NET_NAME_BYTES, "a file's name"));
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) {
        return gy_fail(GY_FORMAT, "'%s' names no file of a folder", name);
    }
    return GY_OK;
}

/* ---- What managers want ---- */

gy_status gy_host_want(host_job *job, const Gy__Cluster__Fetch *asks)
{
    gy_key content = gy_net_key(asks->content);
    GY_TRY(gy_host_check_name(asks->name));
    if ((content.high == 0 && content.low == 0) || asks->wanted.len > GY_BULK_NAME_BYTES / 2) {
        return gy_fail(GY_FORMAT, "a section without content, or described by %zu bytes",
                       asks->wanted.len);
    }
    uint32_t row = gy_index_find(&job->by_want, content);
    if (row == GY_NONE) {
        void *rows = job->wants;
        gy_status status = gy_reserve("host.wants", &rows, &job->want_room, job->want_count + 1,
                                      sizeof(host_want));
        job->wants = rows;
        GY_TRY(status);
        GY_TRY(gy_index_put(&job->by_want, content, (uint32_t)job->want_count));
        row = (uint32_t)job->want_count++;
        job->wants[row] = (host_want){.content = content};
    }
    host_want *want = &job->wants[row];
    uint8_t *wanted = gy_alloc("host.wants", asks->wanted.len);
    if (wanted == NULL) {
        return GY_NOMEM;
    }
    if (asks->wanted.len > 0) {
        memcpy(wanted, asks->wanted.data, asks->wanted.len);
    }
    gy_free(want->wanted);
    want->wanted = wanted;
    want->wanted_bytes = (uint32_t)asks->wanted.len;
    snprintf(want->name, sizeof(want->name), "%s", asks->name);
    return GY_OK;
}

void gy_host_unwant_all(host_job *job)
{
    for (size_t i = 0; i < job->want_count; i++) {
        gy_free(job->wants[i].wanted);
    }
    gy_free(job->wants);
    job->wants = NULL;
    job->want_count = job->want_room = 0;
    gy_index_free(&job->by_want);
    job->by_want = (gy_index){.cells = NULL};
}

/* ---- Fetching ---- */

static void section_path(const gy_host *host, const host_fetch *fetch, bool is_part,
                         char out[HOST_PATH])
{
    char inside[160];
    snprintf(inside, sizeof(inside), "%016llx%016llx/fetched/%016llx%016llx%s",
             (unsigned long long)fetch->job.high, (unsigned long long)fetch->job.low,
             (unsigned long long)fetch->content.high, (unsigned long long)fetch->content.low,
             is_part ? ".part" : "");
    (void)gy_host_path(out, host->folder, "jobs", inside);
}

static gy_status put(host_fetch *fetch, const void *data, size_t size_bytes, uint64_t at)
{
    const uint8_t *from = data;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t more = pwrite(fetch->file, from + done, size_bytes - done, (off_t)(at + done));
        if (more < 0 && (errno == ENOSPC || errno == EDQUOT)) {
            gy_host_disk_full(fetch->host);
            return fetch->status =
                       gy_fail(GY_LIMIT, "no room for a section: %s", strerror(errno));
        }
        if (more < 0 && errno != EINTR) {
            return fetch->status =
                       gy_fail(GY_IO, "a section cannot be written: %s", strerror(errno));
        }
        done += more > 0 ? (size_t)more : 0;
    }
    return GY_OK;
}

static gy_status begun(void *arg, uint64_t size_bytes, const void *note, size_t note_bytes)
{
    host_fetch *fetch = arg;
    if (size_bytes != fetch->size_bytes) {
        return fetch->status = gy_fail(
                   GY_MISMATCH, "a section of %llu bytes that should have %llu",
                   (unsigned long long)size_bytes, (unsigned long long)fetch->size_bytes);
    }
    memcpy(fetch->note, note, note_bytes);
    fetch->note_bytes = note_bytes;
    return GY_OK;
}

static gy_status take(void *arg, uint64_t offset, const void *data, size_t size_bytes)
{
    return put(arg, data, size_bytes, offset);
}

/* Behind the bytes: the note, and how long it is. */
static gy_status finish(gy_host *host, host_fetch *fetch)
{
    char part[HOST_PATH], path[HOST_PATH];
    uint32_t size = (uint32_t)fetch->note_bytes;
    const uint8_t length[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16),
                               (uint8_t)(size >> 24)};
    section_path(host, fetch, true, part);
    section_path(host, fetch, false, path);
    GY_TRY(put(fetch, fetch->note, fetch->note_bytes, fetch->size_bytes));
    GY_TRY(put(fetch, length, sizeof(length), fetch->size_bytes + fetch->note_bytes));
    if (rename(part, path) != 0) {
        return gy_fail(GY_IO, "cannot name a section: %s", strerror(errno));
    }
    return GY_OK;
}

/* What the machine is told: whose fault it is, and whether another try may help. */
static gy_status meaning(const host_fetch *fetch, gy_status status)
{
    if (fetch->status < 0) {
        return fetch->status;
    }
    if (status == GY_FORMAT) {
        return GY_MISMATCH;
    }
    bool is_later = status == GY_TIMEOUT || status == GY_LIMIT; /* the peer's limit */
    return is_later ? GY_PEER : status;
}

static void end_fetch(host_fetch *fetch)
{
    host_fetch **at = &fetch->host->fetches;
    while (*at != fetch) {
        at = &(*at)->next;
    }
    *at = fetch->next;
    if (fetch->file >= 0) {
        close(fetch->file);
    }
    gy_free(fetch);
}

static void done(void *arg, gy_status status, uint64_t size_bytes)
{
    host_fetch *fetch = arg;
    gy_host *host = fetch->host;
    (void)size_bytes;
    if (status == GY_OK && !fetch->is_stopped) {
        status = finish(host, fetch);
    }
    if (status < 0 || fetch->is_stopped) {
        char part[HOST_PATH];
        gy_info("a section did not come: %s", gy_error_text());
        section_path(host, fetch, true, part);
        (void)unlink(part);
    }
    gy_daemon_event event = {
        .kind = GY_DAEMON_FETCHED, .ticket = fetch->ticket, .status = meaning(fetch, status)};
    bool is_wanted = !fetch->is_stopped && status != GY_CANCELLED;
    end_fetch(fetch);
    if (is_wanted) {
        gy_host_step(host, &event);
    }
}

static gy_status begin(gy_host *host, host_fetch *fetch, const host_want *want,
                       const char *address)
{
    char part[HOST_PATH];
    uint8_t name[GY_BULK_NAME_BYTES];
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__BulkName message;
    section_path(host, fetch, true, part);
    fetch->file = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fetch->file < 0) {
        bool is_full = errno == ENOSPC || errno == EDQUOT;
        return gy_fail(is_full ? GY_LIMIT : GY_IO, "cannot make %s: %s", part, strerror(errno));
    }
    gy__cluster__bulk_name__init(&message);
    key.high = fetch->job.high;
    key.low = fetch->job.low;
    message.job = &key;
    message.file = (char *)(uintptr_t)want->name;
    message.wanted = (ProtobufCBinaryData){.len = want->wanted_bytes, .data = want->wanted};
    size_t size = gy__cluster__bulk_name__get_packed_size(&message);
    GY_ASSERT(size <= sizeof(name));
    (void)gy__cluster__bulk_name__pack(&message, name);
    return gy_bulk_begin(host->rpc,
                         &(gy_bulk_fetch){.address = address,
                                          .name = name,
                                          .name_bytes = size,
                                          .size_bytes = UINT64_MAX,
                                          .deadline = gy_env_deadline(host->env, fetch_seconds),
                                          .fd = -1,
                                          .begun = begun,
                                          .take = take,
                                          .done = done,
                                          .arg = fetch},
                         &fetch->number);
}

void gy_host_fetch_start(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    const gy_wanted_section *section = &effect->section;
    uint32_t row = job != NULL ? gy_index_find(&job->by_want, section->content) : GY_NONE;
    gy_daemon_event failed = {
        .kind = GY_DAEMON_FETCHED, .ticket = effect->ticket, .status = GY_NOTFOUND};
    host_fetch *fetch = row != GY_NONE ? gy_alloc_zero("host.fetch", 1, sizeof(*fetch)) : NULL;
    if (fetch == NULL) {
        gy_host_later(host, &failed);
        return;
    }
    *fetch = (host_fetch){.next = host->fetches,
                          .host = host,
                          .job = job->key,
                          .content = section->content,
                          .ticket = effect->ticket,
                          .size_bytes = section->size_bytes,
                          .file = -1};
    host->fetches = fetch;
    gy_status status = gy_host_job_folder(host, job);
    status = status < 0 ? status : begin(host, fetch, &job->wants[row], section->address);
    if (status < 0) {
        gy_info("a section is not fetched: %s", gy_error_text());
        failed.status = status == GY_LIMIT || status == GY_IO ? status : GY_PEER;
        end_fetch(fetch);
        gy_host_later(host, &failed);
    }
}

void gy_host_fetch_stop(gy_host *host, uint64_t ticket)
{
    for (host_fetch *fetch = host->fetches; fetch != NULL; fetch = fetch->next) {
        if (fetch->ticket == ticket) {
            fetch->is_stopped = true;
            gy_bulk_cancel(host->rpc, fetch->number);
        }
    }
}

void gy_host_fetches_free(gy_host *host)
{
    while (host->fetches != NULL) {
        end_fetch(host->fetches);
    }
}

/* ---- What others fetch ---- */

static gy_status find_section(gy_host *host, const Gy__Cluster__BulkName *asks,
                              gy_bulk_region *region)
{
    const gy_net_hooks *hooks = host->options->hooks;
    char path[HOST_PATH];
    gy_net_located located = {.fd = -1};
    const host_job *job = gy_host_job(host, gy_net_key(asks->job));
    GY_TRY(gy_host_check_name(asks->file));
    if (job == NULL || !gy_host_path(path, job->path, "data", asks->file)) {
        return gy_fail(GY_NOTFOUND, "no such job here");
    }
    GY_TRY(hooks->locate(hooks->arg, path, asks->wanted.data, asks->wanted.len, &located));
    *region = (gy_bulk_region){.fd = located.fd,
                               .is_taken = true,
                               .extents = located.extents,
                               .extent_count = located.extent_count,
                               .note_bytes = located.note_bytes};
    memcpy(region->note, located.note, sizeof(region->note));
    for (uint32_t i = 0; i < located.extent_count; i++) {
        region->size_bytes += located.extents[i].size_bytes;
    }
    return GY_OK;
}

gy_status gy_host_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                       size_t name_bytes, gy_bulk_region *region)
{
    static ProtobufCAllocator *const usual = NULL;
    gy_host *host = arg;
    (void)role; /* the node has looked at it */
    (void)subject;
    Gy__Cluster__BulkName *asks = gy__cluster__bulk_name__unpack(usual, name_bytes, name);
    if (asks == NULL) {
        return gy_fail(GY_FORMAT, "it asks for what is no name");
    }
    gy_status status = asks->job != NULL && asks->blob == NULL
                           ? find_section(host, asks, region)
                           : gy_fail(GY_NOTFOUND, "sections alone are fetched from a daemon");
    gy__cluster__bulk_name__free_unpacked(asks, usual);
    return status;
}
