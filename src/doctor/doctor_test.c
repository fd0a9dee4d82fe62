/* Goal: gy_doctor, as a program calls it, reads a launch of this process and a file, in text
 * and JSON, and names what it cannot read. */
#include "transport/transport.h"

#include <gyre/doctor.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

enum { RANKS = 2 };

/* The segment of a launch whose ranks have not joined: this process holds it, so it is of it.
 */
static int open_launch(void)
{
    int fd = -1;
    const gy_transport_segment_options options = {
        .ranks = RANKS, .pool_bytes = 1 << 20, .ring_bytes = 4096, .staging_bytes = 1 << 16};
    assert_ok(gy_transport_segment_make(&options, &fd));
    return fd;
}

static void write_recording(const char path[])
{
    const int segment = open_launch(), file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    gy_flight *flight = NULL;
    assert_true(file >= 0);
    assert_ok(gy_flight_take(segment, &flight));
    snprintf(flight->head.cause, sizeof(flight->head.cause), "rank 1 was killed");
    assert_ok(gy_flight_write(flight, file));
    gy_flight_free(flight);
    close(file);
    close(segment);
}

/* The description, which has both words. */
static void expect(const gy_doctor_options *options, const char *word, const char *more)
{
    char *text = NULL;
    assert_status(gy_doctor(options, &text), GY_OK);
    assert_non_null(text);
    if (strstr(text, word) == NULL || strstr(text, more) == NULL) {
        fail_msg("expected \"%s\" and \"%s\" in: %s", word, more, text);
    }
    gy_string_free(text);
}

static void expect_refused(const gy_doctor_options *options, gy_status status, const char *word)
{
    char *text = NULL;
    assert_status(gy_doctor(options, &text), status);
    assert_null(text);
    if (strstr(gy_error_text(), word) == NULL) {
        fail_msg("expected \"%s\" in: %s", word, gy_error_text());
    }
}

GY_TEST(a_recording_is_described_and_a_damaged_one_named)
{
    char path[] = "/tmp/gyre-doctor-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    write_recording(path);
    gy_doctor_options options = GY_OPTIONS(gy_doctor_options, .file = path);
    expect(&options, "rank 1 was killed", "rank 0");
    options.is_json = true;
    expect(&options, "\"ranks\"", "rank 1 was killed");
    assert_int_equal(ftruncate(file, 100), 0);
    expect_refused(&options, GY_FORMAT, path);
    assert_int_equal(unlink(path), 0);
    expect_refused(&options, GY_NOTFOUND, path);
    close(file);
}

GY_TEST(a_live_launch_is_found_by_its_process)
{
    gy_doctor_options options = {.process = getpid()};
    expect_refused(&options, GY_NOTFOUND, "belongs to no launch");
    const int segment = open_launch();
    expect(&options, "rank 0", "rank 1");
    options.is_json = true;
    expect(&options, "\"ranks\"", "\"rank\"");
    close(segment);
    expect_refused(&options, GY_NOTFOUND, "belongs to no launch");
}

GY_TEST(options_of_no_size_are_refused)
{
    const gy_doctor_options options = {.struct_size = 3};
    expect_refused(&options, GY_ARG, "gy_doctor_options: struct_size is 3");
}

GY_TEST_MAIN(NULL, NULL)
