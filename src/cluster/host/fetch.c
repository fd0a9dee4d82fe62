/* Fetches sections from other daemons, and serves those of this one. */
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

/* ---- Requests of managers ---- */

/* The row of a section, new if necessary; NULL: no memory. */
static host_want *find_want(host_job *job, gy_key content)
{
    uint32_t row = gy_index_find(&job->by_want, content);
    if (row == GY_NONE) {
        const gy_status status =
            GY_GROW("host.requests", job->wants, job->want_room, job->want_count + 1);
        if (status < 0 || gy_index_put(&job->by_want, content, (uint32_t)job->want_count) < 0) {
            return NULL;
        }
        row = (uint32_t)job->want_count++;
        job->wants[row] = (host_want){.content = content};
    }
    return &job->wants[row];
}

gy_status gy_host_want(host_job *job, const Gy__Cluster__FetchOne *asks)
{
    gy_key content = gy_net_key(asks->content);
    GY_TRY(gy_host_check_name(asks->name));
    if ((content.high == 0 && content.low == 0) || asks->wanted.len > GY_BULK_NAME_BYTES / 2) {
        return gy_fail(GY_FORMAT, "a section without content, or described by %zu bytes",
                       asks->wanted.len);
    }
    const size_t name_bytes = strlen(asks->name) + 1;
    char *name = gy_alloc("host.requests", name_bytes + asks->wanted.len);
    host_want *want = name != NULL ? find_want(job, content) : NULL;
    if (want == NULL) {
        gy_free(name);
        return GY_NOMEM;
    }
    memcpy(name, asks->name, name_bytes);
    if (asks->wanted.len > 0) {
        memcpy(name + name_bytes, asks->wanted.data, asks->wanted.len);
    }
    gy_free(want->name);
    want->name = name;
    want->wanted_bytes = (uint32_t)asks->wanted.len;
    return GY_OK;
}

void gy_host_unwant_all(host_job *job)
{
    for (size_t i = 0; i < job->want_count; i++) {
        gy_free(job->wants[i].name);
    }
    gy_free(job->wants);
    job->wants = NULL;
    job->want_count = job->want_room = 0;
    gy_index_free(&job->by_want);
    job->by_want = (gy_index){.cells = NULL};
}

/* ---- Fetching ---- */

/* A temporary name until the file is complete: a fetch that was stopped may still end while
 * another one fetches the same section. */
static void section_path(const host_lot *lot, const host_fetch *fetch, bool is_part,
                         char out[HOST_PATH])
{
    char inside[160], end[32] = "";
    if (is_part) {
        snprintf(end, sizeof(end), ".%llx.part", (unsigned long long)fetch->ticket);
    }
    snprintf(inside, sizeof(inside), "%016llx%016llx/fetched/%016llx%016llx%s",
             (unsigned long long)lot->job.high, (unsigned long long)lot->job.low,
             (unsigned long long)fetch->content.high, (unsigned long long)fetch->content.low,
             end);
    (void)gy_host_path(out, lot->host->folder, "jobs", inside);
}

static gy_status put(host_lot *lot, int file, const void *data, size_t size_bytes, uint64_t at)
{
    const uint8_t *from = data;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t more = pwrite(file, from + done, size_bytes - done, (off_t)(at + done));
        if (more < 0 && (errno == ENOSPC || errno == EDQUOT)) {
            gy_host_disk_full(lot->host);
            return gy_fail(GY_LIMIT, "no room for a section: %s", strerror(errno));
        }
        if (more < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "a section cannot be written: %s", strerror(errno));
        }
        done += more > 0 ? (size_t)more : 0;
    }
    return GY_OK;
}

static gy_status open_part(const host_lot *lot, const host_fetch *fetch, int *file)
{
    char part[HOST_PATH];
    section_path(lot, fetch, true, part);
    *file = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*file < 0) {
        bool is_full = errno == ENOSPC || errno == EDQUOT;
        return gy_fail(is_full ? GY_LIMIT : GY_IO, "cannot make %s: %s", part, strerror(errno));
    }
    return GY_OK;
}

