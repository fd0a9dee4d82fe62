/*
 * Goal: a run over three hosts gives what one host gives and ends as one: the same status
 * everywhere, a dead rank named by all survivors within half a second, a stopped one at the
 * deadline, wrong keys told on both sides. With an argument this program plays a rank.
 */
#include "launch_kit.h"
#include "link_kit.h"

#include "training_kit.h"
#include "transport/transport.h"

static char own_path[4096];

/* ---- Parts of a rank: words are PART FOLDER ---- */

static void note(const char *folder, const char *kind, int rank, const char *text)
{
    char path[KIT_PATH];
    snprintf(path, sizeof(path), "%s/%s-%d", folder, kind, rank);
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
    }
}

/* Whole numbers, so that every order of summing gives the same bits; the hash of all results.
 */
static int part_collect(const char *folder)
{
    enum { LARGEST = 300000 };
    static const size_t counts[] = {1, 7, 1024, 5000, LARGEST};
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0) {
        fprintf(stderr, "no world: %s\n", gy_error_text());
        return 90;
    }
    int rank = gy_comm_rank(comm), size = gy_comm_size(comm);
    double *in = gy_alloc("test", sizeof(double) * LARGEST);
    double *out = gy_alloc("test", sizeof(double) * LARGEST);
    uint64_t hash = 0;
    for (size_t c = 0; c < GY_COUNT(counts); c++) {
        size_t part = GY_MAX(counts[c] / (size_t)size, (size_t)1);
        for (size_t i = 0; i < part * (size_t)size || i < counts[c]; i++) {
            in[i] = (double)((rank + 1) * (int)(i % 1000));
        }
        if (gy_allreduce(comm, in, out, counts[c], GY_F64, GY_SUM) != GY_OK ||
            gy_broadcast(comm, in, counts[c], GY_F64, size - 1) != GY_OK) {
            return 91;
        }
        hash = gy_hash(out, counts[c] * sizeof(double), hash);
        hash = gy_hash(in, counts[c] * sizeof(double), hash);
        in[0] = rank;
        if (gy_reduce_scatter(comm, in, out, part, GY_F64, GY_MAX) != GY_OK ||
            gy_allgather(comm, out, in, part, GY_F64) != GY_OK || gy_barrier(comm) != GY_OK) {
            return 92;
        }
        hash = gy_hash(in, part * (size_t)size * sizeof(double), hash);
    }
    char text[64];
    snprintf(text, sizeof(text), "%d %016llx", size, (unsigned long long)hash);
    note(folder, "hash", rank, text);
    gy_free(in);
    gy_free(out);
    gy_comm_world_close();
    return 0;
}

