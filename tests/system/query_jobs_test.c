/*
 * Goal: a query as a job has the bytes that it has in one process: random queries over pieces
 * of files with 1, 2 and 4 processes, and while processes are killed; a memo runs again only
 * what changed.
 */
#include "jobs_kit.h"

#include "command_kit.h" /* behind the other kit, whose locals have names of its globals */

#include "gy_test.h"

GY_TEST(random_queries_have_the_same_bytes_as_jobs)
{
    char line[1024];
    const char *binary = getenv("GYRE_BIN");
    snprintf(line, sizeof(line),
             "python3 " GYRE_SOURCE "/tests/system/random_jobs.py %s $PWD %llu %ld",
             binary != NULL ? binary : "build/dev/gyre", (unsigned long long)gy_test_seed(),
             gy_test_cases(8));
    const int status = shell(line);
    printf("%s", output);
    if (status != 0) {
        fail_msg("'%s' ended with %d", line, status);
    }
}

static const char *const lines[] = {
    "printf 'a,b,c\\n1,10,x\\n2,20,y\\n3,,x\\n' >t.csv; mkdir m; "
    "for i in 1 2 3 4 5; do printf 'k,n\\n%d,1\\n%d,2\\n' $i $i >m/$i.csv; done; "
    "seq 20000 | sed '1i n' >big.csv",
    /* errors are those of one process */
    "! gyre query --tables . -p 2 'select b / (a - 2) from t' 2>said; ! gyre query --tables . "
    "'select b / (a - 2) from t' 2>here; cmp said here && grep -q 'division by zero' said",
    "(seq 300000; echo x) | sed 's/$/,1/; 1i n,m' >late.csv; gyre query --tables . -p 2 "
    "--format csv 'select count(n) from late' 2>said | grep -qx 300001 && grep -q "
    "'late.csv:300002: x' said && grep -c said: said | grep -qx 0",
    "(seq 300; seq 3) | awk '{ print $1 \",\" (NR > 300 ? 7 : \"\") }' | sed '1i n,m' "
    ">few.csv; "
    "for o in '-w 1' '-p 2 --split 64'; do gyre query --tables . $o --format csv 'select "
    "sum(m) "
    "from few' | grep -qx 21 || exit 1; done",
    "! gyre query --tables . -p 2 'select (select a from t)' 2>said; grep -q '^query:1:8: more "
    "than one row' said",
    "! gyre query -p 2 'select nme' 2>said; grep -q '^query:1:8' said",
    "! gyre query --timeout 5 'select 1' 2>said; grep -q 'query: --timeout is an option of a "
    "job: expected "
    "--processes or --memo' said",
    "for i in 1 2; do (echo '# a \"note\"'; echo; echo n,m; seq 300 | sed 's/.*7$/NA/; "
    "s/$/,NA/'; echo 5,2) >noted$i.csv; done; for o in '-w 1' '-p 2' '-p 2 --split 64'; do "
    "gyre "
    "query $o --format csv \"select count(*), count(n), sum(n), sum(m) from "
    "read_csv('noted?.csv', "
    "skip => 1, nullstr => 'NA')\" | tail -1 | grep -qx 602,542,81190,4 || exit 1; done",
    /* what is said of stages */
    "gyre query --tables . -p 3 --explain 'select c, sum(b) from t group by c' | grep -qx "
    "'stage 0: a vertex a piece, groups in part, 3 parts by the hash of c\\|stage 0: 1 vertex, "
    "groups in part, 3 parts by the hash of c'",
    "gyre query --tables . -p 2 --split 64 --stats 'select a from t where a > 1' 2>said "
    ">/dev/null && grep -q '^ *2 rows .*filter' said",
    "gyre query --tables . -p 2 --split 4096 --stats 'select n % 7, count(*) from big where n "
    "> "
    "0 group by 1' 2>said >/dev/null && grep -Eq '^ *189 rows +[0-9.]+ KiB +[0-9.]+ s .* "
    "aggregate count.*, in part$' said && grep -Eq '^ *20000 rows +156.2 KiB .* filter' said "
    "&& "
    "grep -Eq '^ *7 rows .* aggregate .*, of states$' said",
    "seq 400000 | sed '1i n' >l.csv; gyre query --tables . -p 2 --memory 16MiB --stats 'select "
    "count(*) from (select distinct n from l) x' 2>said >/dev/null && grep -Eq 'spilled "
    "[0-9.]+ .iB in [1-9][0-9]*  *distinct n, of states' said && grep -v ', of states' said | "
    "grep -c 'in [1-9]' | grep -qx 0",
    "gyre query --tables . -p 2 'select a from t; select c from t' | grep -c '(3 rows)' | grep "
    "-qx 2",
    "gyre query --tables . -p 2 --folder $PWD/own 'select a from t; select c from t' && [ -e "
    "own/id ] && [ -e own-2/id ] && [ $(ls -d own* | wc -l) = 2 ]",
    /* joins whose sides are guessed wrong: bytes of one process, here and from a memo; the
       first is guessed small and is large, the second is guessed large and is small */
    "seq 20000 | awk '{ print $1 \",\" $1 % 977 }' | sed '1i k,n' >l1.csv; seq 30000 | awk '{ "
    "print $1 % 5000 \",\" $1 }' | sed '1i k,m' >l2.csv; ask() { gyre query --tables . -p 2 "
    "--split 4096 --memo sizes --stats --format csv \"$1\" >got 2>said && gyre query --tables "
    ". "
    "--format csv \"$1\" | cmp - got; }; on='select n, m from l1 join l2 on l1.k = l2.k "
    "where'; "
    "for t in '(m+0)%1=0 and (m+1)%1=0 and (m+2)%1=0:by hash by size: 468' 'm%10000=7 and m>0 "
    "or "
    "m=4:broadcast by size: 64 B'; do w=\"$on ${t%%:*}\"; gyre query --tables . -p 2 --split "
    "4096 "
    "--explain \"$w\" >plan && grep -q 'join on k = k, decided by size' plan && ask \"$w\" && "
    "grep "
    "-q \"join on k = k, ${t#*:}\" said && grep -q '^stage 0: 77 vertices, 77 ran' said && ask "
    "\"$w\" && grep -q \"join on k = k, ${t#*:}\" said && [ $(grep -c '^stage.* 0 ran' said) = "
    "$(grep -c ^stage said) ] || exit 1; case $t in "
    "*hash*) ! grep -q 'parts by the hash' plan;; *) grep -q 'parts by the hash' plan;; esac "
    "|| "
    "exit 1; done",
    "ask() { gyre query --tables . -p 3 --split 1024 --stats --format csv \"$1\" >got 2>said "
    "&& "
    "gyre query --tables . --format csv \"$1\" | cmp - got; }; ask 'select l1.k, x.m, y.n from "
    "l1 "
    "left join l2 x on l1.k = x.m join (select k, n from l1 where n % 9 = 1 union all select "
    "n, "
    "k from l1 where k < 5) y on y.k = x.k where l1.n < 400' && grep -q 'by hash by size' said "
    "&& ask 'select count(*), sum(n) from l1 where k in (select m from l2 where m > 29000) or "
    "k "
    "< 3' && ask 'select n from l1 where k in (select m + 0 from l2 where m % 100 = 1) and "
    "exists "
    "(select 1 from l2 where l2.m = l1.n) order by n desc, k limit 50' && grep -q 'by size' "
    "said",
    /* one of several files, the end of a file */
    "ask() { gyre query --memo kept --split 4096 --stats --format csv \"$1\" >got 2>said && "
    "gyre "
    "query --format csv \"$1\" | cmp - got; }; files='select k, sum(n) from \"m/*.csv\" group "
    "by k'; end='select n % 7, count(*) from \"big.csv\" group by 1'; "
    "ask \"$files\" && grep -q '^stage 0: 5 vertices, 5 ran, 0 remem' said && "
    "printf 'k,n\\n3,9\\n' >m/3.csv && ask \"$files\" && grep -q '^stage 0: 5 vertices, 1 ran, "
    "4 remem' said && printf 'k,n\\n0,9\\n' >m/0.csv && ask \"$files\" && grep -q '^stage 0: 6 "
    "vertices, 1 ran, 5 remem' said && ask \"$files\" && grep -q '^stage 0: 6 vertices, 0 ran' "
    "said && ask \"$end\" && grep -q '^stage 0: 27 vertices, 27 ran, 0 remem' said && echo 5 "
    ">>big.csv && ask \"$end\" && grep -q '^stage 0: 27 vertices, 1 ran, 26 remem' said",
    /* a sort by ranges: even ones, and the same data are divided alike; a smaller budget */
    "seq 40000 | awk '{ print $1 * 7919 % 40009 \",\" $1 % 3 }' | sed '1i n,m' >r.csv; ask() { "
    "gyre query --tables . --memo kr -p 4 --split 32768 --stats --format csv $1 'select n, m "
    "from r order by m desc, n' >got 2>said && gyre query --tables . -w 1 --format csv 'select "
    "n, m from r order by m desc, n' | cmp - got; }; ask '' && grep -q 'stage 4: .* 4 parts by "
    "ranges of m desc, n, the largest of 1[01][0-9][0-9][0-9] of 40000 rows' said && ask '' && "
    "grep -q '^stage 4: 10 vertices, 0 ran' said && ask '--memory 32MiB' && sed -i "
    "'2s/.*/7918,1/' r.csv && ask '' && grep -q '^stage 0: 10 vertices, 1 ran, 9 remem' said",
    "gyre query --tables . -p 4 --split 32768 --explain 'select n from r order by m' | grep -q "
    "'3 bounds of ranges of m$'",
    /* half of all rows have one key: a part has at most a third of them, none is twice in the
     * answer; where rows without a match come out of both sides no key is split */
    "seq 40000 | awk '{ print ($1 % 2 ? 7 : $1 * 7919 % 20011) \",\" $1 }' | sed '1i k,x' "
    ">h.csv; "
    "seq 9000 | sed 's/$/,&/; 1i k,y' >s.csv; ask() { gyre query --tables . -p 4 --split 32768 "
    "--stats --format csv \"$1\" >got 2>said && gyre query --tables . -w 1 --format csv \"$1\" "
    "| "
    "cmp - got; }; ask 'select x, y from h left join s on h.k = s.k' && grep -q 'hot keys of "
    "k: 1' "
    "said && grep -q 'hot keys of a sample are split, the largest of 1[0-2][0-9]* of 40000 "
    "rows' "
    "said && ask 'select x, y from h full join s on h.k = s.k' && ! grep -q 'hot keys' said && "
    "grep -q 'by the hash of k, the largest of 2[0-9]* of 40000 rows' said",
    /* groups of what a join has in parts: the same rows with no shuffle between them */
    "q='select h.k, count(distinct y) from h left join s on h.k = s.k group by h.k'; gyre "
    "query "
    "--tables . -p 4 --split 32768 --stats --format csv \"$q\" >got 2>said && gyre query "
    "--tables . -w 1 --format csv \"$q\" | cmp - got && grep -q '^stage .* no second shuffle "
    "by k' "
    "said && grep -c 'parts by the hash of' said | grep -qx 2",
    /* each new answer once, and none of what is wrong meanwhile */
    "printf 'a\\n1\\n' >w.csv; until_it_has() { until grep -qs \"$1\" $2; do kill -0 $! || "
    "exit "
    "1; sleep 0.02; done; }; for how in '--memo kw' ''; do rm -f seen said; printf 'a\\n1\\n' "
    ">w.new && mv w.new w.csv; timeout 50 $GYRE_BIN query $how --watch 0.02 --format csv "
    "'select sum(a) as s from \"w.csv\"' >seen 2>said & until_it_has '^1$' seen; printf "
    "'a\\n1,2\\n' >w.new && mv w.new w.csv; until_it_has 'w.csv:2' said; printf 'a\\n4\\n' "
    ">w.new && mv w.new w.csv; until_it_has '^4$' seen; kill $!; wait $!; [ \"$(xargs <seen)\" "
    "= 's 1 s 4' ] || exit 1; done",
};

