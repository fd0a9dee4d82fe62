/* A flight record in a file: the head, then each rank with its records. */
#include "transport/transport.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char flight_magic[8] = "gyreflt";

enum { FLIGHT_VERSION = 3 }; /* 3: ranks have accounts */

gy_flight *gy_flight_new(int ranks)
{
    GY_ASSERT(ranks > 0);
    GY_ASSERT(ranks <= GY_RANKS_MAX);
    gy_flight *made = gy_alloc_zero("flight", 1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->head.ranks = ranks;
    made->head.version = FLIGHT_VERSION;
    memcpy(made->head.magic, flight_magic, sizeof(flight_magic));
    made->ranks = gy_alloc_zero("flight", (size_t)ranks, sizeof(*made->ranks));
    made->records = gy_alloc_zero("flight", (size_t)ranks, sizeof(*made->records));
    if (made->ranks == NULL || made->records == NULL) {
        gy_flight_free(made);
        return NULL;
    }
    return made;
}

void gy_flight_free(gy_flight *flight)
{
    if (flight == NULL) {
        return;
    }
    for (int i = 0; flight->records != NULL && i < flight->head.ranks; i++) {
        gy_free(flight->records[i]);
    }
    gy_free(flight->records);
    gy_free(flight->ranks);
    gy_free(flight);
}

static gy_status write_all(int fd, const void *data, size_t size_bytes)
{
    GY_ASSERT(fd >= 0);
    for (size_t done = 0; done < size_bytes;) {
        ssize_t put = write(fd, (const uint8_t *)data + done, size_bytes - done);
        if (put < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "cannot write the flight recorder: %s", strerror(errno));
        }
        done += put > 0 ? (size_t)put : 0;
    }
    return GY_OK;
}

gy_status gy_flight_write(const gy_flight *flight, int fd)
{
    GY_ASSERT(flight->head.ranks > 0);
    GY_TRY(write_all(fd, &flight->head, sizeof(flight->head)));
    for (int i = 0; i < flight->head.ranks; i++) {
        GY_TRY(write_all(fd, &flight->ranks[i], sizeof(flight->ranks[i])));
        GY_TRY(write_all(fd, flight->records[i],
                         flight->ranks[i].record_count * sizeof(gy_flight_record)));
    }
    return GY_OK;
}

/* GY_FORMAT when the file is shorter. */
static gy_status read_all(int fd, void *to, size_t size_bytes)
{
    GY_ASSERT(fd >= 0);
    for (size_t done = 0; done < size_bytes;) {
        ssize_t got = read(fd, (uint8_t *)to + done, size_bytes - done);
        if (got < 0 && errno != EINTR) {
            return gy_fail(GY_IO, "cannot read the flight recorder: %s", strerror(errno));
        }
        if (got == 0) {
            return gy_fail(GY_FORMAT, "the flight recorder ends early");
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return GY_OK;
}

static gy_status check_head(gy_flight_head *head)
{
    GY_ASSERT(head != NULL);
    if (memcmp(head->magic, flight_magic, sizeof(head->magic)) != 0) {
        return gy_fail(GY_FORMAT, "this is not a flight recorder of gyre");
    }
    if (head->version != FLIGHT_VERSION) {
        return gy_fail(GY_FORMAT, "a flight recorder of version %u, expected %d", head->version,
                       FLIGHT_VERSION);
    }
    bool is_good = head->ranks >= 1 && head->ranks <= GY_RANKS_MAX && head->first_rank >= 0 &&
                   head->first_rank <= GY_RANKS_MAX - head->ranks &&
                   head->size >= head->first_rank + head->ranks && head->size <= GY_RANKS_MAX &&
                   isfinite(head->tick_s) && head->tick_s > 0 && head->tick_s <= 1;
    head->made_by[sizeof(head->made_by) - 1] = '\0';
    head->host[sizeof(head->host) - 1] = head->program[sizeof(head->program) - 1] = '\0';
    head->failure[sizeof(head->failure) - 1] = head->cause[sizeof(head->cause) - 1] = '\0';
    return is_good ? GY_OK
                   : gy_fail(GY_FORMAT, "a flight recorder of %d ranks from rank %d on, of %d",
                             head->ranks, head->first_rank, head->size);
}

static gy_status read_rank(int fd, gy_flight *flight, int i)
{
    GY_ASSERT(i >= 0);
    GY_ASSERT(i < flight->head.ranks);
    gy_flight_rank *rank = &flight->ranks[i];
    GY_TRY(read_all(fd, rank, sizeof(*rank)));
    if (rank->rank != flight->head.first_rank + i || rank->stage >= GY_FLIGHT_STAGES ||
        rank->record_count > GY_RECORDS || rank->begun < rank->record_count) {
        return gy_fail(GY_FORMAT, "rank %d of the flight recorder: %u records, stage %d",
                       flight->head.first_rank + i, rank->record_count, rank->stage);
    }
    flight->records[i] =
        gy_alloc_zero("flight", GY_MAX(rank->record_count, 1U), sizeof(gy_flight_record));
    if (flight->records[i] == NULL) {
        rank->record_count = 0;
        return GY_NOMEM;
    }
    return read_all(fd, flight->records[i], rank->record_count * sizeof(gy_flight_record));
}

/* Could a rank have written the record? False: another version, or damaged. */
static bool is_sound(const gy_flight_head *head, const gy_flight_record *record)
{
    GY_ASSERT(head->size > 0);
    return record->state < GY_RECORD_STATES && record->comm_slot < GY_RECORD_COMM_SLOTS &&
           record->waits_for >= -1 && record->waits_for < head->size && record->leader >= 0 &&
           record->leader < head->size;
}

void gy_flight_clean(gy_flight *flight)
{
    GY_ASSERT(flight->head.ranks > 0);
    GY_ASSERT(flight->head.size >= flight->head.ranks);
    for (int i = 0; i < flight->head.ranks; i++) {
        uint32_t kept = 0;
        gy_flight_rank *rank = &flight->ranks[i];
        GY_ASSERT(rank->record_count <= GY_RECORDS);
        for (uint32_t at = 0; at < rank->record_count; at++) {
            if (is_sound(&flight->head, &flight->records[i][at])) {
                flight->records[i][kept++] = flight->records[i][at];
            }
        }
        rank->record_count = kept;
        for (int comm_slot = 0; comm_slot < GY_RECORD_COMM_SLOTS; comm_slot++) {
            gy_flight_comm_slot *entry = &rank->comm_slots[comm_slot];
            if (entry->size < 0 || entry->size > flight->head.size || entry->leader < 0 ||
                entry->leader >= flight->head.size) {
                *entry = (gy_flight_comm_slot){.size = 0};
            }
        }
    }
}

gy_status gy_flight_read(int fd, gy_flight **flight)
{
    GY_ASSERT(flight != NULL);
    gy_flight_head head;
    GY_TRY(read_all(fd, &head, sizeof(head)));
    GY_TRY(check_head(&head));
    gy_flight *made = gy_flight_new(head.ranks);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->head = head;
    gy_status status = GY_OK;
    for (int i = 0; i < head.ranks && status >= 0; i++) {
        status = read_rank(fd, made, i);
    }
    if (status < 0) {
        gy_flight_free(made);
        return status;
    }
    gy_flight_clean(made);
    *flight = made;
    return GY_OK;
}