static int part_train(const char *folder)
{
    static const gy_layer layers[] = {
        {.kind = GY_LAYER_FLATTEN},
        {.kind = GY_LAYER_DENSE, .units = 16},
        {.kind = GY_LAYER_RELU},
        {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
    };
    gy_dataset digits = kit_digits(120, 8);
    gy_comm *comm = NULL;
    gy_model *model = NULL;
    gy_train_result result;
    char path[KIT_PATH];
    snprintf(path, sizeof(path), "%s/model", folder);
    gy_status status = gy_comm_world(&comm);
    status = status < 0 ? status
                        : gy_model_new(&(gy_model_options){.name = "job",
                                                           .layers = layers,
                                                           .layer_count = 4,
                                                           .dtype = GY_F32,
                                                           .input_rank = 3,
                                                           .input_sizes = {1, 8, 8},
                                                           .seed = 3,
                                                           .comm = comm,
                                                           .workers = 1},
                                       &model);
    if (status == GY_OK) {
        status = gy_train(
            model, &digits, &digits,
            &(gy_train_options){.epochs = 2, .batch = 24, .rate = 0.05, .seed = 5}, &result);
    }
    if (status == GY_OK) {
        gy_train_result_free(&result);
        status = gy_comm_rank(comm) == 0 ? gy_model_save(model, path, NULL) : GY_OK;
    }
    if (status != GY_OK) {
        fprintf(stderr, "%s\n", gy_error_text());
        return 95;
    }
    gy_model_free(model);
    gy_comm_world_close();
    return 0;
}

/* Bytes that this host has sent; -1: it has no link of its own. */
static long long sent_by_host(void)
{
    char line[512];
    long long sent = -1;
    FILE *file = fopen("/proc/net/dev", "rb");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, "eth0:");
        for (int column = 0; at != NULL && column <= 8; column++) {
            at += strcspn(at, ": ");
            at += strspn(at, ": ");
            sent = column == 8 ? strtoll(at, NULL, 10) : sent;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return sent;
}

/* The ranks of a host share its memory: what a group of them takes, and gives. */
static bool is_group_of_host_near(gy_comm *comm, double *in, double *out, size_t count)
{
    gy_comm *mates = NULL;
    char choice[GY_CHOICE_BYTES] = "";
    const char *expected = getenv("GYRE_COLL") == NULL ? "exchange " : "ring ";
    int rank = gy_comm_rank(comm), first = rank / 2 * 2;
    const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                               .dtype = GY_F64,
                               .reduction = GY_SUM,
                               .count = count,
                               .in = in,
                               .out = out};
    bool is_right = gy_comm_split(comm, first, rank, &mates) == GY_OK &&
                    gy_coll_run(mates, &call) == GY_OK &&
                    gy_coll_choice(mates, &call, false, choice) == GY_OK &&
                    strncmp(choice, expected, strlen(expected)) == 0;
    for (size_t i = 0; i < count && is_right; i++) {
        is_right = out[i] == in[i] / (rank + 1) * (2 * first + 3);
    }
    if (!is_right) {
        fprintf(stderr, "rank %d: \"%s\" of a host (%s)\n", rank, choice, gy_error_text());
    }
    gy_comm_free(mates);
    return is_right;
}

/* Ranks numbered so that neighbours are on different hosts: what a ring that knows no hosts
 * sends, and what is chosen sends. Says bytes, hash and choice. */
static int part_span(const char *folder)
{
    enum { COUNT = 16384, CALLS = 20 };
    static double in[COUNT], out[COUNT];
    gy_comm *comm = NULL, *dealt = NULL;
    char choice[GY_CHOICE_BYTES], text[256];
    int rank = gy_comm_world(&comm) < 0 ? -1 : gy_comm_rank(comm);
    if (rank < 0 || gy_comm_split(comm, 0, rank % 2 * 3 + rank / 2, &dealt) != GY_OK) {
        return 90;
    }
    const gy_coll_call call = {.operation = GY_OPERATION_ALLREDUCE,
                               .dtype = GY_F64,
                               .reduction = GY_SUM,
                               .count = COUNT,
                               .in = in,
                               .out = out};
    for (size_t i = 0; i < COUNT; i++) {
        in[i] = (double)((rank + 1) * (int)(i % 1000));
    }
    long long before = sent_by_host();
    gy_status status = gy_barrier(comm);
    for (int i = 0; i < CALLS && status == GY_OK; i++) {
        status = gy_coll_run(dealt, &call);
    }
    if (status != GY_OK || gy_barrier(comm) != GY_OK ||
        gy_coll_choice(dealt, &call, false, choice) != GY_OK) {
        return 91;
    }
    snprintf(text, sizeof(text), "%lld %016llx %s", sent_by_host() - before,
             (unsigned long long)gy_hash(out, sizeof(out), 0), choice);
    note(folder, "span", rank, text);
    if (!is_group_of_host_near(comm, in, out, COUNT)) {
        return 92;
    }
    gy_comm_free(dealt);
    gy_comm_world_close();
    return 0;
}

