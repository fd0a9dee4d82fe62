/* Goal: an order gives the correct answer: outputs in files, in reports, for users; missing or
 * damaged inputs are named; counters, samples, scratch folders, skipped records. */
#include "base/base.h"
#include "flow/channel/vertex.h"

#include <gyre/data.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "gy_test.h"

static char folder[64], path[160];
static const _Atomic bool never;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-vertex-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/key.0.1", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char scratch[128];
    snprintf(scratch, sizeof(scratch), "%s/scratch", folder);
    (void)rmdir(scratch);
    return rmdir(folder);
}

static gy_flow_task order_of(gy_vertex_work run)
{
    return (gy_flow_task){
        .id = {.task = 3, .epoch = 0, .attempt = 1},
        .key = {11, 12},
        .name = "stage[0]",
        .stage = "stage",
        .run = run,
        .copies = 1,
        .folder = folder,
        .path = path,
        .deadline = gy_deadline_after(60),
    };
}

static gy_worker_answer execute(const gy_flow_task *order)
{
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_vertex_execute(gy_env_real(), order, NULL, NULL, &never, &answer);
    return answer;
}

static void drop(gy_worker_answer *answer)
{
    gy_text_free(&answer->report);
    gy_text_free(&answer->reason);
}

static void assert_done(const gy_worker_answer *answer)
{
    if (answer->cause != GY_CAUSE_NONE) {
        fail_msg("cause %d: %s", answer->cause, gy_text_get(&answer->reason));
    }
}

static gy_report report_of(const gy_worker_answer *answer)
{
    gy_report report;
    assert_ok(gy_report_read(answer->report.data, answer->report.size_bytes, &report));
    assert_true(report.content.high == answer->content.high &&
                report.content.low == answer->content.low);
    return report;
}

/* ---- work ---- */

/* Writes parameter[0] times 1000 bytes 'a' to output 0, half of it 'b' to output 1. */
static gy_status write_two(gy_vertex *vertex)
{
    size_t size = 0;
    const int32_t *times = gy_vertex_parameter(vertex, &size);
    assert_int_equal(size, sizeof(*times));
    char a[1000], b[500];
    memset(a, 'a', sizeof(a));
    memset(b, 'b', sizeof(b));
    for (int i = 0; i < *times; i++) {
        GY_TRY(gy_vertex_write(vertex, 0, a, sizeof(a)));
        void *room = NULL;
        GY_TRY(gy_vertex_reserve(vertex, 1, sizeof(b) + 9, &room));
        memcpy(room, b, sizeof(b));
        GY_TRY(gy_vertex_advance(vertex, 1, sizeof(b)));
        gy_vertex_count(vertex, "turns", 1);
        gy_vertex_count(vertex, i % 2 == 0 ? "even" : "odd", 1);
    }
    return gy_vertex_set_sample(vertex, "sample", 6);
}

/* Copies all inputs, concatenated, to output 0. */
static gy_status copy_all(gy_vertex *vertex)
{
    for (int input = 0; input < gy_vertex_inputs(vertex); input++) {
        for (;;) {
            const void *data = NULL;
            size_t size = 0;
            GY_TRY(gy_vertex_read(vertex, input, &data, &size));
            if (size == 0) {
                break;
            }
            GY_TRY(gy_vertex_write(vertex, 0, data, size));
        }
        const void *data = NULL;
        size_t size = 1;
        /* reading again at the end returns the end again */
        GY_TRY(gy_vertex_read(vertex, input, &data, &size));
        assert_int_equal(size, 0);
    }
    return GY_OK;
}

/* ---- tests ---- */

static const gy_flow_task_output two_sections[] = {{.kind = GY_OUTPUT_SECTION},
                                                   {.kind = GY_OUTPUT_SECTION}};
static gy_flow_task_output final_output(const char *where)
{
    return (gy_flow_task_output){.kind = GY_OUTPUT_FINAL, .path = where};
}

static gy_worker_answer run_write_two(int32_t times)
{
    gy_flow_task order = order_of(write_two);
    order.parameter = &times;
    order.parameter_bytes = sizeof(times);
    order.outputs = two_sections;
    order.output_count = 2;
    return execute(&order);
}

