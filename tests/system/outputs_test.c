/*
 * Goal: a job's output in S3 or HDFS has the bytes that it has locally and appears by its
 * manifest, which one alone creates; whatever fails on the way is said, replaces and removes
 * nothing, and who goes on sends what is missing, no more.
 */
#include "flow/objects/output.h"

#include "command_kit.h"

#include "store_job_kit.h"

/*
 * What a line can say:
 *   same WHERE   the files of `home` are there, byte for byte, and a manifest that names them
 *   id           of the last job
 *   none         it has left no bytes of an output in its folder
 */
static const char *kit_words =
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state; id() { gyre job list --last 1 | awk 'NR == "
    "2 { "
    "print $1 }'; }; none() { [ -z \"$(find state/gyre/jobs/$(id) -name 'part-*')\" ]; }; "
    "same() { rm -rf "
    "got; mkdir got; for f in $(ls home); do gyre store cat $1/$f >got/$f || return 1; "
    "done; sed -i 1d got/MANIFEST.json; diff -r home got || "
    "return 1; [ \"$(gyre store ls $1 | grep -v '^[.]gyre-' | tr '\\n' ' ')\" = \"$(ls "
    "home "
    "| tr '\\n' ' ')\" ]; }; ";

static int begin(void **state)
{
    if (kit_begin_stubs(state) != 0) {
        return 1;
    }
    return say("echo 1 >one; seq 20000 >in && gyre mr wordcount in -r 7 -o home -q && sed -i "
               "1d home/MANIFEST.json");
}

/* Wait until a server has counted so many. */
static void wait_for(const kit_server *server, const char *what, long count)
{
    const gy_deadline last = gy_deadline_after(30);
    while (kit_count(server, what) < count) {
        assert_true(gy_now_ns(gy_env_real()) < last.at_ns);
        gy_env_real()->ops->pause(gy_env_real(), UINT64_MAX);
    }
}

GY_TEST(outputs_are_as_at_home)
{
    use_stub(&s3);
    must(
        "for to in s3://good/a/b $HDFS/a/b; do gyre mr wordcount in -r 7 -o $to && same $to || "
        "exit 1; done; none && gyre job show $(id) | grep -q \"^output   $HDFS/a/b/\" && [ ! "
        "-e "
        "s3: ]");
    /* a bucket's whole; inputs there, too; one that is empty, one of three parts */
    must(
        "gyre mr wordcount s3://good/a/b/part-00000 -o s3://bucket -q && gyre mr grep none in "
        "-o s3://good/none -q && gyre store cat s3://bucket/MANIFEST.json | grep -q part-00000 "
        "&& [ -z \"$(gyre store cat s3://good/none/part-00000)\" ]");
    must("head -c 18000000 /dev/zero | tr '\\0' '\\n' >lines && for to in s3://good/large "
         "$HDFS/large; do gyre mr --map cat lines --split 64MiB -o $to -q && gyre store cat "
         "$to/part-00000 | cmp - lines || exit 1; done; none");
    assert_int_equal(kit_count(&s3, "good PUT partNumber,uploadId"), 3);
    must("if gyre doctor --check-sandbox | grep -q '^network *yes'; then gyre mr wordcount in "
         "-r 7 -o "
         "s3://good/walls --sandbox network -q && same s3://good/walls; fi");
}

/* Before anything runs. */
GY_TEST(what_cannot_be_an_output_is_refused)
{
    use_stub(&s3);
    must("gyre store cp one s3://good/taken/x && gyre store cp one $HDFS/taken/y "
         "&& for to in s3://good/taken s3://good/taken/ $HDFS/taken; do ! gyre mr --map 'cat "
         ">>ran' in -o $to 2>said && grep -q 'is not empty: it has' said || exit 1; done; [ ! "
         "-e ran ]");
    must(
        "! gyre mr --map 'cat >>ran' in -o s3://old/a 2>said && grep -q 's3://old/a/ cannot be "
        "an output: the server does not obey If-None-Match' said && [ ! -e ran ]");
    must("! GYRE_STORE_TIMEOUT=0.3 $GYRE_BIN mr wordcount in -o s3://ill/a 2>said && grep -q "
         "'cannot list s3://ill/a/' said; ! gyre mr wordcount in -o $HDFS/denied/a 2>said && "
         "grep -q 'Permission denied' said; ! gyre mr wordcount in -o hdfs://u:word@h/a 2>said "
         "&& grep -q 'has a password' said && ! grep -q u:word said; none");
    must("export AWS_SECRET_ACCESS_KEY=o7her; ! gyre mr wordcount in -o s3://good/denied "
         "2>said && grep -q 'access denied' said && ! grep -q o7her said");
}

/* It is said what is there; with room, the rest follows. */
GY_TEST(a_full_store_is_said)
{
    use_stub(&s3);
    must(
        "gyre mr wordcount in -r 7 -o s3://full/a 2>said; [ $? = 1 ] && grep -q 'could not be "
        "published: cannot write s3://full/a/part-0000[0-6]: the server answers 507' said && "
        "grep -q 'of 7 files of the output are known to be in s3://full/a/, without a "
        "manifest: .gyre job resume' said && ! none && ! gyre store ls s3://full/a | grep -q "
        "MANIFEST && ! gyre mr wordcount in -o s3://full/a 2>said && grep -q 'not empty' said");
    /* and what is there can go */
    must(
        "id=$(gyre job list | awk '/ failed / { print $1; exit }') && ! gyre mr wordcount in "
        "-o s3://full/a 2>said && grep -q \"gyre job resume $id\" said && gyre job gc $id && ! "
        "gyre store ls s3://full/a 2>said && none && ! gyre job show $id 2>said; "
        "gyre mr wordcount in -r 7 -o s3://full/a 2>said; [ $? = 1 ]");
    must(
        "gyre store cp one s3://full/go && gyre job resume $(gyre job list | awk '/ failed / { "
        "print $1; exit }') && same s3://full/a && none");
    /* Two files fit for the first job, which writes one of them at least and stops at the first
     * refusal; the second job and its resumption write each of seven once. */
    int written = 0;
    for (int part = 0; part < 7; part++) {
        char line[] = "put full/a/part-00000";
        line[sizeof(line) - 2] = (char)('0' + part);
        const int times = (int)kit_count(&s3, line);
        assert_true(times >= 1 && times <= 2);
        written += times;
    }
    assert_in_range(written, 1 + 7, 2 + 7);
}

GY_TEST(what_may_not_be_written_is_said)
{
    use_stub(&s3);
    must(
        "! gyre mr wordcount in -r 7 -o s3://readonly/a 2>said && grep -q 'cannot write "
        "s3://readonly/a/part-0000[0-6]: access denied (403 AccessDenied: reading alone)' said "
        "&& grep -q '0 of 7 files' said && ! gyre store ls s3://readonly/a 2>said");
    /* its second part is refused: those that are there are taken back */
    must("! gyre mr --map cat lines --split 64MiB -o s3://noparts/a 2>said && grep -q 'cannot "
         "write a part of s3://noparts/a/part-00000: access denied' said && ! gyre store ls "
         "s3://noparts/a 2>said");
    assert_int_equal(kit_count(&s3, "noparts DELETE uploadId"), 1);
}

/* Files wait behind its gate: the manager is killed there; what is on its way arrives later. */
GY_TEST(a_killed_manager_is_followed)
{
    use_stub(&s3);
    must("$GYRE_BIN mr wordcount in -r 7 -o s3://gated/a >log 2>&1 & echo $! >pid");
    wait_for(&s3, "gated PUT", 7); /* a probe, its second, two files; three wait */
    must("kill -KILL $(cat pid); until [ \"$(gyre job list | awk 'NR == 2 { print $2 }')\" = "
         "interrupted ]; do sleep 0.02; done; ! gyre store ls s3://gated/a | grep -q MANIFEST");
    must("gyre store cp one s3://gated/go && gyre job resume $(id) && same s3://gated/a && "
         "none");
    for (int i = 0; i < 2; i++) {
        char what[64];
        (void)snprintf(what, sizeof(what), "put gated/a/part-0000%d", i);
        assert_int_equal(kit_count(&s3, what), 1);
    }
    assert_int_equal(kit_count(&s3, "put gated/a/MANIFEST.json"), 1);
}

/* A user who has had enough is not held up by a store that says nothing; then the store dies,
 * and another one, which has nothing of it, gets all. */
GY_TEST(a_store_that_goes_away_is_waited_for_elsewhere)
{
    kit_server mortal = {.pid = 0};
    kit_start_stub(&mortal, "s3.py");
    use_stub(&mortal);
    must("{ $GYRE_BIN mr wordcount in -r 7 -o s3://gated/b 2>said & echo $! >pid; wait $!; "
         "echo $? "
         ">ended; } >log 2>&1 & true");
    wait_for(&mortal, "gated PUT", 7);
    must(
        "kill -TERM $(cat pid); n=0; until [ -s ended ] || [ $n = 1500 ]; do sleep 0.01; "
        "n=$((n "
        "+ 1)); done; [ $(cat ended) = 1 ] && grep -q 'ended by SIGTERM' said && grep -q 'of 7 "
        "files of the output' said");
    must("rm -f ended; export GYRE_STORE_TIMEOUT=1; { $GYRE_BIN job resume $(id) 2>said; echo "
         "$? "
         ">ended; } >log 2>&1 & true");
    wait_for(&mortal, "gated HEAD", 1);
    kit_stop(&mortal);
    gy_http_drop_kept();
    must("n=0; until [ -s ended ] || [ $n = 3000 ]; do sleep 0.01; n=$((n + 1)); done; [ $(cat "
         "ended) = 1 ] && grep -q 'could not be published: .*s3://gated/b/' said");
    use_stub(&s3);
    must("gyre job resume $(id) && same s3://gated/b && none");
}

/* ---- without a job ---- */

static char kept[200];

static void write_file(const char *name, const char *data, size_t size)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/%s", kept, name);
    assert_ok(gy_store_file_write(gy_env_real(), path, data, size));
}