/* Rank 3 gives itself a signal; the others say what they heard, and when. */
static int part_lose(const char *folder, int number)
{
    float data[4] = {0};
    (void)signal(SIGTERM, SIG_IGN); /* the keeper must not end us before we have said it */
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0) {
        return 90;
    }
    int rank = gy_comm_rank(comm);
    gy_status status = gy_barrier(comm); /* rank 3 may be out of it, and dead, before others */
    if (rank == 3) {
        raise(number);
    }
    int64_t start_ns = gy_now_ns(gy_env_real());
    if (status == GY_OK) {
        status = gy_allreduce(comm, data, data, 4, GY_F32, GY_SUM);
    }
    double took = (double)(gy_now_ns(gy_env_real()) - start_ns) * 1e-9;
    char text[1200];
    snprintf(text, sizeof(text), "%.3f %s %s", took, gy_status_text(status), gy_error_text());
    note(folder, "lost", rank, text);
    (void)gy_run_report_failure(status);
    return 44;
}

/* Say that all are here and stay. */
static int part_stay(const char *folder)
{
    gy_comm *comm = NULL;
    if (gy_comm_world(&comm) < 0 || gy_barrier(comm) != GY_OK) {
        return 90;
    }
    note(folder, "stays", gy_comm_rank(comm), "");
    for (;;) {
        pause();
    }
}

/* Every rank hears of every other one. */
static int part_greet(void)
{
    gy_comm *comm = NULL;
    int32_t ranks[8] = {0}, own = gy_comm_world(&comm) < 0 ? -1 : gy_comm_rank(comm);
    if (own < 0 || gy_allgather(comm, &own, ranks, 1, GY_I32) != GY_OK) {
        return 90;
    }
    int good = ranks[gy_comm_size(comm) - 1] == gy_comm_size(comm) - 1 ? 0 : 91;
    gy_comm_world_close();
    return good;
}

static int play(char **words)
{
    if (strcmp(words[1], "greet") == 0) {
        return part_greet();
    }
    if (strcmp(words[1], "collect") == 0) {
        return part_collect(words[2]);
    }
    if (strcmp(words[1], "train") == 0) {
        return part_train(words[2]);
    }
    if (strcmp(words[1], "span") == 0) {
        return part_span(words[2]);
    }
    if (strcmp(words[1], "stay") == 0) {
        return part_stay(words[2]);
    }
    return part_lose(words[2], strcmp(words[1], "die") == 0 ? SIGKILL : SIGSTOP);
}

/* ---- The test's side ---- */

static void start_all(const char *part, bool is_plain)
{
    const char *const plain[] = {"-n", "2", "--plaintext", NULL};
    const char *const secret[] = {"-n", "2", "--key", kit_own.key, NULL};
    const char *const program[] = {own_path, part, kit_own.folder, NULL};
    kit_next_run(&kit_own);
    for (int host = KIT_HOSTS - 1; host >= 0; host--) {
        kit_start(&kit_own, KIT_HOSTS, host, is_plain ? plain : secret, program);
    }
}

/* Six ranks on this host alone. */
static void run_here(const char *part, bool is_tcp)
{
    char words[2][KIT_PATH];
    snprintf(words[0], KIT_PATH, "%s", part);
    snprintf(words[1], KIT_PATH, "%s", kit_own.folder);
    char *const argv[] = {own_path, words[0], words[1], NULL};
    gy_run_options options = {.ranks = 6, .timeout_s = 60, .is_tcp = is_tcp};
    assert_int_equal(launch_run(&options, argv), 0);
}

static void read_hashes(char out[6][64])
{
    char name[32];
    for (int rank = 0; rank < 6; rank++) {
        snprintf(name, sizeof(name), "hash-%d", rank);
        kit_read(&kit_own, name, out[rank], 64);
        assert_int_equal(out[rank][0], '6');
        kit_write(&kit_own, name, "");
    }
}

static void collectives_give_what_one_host_gives(void **state)
{
    (void)state;
    char expected[6][64], got[6][64];
    run_here("collect", false);
    read_hashes(expected);
    run_here("collect", true);
    read_hashes(got);
    assert_string_equal(got[0], expected[0]);
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        start_all("collect", is_plain == 1);
        kit_expect_all(&kit_own, 0);
        read_hashes(got);
        for (int rank = 0; rank < 6; rank++) {
            assert_string_equal(got[rank], expected[rank]);
        }
    }
}

