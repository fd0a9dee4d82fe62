/*
 * Goal: what `gyre mr` and `gyre job` give is what the tools of every Unix give for the same
 * text, from one process or several, in any splits.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *kit_words = KIT_MR_WORDS("");

/* Under a sanitizer some of the jobs are left out, which differ in what a process computes. */
static void leave_out(size_t which)
{
    if (!gy_test_takes(which)) {
        skip();
    }
}

/* Text whose lines, words and their repetitions come from a fixed recurrence. */
static int make_text(void **state)
{
    if (kit_make_folder(state) != 0) {
        return 1;
    }
    return say("awk 'BEGIN { for (i = 0; i < 6000; i++) { n = i % 7; line = \"\"; "
               "for (j = 0; j <= n; j++) { x = (x * 1103515245 + 12345) % 2147483648; "
               "line = line (j ? (x % 3 ? \" \" : \"\\t\") : \"\") \"w\" int(x / 65536) % (1 + "
               "i % 97) } "
               "print line } }' >text && mkdir split && awk '{ print >(\"split/f\" NR % 5) }' "
               "text && "
               "gzip -k split/f1 && rm split/f1 && wc -l <text") != 0;
}

GY_TEST(words_are_counted)
{
    must(
        "tr -s ' \\t' '\\n\\n' <text | grep . | sort | uniq -c | awk '{ print $2 \"\\t\" $1 }' "
        ">expected && for how in '-p 1' '-p 3 --split 1KiB' '-p 1 -t 3 --split 3000 -r 5' "
        "'-m 8MiB'; do m wordcount text $how && all | sort | same expected || exit 1; done && "
        "m wordcount split && all | sort | same expected");
}

GY_TEST(bytes_do_not_depend_on_how)
{
    leave_out(0);
    must("m wordcount text -r 3 && all >first && "
         "m wordcount text -r 3 -p 3 --split 2KiB -m 8MiB && all | same first");
}

GY_TEST(lines_are_found)
{
    leave_out(1);
    must(
        "grep -E 'w1[0-3]*( |$)' text >expected && m grep 'w1[0-3]*( |$)' text --split 4KiB && "
        "all | same expected && grep -vi 'W5' text >expected && m grep -v -i W5 text && "
        "all | same expected && m grep -c w7 text && "
        "[ \"$(all | cut -f 2)\" = $(grep -c w7 text) ]");
}

GY_TEST(lines_are_sorted)
{
    must("sort text >expected && for how in '-r 1' '-r 3 -p 2'; do "
         "m sort text $how && all | same expected || exit 1; done && "
         "head -c 60000 text | tr '\\n' ' ' >records && fold -b -w 10 records | sort -t @ -s "
         "-k1.3,1.5 "
         "| "
         "tr -d '\\n' >expected && m sort records --record-bytes 10 --key-offset 2 --key-bytes "
         "3 && "
         "all | same expected");
}

/* A line that is most of the input is in the sample thousands of times. */
GY_TEST(long_lines_are_sorted_by_fields)
{
    leave_out(2);
    must("head -c 4000000 /dev/zero | tr '\\0' k >long && { cat long && echo ' a' && echo b a "
         "&& "
         "printf 'a ' && cat long && echo; } >long3 && sort -s -k2,2 long3 >expected && "
         "m sort long3 --field 2 -r 2 && all | same expected");
}

/* As sort(1) does with the same words. */
GY_TEST(lines_are_sorted_by_numbers_and_fields)
{
    leave_out(2);
    must("awk '{ print NR % 13 - 6 \".\" NR % 4 \",\" $2 \",\" $1, (NR * 7919) % 101 }' text "
         ">numbers && a() { sort -s $1 numbers >expected && for how in '-r 3 -p 2'; do "
         "m sort numbers $2 $how && all | same expected || exit 1; done; } && "
         "a -n --numeric && a -nr '--numeric --descending' && a -r --descending && "
         "a '-k2br,2' '--field 2 --descending' && a '-k2,2n' '--numeric --field 2' && "
         "a '-t, -k2,2' '--field 2 --separator ,' && "
         "a '-t, -k1,1nr' '--numeric --field 1 --separator , --descending'");
    must(
        "head -c 60000 text | tr '\\n' ' ' >records && fold -b -w 10 records | sort -t @ -s -r "
        "-k1.3,1.5 | tr -d '\\n' >expected && "
        "m sort records --record-bytes 10 --key-offset 2 --key-bytes 3 --descending && "
        "all | same expected");
}

