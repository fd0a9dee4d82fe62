/* Goal: STARTs and welcomes decode to what was encoded; damaged ones are refused. */
#include "flow/channel/start.h"

#include <string.h>

#include "gy_test.h"

static const gy_vertex_start_input inputs[] = {
    {.kind = GY_INPUT_SECTION,
     .task_input = 3,
     .from = {7, 1, 1 << 20},
     .member = 2,
     .section = 9,
     .width = 4,
     .key = {1, 2},
     .content = {3, 4}},
    {.kind = GY_INPUT_INLINE, .task_input = 4, .data = "bytes", .size_bytes = 5},
    {.kind = GY_INPUT_INLINE, .task_input = 5},
    {.kind = GY_INPUT_PLAIN,
     .path = "/a/path",
     .offset = 10,
     .size_bytes = UINT64_MAX,
     .stamp = {.disk = {1, 2, 3, 4, 5, 6, 7}, .machine = 8}},
    {.kind = GY_INPUT_FIFO, .channel = 1},
    {.kind = GY_INPUT_PIPE, .channel = 2},
    {.kind = GY_INPUT_FETCHED,
     .task_input = 6,
     .from = {8, 2, 1 << 20},
     .section = 1,
     .width = 1,
     .key = {5, 6},
     .content = {7, 8}},
    {.kind = GY_INPUT_OBJECT,
     .path = "s3://bucket/key",
     .version = "an ETag",
     .offset = 7,
     .size_bytes = 9,
     .total_bytes = 100},
};

static const gy_vertex_start_output outputs[] = {
    {GY_OUTPUT_SECTION, 0}, {GY_OUTPUT_FINAL, 0}, {GY_OUTPUT_FIFO, 5}, {GY_OUTPUT_PIPE, 6}};

static gy_vertex_start make_start(void)
{
    static const gy_flow_task_channel channels[] = {{0, 1, false}, {1, 2, true}};
    static const gy_flow_record_id bad[] = {{1, 100}, {2, 5}};
    static const char *const command[] = {"sed", "-e", "s/a b/c/", NULL};
    static const char *const files[] = {"side", NULL};
    static const gy_stamp stamps[] = {{.disk = {11, 12, 13, 14, 15, 16, 17}, .machine = 18}};
    return (gy_vertex_start){.function = GY_FUNCTION_NONE,
                             .stage = 1,
                             .number = 12,
                             .index = 2,
                             .copies = 40,
                             .ranks = 3,
                             .width = 3,
                             .memory_bytes = UINT64_C(1) << 33,
                             .token = {11, 12},
                             .parameter = "parameter",
                             .parameter_bytes = 9,
                             .input_count = GY_COUNT(inputs),
                             .output_count = GY_COUNT(outputs),
                             .channel_count = 2,
                             .bad_count = 2,
                             .inputs = inputs,
                             .outputs = outputs,
                             .channels = channels,
                             .bad = bad,
                             .command = command,
                             .files = files,
                             .stamps = stamps,
                             .hosts = 3,
                             .address = "h1:7000",
                             .is_plain = true,
                             .is_reported = true};
}

static void expect_inputs(const gy_vertex_start *read)
{
    assert_int_equal(read->input_count, GY_COUNT(inputs));
    for (size_t i = 0; i < GY_COUNT(inputs); i++) {
        const gy_vertex_start_input *a = &read->inputs[i], *b = &inputs[i];
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->task_input, b->task_input);
        assert_memory_equal(&a->from, &b->from, sizeof(a->from));
        assert_int_equal(a->member, b->member);
        assert_int_equal(a->section, b->section);
        assert_int_equal(a->width, b->width);
        assert_int_equal(a->channel, b->channel);
        assert_memory_equal(&a->key, &b->key, sizeof(gy_key));
        assert_memory_equal(&a->content, &b->content, sizeof(gy_key));
        assert_true(a->offset == b->offset && a->size_bytes == b->size_bytes);
        assert_true(a->total_bytes == b->total_bytes);
        assert_memory_equal(&a->stamp, &b->stamp, sizeof(gy_stamp));
    }
    assert_memory_equal(read->inputs[1].data, "bytes", 5);
    assert_string_equal(read->inputs[3].path, "/a/path");
    assert_string_equal(read->inputs[7].path, "s3://bucket/key");
    assert_string_equal(read->inputs[7].version, "an ETag");
}

