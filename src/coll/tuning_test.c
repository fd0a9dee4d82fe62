/*
 * Goal: a table of `gyre tune` comes back from its file as it was, bad ones are refused by line
 * and cause, and whatever a table or GYRE_COLL says, all ranks choose alike and the results
 * stay right; ranks with different tables are told so.
 */
#include "coll/crew_priv.h"

#include "coll/coll_priv.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

enum { RULES_MAX = 60, CALLS = 40 };

/* ---- Random tables ---- */

static gy_rule draw_rule(gy_random *random)
{
    gy_rule rule = {.memory = (gy_memory)gy_random_below(random, GY_MEMORY_COUNT),
                    .ranks = 2 + (int)gy_random_below(random, 8),
                    .hosts = 1,
                    .from_bytes = (int64_t)gy_random_below(random, 1 << 20),
                    .seconds = (double)gy_random_below(random, 1000) * 1e-6};
    const gy_algorithm *row = &gy_algorithms[gy_random_below(random, gy_algorithm_count)];
    const gy_algorithm *own = gy_library_row(row->operation);
    row = own != NULL && gy_random_below(random, 6) == 0 ? own : row;
    bool reduces = gy_call_reduces(&(gy_coll_call){.operation = row->operation});
    rule.row = row;
    rule.operation = row->operation;
    rule.type = reduces && gy_random_below(random, 2) == 1 ? GY_TYPE_HALF : GY_TYPE_PLAIN;
    if (row->need != GY_NEED_MESSAGES) {
        rule.memory = row->need == GY_NEED_DIRECT ? GY_MEMORY_REGISTERED : GY_MEMORY_PRIVATE;
    }
    if (!gy_row_keeps_bits(row)) {
        rule.memory = GY_MEMORY_MESSAGES;
    }
    if (rule.memory == GY_MEMORY_MESSAGES && gy_random_below(random, 2) == 1) {
        rule.hosts = rule.ranks;
    }
    if (row->parameter == GY_PARAMETER_NUMBER) {
        snprintf(rule.parameter, sizeof(rule.parameter), "%d",
                 1 + (int)gy_random_below(random, 9));
    }
    return rule;
}

static void draw_table(gy_random *random, gy_tuning *tuning)
{
    *tuning = (gy_tuning){.count = 0};
    snprintf(tuning->machine, sizeof(tuning->machine), "machine no. %d",
             (int)gy_random_below(random, 1000));
    for (int i = 0; i < GY_LINK_CLASSES; i++) {
        if (gy_random_below(random, 2) == 1) {
            tuning->links[i] =
                (gy_link_figures){.alpha = (double)gy_random_below(random, 1000) * 1e-6,
                                  .beta = (double)(1 + gy_random_below(random, 1000)) * 1e-9,
                                  .is_measured = true};
        }
    }
    tuning->gamma[GY_TYPE_PLAIN] = (double)gy_random_below(random, 2) * 1e-9;
    for (uint64_t i = gy_random_below(random, RULES_MAX); i > 0; i--) {
        gy_rule rule = draw_rule(random);
        bool is_new = true;
        for (size_t k = 0; k < tuning->count; k++) {
            is_new = is_new && tuning->rules[k].from_bytes != rule.from_bytes;
        }
        if (is_new) {
            assert_ok(gy_tuning_add(tuning, &rule));
        }
    }
    assert_ok(gy_tuning_seal(tuning));
}