GY_TEST(jobs_of_queries_say_what_one_process_says)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const int status = shell(lines[i]);
        if (status != 0) {
            fail_msg("'%s' ended with %d: %s", lines[i], status, output);
        }
    }
}

/* ---- Deaths ---- */

/* A job with a process killed at a random point; whether it was. */
static bool kill_one(const char *binary, const char *query, gy_random *chance)
{
    char tables[256], got[256], log[256];
    snprintf(tables, sizeof(tables), "%s", folder);
    snprintf(got, sizeof(got), "%s/got.csv", folder);
    snprintf(log, sizeof(log), "%s/log", folder);
    char *arguments[] = {(char *)(uintptr_t)binary,
                         "query",
                         "--tables",
                         tables,
                         "-p",
                         "2",
                         "--split",
                         "64KiB",
                         "-o",
                         got,
                         (char *)(uintptr_t)query,
                         NULL};
    const pid_t manager = kit_start(arguments, log);
    const double last = kit_now() + KIT_WAIT_SECONDS;
    uint64_t wait = gy_random_below(chance, 100);
    bool was_killed = false;
    int status = 0;
    while (waitpid(manager, &status, WNOHANG) == 0) {
        pid_t workers[8];
        const int count = kit_workers(manager, workers, 8);
        if (count > 0 && !was_killed && wait-- == 0) {
            was_killed = kill(workers[gy_random_below(chance, (uint64_t)count)], SIGKILL) == 0;
        }
        assert_true(kit_now() < last);
        kit_pause();
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("the query ended with %d: %s", status, kit_read(log, NULL));
    }
    return was_killed;
}