/* Plain and compressed inputs in turn: equal keys stay in the order of the inputs. */
GY_TEST(compressed_files_are_sorted)
{
    leave_out(3);
    must("for i in 1 2 3 4; do awk \"NR % 4 == $i - 1\" text >z$i; done && "
         "cat z1 z2 z3 z4 | sort -s -k1.1,1.2 >expected && gzip z1 && gzip z3 && "
         "for how in '-r 3 -p 2'; do m sort z1.gz z2 z3.gz z4 --key-bytes 2 $how && "
         "all | same expected || exit 1; done && zcat z3.gz z1.gz | sort >expected && "
         "m sort z1.gz z3.gz -s >said && all | same expected && "
         "grep -q 'stage expand: 2 of 2' said && "
         "head -c 20 z1.gz >cut.gz && ! m sort z2 cut.gz 2>said && "
         "grep -q 'cut.gz: gzip cut short at byte 20' said");
    must("head -c 60000 text >records && fold -b -w 10 records >/dev/null && "
         "m sort records --record-bytes 10 && all >expected && gzip -k records && "
         "m sort records.gz --record-bytes 10 && all | same expected && "
         "head -c 59999 text | gzip >cut.gz && ! m sort cut.gz --record-bytes 10 2>said && "
         "grep -q '59999 bytes' said && grep -q 'cut.gz' said");
}

GY_TEST(an_index_lists_files)
{
    leave_out(4);
    must("for i in 0 1 2 3; do awk \"NR % 4 == $i\" text | head -n 300 >d$i; done && "
         "for i in 0 1 2 3; do tr -s ' \\t' '\\n\\n' <d$i | sort -u | sed \"s/$/ $i/\"; done | "
         "sort | awk '{ if ($1 != w) { if (w) print w \"\\t\" l; w = $1; l = $2 } "
         "else l = l \" \" $2 } END { print w \"\\t\" l }' >expected && "
         "m index d0 d1 d2 d3 -p 2 --split 1KiB && cat mo/part-* | sort | same expected && "
         "printf '0\\td0\\n1\\td1\\n2\\td2\\n3\\td3\\n' | same mo/inputs-00000");
}

GY_TEST(the_most_frequent_are_found)
{
    leave_out(5);
    must("awk '{ n[$2]++ } END { for (w in n) if (w != \"\") print w \"\\t\" n[w] }' text | "
         "sort -t '\t' -k 2,2nr -k 1,1 | head -n 6 >expected && "
         "for how in '-p 1' '-p 3 --split 1KiB'; do "
         "m topk text --field 2 -k 6 $how && all | same expected || exit 1; done");
}

GY_TEST(any_program_maps_and_reduces)
{
    must(
        "printf '%s\\n' 'import sys' 'for line in sys.stdin:' '    for w in line.split():' "
        "'        print(w, 1, sep=\"\\t\")' >m.py && "
        "awk '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print w \"\\t\" n[w] }' "
        "text | sort >expected && m --map 'python3 m.py' "
        "--reduce 'cut -f 1 | uniq -c | awk \"{ print \\$2 \\\"\\t\\\" \\$1 }\"' --file m.py "
        "text --split 8KiB -p 2 && all | sort | same expected");
    assert_int_not_equal(say("m --map 'exit 3' text 2>said"), 0);
    must("grep -q 'ended with status 3' said && [ ! -e mo ]");
}