GY_TEST(tables_come_back_as_they_were)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 200; round++) {
        gy_tuning tuning, again;
        gy_text text = {.data = NULL}, other = {.data = NULL};
        draw_table(&random, &tuning);
        gy_tuning_print(&tuning, &text);
        if (gy_tuning_parse(text.data, text.size_bytes, "table", &again) != GY_OK) {
            fail_msg("%s in\n%s", gy_error_text(), text.data);
        }
        assert_string_equal(tuning.machine, again.machine);
        assert_int_equal(tuning.count, again.count);
        for (size_t i = 0; i < tuning.count; i++) {
            const gy_rule *was = &tuning.rules[i], *is = &again.rules[i];
            assert_true(was->row == is->row && was->operation == is->operation &&
                        was->type == is->type && was->memory == is->memory &&
                        was->ranks == is->ranks && was->hosts == is->hosts &&
                        was->from_bytes == is->from_bytes);
            assert_string_equal(was->parameter, is->parameter);
            assert_true(fabs(was->seconds - is->seconds) < 1e-9);
        }
        for (int i = 0; i < GY_LINK_CLASSES; i++) {
            assert_true(fabs(tuning.links[i].alpha - again.links[i].alpha) < 1e-9 &&
                        fabs(tuning.links[i].beta - again.links[i].beta) < 1e-12 &&
                        tuning.links[i].is_measured == again.links[i].is_measured);
        }
        gy_tuning_print(&again, &other);
        assert_string_equal(text.data, other.data);
        assert_int_equal(tuning.hash, again.hash);
        gy_text_free(&text);
        gy_text_free(&other);
        gy_tuning_fini(&tuning);
        gy_tuning_fini(&again);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

#define HEAD "gyre tune 1\nmachine m\n"
#define TAKE "take allreduce plain messages 2 1 "

GY_TEST(bad_tables_are_refused_by_line_and_cause)
{
    static const struct {
        const char *text, *line, *cause;
    } cases[] = {
        {"", "t:0:", "it is not whole"},
        {"GIF89a", "t:1:", "no table of gyre tune"},
        {"gyre tune 2\nmachine m\nend 0\n", "t:1:", "version is \"2\""},
        {"gyre tune 1\nend 0\n", "t:2:", "\"machine\""},
        {HEAD "machine m\nend 0\n", "t:3:", "one machine"},
        {HEAD, "t:2:", "\"end\""},
        {HEAD "end 1\n", "t:3:", "the end says 1"},
        {HEAD "end 0\nend 0\n", "t:4:", "after the end"},
        {HEAD "end 0 0\n", "t:3:", "has 3 words, expected 2"},
        {HEAD "lunch ring 1 1\nend 0\n", "t:3:", "begins no line"},
        {HEAD "link rope 1 1\nend 0\n", "t:3:", "expected one of word, staged"},
        {HEAD "link ring -1 1\nend 0\n", "t:3:", "alpha is \"-1\""},
        {HEAD "link ring 1 nan\nend 0\n", "t:3:", "beta is \"nan\""},
        {HEAD "link ring 1 1e999\nend 0\n", "t:3:", "beta is \"1e999\""},
        {HEAD "link ring 1 1\nlink ring 1 1\nend 0\n", "t:4:", "twice"},
        {HEAD "combine big 1\nend 0\n", "t:3:", "type is \"big\""},
        {HEAD "take sum plain messages 2 1 0 ring 1\nend 1\n", "t:3:", "no operation"},
        {HEAD "take allreduce plain messages 1 1 0 ring 1\nend 1\n", "t:3:", "ranks is \"1\""},
        {HEAD "take allreduce plain messages 2 3 0 ring 1\nend 1\n", "t:3:", "hosts is \"3\""},
        {HEAD TAKE "-1 ring 1\nend 1\n", "t:3:", "size is \"-1\""},
        {HEAD TAKE "99999999999999999999 ring 1\nend 1\n", "t:3:", "size is"},
        {HEAD TAKE "0 best 1\nend 1\n", "t:3:", "best"},
        {HEAD TAKE "0 ring:4 1\nend 1\n", "t:3:", "takes no parameter"},
        {HEAD TAKE "0 staged 1\nend 1\n", "t:3:", "cannot go by messages"},
        {HEAD "take allreduce plain private 4 2 0 staged 1\nend 1\n", "t:3:", "over 2 hosts"},
        {HEAD "take allreduce plain private 2 1 0 direct 1\nend 1\n", "t:3:", "private"},
        {HEAD "take allreduce plain private 2 1 0 ring 1\nend 1\n", "t:3:", "order of ranks"},
        {HEAD "take reduce half private 2 1 0 tree 1\nend 1\n", "t:3:", "order of ranks"},
        {HEAD "take broadcast half private 2 1 0 tree 1\nend 1\n", "t:3:", "combines nothing"},
        {HEAD TAKE "5 ring 1\n" TAKE "5 tree 1\nend 2\n", "t:5:", "lines 3 and 4"},
        {HEAD "link ring 1 \x01\nend 0\n", "t:3:", "character 13 is 01"},
        {HEAD "end 0\r\n", "t:3:", "character 6 is 0d"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_tuning tuning;
        gy_status status = gy_tuning_parse(cases[i].text, strlen(cases[i].text), "t", &tuning);
        if (status != GY_FORMAT || strstr(gy_error_text(), cases[i].line) == NULL ||
            strstr(gy_error_text(), cases[i].cause) == NULL) {
            fail_msg("case %zu gave %d, \"%s\"; expected %s %s", i, (int)status,
                     gy_error_text(), cases[i].line, cases[i].cause);
        }
    }
    assert_int_equal(gy_alloc_live(), 0);
}

/* Lines too long, too many, too large a file. */
GY_TEST(tables_are_bounded)
{
    enum { LINES = GY_RULES_MAX + 1 };
    gy_tuning tuning;
    gy_text text = {.data = NULL};
    gy_text_add(&text, HEAD "#%0600d\n", 0);
    assert_status(gy_tuning_parse(text.data, text.size_bytes, "t", &tuning), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "t:3: 601 characters"));
    gy_text_free(&text);
    gy_text_add(&text, HEAD);
    for (int i = 0; i < LINES; i++) {
        gy_text_add(&text, TAKE "%d ring 1\n", i);
    }
    assert_status(gy_tuning_parse(text.data, text.size_bytes, "t", &tuning), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "more than 8192 lines"));
    while (text.size_bytes <= GY_TABLE_BYTES_MAX) {
        gy_text_add(&text, "#\n");
    }
    assert_status(gy_tuning_parse(text.data, text.size_bytes, "t", &tuning), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "at most 1048576"));
    gy_text_free(&text);
}