/* Append the note and its size, then rename the file to its final name. */
static gy_status finish(host_lot *lot, const host_fetch *fetch, int file, const uint8_t *note,
                        size_t note_bytes)
{
    char part[HOST_PATH], path[HOST_PATH];
    uint8_t end[GY_BULK_NOTE_BYTES + 4];
    if (note_bytes > 0) {
        memcpy(end, note, note_bytes);
    }
    for (size_t i = 0; i < 4; i++) {
        end[note_bytes + i] = (uint8_t)(note_bytes >> (8 * i));
    }
    section_path(lot, fetch, true, part);
    section_path(lot, fetch, false, path);
    GY_TRY(put(lot, file, end, note_bytes + 4, fetch->size_bytes));
    if (rename(part, path) != 0) {
        return gy_fail(GY_IO, "cannot name a section: %s", strerror(errno));
    }
    return GY_OK;
}

/* Translate a failure for the machine: whose fault it is, and whether a retry may help. */
static gy_status meaning(const host_lot *lot, gy_status status)
{
    if (lot->status < 0) {
        return lot->status;
    }
    if (status == GY_FORMAT) {
        return GY_MISMATCH;
    }
    bool is_later = status == GY_TIMEOUT || status == GY_LIMIT; /* the peer's limit */
    return is_later ? GY_PEER : status;
}

/* Tell the machine after this step. */
static void section_over(host_lot *lot, host_fetch *fetch, gy_status status)
{
    if (fetch->is_over) {
        return;
    }
    fetch->is_over = true;
    if (status < 0 || fetch->is_stopped) {
        char part[HOST_PATH];
        gy_info("cannot fetch a section: %s", gy_error_text());
        section_path(lot, fetch, true, part);
        (void)unlink(part);
    }
    host_job *job = gy_host_job(lot->host, lot->job);
    if (job != NULL && status == GY_OK) {
        job->fetched_bytes += fetch->size_bytes;
    }
    if (!fetch->is_stopped) {
        gy_host_later(lot->host, &(gy_daemon_event){.kind = GY_DAEMON_FETCHED,
                                                    .ticket = fetch->ticket,
                                                    .status = status});
    }
}

static void end_lot(host_lot *lot)
{
    host_lot **at = &lot->host->lots;
    while (*at != lot) {
        at = &(*at)->next;
    }
    *at = lot->next;
    if (lot->file >= 0) {
        close(lot->file);
    }
    gy_free(lot->here);
    gy_free(lot);
}

/* ---- A single section: written directly to its file ---- */

static gy_status alone_begun(void *arg, uint64_t size_bytes, const void *note,
                             size_t note_bytes)
{
    host_lot *lot = arg;
    if (size_bytes != lot->sections[0].size_bytes) {
        return lot->status =
                   gy_fail(GY_MISMATCH, "a section of %llu bytes that should have %llu",
                           (unsigned long long)size_bytes,
                           (unsigned long long)lot->sections[0].size_bytes);
    }
    memcpy(lot->note, note, note_bytes);
    lot->note_bytes = note_bytes;
    return GY_OK;
}

static gy_status alone_take(void *arg, uint64_t offset, const void *data, size_t size_bytes)
{
    host_lot *lot = arg;
    return lot->status = put(lot, lot->file, data, size_bytes, offset);
}

/* ---- Small sections together: each is buffered until it is complete ---- */

enum { HERE_BYTES = HOST_HEAD_BYTES + GY_BULK_NOTE_BYTES + GY_DAEMON_LOT_ONE };

static uint64_t number_at(const uint8_t *from, size_t size_bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        number |= (uint64_t)from[i] << (8 * i);
    }
    return number;
}