static gy_status new_output(const char *uri, bool is_again, gy_object_output **made)
{
    static const char manifest[] = "{\"job\": 1, \"counters\": 7}";
    const gy_object_output_options options = {.uri = uri,
                                              .folder = kept,
                                              .fence = kept,
                                              .manifest = manifest,
                                              .manifest_bytes = sizeof(manifest) - 1,
                                              .same_bytes = 10,
                                              .is_again = is_again};
    GY_TRY(gy_object_output_new(gy_env_real(), &options, made));
    gy_status status = gy_object_output_add(*made, "x", 700000);
    status = status < 0 ? status : gy_object_output_add(*made, "y", 3);
    status = status < 0 ? status : gy_object_output_start(*made);
    if (status < 0) {
        gy_object_output_free(*made);
    }
    return status;
}

static gy_status bring(const char *uri, bool is_again)
{
    gy_object_output *made = NULL;
    GY_TRY(new_output(uri, is_again, &made));
    gy_object_output_wait(made);
    const gy_status status = gy_object_output_look(made);
    gy_object_output_free(made);
    return status;
}

static void make_files(void)
{
    (void)snprintf(kept, sizeof(kept), "%s/kept", folder);
    (void)mkdir(kept, 0700);
    char *data = kit_bytes(9, 700000);
    write_file("x", data, 700000);
    gy_free(data);
    write_file("y", "abc", 3);
}

