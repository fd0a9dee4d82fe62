/*
 * Goal: a file of links comes to be what plans cost, bad ones are refused by line and cause,
 * and the weighted ring and tree go around links that it calls slow.
 */
#include "plan/plan.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

#define HEAD "gyre links 1\nlink ring 5 0.02\n"

static gy_plan_links *parse(const char *text)
{
    gy_plan_links *links = NULL;
    assert_ok(gy_plan_links_parse(text, strlen(text), "t", &links));
    return links;
}

static gy_plan_costs price_of(const gy_plan_links *links, const char *operation,
                              const char *algorithm)
{
    gy_plan_query query = {
        .operation = operation, .algorithm = algorithm, .bytes = 1000000, .ranks = 0};
    gy_plan_costs price = {.rounds = 0};
    assert_ok(gy_plan_links_use(links, &query));
    assert_ok(gy_plan_cost(&query, &price));
    return price;
}

static void assert_near(double got, double expected)
{
    if (fabs(got - expected) > 1e-9 * fabs(expected)) {
        fail_msg("%.12g, expected %.12g", got, expected);
    }
}

/* One message of a million bytes from rank 0 to rank 1. */
GY_TEST(figures_are_those_of_the_file)
{
    static const struct {
        const char *lines;
        double seconds;
    } cases[] = {
        {"host a 0-1\n", 5e-6 + 1e6 * 0.02e-9},
        {"host a 0\nhost b 1\n", 5e-6 + 1e6 * 0.02e-9},
        {"link far 20 0.5\nhost a 0\nhost b 1\n", 20e-6 + 1e6 * 0.5e-9},
        {"link far 20 0.5\nhost a 0\nhost b 1\nbetween a b 7 3\n", 7e-6 + 1e6 * 3e-9},
        {"link far 20 0.5\nhost a 0\nhost b 1\nbetween b a 7 3\n", 7e-6 + 1e6 * 3e-9},
        {"host a 0\nhost b 1\nbetween b a 7 3\nbetween a b 9 4\n", 9e-6 + 1e6 * 4e-9},
        {"# nobody\n\nlink far 20 0.5\nhost b 1\nhost a\t0\n", 20e-6 + 1e6 * 0.5e-9},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text), HEAD "%s", cases[i].lines);
        gy_plan_links *links = parse(text);
        assert_near(price_of(links, "broadcast", "flat").time_s, cases[i].seconds);
        gy_plan_links_free(links);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

