/*
 * Goal: an input that is replaced, rewritten, cut or appended to while a job reads it gives the
 * bytes of one version, or status 1 and its name.
 */
#include "command_kit.h"

#include "gy_test.h"

/*
 * What a line can say:
 *   new             "in" and "in2": lines of old and of new; their sums in $OLD and $NEW
 *   begin INPUT...  a job whose commands wait; in the background until "end"
 *   end             let them go on; $rc, what it said in "said", the output's sum in $sum
 *   named FILE      it has failed, by the file's name
 *   is SUM          it has ended well with these bytes
 *   between VERB..  a job over "in", whose manager stands still while "in" is replaced
 */
static const char words[] =
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state GO=$PWD/go; sum_of() { cksum | cut -d' ' -f1; "
    "}; "
    "new() { rm -f in in2 in.gz; seq -f 'old %07g' 3000 >in; seq -f 'NEW %07g' 3000 >in2; "
    "OLD=$(sum_of <in); NEW=$(sum_of <in2); }; "
    "until_there() { n=0; while [ ! -e $1 ] && [ $n -lt 900 ]; do sleep 0.02; "
    "n=$((n + 1)); done; [ -e $1 ]; }; "
    "begin() { rm -rf go go.here o job; { gyre mr --map ': >>$GO.here; n=0; while [ ! -e $GO ] "
    "&& "
    "[ $n -lt 900 ]; do sleep 0.02; n=$((n + 1)); done; cat' \"$@\" -o o -q -p 2 --folder "
    "$PWD/job 2>said; } & until_there go.here; }; "
    "end() { : >go; wait $!; rc=$?; sum=$(cat o/part-* 2>/dev/null | sum_of); }; "
    "named() { [ $rc = 1 ] && grep -q \"$1.* changed while\" said && "
    "[ -z \"$(ls o 2>/dev/null)\" ]; }; is() { [ $rc = 0 ] && [ $sum = $1 ]; }; "
    "between() { rm -rf o job; gyre mr \"$@\" -o all -q || return 1; WHOLE=$(cat all/part-* | "
    "sum_of); rm -r all; { gyre mr \"$@\" -o o -q -p 1 --folder $PWD/job 2>said; } & "
    "until_there job/journal; kill -STOP $(cat job/lock); mv in2 in; "
    "kill -CONT $(cat job/lock); end; named /in || is $WHOLE; }; ";

static void must_end(const char *line)
{
    char whole[3800];
    snprintf(whole, sizeof(whole), "%s%s || { echo \"rc $rc sum $sum\"; cat said; false; }",
             words, line);
    int status = shell(whole);
    if (status != 0) {
        fail_msg("'%s' ended with %d: %s", line, status, output);
    }
}

GY_TEST(a_replaced_input_is_named)
{
    must_end("new; begin in --split 4KiB; mv in2 in; end; named /in");
}

GY_TEST(a_rewritten_input_is_named)
{
    must_end("new; touch -r in time; begin in --split 4KiB; "
             "dd if=in2 of=in conv=notrunc status=none; touch -r time in; end; named /in");
    must_end("new; begin in --split 4KiB; cat in2 in2 >in; end; named /in");
}

GY_TEST(a_cut_input_is_named)
{
    must_end("new; begin in --split 4KiB; truncate -s 20000 in; end; named /in");
    must_end("new; begin in --split 4KiB; : >in; end; named /in");
}

GY_TEST(side_files_are_of_one_version)
{
    must_end("new; begin in --split 4KiB --file in2; echo >in3; mv in3 in2; end; named in2");
    must_end("new; begin in --split 4KiB --file in2; echo >in2; end; named in2");
}

/* Of what each vertex reads all inputs, of fields, of records of a size, of compressed files.
 */
GY_TEST(all_jobs_read_one_version)
{
    must_end("new; between sort in -r 12");
    must_end("new; between sort --record-bytes 12 --key-bytes 11 in -r 12");
    must_end("new; between sort --descending --field 2 in -r 12");
    must_end("new; between topk --field 1 in --split 4KiB");
    must_end("new; between wordcount in --split 4KiB");
    must_end("new; between grep 9 in --split 4KiB");
    must_end("new; gzip in; mv in.gz in; between sort in -r 12");
}

/* Results are remembered by what the job was planned with. */
GY_TEST(a_memo_is_of_one_version)
{
    must_end("new; begin in --split 4KiB --memo memo; mv in2 in; end; named /in && new; "
             "begin in --split 4KiB --memo memo; end; is $OLD");
}

/* The manager dies once; the job is of the input that it began with, or is refused. */
GY_TEST(a_resumed_job_is_of_one_version)
{
    must_end(
        "new; rm -rf o job died; ! gyre mr --map '[ -e $GO.died ] || { : >$GO.died; kill -9 "
        "$(cat ${GO%go}job/lock); sleep 2; }; cat' in -o o -q -p 1 --split 4KiB --folder "
        "$PWD/job >said 2>&1; mv in2 in; gyre job resume $(cat job/id) >said 2>&1; rc=$?; "
        "[ $rc = 1 ] && grep -q '/in changed since the job started' said");
}

GY_TEST(what_changes_no_byte_is_no_change)
{
    must_end("new; begin in --split 4KiB; chmod 400 in; ln in in3; end; rm in3; is $OLD");
    must_end("new; begin in --split 4KiB; cat in2 >>in; end; is $OLD");
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