/* The size of the current section once its head has arrived; < 0: the head is invalid. */
static gy_status bytes_expected(host_lot *lot, size_t *bytes)
{
    *bytes = HOST_HEAD_BYTES;
    if (lot->here_bytes < HOST_HEAD_BYTES) {
        return GY_OK;
    }
    const uint64_t note = number_at(lot->here + 4, 4), size = number_at(lot->here + 8, 8);
    if (note > GY_BULK_NOTE_BYTES || size > GY_DAEMON_LOT_ONE) {
        return lot->status = gy_fail(GY_MISMATCH, "a small section of %llu bytes",
                                     (unsigned long long)size);
    }
    *bytes += (size_t)(note + size);
    return GY_OK;
}

/* Write the complete section to its file, unless the peer did not have it. */
static void settle(host_lot *lot)
{
    host_fetch *fetch = &lot->sections[lot->at++];
    const gy_status refused = (gy_status)(int32_t)number_at(lot->here, 4);
    const size_t note = (size_t)number_at(lot->here + 4, 4);
    const uint64_t size = number_at(lot->here + 8, 8);
    const uint8_t *bytes = lot->here + HOST_HEAD_BYTES + note;
    gy_status status = GY_OK;
    int file = -1;
    lot->here_bytes = 0;
    if (fetch->is_stopped) {
        fetch->is_over = true;
        return;
    }
    if (refused < 0) {
        status = gy_fail(refused == GY_NOTFOUND ? GY_NOTFOUND : GY_MISMATCH,
                         "the daemon that has it cannot send it: %s", gy_status_text(refused));
    } else if (size != fetch->size_bytes) {
        status = gy_fail(GY_MISMATCH, "a section of %llu bytes that should have %llu",
                         (unsigned long long)size, (unsigned long long)fetch->size_bytes);
    } else {
        status = open_part(lot, fetch, &file);
    }
    status = status < 0 ? status : put(lot, file, bytes, (size_t)size, 0);
    status = status < 0 ? status : finish(lot, fetch, file, lot->here + HOST_HEAD_BYTES, note);
    if (file >= 0) {
        close(file);
    }
    section_over(lot, fetch, status);
}

static gy_status together_take(void *arg, uint64_t offset, const void *data, size_t size_bytes)
{
    host_lot *lot = arg;
    const uint8_t *from = data;
    (void)offset;
    while (size_bytes > 0) {
        size_t wanted = 0;
        if (lot->at == lot->count) {
            return lot->status = gy_fail(GY_MISMATCH, "more sections than were requested");
        }
        GY_TRY(bytes_expected(lot, &wanted));
        const size_t more = GY_MIN(size_bytes, wanted - lot->here_bytes);
        memcpy(lot->here + lot->here_bytes, from, more);
        lot->here_bytes += more;
        from += more;
        size_bytes -= more;
        GY_TRY(bytes_expected(lot, &wanted)); /* its head may have arrived now */
        if (lot->here_bytes == wanted) {
            settle(lot);
        }
    }
    gy_host_step(lot->host, NULL);
    return GY_OK;
}

/* ---- Both ---- */

static void done(void *arg, gy_status status, uint64_t size_bytes)
{
    host_lot *lot = arg;
    gy_host *host = lot->host;
    host_job *job = gy_host_job(host, lot->job);
    (void)size_bytes;
    if (status == GY_OK && lot->count == 1 && !lot->sections[0].is_stopped) {
        status = finish(lot, &lot->sections[0], lot->file, lot->note, lot->note_bytes);
        lot->status = status;
    } else if (status == GY_OK && lot->at < lot->count && lot->count > 1) {
        status = gy_fail(GY_MISMATCH, "fewer sections than were requested");
    }
    if (job != NULL) {
        job->transfers++;
        job->wire_bytes += lot->wire_bytes;
    }
    for (uint32_t i = 0; i < lot->count; i++) {
        lot->sections[i].is_stopped |= status == GY_CANCELLED;
        section_over(lot, &lot->sections[i], meaning(lot, status));
    }
    end_lot(lot);
    if (status != GY_CANCELLED) {
        gy_host_step(host, NULL);
    }
}