static size_t read_model(char *out, size_t size)
{
    char path[KIT_PATH];
    FILE *file = fopen(kit_path(&kit_own, "model", path), "rb");
    assert_non_null(file);
    size_t got = fread(out, 1, size, file);
    fclose(file);
    assert_int_equal(unlink(path), 0);
    assert_in_range(got, 4096, size - 1);
    return got;
}

/* The same plans give the same bits; shared memory sums in another order. What is chosen is not
 * the same where ranks are on other hosts. */
static void training_gives_what_one_host_gives(void **state)
{
    (void)state;
    enum { BYTES = 32768, WEIGHTS = 64 * 16 + 16 + 16 * 10 + 10 };
    static char shared[BYTES], here[BYTES], there[BYTES];
    run_here("train", false);
    size_t size = read_model(shared, BYTES);
    assert_int_equal(setenv("GYRE_COLL", "ring", 1), 0);
    run_here("train", true);
    assert_int_equal(read_model(here, BYTES), size);
    start_all("train", false);
    kit_expect_all(&kit_own, 0);
    assert_int_equal(unsetenv("GYRE_COLL"), 0);
    assert_int_equal(read_model(there, BYTES), size);
    assert_memory_equal(here, there, size);
    for (size_t i = 1; i <= WEIGHTS; i++) {
        float a = 0, b = 0;
        memcpy(&a, shared + size - i * sizeof(a), sizeof(a));
        memcpy(&b, there + size - i * sizeof(b), sizeof(b));
        assert_true(a - b < 1e-4F && b - a < 1e-4F);
    }
}

/* All survivors heard `status`, and not too early; how many of them heard of rank 3 by name,
 * and the seconds that the last one needed. */
static int count_losses(const char *status, double least_s, double *last_s)
{
    int named = 0;
    *last_s = 0;
    char name[32], text[1500];
    for (int rank = 0; rank < 6; rank++) {
        if (rank == 3) {
            continue;
        }
        snprintf(name, sizeof(name), "lost-%d", rank);
        kit_read(&kit_own, name, text, sizeof(text));
        double took = strtod(text, NULL);
        if (strstr(text, status) == NULL || took < least_s) {
            fail_msg("rank %d heard \"%s\", expected %s after %g s", rank, text, status,
                     least_s);
        }
        *last_s = GY_MAX(*last_s, took);
        named += strstr(text, "rank 3") != NULL;
        if (strstr(text, "rank 3") == NULL) {
            print_message("rank %d names another: %s\n", rank, text);
        }
        kit_write(&kit_own, name, "");
    }
    return named;
}

/* What all hosts sent; the hash and the choice that all ranks say. */
static long long read_span(char hash[32], char choice[GY_CHOICE_BYTES])
{
    long long sum = 0;
    char name[32], text[256], other[32], taken[GY_CHOICE_BYTES];
    for (int rank = 0; rank < 6; rank++) {
        snprintf(name, sizeof(name), "span-%d", rank);
        kit_read(&kit_own, name, text, sizeof(text));
        long long sent = 0;
        assert_int_equal(sscanf(text, "%lld %31s %127[^\n]", &sent, other, taken), 3);
        sum += rank % 2 == 0 ? sent : 0;
        if (rank == 0) {
            memcpy(hash, other, sizeof(other));
            memcpy(choice, taken, sizeof(taken));
        }
        assert_string_equal(hash, other);
        assert_string_equal(choice, taken);
    }
    return sum;
}

