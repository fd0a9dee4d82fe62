/* Reads flight recorders: copies of the rings, complete records, files. */
#include "transport/recorder.h"

#include "transport/peers_priv.h"
#include "transport/segment_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPIES = 3, STAT_BYTES = 512 };

void gy_flight_comm_slot_put(gy_flight_record_area *area, int comm_slot,
                             const gy_flight_comm_slot *entry)
{
    uint64_t words[2];
    GY_ASSERT(comm_slot >= 0);
    GY_ASSERT(comm_slot < GY_RECORD_COMM_SLOTS);
    memcpy(words, entry, sizeof(words));
    /* A reader that sees a half-done change reports wrong members once. */
    atomic_store_explicit(&area->comm_slots[comm_slot][0], words[0], memory_order_release);
    atomic_store_explicit(&area->comm_slots[comm_slot][1], words[1], memory_order_release);
}

void gy_flight_account_put(gy_flight_record_area *area, const gy_flight_account *account)
{
    uint64_t words[GY_FLIGHT_ACCOUNT_WORDS];
    const uint64_t stamp = atomic_load_explicit(&area->account_stamp, memory_order_relaxed);
    GY_ASSERT(area != NULL);
    GY_ASSERT(account != NULL);
    memcpy(words, account, sizeof(words));
    atomic_store_explicit(&area->account_stamp, stamp | 1, memory_order_relaxed);
    for (int i = 0; i < GY_FLIGHT_ACCOUNT_WORDS; i++) {
        /* release: as in gy_flight_record_put */
        atomic_store_explicit(&area->account[i], words[i], memory_order_release);
    }
    atomic_store_explicit(&area->account_stamp, (stamp | 1) + 1, memory_order_release);
}

/* The text after the name in "7 (name) T 1 ..."; "": no such process. */
static const char *read_stat(int process, char text[STAT_BYTES])
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, STAT_BYTES - 1) : -1;
    if (file >= 0) {
        close(file);
    }
    text[size > 0 ? size : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && strlen(name_end) > 4 ? name_end + 2 : "";
}

char gy_transport_process_state(int process)
{
    char text[STAT_BYTES];
    return read_stat(process, text)[0];
}

int gy_transport_process_parent(int process)
{
    char text[STAT_BYTES];
    const char *at = read_stat(process, text);
    return at[0] != '\0' ? (int)strtol(at + 1, NULL, 10) : 0;
}

/* ---- Reading a ring from three copies ---- */

typedef struct ring_copy {
    uint64_t count;
    gy_flight_comm_slot comm_slots[GY_RECORD_COMM_SLOTS];
    uint64_t account_stamp;
    gy_flight_account account;
    gy_flight_record rings[GY_RECORDS];
} ring_copy;

/* Collect the records of the second copy that did not change meanwhile, oldest first. */
static uint32_t whole_records(const ring_copy *copies, gy_flight_record *out)
{
    uint64_t end = copies[0].count;
    uint64_t first = end > GY_RECORDS ? end - GY_RECORDS : 0;
    uint32_t count = 0;
    for (uint64_t index = first; index < end; index++) {
        size_t at = index % GY_RECORDS;
        const gy_flight_record *record = &copies[1].rings[at];
        bool is_whole = (record->stamp & 1) == 0 &&
                        record->stamp >> GY_RECORD_VERSION_BITS == index + 1 &&
                        copies[0].rings[at].stamp == record->stamp &&
                        copies[2].rings[at].stamp == record->stamp;
        if (is_whole) {
            out[count++] = *record;
        }
    }
    GY_ASSERT(count <= GY_RECORDS);
    return count;
}

/* That of the second copy, if it did not change meanwhile. */
static gy_flight_account whole_account(const ring_copy *copies)
{
    const uint64_t stamp = copies[1].account_stamp;
    GY_ASSERT(copies != NULL);
    const bool is_whole =
        stamp % 2 == 0 && copies[0].account_stamp == stamp && copies[2].account_stamp == stamp;
    return is_whole ? copies[1].account : (gy_flight_account){.steps = 0};
}

