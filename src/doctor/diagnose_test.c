/*
 * Goal: each way in which ranks hang is told by its cause and by the right names, who is late
 * is told with the right figures, and nothing that a file may hold leaves a table.
 */
#include "doctor/doctor_priv.h"

#include "coll/coll.h"

#include <string.h>

#include "gy_test.h"

enum { RANKS = 4 };
static const uint64_t second = 1000000000;

static gy_flight *new_flight(int ranks)
{
    gy_flight *flight = gy_flight_new(ranks);
    assert_non_null(flight);
    flight->head.size = ranks;
    flight->head.now = 100 * second;
    flight->head.tick_s = 1e-9;
    for (int rank = 0; rank < ranks; rank++) {
        flight->ranks[rank].rank = rank;
        flight->ranks[rank].process = 100 + rank;
        flight->ranks[rank].stage = GY_FLIGHT_JOINED;
        flight->ranks[rank].process_state = 'S';
        flight->records[rank] = gy_alloc_zero("test", GY_RECORDS, sizeof(gy_flight_record));
        assert_non_null(flight->records[rank]);
    }
    return flight;
}

/* A barrier of the world that the rank entered `ago` seconds before the flight was read. */
static gy_flight_record *add(gy_flight *flight, int rank, uint64_t number,
                             gy_flight_record_state state, double ago)
{
    gy_flight_record *record = &flight->records[rank][flight->ranks[rank].record_count++];
    *record =
        (gy_flight_record){.number = number,
                           .operation = GY_OPERATION_BARRIER,
                           .root = -1,
                           .state = (uint8_t)state,
                           .waits_for = -1,
                           .started = flight->head.now - (uint64_t)(ago * (double)second)};
    record->entered = state == GY_RECORD_STARTED ? 0 : record->started;
    flight->ranks[rank].begun++;
    return record;
}

/* The findings, a line each. */
static const char *findings_of(const gy_flight *flight)
{
    static char out[8192];
    gy_text text = {.data = NULL};
    gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
    assert_non_null(diagnosis);
    for (int i = 0; i < diagnosis->finding_count; i++) {
        gy_text_add(&text, "%s: %s\n", gy_finding_name(diagnosis->findings[i].kind),
                    diagnosis->findings[i].text);
    }
    gy_diagnosis_free(diagnosis);
    return gy_text_move(&text, out, sizeof(out));
}

static void expect(gy_flight *flight, const char *findings)
{
    assert_string_equal(findings_of(flight), findings);
    gy_flight_free(flight);
}

GY_TEST(ranks_that_work_are_left_alone)
{
    gy_flight *flight = new_flight(RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        add(flight, rank, 0, GY_RECORD_ENDED, 3);
        if (rank != 2) {
            add(flight, rank, 1, GY_RECORD_MEETING, 0.1); /* so short a wait is none */
        }
    }
    expect(flight, "");
}

GY_TEST(stopped_and_gone_ranks_come_first)
{
    gy_flight *flight = new_flight(RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        add(flight, rank, 0, GY_RECORD_ENDED, 3);
    }
    add(flight, 0, 1, GY_RECORD_MEETING, 2);
    add(flight, 3, 1, GY_RECORD_MEETING, 2);
    flight->ranks[1].process_state = 'T';
    flight->ranks[2].process_state = 'Z';
    expect(flight, "stopped: rank 1 (process 101) is stopped, by a signal or a debugger; ranks "
                   "0, 3 wait for it\ngone: rank 2 (process 102) is lost: it ended without "
                   "leaving the launch; ranks 0, 3 wait for it\n");
}

GY_TEST(the_end_of_a_chain_is_named)
{
    gy_flight *flight = new_flight(RANKS);
    /* 0 waits in a collective for 1, which waits for a message of 2, which computes. */
    add(flight, 0, 7, GY_RECORD_MEETING, 2);
    add(flight, 2, 7, GY_RECORD_MEETING, 2)->state = GY_RECORD_ENDED;
    add(flight, 3, 7, GY_RECORD_MEETING, 2);
    gy_flight_record *receive = add(flight, 1, 5, GY_RECORD_RUNNING, 4);
    *receive = (gy_flight_record){.number = 5,
                                  .started = receive->started,
                                  .entered = receive->started,
                                  .count = 3,
                                  .operation = GY_RECORD_RECV,
                                  .dtype = GY_F32,
                                  .root = 2,
                                  .state = GY_RECORD_RUNNING,
                                  .waits_for = 2};
    expect(flight, "missing: rank 2 is in no call; its last was collective 7, barrier, entered "
                   "2 s ago; rank 1 waits for it\n");
}

