/*
 * Goal: what a rank records comes back whole and in order from outside, also while it writes; a
 * file says the same, and no damaged one is believed.
 */
#include "transport/recorder.h"
#include "transport/segment_priv.h"
#include "transport/transport.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gy_test.h"

static const gy_transport_segment_options two = {.ranks = 2,
                                                 .first_rank = 4,
                                                 .run_size = 9,
                                                 .staging_bytes = 4096,
                                                 .ring_bytes = 4096,
                                                 .pool_bytes = 4096};

/* All fields follow from the number, so that a torn record shows. */
static gy_flight_record record_of(uint64_t number)
{
    return (gy_flight_record){.number = number,
                              .started = number * 3,
                              .entered = number * 5,
                              .ended = number * 7,
                              .count = number * 11,
                              .operation = (uint8_t)(number % 7),
                              .comm_slot = (uint8_t)(number % GY_RECORD_COMM_SLOTS),
                              .root = (int16_t)(number % 1000),
                              .leader = (int16_t)(number % 9),
                              .state = GY_RECORD_ENDED,
                              .waits_for = (int16_t)(number % 9),
                              .detail = (uint32_t)(number * 13)};
}

static bool is_record_of(const gy_flight_record *got, uint64_t number)
{
    gy_flight_record expected = record_of(number);
    expected.stamp = got->stamp;
    return memcmp(got, &expected, sizeof(expected)) == 0;
}

static void write_records(gy_flight_record_area *area, uint64_t first, uint64_t end)
{
    for (uint64_t number = first; number < end; number++) {
        gy_flight_record record = record_of(number);
        gy_flight_record_begin(area, &record);
    }
}

static gy_transport *open_rank(int *fd, int rank)
{
    gy_transport *transport = NULL;
    if (*fd < 0) {
        assert_ok(gy_transport_segment_make(&two, fd));
    }
    assert_ok(gy_transport_shm_open(*fd, rank, gy_env_real(), &transport));
    return transport;
}

GY_TEST(records_come_back_in_order)
{
    int fd = -1;
    gy_flight *flight = NULL;
    gy_transport *first = open_rank(&fd, 0), *second = open_rank(&fd, 1);
    assert_null(gy_transport_records(first, 3));
    assert_null(gy_transport_records(first, 6));
    assert_ptr_not_equal(gy_transport_records(first, 4), gy_transport_records(first, 5));
    write_records(gy_transport_records(first, 4), 0, 3);
    write_records(gy_transport_records(second, 5), 0, GY_RECORDS + 100);
    gy_flight_comm_slot_put(
        gy_transport_records(first, 4), 3,
        &(gy_flight_comm_slot){.base = 77, .leader = 1, .size = 2, .rank = 1});
    assert_ok(gy_flight_take(fd, &flight));
    assert_int_equal(flight->head.ranks, 2);
    assert_int_equal(flight->head.first_rank, 4);
    assert_int_equal(flight->head.size, 9);
    assert_int_equal(flight->ranks[1].rank, 5);
    assert_int_equal(flight->ranks[1].process, getpid());
    assert_int_equal(flight->ranks[1].process_state, 'R');
    assert_int_equal(flight->ranks[1].stage, GY_FLIGHT_JOINED);
    assert_int_equal(flight->ranks[0].comm_slots[3].base, 77);
    assert_int_equal(flight->ranks[0].comm_slots[3].size, 2);
    assert_int_equal(flight->ranks[0].record_count, 3);
    assert_int_equal(flight->ranks[1].record_count, GY_RECORDS);
    assert_int_equal(flight->ranks[1].begun, GY_RECORDS + 100);
    for (uint32_t i = 0; i < GY_RECORDS; i++) {
        assert_true(i >= 3 || is_record_of(&flight->records[0][i], i));
        assert_true(is_record_of(&flight->records[1][i], i + 100));
    }
    gy_flight_free(flight);
    gy_transport_close(first);
    gy_transport_close(second);
    close(fd);
}

