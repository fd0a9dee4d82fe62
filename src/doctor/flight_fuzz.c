/* Fuzz target: any bytes as the file of a flight recorder, or as the segment of a run that
 * lives, are refused in words or diagnosed and told. */
#include "doctor/doctor_priv.h"
#include "transport/transport.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 4, RECORDS = 12, PATCH_HEAD = 4 };

static void use(const gy_flight *flight)
{
    gy_text text = {.data = NULL};
    gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
    if (diagnosis != NULL) {
        GY_ASSERT(diagnosis->finding_count <= GY_FINDINGS_MAX);
        gy_diagnosis_print(diagnosis, &text);
        gy_diagnosis_json(diagnosis, &text);
        GY_ASSERT(text.status != GY_OK || strlen(gy_text_get(&text)) == text.size_bytes);
    }
#ifdef GYRE_PLANTED_BUG
    /* room for eight groups: a record may name one of more */
    uint8_t *groups = gy_alloc_zero("fuzz", 8, 1);
    for (int i = 0; groups != NULL && i < flight->head.ranks; i++) {
        for (uint32_t at = 0; at < flight->ranks[i].record_count; at++) {
            ((volatile uint8_t *)groups)[flight->records[i][at].comm_slot] = 1;
        }
    }
    gy_free(groups);
#endif
    gy_text_free(&text);
    gy_diagnosis_free(diagnosis);
}

static void put(int file, const void *data, size_t size_bytes, size_t at)
{
    GY_ASSERT(pwrite(file, data, size_bytes, (off_t)at) == (ssize_t)size_bytes);
}

/* A file as a run leaves it: ranks that are in a barrier, the others' records empty. */
static size_t write_sound(int file, int ranks, uint32_t records)
{
    gy_flight *flight = gy_flight_new(ranks);
    GY_ASSERT(flight != NULL);
    flight->head.size = ranks;
    flight->head.now = 1000000;
    flight->head.tick_s = 1e-9;
    for (int i = 0; i < ranks; i++) {
        gy_flight_rank *rank = &flight->ranks[i];
        *rank = (gy_flight_rank){.rank = i,
                                 .process = 100 + i,
                                 .stage = GY_FLIGHT_JOINED,
                                 .process_state = 'S',
                                 .record_count = records,
                                 .begun = records,
                                 .account = {.steps = records, .wall_ns = 1000}};
        flight->records[i] =
            gy_alloc_zero("fuzz", GY_MAX(records, 1U), sizeof(gy_flight_record));
        GY_ASSERT(flight->records[i] != NULL);
        for (uint32_t at = 0; at < records; at++) {
            flight->records[i][at] = (gy_flight_record){.number = at,
                                                        .root = -1,
                                                        .state = GY_RECORD_ENDED,
                                                        .waits_for = -1,
                                                        .started = 1000 + at,
                                                        .entered = 2000 + at};
        }
    }
    GY_ASSERT(gy_flight_write(flight, file) == GY_OK);
    gy_flight_free(flight);
    return (size_t)lseek(file, 0, SEEK_END);
}

/* Pieces of the input over what is sound: three bytes say where, one how long, then they come.
 */
static void patch(int file, size_t file_bytes, const uint8_t *data, size_t size)
{
    while (size > PATCH_HEAD) {
        size_t at = ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16);
        size_t bytes = GY_MIN((size_t)data[3] % 64 + 1, size - PATCH_HEAD);
        at %= file_bytes;
        bytes = GY_MIN(bytes, file_bytes - at);
        put(file, data + PATCH_HEAD, bytes, at);
        data += PATCH_HEAD + bytes;
        size -= PATCH_HEAD + bytes;
    }
}

static int open_segment(const uint8_t *data, size_t size)
{
    int segment = -1;
    const gy_transport_segment_options options = {
        .ranks = 2, .staging_bytes = 4096, .ring_bytes = 64, .pool_bytes = 4096};
    GY_ASSERT(gy_transport_segment_make(&options, &segment) == GY_OK);
    patch(segment, (size_t)lseek(segment, 0, SEEK_END), data, size);
    return segment;
}

static int open_file(bool is_raw, uint8_t shape, const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    GY_ASSERT(file >= 0);
    if (is_raw) {
        put(file, data, size, 0);
    } else {
        patch(file, write_sound(file, 1 + shape % RANKS, shape / RANKS % RECORDS), data, size);
    }
    GY_ASSERT(lseek(file, 0, SEEK_SET) == 0);
    return file;
}

/* The first byte says what the others are, the second one how large that is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    bool is_segment = data[0] % 4 == 3;
    gy_flight *flight = NULL;
    int file = is_segment ? open_segment(data + 2, size - 2)
                          : open_file(data[0] % 4 == 2, data[1], data + 2, size - 2);
    gy_status status =
        is_segment ? gy_flight_take(file, &flight) : gy_flight_read(file, &flight);
    close(file);
    GY_ASSERT((status == GY_OK) == (flight != NULL));
    if (flight != NULL) {
        use(flight);
        gy_flight_free(flight);
    }
    return 0;
}
