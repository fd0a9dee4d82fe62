/*
 * Goal: `gyre mr` reads what the tools of every Unix compress, whatever it is called, and
 * refuses by name what it does not read; it never takes a container's bytes for text.
 */
#include "command_kit.h"

#include "gy_test.h"

/*
 * What a line can say beside KIT_MR_WORDS:
 *   counts INPUT...   they have the words of the file `text`, twice each
 *   refused WORDS COMMAND...   fails with status 1 and a line that has the words
 */
static const char *kit_words = KIT_MR_WORDS(
    " -p 1") "counts() { m wordcount \"$@\" && all | sort | same twice; }; "
             "refused() { what=$1; shift; \"$@\" 2>said; [ $? = 1 ] && grep -q \"$what\" said "
             "&& "
             "[ $(wc -l <said) = 1 ] || { echo \"not refused as $what: $*\"; cat said; return "
             "1; }; }; "
             "skip() { printf \"\\\\$1*M\\030\\007\\0\\0\\0skipped\"; }; "; /* magic 0x50 to
                                                                             * 0x5f, octal
                                                                             */

static int make_files(void **state)
{
    return kit_make_folder(state) != 0 ||
           shell("i=0; while [ $i -lt 300 ]; do echo \"word$((i % 7)) $i\"; i=$((i + 1)); done "
                 ">text && cat text text | tr ' ' '\\n' | LC_ALL=C sort | uniq -c | "
                 "awk '{ print $2 \"\\t\" $1 }' >twice && cat text text | LC_ALL=C sort "
                 ">sorted && "
                 "for tool in gzip bzip2 xz zstd lz4; do $tool -q -c text >$tool.one && "
                 "cat $tool.one $tool.one >$tool.two; done; [ -s lz4.two ]") != 0;
}

GY_TEST(what_tools_compress_is_read)
{
    must("for tool in gzip bzip2 xz zstd lz4; do counts $tool.two && "
         "counts $tool.one text --split 100 && counts $tool.two --format $tool && "
         "m sort $tool.two -r 2 && all | same sorted || exit 1; done");
    must("m grep '^word3 3$' zstd.two gzip.one xz.one && printf 'word3 3\\n%.0s' 1 2 3 4 "
         ">expected && "
         "all | same expected && m topk bzip2.two --field 1 -k 1 && "
         "printf 'word0\\t86\\n' >expected && "
         "all | same expected && m --map 'cut -d\" \" -f 1' lz4.two && "
         "cut -d' ' -f 1 text text >expected && all | same expected");
}

GY_TEST(frames_to_skip_and_padding_are_no_text)
{
    must(
        "for n in 120 127 137; do for tool in zstd lz4; do { skip $n; cat $tool.one; skip 123; "
        "skip $n; cat $tool.one; skip 132; } >skipping && counts skipping && "
        "m sort skipping && all | same sorted || exit 1; done; done; "
        "skip 120 >only && m wordcount only && [ -z \"$(all)\" ] && "
        "{ cat gzip.two; head -c 700 /dev/zero; } >padded && counts padded");
    must("for tool in gzip bzip2 xz zstd lz4; do { cat $tool.one; echo junk; } >tail && "
         "refused 'bytes that are no' m wordcount tail && head -c 60 $tool.one >cut && "
         "refused 'cut short at byte 60' m sort cut || exit 1; done; "
         "{ skip 120; cat text; } >tail && refused 'tail: bytes that are no' m wordcount tail");
}

GY_TEST(what_is_not_read_is_named)
{
    must("zip -q a.zip text && tar -cf a.tar text && tar -czf a.tgz text && "
         "xz --format=lzma -c text >a.lzma && printf '\\37\\235\\220abc' >a.Z && "
         "printf 'PAR1\\25\\4\\25' >a.pq && printf 'Obj\\1\\4' >a.avro && "
         "gzip -c a.zip >within.gz && printf '\\0\\1\\2' >raw.gz && "
         "for job in wordcount sort; do "
         "refused 'a.zip: is a zip archive.*unzip' m $job a.zip && "
         "refused 'is a tar archive' m $job a.tar && refused 'is a tar' m $job a.tgz && "
         "refused 'is lzma' m $job a.lzma && refused 'is compress' m $job a.Z && "
         "refused 'is Parquet' m $job a.pq && refused 'an Avro file' m $job text a.avro && "
         "refused 'within.gz: is a zip' m $job within.gz && "
         "refused 'raw.gz: its name says gzip' m $job raw.gz && [ ! -e mo ] || exit 1; done");
}

/* The contents decide, and what was said decides more. */
GY_TEST(what_was_said_counts)
{
    must("cp text text.gz && m wordcount text.gz text && all | sort | same twice && "
         "cp gzip.two called.txt && counts called.txt && "
         "refused 'text: not gzip' m wordcount text --format gzip && "
         "refused 'not xz' m sort gzip.one --format xz && "
         "printf 'PK\\3\\4 a\\n' >pk && m wordcount pk --format text && "
         "printf 'PK\\3\\4\\t1\\na\\t1\\n' >expected && all | sort | same expected && "
         "m sort pk --format text && all | same pk");
    must("printf '\\37\\213\\10\\0aaaa' >records && m sort records --record-bytes 4 && "
         "printf 'aaaa\\37\\213\\10\\0' >expected && [ \"$(all | od -c | head -1 | tr -d ' "
         "')\" = "
         "\"$(printf '\\37\\213\\10\\0aaaa' | od -c | head -1 | tr -d ' ')\" ] && "
         "printf 'bbbbaaaa' >plain && xz -k plain && m sort plain.xz --record-bytes 4 && "
         "[ \"$(all)\" = aaaabbbb ] && cp plain.xz x && m sort x --record-bytes 4 --format xz "
         "&& "
         "[ \"$(all)\" = aaaabbbb ]");
}

GY_TEST_MAIN(make_files, kit_remove_folder)