GY_TEST(bad_input_is_named)
{
    static const char *const lines[][2] = {
        {"m wordcount nothing", "cannot read nothing"},
        {"mkdir empty; m wordcount empty", "no file in empty"},
        {"head -c 200 split/f1.gz >cut.gz; m wordcount cut.gz", "cut.gz"},
        {"printf '\\377\\376a\\0' >wide; m wordcount wide", "wide"},
        {"m grep '(' text", "("},
        {"m grep $(printf %20000s | tr ' ' '(') text", "20000 groups one in the other"},
        {"m sort text --record-bytes 7", "text"},
        {"mkdir full; touch full/x; gyre mr wordcount text -o full", "full"},
        {"m wordcount text -p 0", "processes"},
        {"m wordcount text -k 3", "--top"},
        {"m words text", "words"},
        {"m topk text -r 3", "--partitions does not apply to this job"},
        {"m grep a text -r 3", "--partitions does not apply to this job"},
        {"m --map cat text -r 3", "gyre mr --map: --partitions does not apply to this job"},
        {"m sort text --split 1KiB", "--split does not apply to this job"},
        {"m --map cat text --record-timeout 1", "--record-timeout does not apply to this job"},
        {"m --map cat text --bad-records-max 1",
         "--bad-records-max does not apply to this job"},
        {"m --reduce cat text", "--reduce needs --map"},
        {"mkdir -p d; touch d/f f; m --map cat --file f --file d/f text",
         "are called f: f and"},
        {"m grep \"$(printf 'a\\nb')\" text", "line end"},
        {"m sort wide", "wide: begins as UTF-16"},
        {"m wordcount /dev/null", "/dev/null"},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        int status = say(lines[i][0]);
        if ((status != 1 && status != 2) || strstr(output, lines[i][1]) == NULL ||
            strchr(output, '\n') != strrchr(output, '\n')) {
            fail_msg("'%s' ended with %d: %s", lines[i][0], status, output);
        }
        must("[ ! -e mo ] || [ -z \"$(ls -A mo)\" ]");
    }
    must("[ \"$(ls full)\" = x ]");
}

/* Empty lines of what is expanded, and last lines without an end. */
GY_TEST(lines_are_kept_apart)
{
    leave_out(3);
    must("printf 'x\\n\\n\\ny' >gaps && gzip -k gaps && m topk gaps.gz && "
         "printf '\\t2\\nx\\t1\\ny\\t1\\n' >expected && all | same expected && "
         "printf a >first && printf 'b\\n' >second && "
         "m --map cat first second -p 1 && printf 'a\\nb\\n' >expected && "
         "all | same expected");
}

GY_TEST(empty_inputs_give_empty_outputs)
{
    leave_out(6);
    must("one='MANIFEST.json part-00000'; "
         "look() { [ \"$(echo $(ls mo))\" = \"$1\" ] && [ -z \"$(all)\" ]; }; : >none && "
         "m index none -r 1 && rm mo/inputs-00000 && look \"$one\" && "
         "for job in wordcount sort; do "
         "m $job none -r 3 && look \"$one part-00001 part-00002\" || exit 1; done && "
         "for job in topk 'grep a'; do m $job none && look \"$one\" || exit 1; done");
}

GY_TEST(jobs_are_remembered)
{
    leave_out(7);
    must("m wordcount text --split 4KiB && id=$(gyre job list --last 1 | tail -n 1 | cut -d' ' "
         "-f 1) && gyre job show $id >said && grep -q '^job .*done$' said && grep -q 'mr "
         "wordcount text' said && grep -Eq '^map +[0-9]+ ' said && grep -q 'map records' said "
         "&& ! gyre job kill $id 2>said && grep -q 'is not running' said && ! gyre job resume "
         "$id 2>said && grep -q 'finished successfully' said");
}

