/* PyTorch's own lists are read, pass the checker and are the planner's where both have the
 * schedule; what is no list is refused with its line. */
#include "plan/pipe/pipe_priv.h"

#include "base/base.h"

#include "gy_test.h"

static gy_pipe_schedule *read_torch(const char *name)
{
    static char text[1 << 16];
    char path[1024];
    gy_pipe_schedule *schedule = NULL;
    snprintf(path, sizeof(path), "%s/%s", PIPE_LISTS, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof(text), file);
    fclose(file);
    assert_ok(gy_pipe_parse(text, size, name, &schedule));
    return schedule;
}

GY_TEST(lists_of_pytorch_pass)
{
    static const struct {
        const char *name;
        int stages, micros;
        bool is_ordered;
    } lists[] = {{"gpipe", 3, 4, true},          {"interleaved", 6, 8, true},
                 {"zb-h1", 4, 8, true},          {"looped_bfs", 4, 3, false},
                 {"zb_interleaved", 4, 4, true}, {"zbv", 6, 6, true},
                 {"dualpipev", 4, 4, true}};
    for (size_t i = 0; i < GY_COUNT(lists); i++) {
        gy_pipe_facts facts;
        gy_pipe_schedule *schedule = read_torch(lists[i].name);
        assert_int_equal(schedule->stages, lists[i].stages);
        assert_int_equal(schedule->micros, lists[i].micros);
        assert_ok(gy_pipe_check(schedule, NULL, &facts));
        assert_int_equal(facts.is_ordered, lists[i].is_ordered);
        gy_pipe_free(schedule);
    }
}

GY_TEST(planned_lists_are_those_of_pytorch)
{
    static const gy_pipe_query queries[] = {
        {"gpipe", 3, 4, 1}, {"interleaved", 3, 8, 2}, {"zb-h1", 4, 8, 1}};
    for (size_t i = 0; i < GY_COUNT(queries); i++) {
        gy_pipe_schedule *planned = NULL, *again = NULL;
        gy_pipe_schedule *theirs = read_torch(queries[i].schedule);
        char *text = NULL, *other = NULL;
        assert_ok(gy_pipe_plan(&queries[i], &planned));
        assert_ok(gy_pipe_print(planned, GY_PIPE_COMPUTING, &text));
        assert_ok(gy_pipe_print(theirs, GY_PIPE_COMPUTING, &other));
        assert_string_equal(text, other);
        gy_string_free(other);
        gy_string_free(text);
        /* And with transfers it is read again as it was. */
        assert_ok(gy_pipe_print(planned, GY_PIPE_ALL, &text));
        assert_ok(gy_pipe_parse(text, strlen(text), "list", &again));
        assert_ok(gy_pipe_check(again, NULL, NULL));
        assert_ok(gy_pipe_print(again, GY_PIPE_ALL, &other));
        assert_string_equal(text, other);
        gy_string_free(other);
        gy_string_free(text);
        gy_pipe_free(planned);
        gy_pipe_free(theirs);
        gy_pipe_free(again);
    }
}

GY_TEST(what_is_no_list_is_refused)
{
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"", "no action"},
        {"\n\n", "no action"},
        {"0REDUCE_GRAD", "no action"},
        {"0F0\n1Q1,1F0", "list:2: '1Q1': expected F, B"},
        {"0F0\nF1", "list:2: 'F1': expected a stage"},
        {"0F", "'0F': expected a micro-batch"},
        {"0REDUCE_GRAD1", "expected no micro-batch"},
        {"0F0 0F1", "expected a comma"},
        {"1048576F0", "a stage below"},
        {"0F1048576", "below 1048576"},
        {"1048575F1048575", "product up to"},
        {"(0F0;0B0)F", "expected (ACTION;ACTION)OVERLAP_F_B"},
        {"(0F0", "expected (ACTION;ACTION)OVERLAP_F_B"},
        {"\033[0m", "'\\x1b[0m'"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_pipe_schedule *schedule = NULL;
        assert_status(gy_pipe_parse(cases[i].text, strlen(cases[i].text), "list", &schedule),
                      GY_FORMAT);
        if (strstr(gy_error_text(), cases[i].cause) == NULL) {
            fail_msg("'%s' is not in '%s'", cases[i].cause, gy_error_text());
        }
    }
}

/* What PyTorch 2.15 gives out as its 1F1B (it runs another one) has micro-batches 1 to 8 on the
 * last rank, where 0 to 7 come in; all other ranks' lists are the planner's. */
GY_TEST(an_error_of_pytorchs_list_is_found)
{
    gy_pipe_schedule *theirs = read_torch("1f1b_order"), *planned = NULL;
    char *text = NULL, *other = NULL;
    assert_status(gy_pipe_check(theirs, NULL, NULL), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "rank 0 action "));
    assert_non_null(strstr(gy_error_text(), "(0REDUCE_GRAD): 8 of 9 micro-batches"));
    assert_ok(gy_pipe_plan(&(gy_pipe_query){"1f1b", 4, 8, 1}, &planned));
    assert_ok(gy_pipe_print(planned, GY_PIPE_COMPUTING, &text));
    assert_ok(gy_pipe_print(theirs, GY_PIPE_COMPUTING, &other));
    size_t size = (size_t)(strstr(text, "\n3F0") - text);
    assert_memory_equal(text, other, size);
    gy_string_free(text);
    gy_string_free(other);
    gy_pipe_free(planned);
    gy_pipe_free(theirs);
}

/* A list that is read is refused by the checker with rank and action. */
GY_TEST(what_a_list_breaks_is_named)
{
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"0B0,0F0", "rank 0 action 0 (0B0): the stage has not gone forward"},
        {"0F0,0F0,0B0", "rank 0 action 1 (0F0): it stands there twice"},
        {"0F0", "(0REDUCE_GRAD): 0 of 1 micro-batches have added gradients of stage 0: 0B0 is"},
        {"0F0,0F1,0F2,0B0,0B2", "2 of 3 micro-batches have added gradients of stage 0: 0B1 is"},
        {"0F0,0F1,0I0,0W0,0I1", "1 of 2 micro-batches have added gradients of stage 0: 0W1 is"},
        {"0F0,0I0", "(0REDUCE_GRAD): 0 of 1 micro-batches"},
        {"0F0,0I0,0B0,0W0", "rank 0 action 2 (0B0): the stage has gone backward"},
        {"0F0,0W0", "rank 0 action 1 (0W0): no 0I0 stands before it"},
        {"0F0,0F1,0B0\n0B1,0REDUCE_GRAD", "rank 1 action 0 (0B1): stage 0 is on rank 0"},
        {"0F0,0B0\n2F0,2B0", "rank 1 action 0 (2F0): nothing of micro-batch 0 has come"},
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0", "rank 1: 1SEND_B0 is missing"},
        {"0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0",
         "rank 0 action 1 (0RECV_B0): waits for ever"},
        {"0F0,0B0,0REDUCE_GRAD,0F1,0B1", "0REDUCE_GRAD): 1 of 2 micro-batches"},
        {"0F0,0SEND_F0,0B0", "0SEND_F0): stage 0 has nothing to send there"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_pipe_schedule *schedule = NULL;
        assert_ok(gy_pipe_parse(cases[i].text, strlen(cases[i].text), "list", &schedule));
        assert_status(gy_pipe_check(schedule, NULL, NULL), GY_STATE);
        if (strstr(gy_error_text(), cases[i].cause) == NULL) {
            fail_msg("'%s' is not in '%s'", cases[i].cause, gy_error_text());
        }
        gy_pipe_free(schedule);
    }
}

GY_TEST_MAIN(NULL, NULL)