GY_TEST(small_outputs_travel_in_the_report)
{
    gy_worker_answer answer = run_write_two(2);
    assert_done(&answer);
    gy_report report = report_of(&answer);
    assert_true(report.is_inline);
    assert_int_equal(access(path, F_OK), -1);
    gy_report_part a = gy_report_output(&report, 0), b = gy_report_output(&report, 1);
    assert_int_equal(a.size_bytes, 2000);
    assert_int_equal(b.size_bytes, 1000);
    assert_int_equal(((const char *)a.inlined)[1999], 'a');
    assert_int_equal(((const char *)b.inlined)[0], 'b');
    assert_int_equal(report.sample_bytes, 6);
    assert_memory_equal(report.sample, "sample", 6);
    size_t at = 0;
    gy_counter counter;
    static const char *const names[] = {"turns", "even", "odd"};
    static const int64_t values[] = {2, 1, 1};
    for (int i = 0; i < 3; i++) {
        assert_true(gy_report_counter(&report, &at, &counter));
        assert_string_equal(counter.name, names[i]);
        assert_int_equal(counter.value, values[i]);
    }
    assert_false(gy_report_counter(&report, &at, &counter));
    drop(&answer);
}

/* Section `which` of the file of run_write_two, as an input. */
static gy_flow_task_input section_input(uint32_t which, gy_key content)
{
    return (gy_flow_task_input){
        .kind = GY_INPUT_SECTION,
        .path = path,
        .section = which,
        .attempt = 1,
        .key = {11, 12},
        .content = content,
    };
}

GY_TEST(outputs_become_inputs)
{
    gy_worker_answer made = run_write_two(900);
    assert_done(&made);
    gy_report report = report_of(&made);
    assert_false(report.is_inline);
    assert_int_equal(gy_report_output(&report, 0).size_bytes, 900000);
    assert_null(gy_report_output(&report, 0).inlined);
    char plain[160], out[160];
    snprintf(plain, sizeof(plain), "%s/plain", folder);
    snprintf(out, sizeof(out), "%s/out-00000", folder);
    assert_ok(gy_save_file(plain, "0123456789", 10));
    gy_flow_task_input inputs[] = {
        section_input(1, made.content),
        {.kind = GY_INPUT_INLINE, .data = "inline", .size_bytes = 6},
        section_input(0, made.content),
        {.kind = GY_INPUT_INLINE, .data = "", .size_bytes = 0},
        {.kind = GY_INPUT_PLAIN, .path = plain, .offset = 3, .size_bytes = 4},
        {.kind = GY_INPUT_PLAIN, .path = plain, .offset = 8, .size_bytes = UINT64_MAX},
        {.kind = GY_INPUT_PLAIN, .path = plain, .offset = 10, .size_bytes = UINT64_MAX},
    };
    gy_flow_task order = order_of(copy_all);
    order.inputs = inputs;
    order.input_count = (uint32_t)GY_COUNT(inputs);
    order.outputs = (gy_flow_task_output[]){final_output(out)};
    order.output_count = 1;
    gy_worker_answer answer = execute(&order);
    assert_done(&answer);
    report = report_of(&answer);
    assert_int_equal(gy_report_output(&report, 0).size_bytes, 450000 + 6 + 900000 + 4 + 2);
    gy_section_sum sum = {450000 + 6 + 900000 + 6, 0};
    int file = open(out, O_RDONLY | O_CLOEXEC);
    char *bytes = gy_alloc("test", sum.size_bytes);
    assert_int_equal(read(file, bytes, sum.size_bytes), sum.size_bytes);
    close(file);
    assert_memory_equal(bytes + 449998, "bbinlineaa", 10);
    assert_memory_equal(bytes + 1350006 - 2, "aa345689", 8);
    sum.hash = gy_hash(bytes, sum.size_bytes, 0);
    gy_key content = gy_section_content(&sum, 1);
    assert_true(content.high == answer.content.high && content.low == answer.content.low);
    gy_free(bytes);
    drop(&answer);
    drop(&made);
    assert_int_equal(unlink(plain) + unlink(out) + unlink(path), 0);
}