/* Data for a daemon on the same machine are not compressed. */
static bool is_own(const gy_host *host, const char *address)
{
    const char *colon = strrchr(host->address, ':');
    const size_t size = colon != NULL ? (size_t)(colon - host->address) : 0;
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]:", 6) == 0 ||
           (size > 0 && strncmp(address, host->address, size + 1) == 0);
}

/* The name of the requested bytes at the peer; false: too long. */
static bool name_lot(const host_job *job, const host_lot *lot, uint8_t *name, size_t *size)
{
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__BulkSection rows[GY_DAEMON_LOT], *sections[GY_DAEMON_LOT];
    Gy__Cluster__BulkName message;
    gy__cluster__bulk_name__init(&message);
    key.high = lot->job.high;
    key.low = lot->job.low;
    message.job = &key;
    for (uint32_t i = 0; i < lot->count; i++) {
        const host_want *want =
            &job->wants[gy_index_find(&job->by_want, lot->sections[i].content)];
        const ProtobufCBinaryData wanted = {
            .len = want->wanted_bytes, .data = (uint8_t *)want->name + strlen(want->name) + 1};
        gy__cluster__bulk_section__init(&rows[i]);
        rows[i].file = want->name;
        rows[i].wanted = wanted;
        sections[i] = &rows[i];
        if (lot->count == 1) {
            message.file = rows[i].file;
            message.wanted = wanted;
        }
    }
    message.n_sections = lot->count > 1 ? lot->count : 0;
    message.sections = sections;
    *size = gy__cluster__bulk_name__get_packed_size(&message);
    if (*size > GY_BULK_NAME_BYTES) {
        return false;
    }
    (void)gy__cluster__bulk_name__pack(&message, name);
    return true;
}

static gy_status begin(const host_job *job, host_lot *lot, const char *address)
{
    uint8_t name[GY_BULK_NAME_BYTES];
    gy_host *host = lot->host;
    size_t size = 0;
    const bool is_alone = lot->count == 1;
    if (!name_lot(job, lot, name, &size)) {
        return gy_fail(GY_MISMATCH, "the names of %u sections are too long for one request",
                       lot->count); /* then each is tried alone */
    }
    if (is_alone) {
        GY_TRY(open_part(lot, &lot->sections[0], &lot->file));
    } else {
        lot->here = gy_alloc("host.fetch", HERE_BYTES);
        if (lot->here == NULL) {
            return GY_NOMEM;
        }
    }
    return gy_rpc_bulk_begin(
        host->rpc,
        &(gy_bulk_fetch){.address = address,
                         .name = name,
                         .name_bytes = size,
                         .size_bytes = UINT64_MAX,
                         .deadline = gy_env_deadline(host->env, fetch_seconds),
                         .fd = -1,
                         .is_raw = is_own(host, address),
                         .begun = is_alone ? alone_begun : NULL,
                         .take = is_alone ? alone_take : together_take,
                         .done = done,
                         .wire_bytes = &lot->wire_bytes,
                         .arg = lot},
        &lot->number);
}

static host_lot *new_lot(gy_host *host, gy_key job, uint32_t room)
{
    host_lot *lot =
        gy_alloc_zero("host.fetch", 1, sizeof(*lot) + (size_t)room * sizeof(lot->sections[0]));
    if (lot != NULL) {
        lot->host = host;
        lot->job = job;
        lot->room = room;
        lot->file = -1;
        lot->next = host->lots;
        host->lots = lot;
    }
    return lot;
}