static void plans_across_hosts_mind_them(void **state)
{
    (void)state;
    char hashes[2][32], choices[2][GY_CHOICE_BYTES];
    start_all("span", false);
    kit_expect_all(&kit_own, 0);
    long long chosen = read_span(hashes[0], choices[0]);
    assert_int_equal(setenv("GYRE_COLL", "allreduce=ring", 1), 0);
    start_all("span", false);
    kit_expect_all(&kit_own, 0);
    assert_int_equal(unsetenv("GYRE_COLL"), 0);
    long long ring = read_span(hashes[1], choices[1]);
    printf("%s: %lld bytes; %s: %lld bytes\n", choices[0], chosen, choices[1], ring);
    assert_string_equal(hashes[0], hashes[1]);
    assert_true(strncmp(choices[0], "hierarchy:", strlen("hierarchy:")) == 0 ||
                strncmp(choices[0], "weighted-ring ", strlen("weighted-ring ")) == 0);
    assert_string_equal(choices[1], "ring (GYRE_COLL)");
    assert_true(!kit_own.is_real || (double)chosen < 0.75 * (double)ring);
}

/* In time, but for a machine that does much else: what takes too long by itself does so each
 * time. */
static void lose_a_dead_rank(bool is_plain)
{
    double last_s = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        start_all("die", is_plain);
        kit_expect_all(&kit_own, 128 + SIGKILL);
        assert_int_equal(count_losses("a peer is gone", 0, &last_s), 5);
        if (last_s <= gy_test_named_s()) {
            return;
        }
    }
    fail_msg("a survivor heard of it after %g s only", last_s);
}

static void lose_a_stopped_rank(bool is_plain)
{
    double last_s = 0;
    assert_int_equal(setenv("GYRE_TIMEOUT", "1.5", 1), 0);
    start_all("stop", is_plain);
    kit_expect_all(&kit_own, 44);
    assert_int_equal(unsetenv("GYRE_TIMEOUT"), 0);
    assert_int_equal(count_losses("deadline passed", 1.4, &last_s), 5);
    assert_true(last_s < 15);
}

static void dead_rank_is_named_everywhere(void **state)
{
    (void)state;
    char text[4096], name[32];
    lose_a_dead_rank(false);
    for (int host = 0; host < KIT_HOSTS; host++) {
        snprintf(name, sizeof(name), "node-%d.err", host);
        kit_read(&kit_own, name, text, sizeof(text));
        assert_non_null(strstr(text, "gyre: rank 3 (process"));
        assert_non_null(strstr(text, "killed by signal 9"));
    }
}

static void stopped_rank_is_named_at_the_deadline(void **state)
{
    (void)state;
    lose_a_stopped_rank(false);
}

static void signals_and_ends_reach_all_hosts(void **state)
{
    (void)state;
    char name[32];
    start_all("stay", false);
    for (int rank = 0; rank < 6; rank++) {
        snprintf(name, sizeof(name), "stays-%d", rank);
        kit_wait_for_file(&kit_own, name);
    }
    assert_int_equal(kill(kit_own.launchers[1], SIGTERM), 0);
    kit_expect_all(&kit_own, 128 + SIGTERM);
    for (int rank = 0; rank < 6; rank++) {
        char path[KIT_PATH];
        snprintf(name, sizeof(name), "stays-%d", rank);
        assert_int_equal(unlink(kit_path(&kit_own, name, path)), 0);
    }
    /* Nobody can pass SIGKILL on: the connection's end tells. */
    start_all("stay", false);
    for (int rank = 0; rank < 6; rank++) {
        snprintf(name, sizeof(name), "stays-%d", rank);
        kit_wait_for_file(&kit_own, name);
    }
    assert_int_equal(kill(kit_own.launchers[2], SIGKILL), 0);
    assert_int_equal(kit_wait(&kit_own, 2), 1000 + SIGKILL);
    assert_int_equal(kit_wait(&kit_own, 0), 1);
    assert_int_equal(kit_wait(&kit_own, 1), 1);
}