GY_TEST(lost_inputs_are_named)
{
    gy_worker_answer made = run_write_two(900);
    assert_done(&made);
    gy_flow_task_input inputs[] = {
        {.kind = GY_INPUT_INLINE, .data = "x", .size_bytes = 1},
        section_input(0, made.content),
    };
    gy_flow_task order = order_of(copy_all);
    char out[160];
    snprintf(out, sizeof(out), "%s/out-00000", folder);
    order.inputs = inputs;
    order.input_count = 2;
    order.outputs = (gy_flow_task_output[]){final_output(out)};
    order.output_count = 1;
    for (int round = 0; round < 4; round++) {
        int file = open(path, O_RDWR | O_CLOEXEC);
        char byte = 'X';
        if (round == 0) {
            assert_int_equal(pwrite(file, &byte, 1, 500000), 1); /* bytes */
        } else if (round == 1) {
            assert_int_equal(pwrite(file, &byte, 1, 20), 1); /* header */
        } else if (round == 2) {
            assert_int_equal(ftruncate(file, 100), 0);
        } else {
            assert_int_equal(unlink(path), 0);
        }
        close(file);
        gy_worker_answer answer = execute(&order);
        assert_int_equal(answer.cause, GY_CAUSE_LOST_INPUT);
        assert_int_equal(answer.input, 1);
        assert_non_null(strstr(gy_text_get(&answer.reason), "stage[0]: "));
        assert_non_null(strstr(gy_text_get(&answer.reason), path));
        assert_int_equal(access(out, F_OK), -1); /* an unfinished output was removed */
        drop(&answer);
    }
    drop(&made);
}

static gy_status swallow(gy_vertex *vertex)
{
    return copy_all(vertex) < 0 ? GY_OK : GY_OK;
}

GY_TEST(a_users_file_that_is_gone_ends_the_job)
{
    gy_flow_task_input input = {
        .kind = GY_INPUT_PLAIN, .path = "/nowhere/at/all", .size_bytes = UINT64_MAX};
    gy_flow_task order = order_of(swallow); /* whatever the function returns */
    order.inputs = &input;
    order.input_count = 1;
    order.outputs = two_sections;
    order.output_count = 1;
    gy_worker_answer answer = execute(&order);
    assert_int_equal(answer.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(gy_text_get(&answer.reason), "/nowhere/at/all"));
    drop(&answer);
    char plain[160];
    snprintf(plain, sizeof(plain), "%s/plain", folder);
    assert_ok(gy_save_file(plain, "0123456789", 10));
    input = (gy_flow_task_input){
        .kind = GY_INPUT_PLAIN, .path = plain, .offset = 5, .size_bytes = 6};
    answer = execute(&order);
    assert_int_equal(answer.cause, GY_CAUSE_FATAL);
    drop(&answer);
    assert_int_equal(unlink(plain), 0);
}

static gy_status use_scratch(gy_vertex *vertex)
{
    const char *scratch = gy_vertex_scratch(vertex);
    assert_non_null(scratch);
    assert_ptr_equal(scratch, gy_vertex_scratch(vertex));
    gy_text name = {.data = NULL};
    gy_text_add(&name, "%s/deep/er/file", scratch);
    assert_int_equal(gy_disk_make_folders(name.data), 0);
    assert_ok(gy_save_file(name.data, "x", 1));
    gy_text_free(&name);
    return gy_vertex_index(vertex) == 0 ? GY_OK : gy_fail(GY_NUMERIC, "after its files");
}

GY_TEST(scratch_folders_are_swept)
{
    char scratch[160];
    snprintf(scratch, sizeof(scratch), "%s/scratch/key.0.1", folder);
    for (uint32_t index = 0; index < 2; index++) {
        gy_flow_task order = order_of(use_scratch);
        order.index = index;
        gy_worker_answer answer = execute(&order);
        assert_int_equal(answer.cause, index == 0 ? GY_CAUSE_NONE : GY_CAUSE_OWN);
        assert_int_equal(access(scratch, F_OK), -1);
        if (index == 0) { /* nothing to report: the report has no bytes */
            assert_int_equal(answer.report.size_bytes, 0);
            gy_report report = report_of(&answer);
            assert_int_equal(gy_report_output(&report, 5).size_bytes, 0);
        } else {
            assert_string_equal(gy_text_get(&answer.reason), "stage[0]: after its files");
        }
        drop(&answer);
    }
}

