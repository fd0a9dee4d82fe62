/*
 * Goal: lecture A's question, which are the five most popular pages of a log, has one answer,
 * awk's, however it is asked: by a graph made by hand, by two MapReduce jobs, and by a query in
 * one process and as a job.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *kit_words =
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state; rm -rf graph jobs jobs.counts got; ";

#define SQL GYRE_SOURCE "/examples/popular.sql"
#define ANSWERS                                                                                \
    "$GYRE_TEST_POPULAR access.log graph >got && cmp got expected && "                         \
    "$GYRE_TEST_POPULAR_JOBS access.log jobs >got && cmp got expected && "                     \
    "for how in '' '--processes 2 --split 64KiB'; do gyre query $how --format csv -f " SQL     \
    " >said && sed 1d said | tr , ' ' | cmp - expected || exit 1; done"

GY_TEST(a_log_has_one_answer)
{
    /* ties among the pages, requests that are no GET, pages that differ by their ends */
    must("awk 'BEGIN { srand(7); for (i = 0; i < 20000; i++) printf \"10.0.0.%d - - "
         "[27/Nov/2026:10:00:%02d +0000] \\\"%s /page/%d HTTP/1.1\\\" 200 %s\\n\", i % 255, "
         "i % 60, i % 11 ? \"GET\" : \"POST\", int(1 / (rand() + 0.001)), i % 7 ? i : \"-\" }' "
         ">access.log && "
         "awk '{ split($0, a, \"\\\"GET \"); split(a[2], b, \" \"); if (a[2]) count[b[1]]++ } "
         "END { for (k in count) print count[k], k }' access.log | sort -k1,1nr -k2 | "
         "head -n 5 >expected && [ $(wc -l <expected) = 5 ] && " ANSWERS);
}

GY_TEST(fewer_pages_than_five_are_all_the_answer)
{
    must("printf 'h - - [t z] \"GET /b x\" 200 1\\nh - - [t z] \"GET /a x\" 200 1\\n' "
         ">access.log && printf '1 /a\\n1 /b\\n' >expected && " ANSWERS);
}

GY_TEST(no_request_is_no_answer)
{
    must("echo 'h - - [t z] \"POST /b x\" 200 1' >access.log && : >expected && " ANSWERS);
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