static void wrong_keys_are_told_on_both_sides(void **state)
{
    (void)state;
    char line[2 * KIT_PATH], other[KIT_PATH], text[4096];
    kit_path(&kit_own, "other", other);
    snprintf(line, sizeof(line), "%s key %s", getenv("GYRE_BIN"), other);
    assert_int_equal(kit_command(line), 0);
    const char *const program[] = {own_path, "stay", kit_own.folder, NULL};
    const char *const first[] = {"-n", "1", "--key", kit_own.key, "--rendezvous-timeout",
                                 "2",  NULL};
    const char *const wrong[] = {"-n", "1", "--key", other, NULL};
    const char *const none[] = {"-n", "1", "--plaintext", NULL};
    kit_next_run(&kit_own);
    kit_start(&kit_own, 3, 0, first, program);
    kit_start(&kit_own, 3, 1, wrong, program);
    kit_start(&kit_own, 3, 2, none, program);
    assert_int_equal(kit_wait(&kit_own, 1), 1);
    assert_int_equal(kit_wait(&kit_own, 2), 1);
    assert_int_equal(kit_wait(&kit_own, 0), 1);
    assert_non_null(strstr(kit_read(&kit_own, "node-1.err", text, sizeof(text)),
                           "refused this end's cluster key"));
    assert_non_null(strstr(kit_read(&kit_own, "node-2.err", text, sizeof(text)),
                           "the caller does not use TLS"));
    kit_read(&kit_own, "node-0.err", text, sizeof(text));
    assert_non_null(strstr(text, "the caller has another cluster key"));
    assert_non_null(strstr(text, "the caller does not use TLS"));
    assert_non_null(strstr(text, "node 1 of 3 did not call"));
}

/* One file for runs and for rpc, changed by `gyre key` while hosts have it in different states:
 * digits alone as before there were epochs, two epochs, the newer one alone. */
static void keys_of_hosts_may_have_epochs(void **state)
{
    (void)state;
    static const struct {
        const char *keys[3], *said; /* in node 2's messages; NULL: all goes well */
    } runs[] = {
        {{"both", "old", "both"}, NULL},
        {{"both", "new", "both"}, NULL},
        {{"old", "both", "both"}, NULL},
        {{"both", "old", "new"}, "new has no epoch 1, which the ranks of this launch use"},
        {{NULL, NULL, "user"}, "user holds only keys of roles"}, /* that one calls nobody */
    };
    char line[1024], path[KIT_PATH], text[4096];
    const char *const program[] = {own_path, "greet", kit_own.folder, NULL};
    snprintf(line, sizeof(line),
             "cd %s && g=%s && sed 's/^1 //' key >old && chmod 600 old && cp -p old both && "
             "$g key rotate both >said && cp -p both new && $g key retire 1 new && "
             "$g key derive submitter user both",
             kit_own.folder, getenv("GYRE_BIN"));
    assert_int_equal(kit_command(line), 0);
    for (size_t i = 0; i < GY_COUNT(runs); i++) {
        kit_next_run(&kit_own);
        for (int host = 2; host >= 0 && runs[i].keys[host] != NULL; host--) {
            const char *const options[] = {
                "-n", "1",     "--rendezvous-timeout",
                "20", "--key", kit_path(&kit_own, runs[i].keys[host], path),
                NULL};
            kit_start(&kit_own, 3, host, options, program);
        }
        if (runs[i].said == NULL) {
            kit_expect_all(&kit_own, 0);
            continue;
        }
        for (int host = 2; host >= 0 && runs[i].keys[host] != NULL; host--) {
            assert_int_not_equal(kit_wait(&kit_own, host), 0);
        }
        kit_read(&kit_own, "node-2.err", text, sizeof(text));
        if (strstr(text, runs[i].said) == NULL) {
            fail_msg("run %zu: \"%s\"", i, text);
        }
    }
}

static void plain_text_between_hosts_needs_its_name(void **state)
{
    (void)state;
    char text[4096];
    const char *const program[] = {own_path, "stay", kit_own.folder, NULL};
    const char *const options[] = {"-n", "1", NULL};
    if (!kit_own.is_real) {
        printf("skipped: loopback may be plain\n");
        skip();
    }
    assert_int_equal(setenv("XDG_CONFIG_HOME", kit_own.folder, 1), 0);
    kit_next_run(&kit_own);
    kit_start(&kit_own, 2, 0, options, program);
    assert_int_equal(kit_wait(&kit_own, 0), 1);
    kit_read(&kit_own, "node-0.err", text, sizeof(text));
    assert_non_null(strstr(text, "cannot read the cluster key"));
    assert_non_null(strstr(text, "/gyre/key"));
}