static const char *const killed[] = {
    "select l.n, count(*), sum(r.n) from k l full join k r on l.n = r.m group by l.n order by "
    "1 desc limit 500",
    "select m, n from k order by m desc, n % 10",
    "select count(*), max(r.m) from k l join k r on l.n / 4000 = r.n",
    /* the rest of its stages are made while it runs */
    "select l.n, r.m, x.n from k l join k r on l.n = r.m join k x on x.m = r.n and x.n % 100 = "
    "7 "
    "where r.n < 50 limit 5000",
};

GY_TEST(a_process_that_is_killed_changes_no_byte)
{
    enum { TRIES_MAX = 60 };
    gy_random chance = {.key = gy_test_seed()};
    const char *binary = getenv("GYRE_BIN");
    assert_int_equal(
        shell("seq 60000 | awk '{ print $1 % 5000 \",\" $1 % 977 }' | sed '1i n,m' >k.csv"), 0);
    for (size_t q = 0; q < GY_COUNT(killed); q++) {
        char line[512];
        int deaths = 0;
        snprintf(line, sizeof(line), "gyre query --tables . --format csv '%s' >want.csv",
                 killed[q]);
        assert_int_equal(shell(line), 0);
        for (int i = 0; i < TRIES_MAX && deaths < gy_test_cases(2); i++) {
            deaths += kill_one(binary != NULL ? binary : "build/dev/gyre", killed[q], &chance);
            if (shell("cmp want.csv got.csv") != 0) {
                fail_msg("%s after %d deaths: %s", killed[q], deaths, output);
            }
        }
        assert_true(deaths > 0);
    }
}

/* Jobs leave their history and folders in the test's own. */
static int make_folder(void **state)
{
    char path[128];
    const int failed = kit_make_folder(state);
    snprintf(path, sizeof(path), "%s/state", folder);
    return failed != 0 ? failed : setenv("XDG_STATE_HOME", path, 1);
}

GY_TEST_MAIN(make_folder, kit_remove_folder)