GY_TEST(a_folder_has_one_job)
{
    must("mkdir -p taken/data && exec 9>taken/lock && flock 9 && "
         "! m wordcount text --folder taken 2>said && grep -q 'another manager' said && "
         "[ -d taken/data ] && [ ! -e taken/id ] && exec 9>&- && "
         "m wordcount text --folder taken && echo no folder >file && "
         "! m wordcount text --folder file 2>said && [ $(wc -l <said) = 1 ]");
}

/* The manager dies once; what it was told by its environment counts again. */
GY_TEST(a_resumed_job_has_its_options)
{
    must("export M=$PWD/died F=$PWD/again; ! gyre job run --memo kept -p 3 $GYRE_BIN mr --map "
         "'[ -e $M ] || { : >$M; kill -9 $(cat $F/lock); sleep 9; }; cat' text -o rs -q "
         "--folder $F 2>said && [ -e $M ] && id=$(cat $F/id) && gyre job resume $id && "
         "cat rs/part-* | same text && grep -qx GYRE_JOB_PROCESSES=3 $F/settings");
}

/* A log that grows while it is read: what stood there at first counts, in every attempt. */
GY_TEST(what_is_appended_is_left_out)
{
    must("head -n 200 text >log && cp log before && export GO=$PWD/go && "
         "{ gyre mr --map 'n=0; while [ ! -e $GO ] && [ $n -lt 400 ]; do sleep 0.02; "
         "n=$((n + 1)); done; cat' log -o grown -q -p 2 --split 2KiB --folder $PWD/growing & } "
         "&& n=0 && while [ ! -e growing/journal ] && [ $n -lt 400 ]; do sleep 0.02; "
         "n=$((n + 1)); done && echo one more line >>log && : >go && wait $! && "
         "cat grown/part-* | same before");
}

/* Killed with all that would have cleaned up. Its output names the two ways out, each of which
 * is one; the logs of what ended are kept within their quota by the next job's end. */
GY_TEST(what_a_killed_job_leaves_has_ways_out)
{
    must("killed() { rm -rf runs; $GYRE_BIN mr --map \"echo >>$PWD/runs; [ -e $PWD/go ] || "
         "sleep "
         "99\" --reduce "
         "cat text -o $1 & p=$!; until [ -s runs ]; do sleep 0.01; done; kill -9 $p; wait $p; "
         "[ \"$(ls -A $1 | cut -c 1-6)\" = .gyre- ]; id=$(ls -A $1 | cut -c 7-); "
         "! gyre mr wordcount text -o $1 2>said && grep \"gyre job resume $id\" said && grep "
         "\"gyre job gc $id\" said; }; "
         "killed kr && gyre job gc $id && [ ! -e kr ] && ! gyre job show $id 2>said && "
         "killed kr && gyre job gc --quota 0 --keep-days 0 && [ ! -e kr ] && gyre job list "
         ">said && "
         "! "
         "grep $id said && "
         "killed kr && touch go && gyre job resume $id && [ -e kr/MANIFEST.json ] && rm -r kr "
         "go");
    must("GYRE_JOB_QUOTA=99999 gyre mr --map 'head -c 999999 /dev/zero >&2' text -o quota "
         "2>said && [ $(du -s -B 1 state/gyre/jobs | cut -f 1) -lt 500000 ] && rm -r quota");
}

/* A copy that is interrupted takes back what it had written beside. */
GY_TEST(an_interrupted_copy_leaves_nothing)
{
    must("for signal in TERM HUP INT; do rm -rf cp; mkdir cp; truncate -s 1T cp/from; "
         "env --default-signal=INT $GYRE_BIN store cp cp/from cp/to 2>said & p=$!; "
         "until [ -e cp/.gyre-*.tmp ]; do sleep 0.01; done; kill -$signal $p; wait $p; "
         "[ $? -gt 128 ] && [ \"$(ls -A cp)\" = from ] && grep -q interrupted said || exit 1; "
         "done; rm -r cp");
}

GY_TEST_MAIN(make_text, kit_remove_folder)