/* ---- Ranks ---- */

typedef struct crew_notes {
    uint64_t seed;
    char choices[CREW_MAX][CALLS][GY_CHOICE_BYTES];
} crew_notes;

static void choose_and_run(crew_member *me)
{
    enum { COUNT_MAX = 20000 };
    crew_notes *notes = me->shared_arg;
    gy_random random = {.key = notes->seed};
    float *in = gy_alloc("test", sizeof(float) * COUNT_MAX);
    float *out = gy_alloc("test", sizeof(float) * COUNT_MAX);
    for (int i = 0; i < CALLS; i++) {
        gy_coll_call call = {
            .operation = (gy_operation)gy_random_below(&random, GY_OPERATION_COUNT),
            .dtype = gy_random_below(&random, 2) == 1 ? GY_F32 : GY_BF16,
            .count = gy_random_below(&random, UINT64_C(1) << gy_random_below(&random, 24))};
        bool is_registered = gy_random_below(&random, 2) == 1;
        EXPECT(gy_coll_choice(me->comm, &call, is_registered, notes->choices[me->rank][i]) ==
               GY_OK);
        size_t count = gy_random_below(&random, COUNT_MAX);
        for (size_t k = 0; k < count; k++) {
            in[k] = (float)((int)(k % 100) * (me->rank + 1));
        }
        EXPECT(gy_allreduce(me->comm, in, out, count, GY_F32, GY_SUM) == GY_OK);
        int weight = me->size * (me->size + 1) / 2;
        size_t wrong = 0;
        for (size_t k = 0; k < count; k++) {
            wrong += out[k] != (float)((int)(k % 100) * weight);
        }
        EXPECT(wrong == 0);
    }
    char none[GY_CHOICE_BYTES];
    const gy_coll_call unknown = {.operation = GY_OPERATION_COUNT, .dtype = GY_F32};
    EXPECT(gy_coll_choice(me->comm, &unknown, false, none) == GY_ARG);
    gy_free(in);
    gy_free(out);
}

