/*
 * Goal: whatever takes a place knows the same schemes: unknown ones are refused by name and
 * make nothing, "file:" URIs are paths everywhere, names with colons in them are names.
 */
#include "command_kit.h"

#include "gy_test.h"

/* m JOB INPUT...: gyre mr in silence; sum: what an output has, sorted */
static const char *kit_words =
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state; m() { gyre mr \"$@\" -q; }; "
    "sum() { sort \"$1\"/part-*; }; ";

static int begin(void **state)
{
    return kit_make_folder(state) != 0 || say("printf 'a b\\nb c\\n' >in.txt; mkdir work") != 0;
}

GY_TEST(unknown_schemes_make_no_folder)
{
    must("cd work; for to in s3a://bucket/out S3N://b/o gs://b/x http://h/p ftp://h/p "
         "abfs://c/p "
         "s3:/b/o; do m wordcount ../in.txt -o $to 2>said && exit 1; test $? = 1 && exit 2; "
         "grep "
         "-qF \"$to\" said && grep -q expected said || exit 3; done; test -z \"$(ls | grep -v "
         "said)\" || exit 4");
    must("cd work; m wordcount ../in.txt -o s3a://bucket/out 2>said; test $? = 2 && grep -q "
         "'write s3:' said");
    must(
        "cd work; for what in 'wordcount gs://b/in -o O' 'wordcount ../in.txt -o O --memo "
        "gs://b/m' 'wordcount ../in.txt -o O --folder s3a://b/f' 'sort ../in.txt -o O --trace "
        "s3://b/t' 'sort ../in.txt -o O --memo S3://b/m' 'sort ../in.txt -o file://host/o'; do "
        "m $what 2>said; test $? = 2 || { echo \"$what\"; cat said; exit 1; }; done; m --map "
        "cat "
        "--file gs://b/f ../in.txt -o O 2>said; test $? = 2 && grep -q 'unknown scheme' said; "
        "rm said; test -z \"$(ls)\"");
    must(
        "for what in 'ls gs://b/x' 'cat s3a://b/x' 'cp in.txt s3n://b/x'; do gyre store $what "
        "2>said; test $? = 2 && grep -q 'unknown scheme' said || exit 1; done; ! test -e s3n:");
    must("for what in 'nameserver --listen 127.0.0.1:0 --plaintext --table s3a://b/t' "
         "'job submit --nameservers 127.0.0.1:9 --plaintext --journal gs://b/j -- true' "
         "'train digits --data s3://b/d' 'job gc --memo gs://b/m'; do gyre $what 2>said; test "
         "$? "
         "= 2 && grep -q expected said || { echo \"$what\"; cat said; exit 1; }; done");
}

GY_TEST(file_uris_are_paths)
{
    must("m wordcount in.txt -o plain && sum plain >want; n=0; for to in file:$PWD/u1 "
         "file://$PWD/u2 file://localhost$PWD/u3 FILE:$PWD/u4 file:u5 file://$PWD/u%36; do "
         "m wordcount file://$PWD/in.txt -o $to || exit 1; n=$((n + 1)); sum u$n | cmp - want "
         "|| "
         "exit 2; done; ! test -e file: && ! test -e FILE:");
    must("p=file://$PWD; m wordcount in.txt -o places --folder $p/job --memo $p/memo --trace "
         "$p/trace%2ejson && test -d job && test -d memo && test -s trace.json");
    must("printf side >'si de'; m --map 'cat \"si de\"' --file \"file://$PWD/si%20de\" in.txt "
         "-o "
         "sided && test \"$(cat sided/part-*)\" = side");
    must("gyre store cp file:in.txt file://localhost$PWD/copied && cmp copied in.txt && gyre "
         "store "
         "cat FILE:$PWD/copied | cmp - in.txt");
}

GY_TEST(names_with_colons_are_names)
{
    must("cp in.txt x:1:2; cp in.txt in.txt:0:3; cp in.txt s3:x; cp in.txt 'a:b'; mkdir s3a:; "
         "cp "
         "in.txt s3a:/f; m wordcount x:1:2 in.txt in.txt:0:3 s3:x a:b s3a://f -o colons && sum "
         "colons >got; printf 'a\\t6\\nb\\t12\\nc\\t6\\n' | cmp - got");
    must("m sort x:1:2 in.txt in.txt:0:3 -o sorted && cat x:1:2 in.txt in.txt | sort >want && "
         "cat sorted/part-* | cmp - want");

    must("m --map 'cat x:1:2 in.txt:0:3' --file x:1:2 --file in.txt:0:3 in.txt -o files && cat "
         "in.txt in.txt | cmp - files/part-00000");
    must(
        "m wordcount in.txt -o o:1:2 && m wordcount in.txt -o s3:o && test -d o:1:2 && test -d "
        "s3:o && m wordcount in.txt -o ./gs://b && test -d gs:/b");
}

GY_TEST(names_stay_on_their_lines)
{
    must("mkdir names; for n in 'a\\nb' 'a\\\\nb' 'c\\td' '\\377e' '\\033[2Jf'; do echo x "
         ">\"names/$(printf \"$n\")\"; done; m index names -o listed && printf "
         "'%s\\n' '0\tnames/\\x1b[2Jf' '1\tnames/a\\nb' '2\tnames/a\\\\nb' '3\tnames/c\\td' "
         "'4\tnames/\\xffe' >want; cmp listed/inputs-00000 want");
    must(
        "m grep -c x names -o counted && sum counted | cut -f 1 | LC_ALL=C sort >got; cut -f 2 "
        "want | sort | cmp - got");
    must("gyre store ls names >got; sed 's|.*names/||' want | cmp - got");
}

GY_TEST(what_is_left_out_is_said)
{
    must("mkdir -p left/sub; for n in a .h _SUCCESS sub/b; do echo $n >left/$n; done; ln -s a "
         "left/link; ln -s .. left/sub/up; mkfifo left/pipe; m wordcount left -o left1 2>said "
         "&& "
         "grep -q '2 hidden names (left/.h, ...), which --hidden takes; 2 links (left/link, "
         "...), "
         "which --follow-links takes; 1 pipe, socket or device (left/pipe)' said && test $(wc "
         "-l "
         "<said) "
         "= 1 && test $(sum left1 | wc -l) = 2");
    must("m wordcount left -o left2 --hidden --follow-links 2>said && printf "
         "'a\t2\nh\t1\nsub/b\t1\n' "
         ">want; sum left2 | sed 's/^\\.//; s/_SUCCESS/S/' | grep -v ^S >got; test $(sum left2 "
         "| "
         "wc -l) -ge 4 && grep -q 'back to a folder above it' said");
    must("m wordcount left1 -o left3 2>said && ! test -s said"); /* a manifest of our own */
    must("test \"$(gyre store ls left | tr '\\n' ' ')\" = '.h _SUCCESS a link pipe sub/ '");
}

GY_TEST(a_dash_is_standard_input)
{
    must("m wordcount - -o in1 <in.txt && m wordcount in.txt -o in2 && sum in2 >want && sum "
         "in1 | cmp "
         "- want; seq 5000 | m sort --numeric - in.txt -o in3 2>said && { seq 5000; cat "
         "in.txt; } | "
         "sort "
         "-n -s -k1,1 >want; cat in3/part-* | cmp - want");
    must("m grep -c b - in.txt -o in4 <in.txt && sum in4 >got && printf '%s\\t2\\n' - in.txt | "
         "cmp - "
         "got; m index in.txt - -o in5 <in.txt && printf '0\\tin.txt\\n1\\t-\\n' | cmp - "
         "in5/inputs-00000; m --map cat - --folder jf -o in6 --split 1KiB <in.txt && cat "
         "in6/part-* "
         "| cmp - in.txt");
    must("test -z \"$(find state jf -name 'input-*')\""); /* the copies are gone */
    must(
        "cp in2/part-00000 ./- && m wordcount ./- -o in7 </dev/null && test -s in7/part-00000");
    must("m grep -c b /dev/stdin -o in9 <in.txt && test \"$(sum in9)\" = "
         "\"$(printf '/dev/stdin\\t2')\"");
    must("m wordcount in.txt -o - 2>said; test $? = 2 && grep -q 'a folder for them' said");
    must("m wordcount - - -o in8 <in.txt 2>said; test $? = 2 && grep -q 'given 2 times' said "
         "&& m "
         "wordcount - -o in8 <&- 2>said; test $? = 2 && grep -q 'is closed' said && m "
         "wordcount - -o "
         "in8 <. 2>said; test $? = 1 && grep -q 'standard input' said && ! test -e in8 && test "
         "-z "
         "\"$(find state -name 'input-*')\"");
    must("python3 -c 'import os,pty,sys; "
         "sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "
         "${GYRE_BIN:-build/dev/gyre} mr wordcount - -o in8 </dev/null >said; test $? = 2 && "
         "grep -q "
         "'is a terminal' said");
}

GY_TEST(a_resumed_job_has_its_standard_input)
{
    must("seq 7 | m --map \"test -e $PWD/go && cat\" - -o again 2>said; test $? = 1 && test "
         "$(find "
         "state -name "
         "input-0 | wc -l) = 1 && touch go && gyre job resume $(gyre job list | awk '$2 != "
         "\"done\" "
         "&& $NF == \"commands\" { print $1 }') </dev/null >said 2>&1 && seq 7 | cmp - "
         "again/part-00000 && test -z \"$(find state -name 'input-*')\"");
}

/* Files of /proc and /sys have other bytes than their size says. */
GY_TEST(files_without_a_size_are_read)
{
    must("stat -c %s /proc/version | grep -qx 0 && m --map cat /proc/version -o proc1 && cmp "
         "proc1/part-00000 /proc/version && m sort /proc/version in.txt -o proc2 && { cat "
         "/proc/version in.txt; } | sort >want; cat proc2/part-* | cmp - want");
    must("m grep -c . /proc/version -o proc3 && sum proc3 >got && printf "
         "'/proc/version\\t1\\n' | cmp "
         "- got; : >empty; m wordcount empty -o proc4 && test -z \"$(cat proc4/part-*)\"");
}

GY_TEST_MAIN(begin, kit_remove_folder)