static gy_status skip_some(gy_vertex *vertex)
{
    int64_t skipped = 0;
    for (uint32_t source = 0; source < 3; source++) {
        for (uint64_t offset = 0; offset < 10; offset++) {
            if (gy_vertex_has_bad_records(vertex) &&
                gy_vertex_is_bad_record(vertex, source, offset)) {
                skipped++;
                continue;
            }
            gy_vertex_at_record(vertex, source, offset);
        }
    }
    assert_true(gy_vertex_is_bad_key(vertex, "key", 3));
    assert_false(gy_vertex_is_bad_key(vertex, "kez", 3));
    return skipped == 3 ? GY_OK : gy_fail(GY_NUMERIC, "%lld skipped", (long long)skipped);
}

GY_TEST(bad_records_are_skipped_and_counted)
{
    const gy_flow_record_id bad[] = {
        {0, 3}, {0, 9}, {2, 0}, {7, 1}, {GY_PLACE_KEY, gy_hash("key", 3, 0)}};
    gy_flow_task order = order_of(skip_some);
    order.bad = bad;
    order.bad_count = GY_COUNT(bad);
    gy_worker_answer answer = execute(&order);
    assert_done(&answer);
    gy_report report = report_of(&answer);
    assert_int_equal(report.skipped, 4);
    drop(&answer);
}

static gy_status fail_so(gy_vertex *vertex)
{
    size_t size = 0;
    const gy_status *status = gy_vertex_parameter(vertex, &size);
    return gy_fail(*status, "as asked");
}

GY_TEST(errors_end_the_job_at_once)
{
    static const gy_status statuses[] = {GY_FORMAT, GY_ARG, GY_LIMIT, GY_TYPE, GY_IO, GY_STATE};
    for (size_t i = 0; i < GY_COUNT(statuses); i++) {
        gy_flow_task order = order_of(fail_so);
        order.parameter = &statuses[i];
        order.parameter_bytes = sizeof(statuses[i]);
        gy_worker_answer answer = execute(&order);
        assert_int_equal(answer.cause, i < 4 ? GY_CAUSE_FATAL : GY_CAUSE_OWN);
        drop(&answer);
    }
}

GY_TEST(cancelled_work_says_so)
{
    static const _Atomic bool now = true;
    gy_flow_task order = order_of(copy_all);
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_vertex_execute(gy_env_real(), &order, NULL, NULL, &now, &answer);
    assert_int_equal(answer.cause, GY_CAUSE_CANCELLED);
    drop(&answer);
}

static int64_t no_space(gy_env *env, int file, const void *data, size_t size_bytes)
{
    (void)env;
    (void)file;
    (void)data;
    (void)size_bytes;
    return -ENOSPC;
}

GY_TEST(a_full_disk_ends_the_job)
{
    gy_disk_ops disk = gy_disk_real;
    disk.write = no_space;
    gy_env_ops ops = *gy_env_real()->ops;
    ops.disk = &disk;
    gy_env env = {.ops = &ops};
    int32_t times = 900;
    gy_flow_task order = order_of(write_two);
    order.parameter = &times;
    order.parameter_bytes = sizeof(times);
    order.outputs = two_sections;
    order.output_count = 2;
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_vertex_execute(&env, &order, NULL, NULL, &never, &answer);
    assert_int_equal(answer.cause, GY_CAUSE_FATAL);
    assert_non_null(strstr(gy_text_get(&answer.reason), "disk full"));
    assert_int_equal(access(path, F_OK), -1);
    drop(&answer);
}