GY_TEST(all_ranks_choose_alike)
{
    static crew_notes notes;
    gy_random random = {.key = gy_test_seed()};
    char path[] = "/tmp/gyre-tuning-XXXXXX";
    int file = mkstemp(path), measured = 0, priced = 0;
    assert_true(file >= 0);
    close(file);
    for (long round = 0; round < GY_MAX(gy_test_cases(24), 6); round++) {
        gy_tuning tuning;
        int ranks = 2 + (int)gy_random_below(&random, 4);
        draw_table(&random, &tuning);
        assert_ok(gy_tuning_write(&tuning, path, gy_env_real()));
        gy_tuning_fini(&tuning);
        notes = (crew_notes){.seed = gy_random_u64(&random)};
        const gy_comm_options options = {.table = path, .has_messages_only = round % 3 == 0};
        assert_int_equal(crew_run(ranks, &options, choose_and_run, &notes), 0);
        for (int i = 0; i < CALLS; i++) {
            for (int rank = 1; rank < ranks; rank++) {
                assert_string_equal(notes.choices[rank][i], notes.choices[0][i]);
            }
            measured += strstr(notes.choices[0][i], "(measured") != NULL;
            priced += strstr(notes.choices[0][i], "(model") != NULL;
        }
    }
    printf("%d choices measured, %d priced\n", measured, priced);
    assert_true(measured > 10 && priced > 10);
    unlink(path);
    assert_int_equal(gy_alloc_live(), 0);
}

static void sum_once(crew_member *me)
{
    static const char *const names[] = {"rank 0", "rank 1"};
    float data[4] = {0};
    gy_status status = gy_allreduce(me->comm, data, data, 4, GY_F32, GY_SUM);
    const char *text = gy_error_text();
    EXPECT(status == GY_MISMATCH);
    EXPECT(strstr(text, "another GYRE_COLL or table of gyre tune") != NULL);
    EXPECT(strstr(text, names[0]) != NULL && strstr(text, names[1]) != NULL);
    EXPECT(strstr(text, "/gyre-tuning-") != NULL || strstr(text, "no table") != NULL);
}

/* Two ranks, one with a table. */
GY_TEST(different_tables_are_told)
{
    gy_random random = {.key = gy_test_seed()};
    gy_transport *transports[2];
    crew_member members[2];
    gy_tuning tuning;
    char path[] = "/tmp/gyre-tuning-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    draw_table(&random, &tuning);
    assert_ok(gy_tuning_write(&tuning, path, gy_env_real()));
    gy_tuning_fini(&tuning);
    assert_ok(gy_transport_shm_open_all(
        &(gy_transport_segment_options){.ranks = 2, .pool_bytes = 1 << 20}, gy_env_real(),
        transports));
    for (int rank = 0; rank < 2; rank++) {
        members[rank] = (crew_member){.rank = rank, .size = 2, .run = sum_once};
        const gy_comm_options options = {.table = rank == 0 ? "none" : path};
        assert_ok(gy_comm_new(transports[rank], &options, &members[rank].comm));
        assert_ok(gy_thread_start(&members[rank].thread, "rank", crew_thread, &members[rank]));
    }
    for (int rank = 0; rank < 2; rank++) {
        gy_thread_join(&members[rank].thread);
        assert_int_equal(members[rank].failures, 0);
    }
    gy_comm_free(members[0].comm);
    gy_comm_free(members[1].comm);
    unlink(path);
}

/* ---- Names ---- */