GY_TEST(what_is_written_is_read)
{
    const gy_vertex_start start = make_start();
    gy_text text = {0};
    gy_vertex_start_write(&start, &text);
    assert_ok(text.status);
    gy_arena arena = {0};
    gy_vertex_start read;
    assert_ok(gy_vertex_start_read(text.data, text.size_bytes, &arena, &read));
    expect_inputs(&read);
    assert_memory_equal(read.outputs, outputs, sizeof(outputs));
    assert_int_equal(read.number, 12);
    assert_int_equal(read.copies, 40);
    assert_true(read.memory_bytes == UINT64_C(1) << 33 && read.token[1] == 12);
    assert_string_equal(read.parameter, "parameter"); /* ends with a NUL that is not counted */
    assert_int_equal((uintptr_t)read.parameter % 8, 0);
    assert_int_equal(read.parameter_bytes, 9);
    assert_int_equal(read.channels[1].to, 2);
    assert_true(read.channels[1].is_pipe && !read.channels[0].is_pipe);
    assert_true(read.bad_count == 2 && read.bad[1].offset == 5 && read.bad[0].source == 1);
    assert_string_equal(read.command[2], "s/a b/c/");
    assert_null(read.command[3]);
    assert_string_equal(read.files[0], "side");
    assert_memory_equal(read.stamps, start.stamps, sizeof(gy_stamp));
    assert_true(read.hosts == 3 && read.is_plain && read.is_reported);
    assert_string_equal(read.address, "h1:7000");
    gy_arena_free(&arena);
    gy_text_free(&text);
}

GY_TEST(cut_and_changed_messages_are_refused_or_read)
{
    const gy_vertex_start start = make_start();
    gy_text text = {0};
    gy_vertex_start_write(&start, &text);
    gy_random random = {.key = gy_test_seed()};
    gy_vertex_start read;
    for (size_t size = 0; size < text.size_bytes; size++) {
        gy_arena arena = {0};
        assert_status(gy_vertex_start_read(text.data, size, &arena, &read), GY_FORMAT);
        gy_arena_free(&arena);
    }
    /* arbitrary bytes: no crash, no excessive allocation */
    for (long i = 0; i < gy_test_cases(3000); i++) {
        char *changed = gy_alloc("test", text.size_bytes);
        memcpy(changed, text.data, text.size_bytes);
        for (int k = 0; k < 3; k++) {
            changed[gy_random_below(&random, text.size_bytes)] = (char)gy_random_u64(&random);
        }
        gy_arena arena = {0};
        const gy_status status = gy_vertex_start_read(changed, text.size_bytes, &arena, &read);
        assert_true(status == GY_OK || status == GY_FORMAT);
        gy_arena_free(&arena);
        gy_free(changed);
    }
    gy_text_add_bytes(&text, "x", 1);
    gy_arena arena = {0};
    assert_status(gy_vertex_start_read(text.data, text.size_bytes, &arena, &read), GY_FORMAT);
    gy_arena_free(&arena);
    gy_text_free(&text);
}

GY_TEST(welcomes_are_read_too)
{
    const gy_welcome welcome = {.functions = 77,
                                .folder = "/job",
                                .data = "/job/data",
                                .output = "",
                                .stages = (const char *const[]){"map", "reduce"},
                                .stage_count = 2,
                                .is_traced = true,
                                .record_timeout_ns = -1,
                                .deadline = {123}};
    gy_text text = {0};
    gy_welcome_write(&welcome, &text);
    gy_arena arena = {0};
    gy_welcome read;
    assert_ok(gy_welcome_read(text.data, text.size_bytes, &arena, &read));
    assert_true(read.functions == 77 && read.is_traced && read.deadline.at_ns == 123);
    assert_string_equal(read.folder, "/job");
    assert_string_equal(read.data, "/job/data");
    assert_string_equal(read.output, "");
    assert_string_equal(read.stages[1], "reduce");
    for (size_t size = 0; size < text.size_bytes; size++) {
        assert_status(gy_welcome_read(text.data, size, &arena, &read), GY_FORMAT);
    }
    gy_arena_free(&arena);
    gy_text_free(&text);
}

GY_TEST(names_tell_attempts_apart)
{
    char name[GY_NAME_BYTES];
    assert_string_equal(gy_flow_name_data((gy_attempt){1, 2, 3}, 4, 1, name), "1.2.3");
    assert_string_equal(gy_flow_name_data((gy_attempt){1, 2, 3}, 4, 5, name), "1.2.3.4");
    assert_string_equal(gy_flow_name_file(1, (gy_attempt){1, 2, 3}, 4, 5, name), "1.2.3.4");
    assert_string_equal(gy_flow_name_file(2, (gy_attempt){1, 2, 3}, 4, 5, name), "2-1.2.3.4");
    assert_string_equal(gy_flow_name_final((gy_attempt){1, 2, 3}, 4, 5, name), "1.2.3.4.5");
    const uint32_t most = UINT32_MAX;
    assert_true(strlen(gy_flow_name_final((gy_attempt){most, most, most}, most, most, name)) ==
                54);
}

GY_TEST_MAIN(NULL, NULL)
