/* Goal: a real browser shows what a cluster is at, and goes on showing it without being loaded
 * again: daemons, a job's graph of stages with its counts, slow runs and where they are,
 * counters, reasons; texts of users as texts. */
#include "cluster_kit.h"

static cluster at;
static char said[1 << 16];
enum { UNABLE = 77 }; /* browser.py: no page opens here */

static int begin(void **state)
{
    if (kit_begin(state) != 0) {
        return 1;
    }
    at = (cluster){.options = {"--page", "127.0.0.1:0"}};
    cluster_start(&at);
    return 0;
}

static int end(void **state)
{
    cluster_stop(&at);
    return kit_end(state);
}

/* Two maps end at once, the others when the file `go` is there. */
static const char look[] =
    "export WORDS='<i>words</i>'\n"
    "for i in 0 1 2 3 4 5; do seq $i 7 4000 >in$i; done\n"
    "url=$(sed -n 's/^status page: //p' names.log)?token=$(cat table.token)\n"
    "id=$($GYRE job submit $N --no-wait --name \"$WORDS\" -- $GYRE mr --map \"echo >>$T/runs; "
    "[ "
    "\\$(wc -l <$T/runs) -lt 3 ] || until [ -e $T/go ]; do sleep 0.02; done; tr ' ' '\\n'\" "
    "--reduce 'uniq -c' --split 2KiB in? -o out)\n"
    "timeout -k 5 120 python3 $GYRE_TEST_SERVERS/browser.py $T/browser \"$url\" \\\n"
    "  '(window.mark = 1)' \\\n"
    "  'document.querySelectorAll(\"#daemons tbody tr\").length == 3' \\\n"
    "  '[...document.querySelectorAll(\"#jobs svg text\")].some(t => "
    "/^[1-9] of 12/.test(t.textContent))' \\\n"
    "  'document.querySelectorAll(\"#jobs svg path\").length > 0' \\\n"
    "  '/Slowest attempts/.test(document.body.innerText)' \\\n"
    "  '[...document.querySelectorAll(\"#jobs td\")].some(t => "
    "/^h[0-2]$/.test(t.textContent))' "
    "\\\n"
    "  '/Events\\n/.test(document.getElementById(\"jobs\").innerText)' \\\n"
    "  'document.querySelector(\"#jobs i\") === null' \\\n"
    "  \"document.querySelector('#jobs strong').textContent == '$WORDS '\" \\\n"
    "  \"sh:$GYRE cluster drain $N h0\" \\\n"
    "  '[...document.querySelectorAll(\"#daemons td\")].some(t => t.textContent == "
    "\"drained\")' "
    "\\\n"
    "  \"sh:touch $T/go; $GYRE job wait $N $id\" \\\n"
    "  '/ended/.test(document.querySelector(\"#jobs tbody tr\").textContent)' \\\n"
    "  'window.mark === 1'\n";

GY_TEST(a_browser_shows_a_job_at_work)
{
    char path[160];
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    skip(); /* what serves the page is looked at by cluster_report_test there */
#endif
    if (cluster_shell(&at, said, sizeof(said), "command -v WPEWebDriver cog") != 0) {
        print_message("no browser here: scripts/deps test installs one\n");
        skip();
    }
    FILE *file = fopen(cluster_path(path, "look.sh"), "we");
    assert_non_null(file);
    assert_true(fputs(look, file) >= 0);
    assert_int_equal(fclose(file), 0);
    int status = cluster_shell(&at, said, sizeof(said), "export T GYRE N; sh -e look.sh");
    if (status == UNABLE) {
        print_message("skipped: %s\n", said);
        skip();
    }
    if (status != 0) {
        fail_msg("%s", said);
    }
}

GY_TEST_MAIN(begin, end)