/* ---- UCX ---- */

static void need_ucx(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s", getenv("GYRE_BIN"));
    snprintf(strrchr(path, '/'), sizeof(path) - strlen(path), "/libgyre-ucx.so");
    if (access(path, F_OK) != 0) {
        printf("skipped: built without UCX\n");
        skip();
    }
    assert_int_equal(setenv("GYRE_TRANSPORT", "ucx", 1), 0);
    assert_int_equal(setenv("UCX_TLS", "tcp,self", 1), 0);
    assert_int_equal(setenv("UCX_MEM_EVENTS", "no", 1), 0); /* it patches what TSan needs */
    assert_int_equal(setenv("ASAN_OPTIONS", "detect_leaks=0", 1), 0); /* UCX keeps some */
}

/* Also after a failure: the tests behind choose for themselves. */
static int forget_choices(void **state)
{
    (void)state;
    return unsetenv("GYRE_COLL") + unsetenv("GYRE_TIMEOUT");
}

static int forget_ucx(void **state)
{
    (void)state;
    return unsetenv("GYRE_TRANSPORT") + unsetenv("UCX_TLS") + unsetenv("UCX_MEM_EVENTS") +
           unsetenv("ASAN_OPTIONS");
}

static void ucx_gives_what_shared_memory_gives(void **state)
{
    (void)state;
    char expected[6][64], got[6][64];
    run_here("collect", false);
    read_hashes(expected);
    need_ucx();
    for (int way = 0; way < 3; way++) { /* met in shared memory, over TCP, between hosts */
        if (way < 2) {
            run_here("collect", way == 1);
        } else {
            start_all("collect", true);
            kit_expect_all(&kit_own, 0);
        }
        read_hashes(got);
        for (int rank = 0; rank < 6; rank++) {
            assert_string_equal(got[rank], expected[rank]);
        }
    }
}

static void ucx_names_dead_and_stopped_ranks(void **state)
{
    (void)state;
    need_ucx();
    lose_a_dead_rank(true);
    lose_a_stopped_rank(true);
}

static void ucx_between_hosts_needs_plain_text_by_name(void **state)
{
    (void)state;
    char text[4096], name[32];
    int told = 0;
    if (!kit_own.is_real) {
        printf("skipped: loopback may be plain\n");
        skip();
    }
    need_ucx();
    start_all("collect", false);
    kit_expect_all(&kit_own, 90);
    for (int host = 0; host < KIT_HOSTS; host++) { /* some are ended before they say it */
        snprintf(name, sizeof(name), "node-%d.err", host);
        kit_read(&kit_own, name, text, sizeof(text));
        told += strstr(text, "proves no identity and encrypts nothing: between hosts it needs "
                             "--plaintext") != NULL;
    }
    assert_true(told > 0);
}

/* ---- The kit itself ---- */

static bool has_space(int owner, int host)
{
    char path[64];
    snprintf(path, sizeof(path), "/run/netns/gy%d-%d", owner, host);
    return access(path, F_OK) == 0;
}