GY_TEST(an_account_comes_back_whole_or_not_at_all)
{
    int fd = -1;
    gy_transport *transport = open_rank(&fd, 1);
    gy_flight_record_area *area = gy_transport_records(transport, 5);
    const gy_flight_account account = {.steps = 3,
                                       .wall_ns = 100,
                                       .compute_ns = 50,
                                       .bubble_ns = 20,
                                       .transfer_ns = 10,
                                       .input_ns = 5};
    for (int is_torn = 0; is_torn < 2; is_torn++) {
        gy_flight *flight = NULL, *again = NULL;
        gy_flight_account_put(area, &account);
        atomic_fetch_add_explicit(&area->account_stamp, is_torn, memory_order_relaxed);
        assert_ok(gy_flight_take(fd, &flight));
        assert_int_equal(flight->ranks[0].account.steps, 0);
        assert_int_equal(flight->ranks[1].account.steps, is_torn ? 0 : 3);
        const int file = memfd_create("flight", MFD_CLOEXEC);
        assert_ok(gy_flight_write(flight, file));
        assert_int_equal(lseek(file, 0, SEEK_SET), 0);
        assert_ok(gy_flight_read(file, &again));
        assert_memory_equal(&again->ranks[1].account, &flight->ranks[1].account,
                            sizeof(account));
        assert_true(is_torn ||
                    memcmp(&again->ranks[1].account, &account, sizeof(account)) == 0);
        gy_flight_free(flight);
        gy_flight_free(again);
        close(file);
    }
    gy_flight_account_put(area, &account); /* who died within a write may come again */
    gy_flight *flight = NULL;
    assert_ok(gy_flight_take(fd, &flight));
    assert_int_equal(flight->ranks[1].account.steps, 3);
    gy_flight_free(flight);
    gy_transport_close(transport);
    close(fd);
}

GY_TEST(what_goes_on_is_the_latest)
{
    int fd = -1;
    gy_transport *transport = open_rank(&fd, 0);
    gy_flight_record_area *area = gy_transport_records(transport, 4);
    gy_flight_record record, got;
    write_records(area, 0, 3);
    assert_false(gy_flight_record_latest(area, &got));
    record = record_of(3);
    record.state = GY_RECORD_MEETING;
    gy_flight_record_begin(area, &record);
    write_records(area, 4, 6);
    assert_true(gy_flight_record_latest(area, &got));
    assert_int_equal(got.number, 3);
    record.waits_for = 5;
    gy_flight_record_put(area, &record);
    assert_true(gy_flight_record_latest(area, &got));
    assert_int_equal(got.waits_for, 5);
    write_records(area, 6, GY_RECORDS + 4); /* it has lost its place */
    record.number = 999;
    gy_flight_record_put(area, &record);
    assert_false(gy_flight_record_latest(area, &got));
    gy_flight *flight = NULL;
    assert_ok(gy_flight_take(fd, &flight));
    assert_true(is_record_of(&flight->records[0][GY_RECORDS - 1], GY_RECORDS + 3));
    assert_true(is_record_of(&flight->records[0][0], 4));
    gy_flight_free(flight);
    gy_transport_close(transport);
    close(fd);
}

typedef struct writer {
    gy_flight_record_area *area;
    _Atomic bool is_over;
    uint64_t written;
} writer;

static void *keep_writing(void *arg)
{
    writer *me = arg;
    while (!atomic_load_explicit(&me->is_over, memory_order_acquire)) {
        write_records(me->area, me->written, me->written + 64);
        me->written += 64;
        gy_flight_record record = record_of(0);
        gy_flight_record_begin(me->area, &record);
        for (uint64_t again = 1; again <= 1000; again++) {
            uint64_t stamp = record.stamp;
            record = record_of(again);
            record.stamp = stamp;
            gy_flight_record_put(me->area, &record);
        }
        me->written++;
    }
    return NULL;
}

/* The writer goes around the ring, and stays at some records, while a reader copies it. */
GY_TEST(torn_records_are_dropped)
{
    enum { ENOUGH = 20000 };
    int fd = -1;
    pthread_t thread;
    gy_transport *transport = open_rank(&fd, 0);
    writer other = {.area = gy_transport_records(transport, 4)};
    assert_int_equal(pthread_create(&thread, NULL, keep_writing, &other), 0);
    /* Until both have run side by side for long. */
    for (long i = 0; i < gy_test_cases(400) ||
                     atomic_load_explicit(&other.area->count, memory_order_acquire) < ENOUGH;
         i++) {
        gy_flight *flight = NULL;
        gy_flight_record latest;
        assert_ok(gy_flight_take(fd, &flight));
        for (uint32_t at = 0; at < flight->ranks[0].record_count; at++) {
            const gy_flight_record *record = &flight->records[0][at];
            assert_true(is_record_of(record, record->number));
        }
        gy_flight_free(flight);
        assert_false(gy_flight_record_latest(other.area, &latest));
    }
    atomic_store_explicit(&other.is_over, true, memory_order_release);
    assert_int_equal(pthread_join(thread, NULL), 0);
    gy_transport_close(transport);
    close(fd);
}

/* ---- Files ---- */

