/*
 * Goal: jobs over objects of S3 and HDFS give the bytes that the same files give, split and
 * unsplit, compressed and not, from npm's s3rver and from servers of ours that break off; what
 * changed or went away meanwhile ends the job in words, never in other bytes.
 */
#include "flow/memo/near.h"
#include "flow/objects/input.h"

#include "command_kit.h"

#include "store_job_kit.h"

#include <gyre/data.h>

enum { MANY_KEYS = 1005 };

/*
 * What a line can say:
 *   m JOB INPUT...   gyre mr into the folder mo, whatever was there
 *   same             mo has the files of `expected`, byte for byte
 */
static const char *kit_words =
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state; m() { rm -rf mo; gyre mr \"$@\" "
    "-o mo -q; }; same() { diff -r -x MANIFEST.json expected mo; }; ";

/* A text whose last line has no newline, half of it packed, an empty file, names that do not
 * count. */
static int begin(void **state)
{
    if (kit_begin_stubs(state) != 0) {
        return 1;
    }
    return say(
        "set -e; mkdir -p in/sub; awk 'BEGIN { for (i = 0; i < 4000; i++) { x = (x * "
        "1103515245 "
        "+ 12345) % 2147483648; print \"w\" int(x / 65536) % 97, \"line\", i } }' >text; head "
        "-c 50001 text >in/a; gzip -c text >in/b; zstd -qc text >in/sub/c; : >in/sub/d; cp "
        "in/a "
        "in/.hidden; cp in/a in/sub/_left; for to in s3://good/in $HDFS/in; do for f in a b "
        "sub/c "
        "sub/d .hidden sub/_left; do gyre store cp in/$f $to/$f; done; done; rm in/.hidden "
        "in/sub/_left; gyre mr wordcount in -o expected -q -r 3");
}

static int end(void **state)
{
    gy_store_facts_forget();
    return kit_end_stubs(state);
}

GY_TEST(objects_are_as_good_as_files)
{
    use_stub(&s3);
    must("for from in s3://good/in/ $HDFS/in; do for how in '--split 4KiB -p 3' "
         "'-p 1 -m 64MiB'; do m wordcount $from -r 3 $how && same || exit 1; done; done");
    must("grep 'w13 ' in/a >want; m grep 'w13 ' s3://good/in/a --split 3KiB && cat mo/part-* | "
         "cmp - want");
    must(
        "m --map 'tr a-z A-Z' s3://good/in/sub $HDFS/in/a && { zstd -qdc in/sub/c; cat in/a; } "
        "| tr a-z A-Z >want; cat mo/part-* | cmp - want");
}

/* An object that a prefix hides, a mark with bytes, links of HDFS, what is hidden. */
GY_TEST(nothing_is_left_out_in_silence)
{
    use_stub(&s3);
    must(
        "for f in o below hid; do echo $f >$f; done; gyre store cp o s3://good/lo/both && gyre "
        "store cp below s3://good/lo/both/x && gyre store cp hid s3://good/lo/both/_h && m "
        "wordcount s3://good/lo/both 2>said && sort mo/part-* >got && printf "
        "'below\\t1\\no\\t1\\n' "
        "| cmp - got && grep -q '1 hidden name (s3://good/lo/both/_h), which --hidden takes' "
        "said && m wordcount s3://good/lo/both --hidden 2>said && test $(cat mo/part-* | wc "
        "-l) "
        "= 3 && ! test -s said");
    must("gyre store cp o $HDFS/lo/a && gyre store cp below $HDFS/lo/link && m wordcount "
         "$HDFS/lo 2>said && test $(cat mo/part-* | wc -l) = 1 && grep -q '1 link (hdfs:.*/lo/"
         "link), which --follow-links takes' said && m wordcount $HDFS/lo --follow-links "
         "2>said && test $(cat "
         "mo/part-* | wc -l) = 2 && ! test -s said && gyre store cp o $HDFS/lo/loose && m "
         "wordcount $HDFS/lo --follow-links 2>said; test $? = 1 && grep -q 'does not follow "
         "links' "
         "said");
}

/* What a job over one object asks for. */
static long requests(const char *line)
{
    const long before = kit_count(&s3, "good GET") + kit_count(&s3, "good HEAD");
    must(line);
    return kit_count(&s3, "good GET") + kit_count(&s3, "good HEAD") - before;
}

GY_TEST(requests_are_counted)
{
    use_stub(&s3);
    /* of one object: it is no folder, and it is there; its bytes at once */
    assert_int_equal(requests("m wordcount s3://good/in/a"), 2);
    /* whether it can be parted; four parts */
    assert_int_equal(requests("m wordcount s3://good/in/a --split 16KiB --stats >said && grep "
                              "'map: 4 of 4' said"),
                     6);
}

/* Lists of eight that are named wait until all eight are asked for. */
/* Of one map's small objects many are on their way at once, within its memory. */
GY_TEST(small_objects_come_together)
{
    use_stub(&s3);
    must(
        "mkdir many && n=100; while [ $n != 160 ]; do echo \"w$n all\" >many/f$n; gyre store "
        "cp "
        "many/f$n s3://crowd/small/f$n || exit 1; n=$((n + 1)); done; m wordcount many && sort "
        "mo/part-* >want; m wordcount s3://crowd/small -p 1 --split 1GiB --stats >said && grep "
        "-q 'map: 1 of 1' said && sort mo/part-* | cmp - want");
    const long together = kit_count(&s3, "most small");
    assert_true(together >= 6 && together <= 16);
    must(
        "m wordcount s3://crowd/small -p 2 --stats >said && grep -q 'map: 2 of 2' said && sort "
        "mo/part-* | cmp - want");
    /* 16 of 60,000 bytes, of which a sixteenth of the memory may be held */
    must("i=0; while [ $i != 5000 ]; do echo 'eleven byte'; i=$((i + 1)); done >large; n=10; "
         "while "
         "[ $n != 26 ]; do gyre store cp large s3://crowd/large/f$n || exit 1; n=$((n + 1)); "
         "done; "
         "m wordcount s3://crowd/large -p 1 --split 1GiB -m 8MiB && test $(cat mo/part-* | cut "
         "-f 2 | sort -u) = 80000");
    const long held = kit_count(&s3, "most large");
    assert_true(held >= 2 && held <= 5);
    must("gyre store cp large s3://crowd/lost/gone && for n in 1 2 3 4 5 6 7 8; do gyre store "
         "cp in/a "
         "s3://crowd/lost/f$n || exit 1; done; m wordcount s3://crowd/lost -p 1 2>said; test "
         "$? = "
         "1 && grep -q 's3://crowd/lost/gone: not found' said");
}

GY_TEST(objects_named_are_asked_for_together)
{
    use_stub(&s3);
    must(
        "n=0; while [ $n != 16 ]; do gyre store cp in/a s3://together/x$n || exit 1; n=$((n + "
        "1)); done; GYRE_STORE_TIMEOUT=30 m grep 'line 7$' $(seq -f s3://together/x%g 0 15) && "
        "grep 'line 7$' in/a >one && n=0; while [ $n != 16 ]; do cat one; n=$((n + 1)); done "
        ">want; cat mo/part-* | cmp - want");
    must(
        "! m wordcount s3://good/in/a s3://good/none1 s3://good/in/b s3://good/none2 2>said && "
        "grep -q 's3://good/none1: not found' said");
}

/* As of files: with ties, fields, compressed, fixed; what changes or is cut is said. */
GY_TEST(objects_are_sorted)
{
    use_stub(&s3);
    must(
        "s() { rm -rf expected9; gyre mr sort $1 $2 -o expected9 -q -r 3 && m sort $1 $3 -r 3 "
        "&& diff -r -x MANIFEST.json expected9 mo; }; O=\"s3://good/in $HDFS/in/b\"; s '' 'in "
        "in/b' \"$O\" && s '--field 3 --numeric --descending' 'in in/b' \"$O\" && s '' 'text "
        "in/b in/a' \"text s3://good/in/b in/a\" && m sort s3://good/in -r 2 --stats | grep -q "
        "'stage expand: 4 of 4'");
    must("head -c 51200 text >fixed; gzip -c fixed >fixed.gz; for f in fixed fixed.gz in/b; do "
         "gyre "
         "store cp $f s3://good/sort/${f#in/} || exit 1; done; gyre mr sort fixed fixed.gz -o "
         "expected8 -q -r 2 --record-bytes 100 && m sort s3://good/sort/fixed "
         "s3://good/sort/fixed.gz "
         "-r 2 --record-bytes 100 && diff -r -x MANIFEST.json expected8 mo; ! m sort "
         "s3://good/in/a "
         "--record-bytes 100 2>said && grep -q 'no whole number of records of 100' said && [ ! "
         "-e mo "
         "]");
    must("gyre store cp in/a s3://changing/s && ! m sort s3://changing/s 2>said && grep -q "
         "'s3://changing/s: .*changed meanwhile' said && ! m sort s3://good/none 2>said && "
         "grep -q "
         "'not found' said && [ ! -e mo ]");
}

GY_TEST(results_are_remembered_by_version)
{
    use_stub(&s3);
    must("gyre store cp in/a s3://good/memo/a && m wordcount s3://good/memo --memo kept && m "
         "wordcount s3://good/memo --memo kept --stats | grep 'map: 1 of 1 tasks done, 1 of "
         "them memoised' && tr 1 2 <in/a >other && gyre store cp other s3://good/memo/a && m "
         "wordcount s3://good/memo --memo kept --stats | grep 'map: 1 of 1 tasks done, 0 of "
         "them memoised' && rm -rf expected2 && gyre mr wordcount other -o expected2 -q && "
         "diff -r "
         "-x MANIFEST.json expected2 mo");
}

GY_TEST(broken_answers_are_completed)
{
    use_stub(&s3);
    must("head -c 300 in/a >few && gyre store cp few s3://cut/a && m wordcount s3://cut/a && "
         "rm -rf "
         "expected3 && gyre mr wordcount few -o expected3 -q && diff -r -x MANIFEST.json "
         "expected3 mo");
}

/* Each is said in words, with the URI; nothing is left; no secret is said. */
GY_TEST(what_cannot_be_read_ends_the_job)
{
    use_stub(&s3);
    must(
        "gyre store cp in/a s3://changing/a && ! m wordcount s3://changing/a 2>said && grep -q "
        "'s3://changing/a: .*changed meanwhile' said && [ ! -e mo ]");
    must("gyre store cp in/a $HDFS/changing/a && ! m wordcount $HDFS/changing/a 2>said && grep "
         "-q '/changing/a: it was changed meanwhile' said");
    must("! m wordcount s3://good/none 2>said && grep -q 's3://good/none: not found' said && ! "
         "m wordcount s3://good/in hdfs://user:word@host/x 2>said && grep -q 'has a password' "
         "said && ! grep -q user:word said");
    must("export AWS_SECRET_ACCESS_KEY=o7her; ! m wordcount s3://good/in 2>said && grep -q "
         "'access denied (403 SignatureDoesNotMatch' said && ! grep -q o7her said");
    must("if gyre doctor --check-sandbox | grep -q '^network *yes'; then ! m wordcount "
         "s3://good/in "
         "--sandbox network 2>said && grep -q 's3://good/in/a: the sandbox part `network`' "
         "said; fi");
}

/* Who reads in a sandbox finds the keys that a file holds, and the server. */
GY_TEST(sandbox_let_readers_through)
{
    use_stub(&s3);
    must("umask 077; printf '[default]\\naws_access_key_id = %s\\naws_secret_access_key = "
         "%s\\n' "
         "$AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY >keys; unset AWS_ACCESS_KEY_ID "
         "AWS_SECRET_ACCESS_KEY; export AWS_SHARED_CREDENTIALS_FILE=$PWD/keys; m wordcount "
         "s3://good/in -r 3 --sandbox available,rights,processes,files,calls && same");
}

/* An object that is replaced between two reads of a job: one version of it, or its name. */
GY_TEST(replaced_objects_are_named)
{
    use_stub(&s3);
    must("tr a-z A-Z <in/a >new; export GO=$PWD/gone; for of in s3://good/v/a $HDFS/v/a; do rm "
         "-f $GO $GO.here; gyre store cp in/a $of; { m --map ': >>$GO.here; n=0; while [ ! -e "
         "$GO ] && [ $n -lt 900 ]; do sleep 0.02; n=$((n + 1)); done; cat' $of --split 4KiB -p "
         "2 2>said; } & n=0; while [ ! -e $GO.here ] && [ $n -lt 900 ]; do sleep 0.02; "
         "n=$((n + 1)); done; gyre store cp new $of; : >$GO; if wait $!; then cat mo/part-* | "
         "cmp - in/a || exit 1; else grep -q \"$of: .*changed meanwhile\" said && [ ! -e mo ] "
         "|| "
         "exit 1; fi; done");
}

/* It gives the first range, says nothing of the second, and is killed. */
GY_TEST(a_server_that_dies_is_named)
{
    kit_server mortal = {.pid = 0};
    kit_start_stub(&mortal, "s3.py");
    use_stub(&mortal);
    must("awk 'BEGIN { for (i = 0; i < 200000; i++) print \"a line\", i }' >long && gyre store "
         "cp long s3://stuck/long && rm -f ended && export GYRE_STORE_TIMEOUT=0.3; { m "
         "wordcount "
         "s3://stuck/long -m 16MiB 2>said; echo $? >ended; } >log 2>&1 & true");
    char ended[96];
    (void)snprintf(ended, sizeof(ended), "%s/ended", folder);
    const gy_deadline last = gy_deadline_after(30);
    while (kit_count(&mortal, "stuck GET") < 2 && access(ended, F_OK) != 0 &&
           gy_now_ns(gy_env_real()) < last.at_ns) {
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
    kit_stop(&mortal);
    must("n=0; until [ -s ended ] || [ $n = 3000 ]; do sleep 0.01; n=$((n + 1)); done; [ $(cat "
         "ended) = 1 ] && grep -q 's3://stuck/long: .* tries' said && [ ! -e mo ]");
    gy_http_drop_kept();
}

/* ---- without a job ---- */

GY_TEST(prefixes_become_objects)
{
    use_stub(&s3);
    gy_store_facts_forget();
    gy_file_list *list = NULL;
    assert_ok(gy_file_list_make((const char *[]){"s3://good/in", NULL}, &list));
    static const char *const expected[] = {"s3://good/in/a", "s3://good/in/b",
                                           "s3://good/in/sub/c", "s3://good/in/sub/d"};
    assert_int_equal(list->count, 4);
    const long before = kit_count(&s3, "good HEAD");
    for (size_t i = 0; i < list->count; i++) {
        gy_place_facts facts;
        assert_string_equal(list->paths[i], expected[i]);
        assert_ok(gy_store_facts_of(gy_env_real(), list->paths[i], &facts));
        assert_true(facts.version[0] != '\0' && (facts.size_bytes == 50001) == (i == 0));
    }
    gy_file_list_free(list);
    assert_int_equal(kit_count(&s3, "good HEAD"), before); /* the list said it */
    gy_store_facts_forget();
    gy_place_facts facts;
    assert_ok(gy_store_facts_of(gy_env_real(), "s3://good/in/a", &facts));
    assert_int_equal(kit_count(&s3, "good HEAD"), before + 1);
    assert_status(gy_store_facts_of(gy_env_real(), "s3://good/in/sub", &facts), GY_IO);
    assert_status(gy_file_list_make((const char *[]){"s3://good/none", NULL}, &list),
                  GY_NOTFOUND);
    gy_store_facts_forget();
}

static gy_flow_task_input order_of(const char *uri, const char *version, uint64_t total)
{
    return (gy_flow_task_input){.kind = GY_INPUT_OBJECT,
                                .path = uri,
                                .version = version,
                                .size_bytes = UINT64_MAX,
                                .total_bytes = total};
}

GY_TEST(ranges_are_read_and_what_follows)
{
    use_stub(&s3);
    const size_t size = 300000;
    char *data = kit_bytes(5, size), *got_data = gy_alloc("test", size);
    assert_ok(kit_put("s3://good/range", GY_PLACE_REPLACE, data, size));
    gy_place_facts facts;
    assert_ok(gy_store_facts_of(gy_env_real(), "s3://good/range", &facts));
    gy_flow_task_input from = order_of("s3://good/range", facts.version, size);
    from.offset = 1000;
    from.size_bytes = 100000;
    gy_object_input *input = NULL;
    assert_ok(gy_object_input_open(gy_env_real(), &from, 1 << 20, NULL, &input));
    const void *piece = NULL;
    size_t got = 1, at = 1000;
    for (; got > 0; at += got) {
        assert_ok(gy_object_input_next(input, &piece, &got));
        assert_memory_equal(piece, data + at, got);
    }
    assert_int_equal(at, 101000); /* the range ends, the object does not */
    assert_ok(gy_object_input_fill(input, true, got_data, size, &got));
    assert_int_equal(got, size - at);
    assert_memory_equal(got_data, data + at, got);
    gy_object_input_close(input);
    /* shorter than it was said to be, or another one */
    from = order_of("s3://good/range", facts.version, size + 1);
    assert_ok(gy_object_input_open(gy_env_real(), &from, 0, NULL, &input));
    assert_status(gy_object_input_fill(input, false, got_data, size, &got), GY_STATE);
    gy_object_input_close(input);
    assert_ok(kit_put("s3://good/range", GY_PLACE_REPLACE, data, size - 1));
    from = order_of("s3://good/range", facts.version, size);
    assert_ok(gy_object_input_open(gy_env_real(), &from, 0, NULL, &input));
    assert_status(gy_object_input_fill(input, false, got_data, size, &got), GY_STATE);
    assert_says("s3://good/range");
    gy_object_input_close(input);
    gy_free(got_data);
    gy_free(data);
    gy_store_facts_forget();
}

/* A server that never says anything does not hold up a process whose work is not wanted. */
GY_TEST(a_read_that_is_not_wanted_ends)
{
    use_stub(&s3);
    static _Atomic bool is_cancelled = true;
    const gy_flow_task_input from = order_of("s3://silent/x", "v", 100);
    gy_object_input *input = NULL;
    char out[10];
    size_t got = 0;
    assert_ok(gy_object_input_open(gy_env_real(), &from, 0, &is_cancelled, &input));
    const int64_t begun = gy_now_ns(gy_env_real());
    assert_status(gy_object_input_fill(input, false, out, sizeof(out), &got), GY_CANCELLED);
    gy_object_input_close(input);
    assert_true(gy_now_ns(gy_env_real()) - begun < INT64_C(5000000000));
}

static void request_of(const char *text, const char *expected)
{
    const char *files[] = {text, NULL}, *hosts = NULL;
    const gy_proto proto = {.function = "f", .files = files};
    gy_near near = {.env = gy_env_real()};
    gy_arena arena = {0};
    assert_ok(gy_objects_near(&near, &proto, &arena, &hosts));
    assert_true((hosts == NULL) == (expected == NULL));
    assert_true(hosts == NULL || strcmp(hosts, expected) == 0);
    gy_arena_free(&arena);
}

/* The stub has blocks of 1 MiB, the i-th on node i % 3 and the one behind it. */
GY_TEST(blocks_are_requests)
{
    use_stub(&s3);
    char uri[96], range[160];
    const size_t size = 3 << 20;
    char *data = kit_bytes(6, size);
    (void)snprintf(uri, sizeof(uri), "%s/blocks/x", at_hdfs);
    assert_ok(kit_put(uri, GY_PLACE_REPLACE, data, size));
    (void)snprintf(range, sizeof(range), "%s:0:1048576", uri);
    request_of(range, "node0 node1");
    (void)snprintf(range, sizeof(range), "%s:1048577:2097151", uri);
    request_of(range, "node2 node0 node1");
    (void)snprintf(range, sizeof(range), "%s:0:1000000", uri); /* not worth asking */
    request_of(range, NULL);
    (void)snprintf(uri, sizeof(uri), "%s/on-h1.rack.example/x", at_hdfs);
    assert_ok(kit_put(uri, GY_PLACE_REPLACE, data, size));
    request_of(uri, "h1.rack.example h1");
    request_of("s3://good/in/a", NULL);
    gy_free(data);
    /* who does not answer is warned of, and ends nothing */
    gy_store_facts_forget();
    const gy_place_facts facts = {.size_bytes = 2 << 20, .version = "v"};
    (void)snprintf(uri, sizeof(uri), "%s/denied/x", at_hdfs);
    assert_ok(gy_store_facts_keep(uri, &facts));
    request_of(uri, NULL);
    gy_store_facts_forget();
}

static gy_status keep_many(void)
{
    gy_status status = GY_OK;
    gy_place_facts facts = {.version = "version"};
    for (int i = 0; status == GY_OK && i < 100; i++) {
        char uri[32];
        (void)snprintf(uri, sizeof(uri), "s3://bucket/%d", i);
        facts.size_bytes = (uint64_t)i;
        status = gy_store_facts_keep(uri, &facts);
    }
    for (int i = 0; status == GY_OK && i < 100; i++) {
        char uri[32];
        (void)snprintf(uri, sizeof(uri), "s3://bucket/%d", i);
        status = gy_store_facts_of(gy_env_real(), uri, &facts);
        assert_true(status < 0 || facts.size_bytes == (uint64_t)i);
    }
    gy_store_facts_forget();
    return status;
}

static gy_status list_and_read(void)
{
    gy_file_list *list = NULL;
    gy_status status = gy_file_list_make((const char *[]){"s3://good/in/sub", NULL}, &list);
    gy_store_facts_forget();
    gy_file_list_free(list);
    GY_TRY(status);
    const gy_flow_task_input from = order_of("s3://good/version", "", 3);
    gy_object_input *input = NULL;
    GY_TRY(gy_object_input_open(gy_env_real(), &from, 0, NULL, &input));
    const void *piece = NULL;
    size_t got = 0;
    status = gy_object_input_next(input, &piece, &got);
    gy_object_input_close(input);
    return status;
}

GY_TEST(failed_allocations_are_failures)
{
    use_stub(&s3);
    gy_store_facts_forget();
    kit_check_memory(keep_many, 3);
    assert_ok(kit_put("s3://good/version", GY_PLACE_REPLACE, "abc", 3));
    kit_check_memory(list_and_read, 10);
}

/* ---- the real server ---- */

GY_TEST(a_real_server_gives_the_same)
{
    must("mkdir -p real/many && for i in $(seq 1000 2004); do : >real/many/k$i._S3rver_object; "
         "printf d41d8cd98f00b204e9800998ecf8427e >real/many/k$i._S3rver_object.md5; done");
    use_real();
    must("for f in a b sub/c sub/d; do gyre store cp in/$f s3://test/in/$f || exit 1; done; m "
         "wordcount s3://test/in -r 3 --split 16KiB -p 2 && same");
    /* more than a page of a thousand, all empty, then one that is not */
    must("m index s3://many s3://test/in/a && [ $(wc -l <mo/inputs-00000) = 1006 ] && cat "
         "mo/part-* | grep -qx 'w13.1005'");
}

GY_TEST_MAIN(begin, end)