/* Decoding arbitrary bytes as a report never reads outside them. */
GY_TEST(malformed_reports_are_refused)
{
    gy_worker_answer answer = run_write_two(2);
    gy_random random = {.key = gy_test_seed()};
    size_t size = answer.report.size_bytes;
    gy_report report;
    for (size_t cut = 1; cut < size; cut++) {
        char *copy = gy_alloc("test", cut);
        memcpy(copy, answer.report.data, cut);
        assert_status(gy_report_read(copy, cut, &report), GY_FORMAT);
        gy_free(copy);
    }
    /* an end beyond the report, with a size that matches it */
    assert_ok(gy_report_read(answer.report.data, size, &report));
    char *forged = answer.report.data;
    const uint16_t far = 60000;
    uint16_t before[2];
    size_t ends = (size_t)((const char *)report.ends - forged);
    size_t sizes = (size_t)((const char *)report.sizes - forged);
    memcpy(&before[0], forged + sizes, sizeof(far));
    memcpy(&before[1], forged + ends, sizeof(far));
    memcpy(forged + sizes, &far, sizeof(far));
    memcpy(forged + ends, &far, sizeof(far));
    assert_status(gy_report_read(forged, size, &report), GY_FORMAT);
    memcpy(forged + sizes, &before[0], sizeof(far));
    memcpy(forged + ends, &before[1], sizeof(far));
    for (int round = 0; round < 20000; round++) {
        char *copy = gy_alloc("test", size);
        memcpy(copy, answer.report.data, size);
        for (int i = 0; i < 3; i++) {
            copy[gy_random_below(&random, 60)] = (char)gy_random_u64(&random);
        }
        if (gy_report_read(copy, size, &report) == GY_OK) {
            for (uint32_t i = 0; i < 5; i++) {
                gy_report_part part = gy_report_output(&report, i);
                if (part.inlined != NULL && part.size_bytes > 0) {
                    assert_true((const char *)part.inlined + part.size_bytes <= copy + size);
                }
            }
            size_t at = 0;
            gy_counter counter;
            while (gy_report_counter(&report, &at, &counter)) {
                assert_true(strlen(counter.name) < size);
            }
        }
        gy_free(copy);
    }
    drop(&answer);
}

static int dropped;

static void drop_count(void *state)
{
    dropped += *(int *)state;
}

static int left_by_one = 1, left_by_two = 2;
static const void *taken;

static gy_status leave_one(gy_vertex *vertex)
{
    gy_vertex_keep(vertex, &left_by_one, drop_count);
    gy_vertex_keep(vertex, &left_by_two, drop_count); /* there is room for one cached state */
    return GY_OK;
}

static gy_status take_one(gy_vertex *vertex)
{
    void *kept = gy_vertex_kept(vertex);
    taken = kept;
    assert_null(gy_vertex_kept(vertex));
    gy_vertex_keep(vertex, kept, drop_count);
    return GY_OK;
}

static void run_kept(gy_launch_keep *keep, const char *stage, gy_vertex_work work)
{
    gy_flow_task order = order_of(work);
    order.stage = stage;
    order.keep = keep;
    gy_worker_answer answer = execute(&order);
    assert_int_equal(answer.cause, GY_CAUSE_NONE);
    drop(&answer);
}

/* A stage's vertices find the state that the previous one cached; a vertex of another stage
 * drops it, as does the end; a process without a cache drops it at once. */
GY_TEST(what_is_left_is_for_the_same_stage)
{
    static const char one[] = "one", other[] = "other";
    gy_launch_keep keep;
    gy_keep_init(&keep);
    dropped = 0;
    run_kept(&keep, one, leave_one);
    assert_int_equal(dropped, 2);
    run_kept(&keep, one, take_one);
    assert_ptr_equal(taken, &left_by_one);
    assert_int_equal(dropped, 2);
    run_kept(&keep, other, take_one);
    assert_null(taken);
    assert_int_equal(dropped, 3);
    run_kept(&keep, other, leave_one);
    gy_keep_fini(&keep);
    assert_int_equal(dropped, 6);
    run_kept(NULL, one, leave_one);
    assert_int_equal(dropped, 9);
}

GY_TEST_MAIN(make_folder, remove_folder)