/* What a killed program has left goes; what one that lives has made stays. */
static void hosts_of_the_dead_are_swept(void **state)
{
    (void)state;
    char line[64];
    if (!kit_own.is_real) {
        printf("skipped: no network namespaces here\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        snprintf(line, sizeof(line), "ip netns add gy%d-%d", (int)getpid(), KIT_HOSTS);
        if (kit_command(line) == 0) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(has_space(child, KIT_HOSTS));
    kit_sweep_hosts();
    assert_false(has_space(child, KIT_HOSTS));
    for (int host = 0; host <= KIT_HOSTS; host++) {
        assert_true(has_space(kit_own.owner, host));
    }
}

/* ---- A slow link that loses packets ---- */

static void a_bad_link_loses_by_its_seed(void **state)
{
    (void)state;
    enum { PACKETS = 10000 };
    static link_way ways[3];
    uint64_t seed = gy_test_seed();
    int lost = 0, differing = 0;
    ways[0].random.key = ways[1].random.key = seed;
    ways[2].random.key = seed + 1;
    for (int i = 0; i < PACKETS; i++) {
        bool first = link_loses(&ways[0], 0.05), again = link_loses(&ways[1], 0.05);
        assert_true(first == again);
        differing += first != link_loses(&ways[2], 0.05);
        lost += first;
    }
    assert_in_range(lost, PACKETS / 40, PACKETS / 10);
    assert_true(differing > 0);
}

/* 2 ms each way and one packet in a hundred lost: later, but the same. */
static void collectives_cross_a_bad_link(void **state)
{
    (void)state;
    char got[2][64], name[32];
    link_options options = {.seed = gy_test_seed(), .delay_s = 0.002, .loss = 0.01};
    pid_t link = link_start(&kit_own, &options);
    if (link < 0) {
        printf("skipped: no TUN devices in namespaces here\n");
        skip();
    }
    const char *const words[] = {"-n", "1", "--key", kit_own.key, NULL};
    const char *const program[] = {own_path, "collect", kit_own.folder, NULL};
    kit_next_run(&kit_own);
    snprintf(kit_own.rendezvous, sizeof(kit_own.rendezvous), "10.7.8.1:%d", kit_own.port);
    kit_start(&kit_own, 2, 0, words, program);
    kit_start(&kit_own, 2, 1, words, program);
    int ends[2] = {kit_wait(&kit_own, 0), kit_wait(&kit_own, 1)};
    link_stop(link);
    assert_true(ends[0] == 0 && ends[1] == 0);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(name, sizeof(name), "hash-%d", rank);
        kit_read(&kit_own, name, got[rank], 64);
        assert_int_equal(got[rank][0], '2');
    }
    char *const argv[] = {own_path, (char[]){"collect"}, kit_own.folder, NULL};
    assert_int_equal(launch_run(&(gy_run_options){.ranks = 2, .timeout_s = 60}, argv), 0);
    for (int rank = 0; rank < 2; rank++) {
        char expected[64];
        snprintf(name, sizeof(name), "hash-%d", rank);
        assert_string_equal(got[rank], kit_read(&kit_own, name, expected, 64));
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        return play(argv);
    }
    ssize_t size = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
    own_path[size > 0 ? size : 0] = '\0';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_the_dead_are_swept),
        cmocka_unit_test(collectives_give_what_one_host_gives),
        cmocka_unit_test_teardown(training_gives_what_one_host_gives, forget_choices),
        cmocka_unit_test_teardown(plans_across_hosts_mind_them, forget_choices),
        cmocka_unit_test(dead_rank_is_named_everywhere),
        cmocka_unit_test_teardown(stopped_rank_is_named_at_the_deadline, forget_choices),
        cmocka_unit_test(signals_and_ends_reach_all_hosts),
        cmocka_unit_test(wrong_keys_are_told_on_both_sides),
        cmocka_unit_test(keys_of_hosts_may_have_epochs),
        cmocka_unit_test(plain_text_between_hosts_needs_its_name),
        cmocka_unit_test_teardown(ucx_gives_what_shared_memory_gives, forget_ucx),
        cmocka_unit_test_teardown(ucx_names_dead_and_stopped_ranks, forget_ucx),
        cmocka_unit_test_teardown(ucx_between_hosts_needs_plain_text_by_name, forget_ucx),
        cmocka_unit_test(a_bad_link_loses_by_its_seed),
        cmocka_unit_test(collectives_cross_a_bad_link),
    };
    return cmocka_run_group_tests(tests, kit_open_hosts, kit_close_hosts);
}