static void start_lot(gy_host *host, host_job *job, host_lot *lot, const char *address)
{
    gy_status status = gy_host_job_folder(host, job);
    status = status < 0 ? status : begin(job, lot, address);
    if (status >= 0) {
        return;
    }
    const bool is_own_fault =
        status == GY_LIMIT || status == GY_IO || status == GY_MISMATCH || status == GY_NOMEM;
    for (uint32_t i = 0; i < lot->count; i++) {
        section_over(lot, &lot->sections[i], is_own_fault ? status : GY_PEER);
    }
    end_lot(lot);
}

void gy_host_fetch_start(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    const gy_wanted_section *section = &effect->section;
    const bool is_known =
        job != NULL && gy_index_find(&job->by_want, section->content) != GY_NONE;
    host_lot *lot = host->open_lot;
    if (lot == NULL && is_known) {
        lot = new_lot(host, job->key, effect->lot_left + 1);
    }
    host->open_lot = effect->lot_left > 0 ? lot : NULL;
    if (lot != NULL && is_known && lot->count < lot->room) {
        lot->sections[lot->count++] = (host_fetch){.content = section->content,
                                                   .ticket = effect->ticket,
                                                   .size_bytes = section->size_bytes};
    } else {
        gy_host_later(host, &(gy_daemon_event){.kind = GY_DAEMON_FETCHED,
                                               .ticket = effect->ticket,
                                               .status = GY_NOTFOUND});
    }
    if (effect->lot_left == 0 && lot != NULL) {
        if (lot->count > 0 && job != NULL) {
            start_lot(host, job, lot, section->address);
        } else {
            end_lot(lot);
        }
    }
}

void gy_host_fetch_stop(gy_host *host, uint64_t ticket)
{
    for (host_lot *lot = host->lots; lot != NULL; lot = lot->next) {
        bool is_it = false, is_wanted = false;
        for (uint32_t i = 0; i < lot->count; i++) {
            is_it = is_it || lot->sections[i].ticket == ticket;
            lot->sections[i].is_stopped |= lot->sections[i].ticket == ticket;
            is_wanted =
                is_wanted || (!lot->sections[i].is_stopped && !lot->sections[i].is_over);
        }
        if (is_it && !is_wanted) {
            gy_rpc_bulk_cancel(host->rpc, lot->number);
        }
    }
}

void gy_host_fetches_free(gy_host *host)
{
    while (host->lots != NULL) {
        end_lot(host->lots);
    }
}

/* ---- Sections served to others ---- */

static gy_status locate(gy_host *host, const host_job *job, const char *file,
                        const ProtobufCBinaryData *wanted, gy_net_located *located)
{
    const gy_net_hooks *hooks = host->options->hooks;
    char path[HOST_PATH];
    *located = (gy_net_located){.fd = -1};
    GY_TRY(gy_host_check_name(file));
    if (!gy_host_path(path, job->path, "data", file)) {
        return gy_fail(GY_NOTFOUND, "no such file here");
    }
    return hooks->locate(hooks->arg, path, wanted->data, wanted->len, located);
}

static gy_status find_section(gy_host *host, const host_job *job,
                              const Gy__Cluster__BulkName *asks, gy_bulk_region *region)
{
    gy_net_located located;
    GY_TRY(locate(host, job, asks->file, &asks->wanted, &located));
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

static void put_number(uint8_t *to, uint64_t number, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        to[i] = (uint8_t)(number >> (8 * i));
    }
}

/* Write a section with its head to `to`. */
static gy_status read_section(const gy_net_located *located, uint8_t *to, uint64_t size)
{
    put_number(to, GY_OK, 4);
    put_number(to + 4, located->note_bytes, 4);
    put_number(to + 8, size, 8);
    to += HOST_HEAD_BYTES;
    memcpy(to, located->note, located->note_bytes);
    to += located->note_bytes;
    for (uint32_t i = 0; i < located->extent_count; i++) {
        const gy_net_extent *extent = &located->extents[i];
        for (uint64_t have = 0; have < extent->size_bytes;) {
            ssize_t got = pread(located->fd, to + have, extent->size_bytes - have,
                                (off_t)(extent->offset + have));
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got <= 0) {
                return gy_fail(GY_IO, "a section cannot be read: %s",
                               got < 0 ? strerror(errno) : "its file is shorter");
            }
            have += (uint64_t)got;
        }
        to += extent->size_bytes;
    }
    return GY_OK;
}

