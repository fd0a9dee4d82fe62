/*
 * Goal: texts of any size and of any bytes (paths, names, keys, what programs say) neither
 * overrun what holds them nor steer the terminal that shows them, and messages say their part.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *kit_words =
    "export LC_ALL=C XDG_STATE_HOME=$PWD/state; rm -rf O O2 O2.counts said; ";

/* ---- sizes ---- */

GY_TEST(pages_of_any_length_are_counted)
{
    must("awk 'BEGIN { p = \"/\"; for (i = 0; i < 9000; i++) p = p \"A\"; "
         "for (i = 0; i < 5; i++) print \"h - - [t] \\\"GET \" (i < 3 ? p : \"/b\") "
         "\" HTTP/1.1\\\" 200 1\"; print \"3 \" p >\"expected\"; print \"2 /b\" >\"expected\" "
         "}' "
         ">log && $GYRE_TEST_POPULAR log O >got && cmp got expected && "
         "$GYRE_TEST_POPULAR_JOBS log O2 >got && cmp got expected && "
         /* pages of which one begins as the other, longer than a buffer of the runtime, and a
          * last line without its end */
         "awk 'BEGIN { p = \"/\"; for (i = 0; i < 70000; i++) p = p \"B\"; "
         "print \"\\\"GET \" p \"C x\"; print \"\\\"GET \" p \" x\"; "
         "printf \"%s\", \"\\\"GET \" p \"C x\"; "
         "print \"2 \" p \"C\" >\"expected\"; print \"1 \" p >\"expected\" }' >log && "
         "rm -r O && $GYRE_TEST_POPULAR log O >got && cmp got expected");
}

GY_TEST(a_failure_names_both_ends_of_a_long_path)
{
    must("p=$(printf 'y%.0s' $(seq 200)); long=$p/$p/$p/$p/$p/$p/$p/last; "
         "gyre mr wordcount in/$long -o O 2>said; [ $? = 1 ] && "
         "grep -q '^gyre mr: cannot read in/yyy.*…y.*/last: ' said");
}

/* ---- control characters ---- */

GY_TEST(messages_show_what_a_terminal_would_obey)
{
    static const char *const lines[] = {
        "gyre mr wordcount \"$(printf 'a\\033[31mb\\nc')\" -o O",
        "gyre mr \"$(printf 'a\\033[31mb')\" x -o O",
        "gyre mr wordcount x -o O \"$(printf -- '--a\\033[31mb')\"",
        "gyre mr wordcount x -o O --processes \"$(printf 'a\\033[31mb')\"",
        "gyre job show \"$(printf 'a\\033[31mb')\"",
        "gyre store ls \"$(printf 'a\\033[31mb')\"",
        "gyre plan \"$(printf 'a\\033[31mb')\"",
        "gyre \"$(printf 'a\\033[31mb')\"",
        "gyre job list --nameservers \"$(printf 'a\\033[31mb')\"",
        "gyre doctor \"$(printf 'a\\033[31mb')\"",
        "gyre run -n 1 \"$(printf './a\\033[31mb')\"",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[512];
        snprintf(line, sizeof(line),
                 "%s >said 2>&1 </dev/null; [ $? != 0 ] && [ -s said ] && "
                 "! LC_ALL=C grep '[^ -~]' said && grep -q 'x1b\\[31m' said",
                 lines[i]);
        must(line);
    }
}

GY_TEST(what_a_mapper_says_is_shown)
{
    must("echo a >in; gyre mr --map \"printf 'w\\033]0;t\\007x\\303\\244\\342\\202\\n' >&2; "
         "printf 'tail\\033[2J' >&2; exit 3\" in -o O 2>said; [ $? = 1 ] && "
         "grep -qF 'w\\x1b]0;t\\x07x'\"$(printf '\\303\\244')\"'\\xe2\\x82' said && "
         "grep -q 'status 3: .*tail.x1b.2J' said && ! grep \"$(printf '\\033')\" said");
}

GY_TEST(names_of_jobs_are_shown)
{
    must(
        "mkdir -p \"$(printf 'd\\033[31m\\n')\" && echo a >in && "
        "gyre mr wordcount in -o \"$(printf 'd\\033[31m\\nx')\"/O -q && gyre job list >said && "
        "id=$(awk 'NR == 2 { print $1 }' said) && gyre job show $id >>said && "
        "grep -qF 'd\\x1b[31m\\nx' said && ! grep \"$(printf '\\033')\" said");
}