GY_TEST(names_are_forced_by_operation)
{
    gy_forced forced;
    assert_ok(gy_forced_parse("tree,allreduce=ring,exclusive-scan=doubling,barrier=hierarchy",
                              &forced));
    assert_string_equal(forced.names[GY_OPERATION_ALLREDUCE], "ring");
    assert_string_equal(forced.names[GY_OPERATION_BROADCAST], "tree");
    assert_string_equal(forced.names[GY_OPERATION_EXCLUSIVE_SCAN], "doubling");
    assert_null(forced.names[GY_OPERATION_SCAN]);
    assert_int_not_equal(forced.hash, 0);
    gy_forced_fini(&forced);
    assert_ok(gy_forced_parse("ring,allreduce=slots", &forced));
    assert_null(forced.names[GY_OPERATION_ALLREDUCE]);
    assert_string_equal(forced.names[GY_OPERATION_ALLGATHER], "ring");
    gy_forced_fini(&forced);
    /* Lecture A's parameter server within a server, rings across: no ring broadcasts. */
    assert_ok(gy_forced_parse("hierarchy:flat+ring", &forced));
    assert_string_equal(forced.names[GY_OPERATION_ALLREDUCE], "hierarchy:flat+ring");
    assert_string_equal(forced.names[GY_OPERATION_ALLGATHER], "hierarchy:flat+ring");
    assert_null(forced.names[GY_OPERATION_BROADCAST]);
    gy_forced_fini(&forced);
    assert_ok(gy_forced_parse("slots", &forced));
    assert_null(forced.names[GY_OPERATION_ALLREDUCE]);
    gy_forced_fini(&forced);
    static const char *const bad[][2] = {{"best", "there are slots"},
                                         {"ring,tree", "one name for all"},
                                         {"allreduce=pairwise", "pairwise"},
                                         {"sum=ring", "no operation is called \"sum\""},
                                         {"allreduce=ring,allreduce=tree", "twice"},
                                         {"allreduce=", "allreduce"},
                                         {"", "there are slots"},
                                         {"servers:0", "expected a number"},
                                         {"hierarchy:flat+best", "for allreduce across hosts"}};
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        assert_status(gy_forced_parse(bad[i][0], &forced), GY_ARG);
        assert_non_null(strstr(gy_error_text(), bad[i][1]));
    }
    assert_int_equal(gy_alloc_live(), 0);
}

/* ---- Files ---- */

GY_TEST(files_of_other_machines_need_their_name)
{
    gy_tuning tuning = {.machine = "an abacus"}, *found = NULL;
    char folder[] = "/tmp/gyre-tuning-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
    assert_int_equal(unsetenv("GYRE_TUNE"), 0);
    assert_ok(gy_tuning_open(NULL, gy_env_real(), true, &found));
    assert_null(found);
    snprintf(path, sizeof(path), "%s/gyre/tune", folder);
    assert_ok(gy_tuning_write(&tuning, path, gy_env_real()));
    assert_ok(gy_tuning_open(NULL, gy_env_real(), true, &found));
    assert_null(found);
    assert_int_equal(setenv("GYRE_TUNE", path, 1), 0);
    assert_ok(gy_tuning_open(NULL, gy_env_real(), true, &found));
    assert_string_equal(found->machine, "an abacus");
    gy_tuning_free(found);
    assert_int_equal(unsetenv("GYRE_TUNE"), 0);
    gy_machine_text(tuning.machine);
    assert_ok(gy_tuning_write(&tuning, path, gy_env_real()));
    assert_ok(gy_tuning_open(NULL, gy_env_real(), true, &found));
    assert_non_null(found);
    gy_tuning_free(found);
    assert_int_equal(setenv("GYRE_TUNE", "none", 1), 0);
    assert_ok(gy_tuning_open(NULL, gy_env_real(), true, &found));
    assert_null(found);
    assert_int_equal(setenv("GYRE_TUNE", "/nowhere/at/all", 1), 0);
    assert_status(gy_tuning_open(NULL, gy_env_real(), true, &found), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "GYRE_TUNE: cannot read the table"));
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/gyre", folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST_MAIN(NULL, NULL)