static bool read_at(int fd, void *to, size_t size_bytes, size_t at)
{
    GY_ASSERT(fd >= 0);
    GY_ASSERT(size_bytes > 0);
    for (size_t done = 0; done < size_bytes;) {
        ssize_t got = pread(fd, (uint8_t *)to + done, size_bytes - done, (off_t)(at + done));
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static bool copy_ring(int fd, size_t at, ring_copy *copy)
{
    GY_ASSERT(copy != NULL);
    return read_at(fd, &copy->count, sizeof(copy->count), at) &&
           read_at(fd, copy->comm_slots, sizeof(copy->comm_slots),
                   at + offsetof(gy_flight_record_area, comm_slots)) &&
           read_at(fd, &copy->account_stamp, sizeof(copy->account_stamp),
                   at + offsetof(gy_flight_record_area, account_stamp)) &&
           read_at(fd, &copy->account, sizeof(copy->account),
                   at + offsetof(gy_flight_record_area, account)) &&
           read_at(fd, copy->rings, sizeof(copy->rings),
                   at + offsetof(gy_flight_record_area, rings));
}

bool gy_flight_record_latest(gy_flight_record_area *area, gy_flight_record *record)
{
    GY_ASSERT(area != NULL);
    GY_ASSERT(record != NULL);
    uint64_t count = atomic_load_explicit(&area->count, memory_order_acquire);
    uint64_t first = count > GY_RECORDS ? count - GY_RECORDS : 0;
    uint64_t words[GY_RECORD_WORDS];
    for (uint64_t index = count; index > first; index--) {
        _Atomic uint64_t *from = area->rings[(index - 1) % GY_RECORDS];
        for (int i = 0; i < GY_RECORD_WORDS; i++) {
            words[i] = atomic_load_explicit(&from[i], memory_order_acquire);
        }
        uint64_t stamp = atomic_load_explicit(&from[0], memory_order_acquire);
        memcpy(record, words, sizeof(*record));
        bool is_whole =
            stamp == words[0] && (stamp & 1) == 0 && stamp >> GY_RECORD_VERSION_BITS == index;
        if (is_whole && record->state > GY_RECORD_RESERVED && record->state < GY_RECORD_ENDED) {
            return true;
        }
    }
    return false;
}

/* ---- Flight records ---- */

static void name_program(int process, char *out, size_t size_bytes)
{
    GY_ASSERT(size_bytes > 0);
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/comm", process);
    int file = process > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t size = file >= 0 ? read(file, out, size_bytes - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    out[size > 0 ? size : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static gy_status take_rank(int fd, const gy_transport_segment_layout *layout, ring_copy *copies,
                           gy_flight *flight, int rank)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < flight->head.ranks);
    gy_flight_rank *out = &flight->ranks[rank];
    gy_rank_state state;
    size_t area = layout->records + (size_t)rank * sizeof(gy_flight_record_area);
    bool is_read =
        read_at(fd, &state, sizeof(state), layout->states + (size_t)rank * sizeof(state));
    for (int i = 0; i < COPIES; i++) {
        is_read = is_read && copy_ring(fd, area, &copies[i]);
    }
    if (!is_read) {
        return gy_fail(GY_IO, "cannot read the records of rank %d: %s",
                       flight->head.first_rank + rank, strerror(errno));
    }
    out->rank = flight->head.first_rank + rank;
    out->stage = state.stage == GY_RANK_GAVE_UP
                     ? (uint8_t)GY_FLIGHT_LEFT
                     : (uint8_t)GY_MIN(state.stage, (uint32_t)GY_FLIGHT_DEAD);
    out->process = state.process;
    out->process_state = (uint8_t)gy_transport_process_state(out->process);
    out->begun = copies[0].count;
    memcpy(out->comm_slots, copies[1].comm_slots, sizeof(out->comm_slots));
    out->account = whole_account(copies);
    flight->records[rank] = gy_alloc_zero("flight", GY_RECORDS, sizeof(gy_flight_record));
    if (flight->records[rank] == NULL) {
        return GY_NOMEM;
    }
    out->record_count = whole_records(copies, flight->records[rank]);
    if (flight->head.program[0] == '\0') {
        name_program(out->process, flight->head.program, sizeof(flight->head.program));
    }
    return GY_OK;
}

static void fill_head(gy_flight *flight, const gy_transport_segment_header *header)
{
    GY_ASSERT(header->ranks == flight->head.ranks);
    gy_flight_head *head = &flight->head;
    gy_env *env = gy_env_real();
    int64_t now_ns = gy_now_ns(env);
    head->now = gy_ticks();
    snprintf(head->made_by, sizeof(head->made_by), "%s", GYRE_VERSION);
    head->first_rank = header->first_rank;
    head->size = header->run_size;
    head->keeper = header->maker;
    head->wall_ns = env->ops->wall_ns(env);
    double ticks = (double)head->now - (double)header->made_ticks;
    double passed_s = ((double)now_ns - (double)header->made_ns) * 1e-9;
    bool is_sound = ticks > 0 && passed_s > 0 && passed_s <= ticks;
    head->tick_s = is_sound ? passed_s / ticks : 1e-9;
    (void)gethostname(head->host, sizeof(head->host) - 1);
    if (atomic_load_explicit(&header->abort, memory_order_acquire) % GY_ABORT_STATES ==
        GY_ABORT_SET) {
        head->failure_status = (int32_t)header->error.status;
        memcpy(head->failure, header->error.text, sizeof(header->error.text));
        head->failure[sizeof(head->failure) - 1] = '\0';
    }
}

gy_status gy_flight_take(int fd, gy_flight **flight)
{
    GY_ASSERT(flight != NULL);
    gy_transport_segment_layout layout = {.total = 0};
    gy_transport_segment_header header;
    GY_TRY(gy_transport_segment_look(fd, &header, &layout));
    gy_flight *made = gy_flight_new(header.ranks);
    ring_copy *copies = gy_alloc("flight", COPIES * sizeof(*copies));
    gy_status status = made == NULL || copies == NULL ? GY_NOMEM : GY_OK;
    if (status >= 0) {
        fill_head(made, &header);
    }
    for (int rank = 0; rank < header.ranks && status >= 0; rank++) {
        status = take_rank(fd, &layout, copies, made, rank);
    }
    gy_free(copies);
    if (status < 0) {
        gy_flight_free(made);
        return status;
    }
    gy_flight_clean(made);
    *flight = made;
    return GY_OK;
}