GY_TEST(managers_at_once_come_to_the_same)
{
    use_stub(&s3);
    make_files();
    char *data = kit_bytes(9, 700000);
    for (int i = 0; i < 8; i++) {
        char uri[64], name[96];
        (void)snprintf(uri, sizeof(uri), "%s/once%d/",
                       i % 2 == 0 ? "s3://good" : getenv("HDFS"), i);
        gy_object_output *made[3] = {NULL};
        for (int m = 0; m < 3; m++) {
            assert_ok(new_output(uri, m > 0, &made[m]));
        }
        for (int m = 0; m < 3; m++) {
            gy_object_output_wait(made[m]);
            assert_ok(gy_object_output_look(made[m]));
            assert_int_equal(gy_object_output_done(made[m]), 2);
            gy_object_output_free(made[m]);
        }
        (void)snprintf(name, sizeof(name), "%sx", uri);
        kit_check(name, data, 700000);
        kit_check_list(uri, "MANIFEST.json x y ");
        assert_ok(bring(uri, true)); /* it is all there */
        assert_true(gy_object_output_begins(gy_env_real(), uri, 0, "{\"job\": 1,"));
        assert_false(gy_object_output_begins(gy_env_real(), uri, 0, "{\"job\": 2,"));
    }
    gy_free(data);
}