/* Append one of several sections to the region, which has room for it; if it fails, the head
 * says so. */
static void add_section(gy_host *host, const host_job *job,
                        const Gy__Cluster__BulkSection *asks, gy_bulk_region *region)
{
    gy_net_located located;
    uint8_t *to = region->data + region->size_bytes;
    uint64_t size = 0;
    gy_status status = locate(host, job, asks->file, &asks->wanted, &located);
    for (uint32_t i = 0; i < located.extent_count && status == GY_OK; i++) {
        size += GY_MIN(located.extents[i].size_bytes, (uint64_t)GY_DAEMON_LOT_ONE + 1);
    }
    const uint64_t room =
        GY_DAEMON_LOT * (HOST_HEAD_BYTES + GY_BULK_NOTE_BYTES) + GY_DAEMON_LOT_BYTES;
    if (status == GY_OK &&
        (size > GY_DAEMON_LOT_ONE ||
         region->size_bytes + HOST_HEAD_BYTES + GY_BULK_NOTE_BYTES + size > room)) {
        status = gy_fail(GY_LIMIT, "it is too large to come with others");
    }
    status = status < 0 ? status : read_section(&located, to, size);
    if (status < 0) {
        gy_info("cannot send a section: %s", gy_error_text());
        put_number(to, (uint32_t)status, 4);
        put_number(to + 4, 0, 4);
        put_number(to + 8, 0, 8);
    }
    region->size_bytes += HOST_HEAD_BYTES + (status < 0 ? 0 : located.note_bytes + size);
    if (located.fd >= 0) {
        close(located.fd);
    }
    gy_free(located.extents);
}

static gy_status find_sections(gy_host *host, const host_job *job,
                               const Gy__Cluster__BulkName *asks, gy_bulk_region *region)
{
    if (asks->n_sections > GY_DAEMON_LOT) {
        return gy_fail(GY_FORMAT, "%zu sections in one request: at most %d", asks->n_sections,
                       GY_DAEMON_LOT);
    }
    *region = (gy_bulk_region){
        .fd = -1,
        .data = gy_alloc("host.give", GY_DAEMON_LOT * (HOST_HEAD_BYTES + GY_BULK_NOTE_BYTES) +
                                          GY_DAEMON_LOT_BYTES + HOST_HEAD_BYTES)};
    if (region->data == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < asks->n_sections; i++) {
        add_section(host, job, asks->sections[i], region);
    }
    return GY_OK;
}

gy_status gy_host_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                       size_t name_bytes, gy_bulk_region *region)
{
    static ProtobufCAllocator *const usual = NULL;
    gy_host *host = arg;
    (void)role; /* the node has checked it */
    (void)subject;
    Gy__Cluster__BulkName *asks = gy__cluster__bulk_name__unpack(usual, name_bytes, name);
    if (asks == NULL) {
        return gy_fail(GY_FORMAT, "the request names no file");
    }
    const host_job *job = asks->job != NULL ? gy_host_job(host, gy_net_key(asks->job)) : NULL;
    gy_status status = GY_OK;
    if (asks->job == NULL || asks->blob != NULL) {
        status = gy_fail(GY_NOTFOUND, "a daemon sends sections only");
    } else if (job == NULL) {
        status = gy_fail(GY_NOTFOUND, "no such job here");
    } else {
        status = asks->n_sections > 0 ? find_sections(host, job, asks, region)
                                      : find_section(host, job, asks, region);
    }
    gy__cluster__bulk_name__free_unpacked(asks, usual);
    return status;
}