GY_TEST(calls_that_differ_are_told_once)
{
    gy_flight *flight = new_flight(2);
    for (int rank = 0; rank < 2; rank++) {
        gy_flight_record *record = add(flight, rank, 3, GY_RECORD_FAILED, 2);
        record->operation = GY_OPERATION_ALLREDUCE;
        record->dtype = GY_I64;
        record->reduction = GY_SUM;
        record->count = rank == 0 ? 3 : 4;
    }
    expect(flight,
           "mismatch: ranks disagree: rank 0 called collective 3, allreduce of 3 i64 by "
           "sum, rank 1 called collective 3, allreduce of 4 i64 by sum\n");
}

static void sit(gy_flight *flight, int rank, gy_flight_comm_slot entry)
{
    flight->ranks[rank].comm_slots[1] = entry;
}

/* 0 is in the world's call, 1 in that of a group of both; 2 and 3 have a group with its slot.
 */
GY_TEST(circles_are_named)
{
    gy_flight *flight = new_flight(RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        sit(flight, rank,
            (gy_flight_comm_slot){.base = 8, .leader = (int16_t)(rank / 2 * 2), .size = 2});
        if (rank != 1) {
            add(flight, rank, 4, GY_RECORD_MEETING, 2);
        }
    }
    add(flight, 1, 8, GY_RECORD_MEETING, 1)->comm_slot = 1;
    gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
    assert_non_null(diagnosis);
    assert_int_equal(diagnosis->patients[0].waiters, 1);
    assert_int_equal(diagnosis->patients[1].waiters, 3);
    assert_int_equal(diagnosis->patients[2].waiters, 0);
    gy_diagnosis_free(diagnosis);
    expect(flight,
           "circle: ranks wait for each other: rank 0, in collective 4, barrier, for rank 1; "
           "rank 1, in collective 8 of group 1 led by rank 0, barrier, for rank 0\n");
}

GY_TEST(other_hosts_are_pointed_to)
{
    gy_flight *flight = new_flight(2);
    flight->head.size = 6;
    add(flight, 0, 4, GY_RECORD_RUNNING, 2)->waits_for = 5;
    add(flight, 1, 4, GY_RECORD_RUNNING, 2)->waits_for = 0;
    expect(flight, "elsewhere: rank 0 waits for rank 5, which is on another host: run gyre "
                   "doctor there\n");
}

GY_TEST(lateness_is_measured)
{
    gy_flight *flight = new_flight(3);
    for (uint64_t number = 0; number < 20; number++) {
        double ago = 50 - (double)number;
        add(flight, 0, number, GY_RECORD_ENDED, ago);
        add(flight, 1, number, GY_RECORD_ENDED, number == 7 ? ago - 0.02 : ago - 0.004);
        add(flight, 2, number, GY_RECORD_ENDED, ago - 0.001);
    }
    gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
    assert_non_null(diagnosis);
    const gy_patient *late = &diagnosis->patients[1];
    assert_int_equal(late->late_count, 20);
    assert_int_equal(late->late_last, 20);
    assert_true(late->late_mean_s > 0.00479 && late->late_mean_s < 0.00481);
    assert_true(late->late_max_s > 0.01999 && late->late_max_s < 0.02001);
    assert_true(diagnosis->patients[2].late_mean_s < 0.00101);
    assert_int_equal(diagnosis->patients[0].late_last, 0);
    gy_diagnosis_free(diagnosis);
    expect(flight, "late: rank 1 was the last to enter 20 of 20 collectives, 4.8 ms late on "
                   "average and 20 ms at most\n");
}

/* ---- Anything at all ---- */