GY_TEST(what_is_there_is_never_replaced)
{
    use_stub(&s3);
    make_files();
    char *data = kit_bytes(9, 700000);
    data[699999] ^= 1;
    for (int i = 0; i < 2; i++) {
        assert_ok(kit_put("s3://good/other/x", GY_PLACE_REPLACE, data, 700000));
        assert_status(bring("s3://good/other/", i > 0), GY_EXISTS);
        assert_says("s3://good/other/x: another one is there");
        kit_check("s3://good/other/x", data, 700000);
        assert_ok(kit_put("s3://good/short/y", GY_PLACE_REPLACE, "ab", 2));
        assert_status(bring("s3://good/short/", i > 0), GY_EXISTS);
        assert_ok(
            kit_put("s3://good/told/MANIFEST.json", GY_PLACE_REPLACE, "{\"job\": 12}", 11));
        assert_ok(i > 0 ? GY_OK : bring("s3://good/free/", false));
        assert_status(bring("s3://good/told/", i > 0), GY_EXISTS);
        assert_says("s3://good/told/MANIFEST.json: another one is there");
    }
    gy_free(data);
}

GY_TEST(files_that_are_gone_end_it)
{
    char path[300];
    use_stub(&s3);
    make_files();
    write_file("y", "abcd", 4);
    assert_status(bring("s3://good/gone/", false), GY_NOTFOUND);
    assert_says("another size than 3 bytes");
    (void)snprintf(path, sizeof(path), "%s/x", kept);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/y", kept);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(kept), 0);
    assert_status(bring("s3://good/gone/", false), GY_STATE);
    assert_says("another manager has taken over");
    assert_false(gy_object_output_begins(gy_env_real(), "s3://good/gone/", 0, "{"));
}

/* Its second part waits: the first one is taken back. */
GY_TEST(parts_are_taken_back)
{
    use_stub(&s3);
    make_files();
    const size_t size = 17 << 20;
    char *data = kit_bytes(3, size);
    write_file("z", data, size);
    gy_free(data);
    const gy_object_output_options options = {.uri = "s3://gated-parts/",
                                              .folder = kept,
                                              .fence = kept,
                                              .manifest = "{}",
                                              .manifest_bytes = 2};
    gy_object_output *made = NULL;
    assert_ok(gy_object_output_new(gy_env_real(), &options, &made));
    assert_ok(gy_object_output_add(made, "z", size));
    assert_ok(gy_object_output_start(made));
    wait_for(&s3, "gated-parts PUT partNumber,uploadId", 2);
    assert_status(gy_object_output_look(made), GY_AGAIN);
    gy_object_output_stop(made);
    assert_status(gy_object_output_look(made), GY_CANCELLED);
    assert_int_equal(gy_object_output_done(made), 0);
    gy_object_output_free(made);
    assert_int_equal(kit_count(&s3, "gated-parts DELETE uploadId"), 1);
}

static gy_status bring_once(void)
{
    static int round;
    char uri[64];
    (void)snprintf(uri, sizeof(uri), "s3://good/memory%d/", round++);
    GY_TRY(gy_object_output_check(gy_env_real(), uri, 0));
    const gy_status status = bring(uri, false);
    return status < 0 ? status : bring(uri, true);
}

GY_TEST(failed_allocations_are_failures)
{
    use_stub(&s3);
    make_files();
    kit_check_memory(bring_once, 20);
}

/* ---- the real server, which would let two jobs write one output ---- */

GY_TEST(a_server_that_replaces_is_refused)
{
    use_real();
    must("! gyre mr wordcount in -o s3://test/a 2>said && grep -q 'does not obey "
         "If-None-Match' said && [ -z \"$(gyre store ls s3://test)\" ]");
}

GY_TEST_MAIN(begin, kit_end_stubs)
