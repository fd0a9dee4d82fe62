/*
 * Goal: whatever ends the lines of a text, and whether a byte order mark is in front of it,
 * jobs say the same of it, in any splits; bytes that are none of that stay as they are.
 */
#include "command_kit.h"

#include "gy_test.h"

static const char *kit_words = KIT_MR_WORDS(" -p 1");

/* One text in five forms. */
static int make_files(void **state)
{
    return kit_make_folder(state) != 0 ||
           shell("i=0; while [ $i -lt 40 ]; do echo \"w$((i * 7 % 11)) x$((i % 5))\"; "
                 "i=$((i + 1)); done >lf && echo >>lf && sed 's/$/\\r/' lf >crlf && "
                 "tr '\\n' '\\r' <lf >cr && { printf '\\357\\273\\277'; cat crlf; } >marked && "
                 "gzip -c marked >marked.gz && xz -c cr >cr.xz && "
                 "[ $(wc -c <crlf) = $(($(wc -c <lf) + 41)) ]") != 0;
}

GY_TEST(jobs_see_the_same_lines)
{
    must("n=0; for job in 'wordcount -r 1' sort 'sort --field 2' "
         "'grep x3$' topk 'topk --field 2' 'index -r 1'; do "
         "n=$((n + 1)); m $job lf && all | grep -v '^0.lf$' >expected$n; "
         "for file in cr marked.gz; do m $job $file && "
         "all | grep -v '^0.[a-z]*\\(.gz\\|.xz\\)*$' | same expected$n || "
         "{ echo $job $file; exit 1; }; done; done; [ -s expected7 ] && m sort marked cr.xz && "
         "cat lf lf | sort >expected && all | same expected");
}

GY_TEST(splits_cut_anywhere)
{
    must("for size in 63 200; do for file in crlf marked; do "
         "m --map cat $file --split $size && all | same lf && "
         "m grep '^w' $file --split $size && grep '^w' lf >expected && all | same expected || "
         "exit 1; done; m --map cat cr --split $size --line-end any && all | same lf && "
         "m --map cat crlf --split $size --line-end lf && all | same crlf || exit 1; done");
}

GY_TEST(what_ends_lines_is_an_option)
{
    must("printf 'b 2\\r\\na 1\\rc 3\\n' >mixed && m sort mixed && "
         "printf 'a 1\\rc 3\\nb 2\\n' >expected && all | same expected && "
         "m sort mixed --line-end any && printf 'a 1\\nb 2\\nc 3\\n' >expected && "
         "all | same expected && m sort mixed --line-end lf && "
         "printf 'a 1\\rc 3\\nb 2\\r\\n' >expected && all | same expected && "
         "m grep '2$' mixed && printf 'b 2\\n' >expected && all | same expected && "
         "m grep '2$' mixed --line-end lf && [ -z \"$(all)\" ] && "
         "m topk mixed --line-end any && printf 'a 1\\t1\\nb 2\\t1\\nc 3\\t1\\n' >expected && "
         "all | same expected && gyre mr sort mixed --line-end dos -o mo2 2>said; "
         "[ $? = 2 ] && grep -q -e --line-end said");
}

/* What a command writes last may lack its end. */
GY_TEST(lines_of_commands_are_ended)
{
    must(
        "m --map \"printf 'k\\tv'\" lf crlf --split 100 && [ $(all | wc -l) -gt 1 ] && "
        "[ -z \"$(all | grep -v '^k.v$')\" ] && "
        "m --map cat --reduce \"printf 'k\\tv'\" lf -r 3 && printf 'k\\tv\\nk\\tv\\nk\\tv\\n' "
        ">expected && all | same expected && m --map true lf crlf && [ -z \"$(all)\" ] && "
        "m --map \"printf 'a\\n\\n'\" lf && printf 'a\\n\\n' >expected && all | same expected");
}

GY_TEST(nul_is_a_byte_of_its_line)
{
    must("printf 'a\\0b 1\\nab 2\\na\\0\\0c\\n' >nuls && m grep 'a.b' nuls && "
         "printf 'a\\0b 1\\n' >expected && all | same expected && m grep 'a[^x]*c' nuls && "
         "printf 'a\\0\\0c\\n' >expected && all | same expected && m grep -v '^a.' nuls && "
         "[ -z \"$(all)\" ] && m grep -c . nuls && printf 'nuls\\t3\\n' >expected && "
         "all | same expected && m grep -i 'A.B' nuls && printf 'a\\0b 1\\n' >expected && "
         "all | same expected && m sort nuls && sort nuls >expected && all | same expected");
}

GY_TEST_MAIN(make_files, kit_remove_folder)