static int new_file(const void *data, size_t size)
{
    int fd = memfd_create("flight", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static size_t some_file(uint8_t *out, size_t room)
{
    int fd = -1, file = memfd_create("flight", MFD_CLOEXEC);
    gy_flight *flight = NULL;
    gy_transport *transport = open_rank(&fd, 1);
    write_records(gy_transport_records(transport, 5), 0, 20);
    assert_ok(gy_flight_take(fd, &flight));
    snprintf(flight->head.cause, sizeof(flight->head.cause), "rank 5 was killed");
    assert_ok(gy_flight_write(flight, file));
    gy_flight_free(flight);
    gy_transport_close(transport);
    ssize_t size = pread(file, out, room, 0);
    assert_in_range(size, 1000, room - 1);
    close(file);
    close(fd);
    return (size_t)size;
}

GY_TEST(files_hold_all)
{
    static uint8_t data[65536];
    gy_flight *flight = NULL;
    int file = new_file(data, some_file(data, sizeof(data)));
    assert_ok(gy_flight_read(file, &flight));
    close(file);
    assert_string_equal(flight->head.cause, "rank 5 was killed");
    assert_int_equal(flight->ranks[0].stage, GY_FLIGHT_ABSENT);
    assert_int_equal(flight->ranks[0].record_count, 0);
    assert_int_equal(flight->ranks[1].record_count, 20);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(is_record_of(&flight->records[1][i], i));
    }
    gy_flight_free(flight);
}

/* Whatever was read can be walked without leaving a table. */
static void walk(const gy_flight *flight)
{
    const gy_flight_head *head = &flight->head;
    assert_true(head->ranks >= 1 && head->first_rank + head->ranks <= head->size);
    assert_true(strlen(head->cause) < sizeof(head->cause));
    for (int i = 0; i < head->ranks; i++) {
        assert_true(flight->ranks[i].record_count <= GY_RECORDS);
        for (uint32_t at = 0; at < flight->ranks[i].record_count; at++) {
            const gy_flight_record *record = &flight->records[i][at];
            assert_true(record->comm_slot < GY_RECORD_COMM_SLOTS &&
                        record->waits_for < head->size && record->state < GY_RECORD_STATES &&
                        record->leader >= 0);
        }
    }
}

GY_TEST(damaged_files_are_refused)
{
    static uint8_t data[65536], damaged[65536];
    size_t size = some_file(data, sizeof(data));
    gy_random random = {.key = gy_test_seed()};
    gy_flight *flight = NULL;
    for (size_t cut = 0; cut < size; cut += 1 + cut / 8) {
        int file = new_file(data, cut);
        assert_status(gy_flight_read(file, &flight), GY_FORMAT);
        close(file);
    }
    int read = 0;
    for (long i = 0; i < gy_test_cases(4000); i++) {
        memcpy(damaged, data, size);
        size_t reach = i % 2 == 0 ? 128 : size; /* the head's numbers more often */
        for (int change = 0; change < 4; change++) {
            damaged[gy_random_below(&random, reach)] = (uint8_t)gy_random_below(&random, 256);
        }
        int file = new_file(damaged, size);
        if (gy_flight_read(file, &flight) == GY_OK) {
            walk(flight);
            gy_flight_free(flight);
            read++;
        }
        close(file);
    }
    assert_true(read > 0);
}

GY_TEST(other_memory_is_no_segment)
{
    static uint8_t noise[8192];
    gy_flight *flight = NULL;
    for (int i = 0; i < 3; i++) {
        int file = new_file(noise, i == 0 ? 0 : sizeof(noise));
        assert_status(gy_flight_take(file, &flight), GY_FORMAT);
        close(file);
        memset(noise, 0x5a, sizeof(noise));
    }
    /* A segment that was cut, and one whose sizes say too much. */
    int fd = -1;
    assert_ok(gy_transport_segment_make(&two, &fd));
    assert_int_equal(pwrite(fd, "\xff\xff\xff\x7f", 4, 12), 4);
    assert_status(gy_flight_take(fd, &flight), GY_FORMAT);
    assert_int_equal(pwrite(fd, "\x02\x00\x00\x00", 4, 12), 4);
    assert_ok(gy_flight_take(fd, &flight));
    gy_flight_free(flight);
    /* Two ranks that are not all of their run. */
    const int32_t at_first = offsetof(gy_transport_segment_header, first_rank);
    const int32_t at_size = offsetof(gy_transport_segment_header, run_size);
    const int32_t damages[][2] = {{at_size, 5},  {at_size, -1},         {at_size, INT32_MAX},
                                  {at_first, 8}, {at_first, INT32_MAX}, {at_first, -1}};
    for (size_t i = 0; i < GY_COUNT(damages); i++) {
        int32_t sound = 0;
        assert_int_equal(pread(fd, &sound, sizeof(sound), damages[i][0]), sizeof(sound));
        assert_int_equal(pwrite(fd, &damages[i][1], sizeof(sound), damages[i][0]),
                         sizeof(sound));
        assert_status(gy_flight_take(fd, &flight), GY_FORMAT);
        assert_int_equal(pwrite(fd, &sound, sizeof(sound), damages[i][0]), sizeof(sound));
    }
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_status(gy_flight_take(fd, &flight), GY_FORMAT);
    close(fd);
}

GY_TEST_MAIN(NULL, NULL)