/* Two pairs of hosts with a slow link between the pairs, ranks dealt by turns. */
GY_TEST(slow_links_are_gone_around)
{
    gy_plan_links *links = parse(HEAD "link far 20 10\nhost a 0,4\nhost b 1,5\nhost c 2,6\n"
                                      "host d 3,7\nbetween a c 5 0.1\nbetween b d 5 0.1\n");
    double ring = price_of(links, "allreduce", "ring").time_s;
    double weighed = price_of(links, "allreduce", "weighted-ring").time_s;
    double flat = price_of(links, "broadcast", "flat").time_s;
    double weighed_tree = price_of(links, "broadcast", "weighted-tree").time_s;
    assert_true(weighed < ring);
    assert_true(weighed_tree < flat);
    /* The slow links carry the vector to one of the two pairs, once. */
    assert_true(weighed_tree < 2 * 1e6 * 10e-9);
    gy_plan_links_free(links);
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(a_table_of_gyre_tune_will_do)
{
    gy_plan_links *links = parse(
        "gyre tune 1\nmachine some, with, many, words, in it and, more than ten of, them\n"
        "link word 0.1 0\nlink ring 5 0.02\nlink far 20 0.5\ncombine plain 0.1\n"
        "combine half 0.3\ntake allreduce plain private 2 1 0 staged 12\nend 1\n");
    gy_plan_query query = {.operation = "broadcast", .algorithm = "flat", .ranks = 3};
    assert_ok(gy_plan_links_use(links, &query));
    assert_int_equal(query.ranks, 3);
    assert_null(query.host_of);
    assert_near(query.links.alpha, 5e-6);
    assert_near(query.links.gamma, 0.1e-9);
    assert_near(query.beta_across, 0.5e-9);
    gy_plan_links_free(links);
}

GY_TEST(bad_files_are_refused_by_line_and_cause)
{
    static const struct {
        const char *text, *line, *cause;
    } cases[] = {
        {"", "t:0:", "link ring"},
        {"\x7f"
         "ELF",
         "t:1:", "gyre links 1"},
        {"gyre links 2\n", "t:1:", "gyre links 1"},
        {"gyre links 1\n", "t:1:", "without a line \"link ring\""},
        {HEAD "link ring 1 1\n", "t:3:", "twice"},
        {HEAD "link word 1 1\n", "t:3:", "expected one of ring, far"},
        {HEAD "link far -1 1\n", "t:3:", "alpha is \"-1\""},
        {HEAD "link far 1 nan\n", "t:3:", "beta is \"nan\""},
        {HEAD "link far 1\n", "t:3:", "has 3 words, expected 4"},
        {HEAD "combine half 1\n", "t:3:", "type is \"half\""},
        {HEAD "combine plain 1\ncombine plain 1\n", "t:4:", "twice"},
        {HEAD "take x\n", "t:3:", "begins no line"},
        {HEAD "host a\n", "t:3:", "has 2 words, expected 3"},
        {HEAD "host a 0-\n", "t:3:", "last rank is \"\""},
        {HEAD "host a 3-1\n", "t:3:", "from 3 to 65535"},
        {HEAD "host a 0,,2\n", "t:3:", "the rank is \"\""},
        {HEAD "host a 65536\n", "t:3:", "\"65536\""},
        {HEAD "host a 0-1\nhost b 1\n", "t:4:", "rank 1 is placed twice"},
        {HEAD "host a 0,2\n", "t:3:", "rank 1 is on no host"},
        {HEAD "host a 0\nbetween a b 1 1\n", "t:4:", "no line above names a host \"b\""},
        {HEAD "host a 0\nbetween a a 1 1\n", "t:4:", "\"a\" twice"},
        {HEAD "host a 0\nhost b 1\nbetween a b 1 1\nbetween a b 1 1\n", "t:6:", "given twice"},
        {HEAD "host a 0\nhost b 1\nbetween a b 1\n", "t:5:", "has 4 words, expected 5"},
        {HEAD "host a 0 1 2 3 4 5 6 7 8\n", "t:3:", "more than 10 words"},
        {HEAD "host a\x01 0\n", "t:3:", "is 01"},
        {HEAD "host a 0\r\n", "t:3:", "is 0d"},
        {"gyre tune 1\nhost a 0\n", "t:2:", "begins no line"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_plan_links *links = NULL;
        gy_status status =
            gy_plan_links_parse(cases[i].text, strlen(cases[i].text), "t", &links);
        if (status != GY_FORMAT || strstr(gy_error_text(), cases[i].line) == NULL ||
            strstr(gy_error_text(), cases[i].cause) == NULL) {
            fail_msg("case %zu gave %d, \"%s\"; expected %s %s", i, (int)status,
                     gy_error_text(), cases[i].line, cases[i].cause);
        }
    }
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(files_are_bounded)
{
    enum { HOSTS = 1025 };
    gy_plan_links *links = NULL;
    gy_text text = {.data = NULL};
    gy_text_add(&text, HEAD);
    for (int i = 0; i < HOSTS; i++) {
        gy_text_add(&text, "host h%d %d\n", i, i);
    }
    assert_status(gy_plan_links_parse(text.data, text.size_bytes, "t", &links), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "t:1027: more than 1024 hosts"));
    while (text.size_bytes <= 1 << 20) {
        gy_text_add(&text, "#\n");
    }
    assert_status(gy_plan_links_parse(text.data, text.size_bytes, "t", &links), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "at most 1048576"));
    gy_text_free(&text);
    gy_text_add(&text, HEAD "host %064d 0\n", 0);
    assert_status(gy_plan_links_parse(text.data, text.size_bytes, "t", &links), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "64 characters, at most 63"));
    gy_text_free(&text);
    links = parse(HEAD "host a 0-2\n");
    gy_plan_query query = {.ranks = 4};
    assert_status(gy_plan_links_use(links, &query), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "places 3"));
    gy_plan_links_free(links);
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(memory_that_ends_is_a_failure)
{
    static const char text[] = HEAD "host a 0\nhost b 1\nbetween a b 1 1\n";
    gy_status status = GY_NOMEM;
    for (int n = 1; status == GY_NOMEM; n++) {
        gy_plan_links *links = NULL;
        gy_alloc_fail_after(n);
        status = gy_plan_links_parse(text, strlen(text), "t", &links);
        gy_alloc_fail_after(0);
        gy_plan_links_free(links);
        assert_int_equal(gy_alloc_live(), 0);
    }
    assert_int_equal(status, GY_OK);
}

GY_TEST_MAIN(NULL, NULL)