/* ---- lines without what was asked for ---- */

GY_TEST(lines_without_a_number_are_counted)
{
    must("for i in 1 2; do for w in 10 - x 9999999999999999999 +5 -3 4.5; do "
         "echo \"ip$i - $w\"; done; echo ip$i; echo; done >log && "
         "gyre mr topk log --field 1 --sum-field 3 -o O -q 2>said && "
         "printf 'ip1\\t12\\nip2\\t12\\n' | cmp - O/part-00000 && "
         "grep -q 'topk: 10 lines have no integer below 2^63 in field 3: left out' said && "
         "grep -q 'topk: 2 lines have no field 1: left out' said && "
         "gyre job show $(gyre job list | awk 'NR == 2 { print $1 }') >shown && "
         "grep -q 'lines without a number  *10$' shown && "
         "grep -q 'lines without the field  *2$' shown");
    must("gyre mr topk log --field 1 --sum-field 3 -o O2 -q --strict 2>said; [ $? = 1 ] && "
         "grep -q 'log: the line at offset 9: field 3 is .-.: expected a whole' said && "
         "[ ! -e O2/part-00000 ]");
}

GY_TEST(lines_without_a_field_are_counted)
{
    /* More than one block of the fast way, whose last line has no end. */
    must(
        "awk 'BEGIN { for (i = 0; i < 20000; i++) print i % 5 == 0 ? \"one two\" : "
        "i % 7 == 0 ? \"\" : \"a b c\"; printf \"one\" }' >in && "
        "n=$(awk 'NF < 3' in | wc -l) && for how in '-p 1' '-p 2 --split 16KiB'; do "
        "rm -rf O; gyre mr topk in --field 3 -o O -q $how 2>said && "
        "printf 'c\\t%d\\n' $((20001 - n)) | cmp - O/part-00000 && "
        "grep -q \"^gyre mr topk: $n lines have no field 3: left out\" said || exit 1; done && "
        "gyre mr topk in --field 3 -o O2 -q --strict 2>said; [ $? = 1 ] && "
        "grep -q 'in: the line at offset 0 has no field 3' said && rm -rf O O2 && "
        "gyre mr topk in --field 1 -o O -q 2>said && n=$(grep -c '^$' in) && "
        "grep -q \": $n lines have no field 1\" said");
}

GY_TEST(fields_are_separated_by_a_letter)
{
    must("printf 'a b,1\\na b,2\\n,3\\nc\\n,\\n' >in.csv && "
         "gyre mr topk in.csv --field 1 --sum-field 2 --separator , -o O -q 2>said && "
         "printf '\\t3\\na b\\t3\\n' | cmp - O/part-00000 && "
         "grep -q '2 lines have no integer' said && "
         "tr , '\\t' <in.csv >in.tsv && for s in '\\t' \"$(printf '\\t')\"; do rm -rf O; "
         "gyre mr topk in.tsv --field 2 -k 9 --separator \"$s\" -o O -q 2>said && "
         "printf '\\t1\\n1\\t1\\n2\\t1\\n3\\t1\\n' | cmp - O/part-00000 && "
         "grep -q '1 line has no field 2' said || exit 1; done");
    must("gyre mr topk in.csv --field 1 --separator ,, -o O; [ $? = 2 ] && "
         "gyre mr topk in.csv --separator , -o O; [ $? = 2 ] && "
         "gyre mr wordcount in.csv --separator , -o O; [ $? = 2 ] && "
         "gyre mr index in.csv --strict -o O; [ $? = 2 ]");
}

GY_TEST(a_sort_counts_keys_that_are_none)
{
    must(
        "printf 'a,3\\nb,x\\nc\\nd,\\ne,0\\nf,-1\\n' >in && gyre mr sort in --field 2 "
        "--numeric --separator , -r 3 -o O -q 2>said && cat O/part-* >got && printf "
        "'f,-1\\nb,x\\nc\\nd,\\ne,0\\na,3\\n' | cmp - got && grep -q 'sort: 2 lines have no "
        "number to sort by: sorted as 0' said && grep -q 'sort: 1 line has no field 2: sorted "
        "as 0' said && gyre mr sort in --field 2 --separator , -o O2 -q 2>said && grep -q "
        "'sort: 1 line has no field 2: sorted by an empty key' said && [ $(wc -l <said) = 1 ]");
    must("gyre mr sort in --field 2 --numeric --separator , -o O -q --strict 2>said; [ $? = 1 "
         "] && "
         "grep -q 'the key of the line at offset 4 begins with no number' said");
    must("gyre mr sort in --field 2 --separator , -o O -q --strict 2>said; [ $? = 1 ] && "
         "grep -q 'the line at offset 8 has no field 2' said");
    must("seq 100 >in && gyre mr sort in --numeric -o O -q --strict 2>said && [ ! -s said ]");
}

