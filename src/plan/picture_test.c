/* Goal: drawings of plans, to the letter. */
#include "plan/plan.h"

#include "base/base.h"

#include <string.h>

#include "gy_test.h"

static char *picture_of(const char *operation, const char *algorithm, int ranks, int width)
{
    char *text = NULL;
    assert_ok(gy_plan_picture(
        &(gy_plan_query){.operation = operation, .algorithm = algorithm, .ranks = ranks}, width,
        &text));
    return text;
}

static void assert_drawn(const char *operation, const char *algorithm, int ranks, int width,
                         const char *expected)
{
    char *text = picture_of(operation, algorithm, ranks, width);
    const char *body = strchr(strchr(text, '\n') + 1, '\n'); /* behind heading and legend */
    body = strchr(body + 1, '\n');
    assert_string_equal(body + strspn(body, "\n"), expected);
    gy_string_free(text);
}

GY_TEST(rings_and_trees_are_drawn)
{
    char *text = picture_of("allreduce", "ring", 4, 80);
    assert_string_equal(
        text, "allreduce by ring: 4 ranks, 6 rounds, 4 blocks\n"
              ">R:B send block B to rank R  <R:B take it from R  +R:B take and combine\n"
              "=B copy  +=B combine  !M post mark M  ?R:M wait for mark M of R  * all ranks\n"
              "\n"
              "round  rank 0  rank 1  rank 2  rank 3\n"
              "    1  >1:0    >2:1    >3:2    >0:3\n"
              "       +3:3    +0:0    +1:1    +2:2\n"
              "    2  >1:3    >2:0    >3:1    >0:2\n"
              "       +3:2    +0:3    +1:0    +2:1\n"
              "    3  >1:2    >2:3    >3:0    >0:1\n"
              "       +3:1    +0:2    +1:3    +2:0\n"
              "    4  >1:1    >2:2    >3:3    >0:0\n"
              "       <3:0    <0:1    <1:2    <2:3\n"
              "    5  >1:0    >2:1    >3:2    >0:3\n"
              "       <3:3    <0:0    <1:1    <2:2\n"
              "    6  >1:3    >2:0    >3:1    >0:2\n"
              "       <3:2    <0:3    <1:0    <2:1\n");
    gy_string_free(text);
    assert_drawn("reduce", "tree", 5, 80,
                 "round  rank 0  rank 1  rank 2  rank 3  rank 4\n"
                 "    1  +1:0    >0:0    +3:0    >2:0    >0:0\n"
                 "    2  +2:0            >0:0\n"
                 "    3  +4:0\n");
    assert_drawn("barrier", "dissemination", 3, 80,
                 "round  rank 0  rank 1  rank 2\n"
                 "    1  >1      >2      >0\n"
                 "       <2      <0      <1\n"
                 "    2  >2      >0      >1\n"
                 "       <1      <2      <0\n");
}

GY_TEST(memory_of_a_host_is_drawn)
{
    assert_drawn("broadcast", "staged", 3, 80,
                 "round  rank 0  rank 1  rank 2\n"
                 "    -  =0\n"
                 "       !1\n"
                 "    1          ?0:1    ?0:1\n"
                 "               <0:0    <0:0\n"
                 "               !1      !1\n");
    assert_drawn("allreduce", "direct", 2, 80,
                 "round  rank 0  rank 1\n"
                 "    -  !1      !1\n"
                 "    1  ?*:1    ?*:1\n"
                 "       +1:0    +0:1\n"
                 "       >*:0    >*:1\n"
                 "       !2      !2\n"
                 "    2  ?*:2    ?*:2\n");
}

GY_TEST(ranks_that_do_not_fit_get_another_panel)
{
    assert_drawn("broadcast", "tree", 5, 32,
                 "round  rank 0  rank 1  rank 2\n"
                 "    1  >4:0\n"
                 "    2  >2:0            <0:0\n"
                 "    3  >1:0    <0:0    >3:0\n"
                 "\n"
                 "round  rank 3  rank 4\n"
                 "    1          <0:0\n"
                 "    3  <2:0\n");
    char *text = picture_of("allreduce", "ring", 64, 80);
    for (const char *line = text; *line != '\0';) {
        const char *end = strchr(line, '\n');
        assert_true(end - line <= 80);
        assert_true(end == line || end[-1] != ' ');
        line = end + 1;
    }
    gy_string_free(text);
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        count++;
    }
    return count;
}

GY_TEST(svg_has_an_arrow_a_message)
{
    char *text = picture_of("allreduce", "ring", 8, 0);
    assert_int_equal(strncmp(text, "<svg xmlns=", 11), 0);
    assert_int_equal(count_of(text, "<path class=\"line\""), 2 * 7 * 8);
    assert_int_equal(count_of(text, "<circle"), 7 * 8);
    assert_int_equal(count_of(text, "round "), 14);
    assert_non_null(strstr(text, "</svg>\n"));
    gy_string_free(text);
    assert_status(
        gy_plan_picture(
            &(gy_plan_query){.operation = "allreduce", .algorithm = "ring", .ranks = 65}, 0,
            &text),
        GY_LIMIT);
}

/* Whatever is planned can be drawn. */
GY_TEST(everything_can_be_drawn)
{
    for (int i = 0; gy_plan_operation(i) != NULL; i++) {
        gy_plan_algorithm row;
        for (int k = 0; gy_plan_algorithm_at(gy_plan_operation(i), k, &row); k++) {
            for (int ranks = 1; ranks <= 9; ranks++) {
                gy_string_free(picture_of(gy_plan_operation(i), row.name, ranks, 80));
                gy_string_free(picture_of(gy_plan_operation(i), row.name, ranks, 0));
            }
        }
    }
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(wrong_names_say_what_there_is)
{
    gy_plan_query query = {.operation = "allreduse", .algorithm = "ring", .ranks = 2};
    gy_plan_costs price;
    int64_t steps = 0;
    assert_status(gy_plan_cost(&query, &price), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "allreduce, reduce-scatter"));
    query.operation = "allreduce";
    query.algorithm = "rign";
    assert_status(gy_plan_prove(&query), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "\"rign\"; there are "));
    query.algorithm = "ring";
    query.hosts = 3;
    assert_status(gy_plan_length(&query, &steps), GY_ARG);
    query.hosts = 0;
    query.ranks = 0;
    assert_status(gy_plan_length(&query, &steps), GY_ARG);
    query = (gy_plan_query){.operation = "exclusive-scan", .algorithm = "chain", .ranks = 3};
    assert_ok(gy_plan_prove(&query));
}

GY_TEST_MAIN(NULL, NULL)