static gy_flight *any_flight(gy_random *random)
{
    int ranks = 1 + (int)gy_random_below(random, 5);
    gy_flight *flight = new_flight(ranks);
    flight->head.size = ranks + (int)gy_random_below(random, 3);
    for (int rank = 0; rank < ranks; rank++) {
        gy_flight_rank *facts = &flight->ranks[rank];
        facts->stage = (uint8_t)gy_random_below(random, GY_FLIGHT_STAGES);
        facts->process_state = (uint8_t) "RSTZ"[gy_random_below(random, 5)];
        facts->record_count = (uint32_t)gy_random_below(random, 9);
        facts->begun = facts->record_count;
        for (uint32_t at = 0; at < facts->record_count; at++) {
            gy_flight_record *record = &flight->records[rank][at];
            for (size_t byte = 0; byte < sizeof(*record); byte++) {
                ((uint8_t *)record)[byte] = (uint8_t)gy_random_below(random, 256);
            }
            record->number = gy_random_below(random, 3);
            record->comm_slot = (uint8_t)gy_random_below(random, 2);
            record->leader = 0;
            record->state = (uint8_t)gy_random_below(random, GY_RECORD_STATES);
            if (gy_random_below(random, 2) == 0) {
                record->operation = (uint8_t)gy_random_below(random, GY_OPERATION_COUNT);
            }
        }
    }
    gy_flight_clean(flight);
    return flight;
}

/* Braces and brackets outside of strings match, and nothing else needs an escape. */
static void check_json(const char *text)
{
    char open[64] = "";
    int depth = 0;
    bool is_string = false;
    for (const char *at = text; *at != '\0'; at++) {
        assert_true(((unsigned char)*at >= 0x20 && (unsigned char)*at < 0x7f) || *at == '\n');
        if (is_string && *at == '\\') {
            at++;
        } else if (*at == '"') {
            is_string = !is_string;
        } else if (!is_string && strchr("{[", *at) != NULL) {
            assert_true(depth < (int)sizeof(open));
            open[depth++] = *at;
        } else if (!is_string && strchr("}]", *at) != NULL) {
            assert_true(depth > 0);
            assert_int_equal(open[--depth], *at == '}' ? '{' : '[');
        }
    }
    assert_int_equal(depth, 0);
    assert_false(is_string);
}

/* Where the time of those went that train; others have no line. */
GY_TEST(accounts_are_told)
{
    gy_flight *flight = new_flight(3);
    flight->ranks[0].account = (gy_flight_account){.steps = 6,
                                                   .wall_ns = 8 * second,
                                                   .compute_ns = 4 * second,
                                                   .bubble_ns = 2 * second,
                                                   .transfer_ns = second / 2,
                                                   .input_ns = second / 4};
    flight->ranks[2].account = (gy_flight_account){.steps = 5, .compute_ns = second};
    gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
    gy_text text = {.data = NULL}, json = {.data = NULL};
    assert_non_null(diagnosis);
    gy_diagnosis_print(diagnosis, &text);
    gy_diagnosis_json(diagnosis, &json);
    const char *table = strstr(gy_text_get(&text), "time in s ");
    assert_non_null(table);
    assert_string_equal(
        table,
        "time in s          compute    bubble  transfer     input     other      wall  bubble "
        "%  steps\n"
        "  rank 0             4.000     2.000     0.500     0.250     1.250     8.000      "
        "25.0  6\n"
        "  rank 2             1.000     0.000     0.000     0.000     0.000     0.000       "
        "0.0  5\n");
    check_json(gy_text_get(&json));
    const char *first = strstr(gy_text_get(&json), "\"account\": {\"steps\": 6, \"wall_s\": "
                                                   "8.000000000, \"compute_s\": 4.000000000, "
                                                   "\"bubble_s\": 2.000000000, "
                                                   "\"transfer_s\": 0.500000000, \"input_s\": "
                                                   "0.250000000, \"other_s\": 1.250000000}");
    assert_non_null(first);
    assert_non_null(strstr(first, "\"account\": null"));
    gy_text_free(&text);
    gy_text_free(&json);
    gy_diagnosis_free(diagnosis);
    gy_flight_free(flight);
}

GY_TEST(anything_is_survived)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(20000); i++) {
        gy_flight *flight = any_flight(&random);
        gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
        gy_text text = {.data = NULL}, json = {.data = NULL};
        assert_non_null(diagnosis);
        snprintf(flight->head.program, sizeof(flight->head.program), "a\"\\\x01\xff");
        gy_diagnosis_print(diagnosis, &text);
        gy_diagnosis_json(diagnosis, &json);
        assert_int_equal(text.status, GY_OK);
        check_json(gy_text_get(&json));
        gy_text_free(&text);
        gy_text_free(&json);
        gy_diagnosis_free(diagnosis);
        gy_flight_free(flight);
    }
}

GY_TEST_MAIN(NULL, NULL)