/* ---- commands ---- */

GY_TEST(a_file_that_was_not_brought_is_named)
{
    must("mkdir -p d && echo cat >m.sh && cp m.sh d && echo a >in && gyre mr --map 'sh m.sh' "
         "in -o O 2>said; [ $? = 1 ] && grep -q '^gyre mr: m.sh is missing in .*: add --file "
         "m.sh (.*status' said");
    must("gyre mr --map \"sh './d/m.sh' | cat\" --file d/m.sh in -o O 2>said; r=$?; [ $r = 0 ] "
         "|| grep -q './d/m.sh is placed in .* as m.sh' said");
    must("gyre mr --map cat --reduce 'X=1 sh <m.sh' in -o O 2>said; [ $? = 1 ] && "
         "grep -q 'm.sh is missing' said");
    must("gyre mr --map 'sh m.sh' --file none in -o O 2>said; [ $? = 1 ] && "
         "grep -q 'cannot read .*/none: ' said && ! grep brought said");
    must("gyre mr --map 'sh m.sh' in -o d 2>said; [ $? = 1 ] && "
         "grep -q 'd is not empty' said && ! grep brought said");
    must("gyre mr --map 'sh m.sh' --file d/m.sh in -o O -q");
    must("gyre mr --map 'sh m.sh; exit 3' --file m.sh in -o O 2>said; [ $? = 1 ] && "
         "! grep -q 'brought' said");
}

GY_TEST(what_a_sandbox_hides_is_named)
{
    if (say("gyre doctor --check-sandbox | grep -q '^files *yes'") != 0) {
        skip();
    }
    must(
        "mkdir -p app/bin app/other && cp $(command -v cat) app/bin/mine && cp "
        "app/bin/mine app/other/cat && echo a >in && echo x >secret "
        "&& "
        "here=$(pwd -P) && gyre mr --map $here/app/bin/mine in --sandbox files -o O 2>said; "
        "[ $? = 1 ] && grep -q \"part files hides $here/app/bin/mine: read=$here/app permits\" "
        "said && gyre mr --map $here/app/bin/mine in --sandbox files,read=$here/app -o O -q");
    must("here=$(pwd -P); PATH=$here/app/bin:$PATH gyre mr --map mine in --sandbox files -o O "
         "2>said; [ $? = 1 ] && grep -q \"part files hides $here/app/bin/mine:\" said && "
         "gyre mr --map \"cat $here/secret\" in --sandbox files -o O 2>said; [ $? = 1 ] && "
         "grep -q \"part files hides $here/secret: read=$here permits it\" said && "
         "PATH=$here/app/other:$PATH gyre mr --map \"cat $here/secret\" in --sandbox files -o "
         "O 2>said; [ $? = 1 ] && grep -q \"part files hides $here/secret:\" said && "
         "gyre mr --map 'cat /nothing' in --sandbox files -o O 2>said; [ $? = 1 ] && "
         "! grep hides said");
    /* a library beside a program that is permitted alone */
    must("command -v cc >/dev/null || exit 0; here=$(pwd -P); mkdir -p app/lib && "
         "echo 'int f(void) { return 0; }' >f.c && echo 'int f(void); int main(void) { return "
         "f(); }' "
         ">m.c && cc -shared -fPIC f.c -o app/lib/libmine.so && cc m.c -Lapp/lib -lmine "
         "-Wl,-rpath,'$ORIGIN/../lib' -o app/bin/linked && gyre mr --map $here/app/bin/linked "
         "in "
         "--sandbox files,read=$here/app/bin -o O 2>said; [ $? = 1 ] && "
         "grep -q \"part files hides $here/app/lib/libmine.so: read=$here/app/lib permits\" "
         "said");
}

GY_TEST_MAIN(kit_make_folder, kit_remove_folder)
