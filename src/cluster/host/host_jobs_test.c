/* Goal: a daemon fetches and verifies a job's files, runs its manager and reports its end, and
 * fetches sections from other daemons; corrupt data are never accepted. */
#include "cluster/host/host_test.h"

#include "control/net/ticket.h"

static void order_manager(kit_scene *at, uint32_t epoch)
{
    kit_order(at, 0,
              (gy_control_order){.kind = GY_ORDER_MANAGER, .job = at->job, .epoch = epoch});
}

static void shell_job(kit_scene *at, const char *line)
{
    kit_job_is(at,
               &(kit_program){.arguments = {"/bin/sh", "-c", line}, .variable = "WORD=a word"});
}

static void wait_for_file(kit_scene *at, const char *path, char *text, size_t room)
{
    KIT_UNTIL(at, access(path, F_OK) == 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, room - 1, file);
    text[size] = '\0';
    assert_int_equal(fclose(file), 0);
}

/* ---- Managers ---- */

/* A program that this host cannot load, as opposed to one that fails with the same status. */
static void expect_unloadable(kit_scene *at)
{
    char self[512] = "", changed[128], said[256], line[1024];
    int before = at->ends;
    at->job.low++;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(changed, sizeof(changed), "%s/lacking", at->folder);
    snprintf(line, sizeof(line), "sed 's/libcmocka\\.so/libcm0cka.so/' %s >%s && chmod 755 %s",
             self, changed, changed);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    kit_job_is(at, &(kit_program){.arguments = {changed}});
    order_manager(at, 1);
    KIT_UNTIL(at, at->ends > before);
    assert_int_equal(at->end_status, GY_UNSUPPORTED);
    assert_non_null(strstr(at->end_reason, "lacks what it needs: "));
    assert_non_null(strstr(at->end_reason, "libcm0cka.so"));
    before = at->ends;
    at->job.low++;
    shell_job(at, "echo libx.so '=> not found'; exit 127");
    order_manager(at, 1);
    KIT_UNTIL(at, at->ends > before);
    assert_int_equal(at->end_status, GY_STATE);
}

GY_TEST(ends_of_managers_are_told)
{
    static kit_scene at;
    char path[128], text[512], line[1024];
    kit_open(&at, true);
    kit_daemon_start(&at, 0, "");
    /* Success: it had a ticket, its environment, and a key for its job only. */
    snprintf(path, sizeof(path), "%s/out", at.folder);
    snprintf(line, sizeof(line),
             "cat \"$GYRE_TICKET\" >%s.new; echo \"$WORD\" >>%s.new; stat -c %%a "
             "\"$GYRE_TICKET\" >>%s.new; cp $(dirname \"$GYRE_TICKET\")/key %s.key; mv %s.new "
             "%s",
             path, path, path, path, path, path);
    shell_job(&at, line);
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends == 1);
    assert_true(at.end_status == GY_OK && at.end_epoch == 1);
    wait_for_file(&at, path, text, sizeof(text));
    assert_non_null(strstr(text, "job abcdef01234567890000000000000007\nepoch 1\nnames 127."));
    assert_non_null(strstr(text, "a word\n600\n"));
    snprintf(path, sizeof(path), "%s/out.key", at.folder);
    wait_for_file(&at, path, text, sizeof(text));
    assert_non_null(strstr(text, " manager/abcdef01234567890000000000000007 "));
    KIT_UNTIL(&at, at.daemons[0].manager_count == 0);
    snprintf(path, sizeof(path), "%s/jobs/abcdef01234567890000000000000007/manager/key",
             at.daemons[0].folder);
    assert_int_not_equal(access(path, F_OK), 0);
    /* Failure: with its log tail; the name server takes a while to answer. */
    at.is_deaf = true;
    at.job.low++;
    shell_job(&at, "echo first; echo no such corpus >&2; exit 3");
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends == 3);
    assert_int_equal(at.daemons[0].manager_count, 1);
    at.is_deaf = false;
    KIT_UNTIL(&at, at.daemons[0].manager_count == 0);
    assert_int_equal(at.end_status, GY_STATE);
    assert_string_equal(at.end_reason, "exit status 3: no such corpus");
    assert_int_equal(memcmp(at.said, "first\nno such corpus\n", 21), 0);
    /* A program that does not exist. */
    int before = at.ends;
    at.job.low++;
    kit_job_is(&at, &(kit_program){.arguments = {"/nowhere/at/all"}});
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends > before);
    assert_non_null(strstr(at.end_reason, "cannot run /nowhere/at/all"));
    expect_unloadable(&at);
    KIT_UNTIL(&at, at.daemons[0].manager_count == 0);
    /* Killed by a signal: another manager must resume. */
    before = at.ends;
    at.job.low++;
    shell_job(&at, "kill -KILL $$");
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.daemons[0].manager_count == 1);
    KIT_UNTIL(&at, at.daemons[0].manager_count == 0);
    assert_int_equal(at.ends, before);
    kit_close(&at);
}

/* A manager that starts processes in sessions of their own; their ids. */
static void start_family(kit_scene *at, uint32_t epoch, pid_t family[3])
{
    char path[128], line[512], text[64];
    snprintf(path, sizeof(path), "%s/family%u", at->folder, epoch);
    snprintf(line, sizeof(line),
             "setsid sleep 1000 & a=$!; sleep 1000 & echo $$ $a $! >%s.new; mv %s.new %s; wait",
             path, path, path);
    at->job.low++;
    shell_job(at, line);
    order_manager(at, epoch);
    wait_for_file(at, path, text, sizeof(text));
    char *rest = NULL;
    family[0] = (pid_t)strtol(text, &rest, 10);
    family[1] = (pid_t)strtol(rest, &rest, 10);
    family[2] = (pid_t)strtol(rest, NULL, 10);
    assert_true(family[0] > 0 && family[1] > 0 && family[2] > 0);
}

static bool is_family_gone(const pid_t family[3])
{
    return kit_is_gone(family[0]) && kit_is_gone(family[1]) && kit_is_gone(family[2]);
}

/* The number of slots as the name server knows it; an older name server sends none, then this
 * host's number. */
GY_TEST(a_manager_hears_what_one_host_lends)
{
    static kit_scene at;
    static const uint32_t told[] = {7, 0};
    static const char *const lines[] = {"slots 7\n", "slots 4\n"};
    char path[128], line[512], text[64];
    kit_open(&at, true);
    kit_daemon_start(&at, 0, "");
    snprintf(path, sizeof(path), "%s/lent", at.folder);
    snprintf(line, sizeof(line), "grep '^slots ' $GYRE_TICKET >%s.new; mv %s.new %s", path,
             path, path);
    for (size_t i = 0; i < GY_COUNT(told); i++) {
        const int before = at.ends;
        at.job.low++;
        shell_job(&at, line);
        kit_order(
            &at, 0,
            (gy_control_order){
                .kind = GY_ORDER_MANAGER, .job = at.job, .epoch = 1, .slots_max = told[i]});
        wait_for_file(&at, path, text, sizeof(text));
        assert_string_equal(text, lines[i]);
        KIT_UNTIL(&at, at.ends > before);
        unlink(path);
    }
    kit_close(&at);
}

GY_TEST(managers_end_with_their_daemon)
{
    static kit_scene at;
    pid_t family[3];
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    start_family(&at, 1, family);
    order_manager(&at, 2); /* the name server has replaced it */
    KIT_UNTIL(&at, is_family_gone(family));
    KIT_UNTIL(&at, at.daemons[0].manager_count == 0);
    start_family(&at, 3, family);
    kit_daemon_end(&at, 0, SIGTERM);
    assert_true(is_family_gone(family));
    kit_daemon_start(&at, 0, "");
    start_family(&at, 4, family);
    kit_daemon_end(&at, 0, SIGKILL);
    KIT_UNTIL(&at, is_family_gone(family));
    /* What is between is killed. */
    kit_daemon_start(&at, 0, "");
    start_family(&at, 5, family);
    pid_t shim = kit_parent_of(family[0]);
    assert_int_equal(kill(shim, SIGKILL), 0);
    KIT_UNTIL(&at, kit_is_gone(family[0]) && at.daemons[0].manager_count == 0);
    KIT_UNTIL(&at, kit_is_gone(family[1]) && kit_is_gone(family[2]));
    assert_int_equal(at.ends, 0);
    kit_close(&at);
}

/* ---- Programs ---- */

/* Content that does not match its name, or a program for another platform, is not run. */
static void expect_refused(kit_scene *at, kit_program *program, const char *path)
{
    char blob[256];
    unlink(path);
    snprintf(blob, sizeof(blob), "%s/%016llx%016llx", at->blob_folder,
             (unsigned long long)program->contents[1].high + 1,
             (unsigned long long)program->contents[1].low);
    int file = open(blob, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0 && write(file, "beside\n", 7) == 7);
    close(file);
    program->contents[1].high++;
    program->contents[3].high++;
    kit_job_is(at, program);
    at->job.low++;
    int finds = at->finds;
    order_manager(at, 1);
    /* It asks for the specification, and for the file repeatedly. */
    KIT_UNTIL(at, at->finds > finds + 2);
    at->platform = 12345;
    at->job.low++;
    int asks = at->spec_asks;
    order_manager(at, 1);
    KIT_UNTIL(at, at->spec_asks > asks && at->daemons[0].manager_count == 1);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(blob, sizeof(blob), "%s/blobs/%016llx%016llx", at->daemons[0].folder,
             (unsigned long long)program->contents[1].high,
             (unsigned long long)program->contents[1].low);
    assert_int_not_equal(access(blob, F_OK), 0);
    assert_int_equal(at->ends, 3);
}

GY_TEST(programs_are_brought_whole)
{
    static kit_scene at;
    char path[128], text[512], script[1024];
    kit_open(&at, true);
    kit_daemon_start(&at, 0, "");
    snprintf(path, sizeof(path), "%s/said", at.folder);
    snprintf(script, sizeof(script),
             "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n(cat side; echo \"$1\"; "
             "echo \"$LD_LIBRARY_PATH\"; pwd; stat -c %%a run side; cksum <large) >%s.new\nmv "
             "%s.new %s\n",
             path, path, path);
    gy_key run = kit_blob(&at, script, strlen(script)), side = kit_blob(&at, "beside\n", 7);
    /* More than is verified at once. */
    static char bytes[9 << 20];
    memset(bytes, 'x', sizeof(bytes));
    gy_key large = kit_blob(&at, bytes, sizeof(bytes));
    kit_program program = {.arguments = {"run", "one argument"},
                           .names = {"run", "side", "large", "libx.so"},
                           .contents = {run, side, large, side},
                           .is_library = true,
                           .variable = "LD_LIBRARY_PATH=/opt/lib"};
    kit_job_is(&at, &program);
    order_manager(&at, 1);
    wait_for_file(&at, path, text, sizeof(text));
    const char *folder = "/jobs/abcdef01234567890000000000000007/program";
    assert_int_equal(strncmp(text, "beside\none argument\n/", 21), 0);
    assert_true(strstr(text, folder) != NULL && strstr(text, "program:/opt/lib\n") != NULL);
    assert_non_null(strstr(text, "500\n400\n"));
    KIT_UNTIL(&at, at.ends == 1);
    /* Again in another life, which verifies everything again. */
    char first[512], blob[256];
    snprintf(first, sizeof(first), "%s", strstr(text, "500\n"));
    unlink(path);
    assert_int_equal(kit_daemon_end(&at, 0, SIGTERM), 0);
    kit_daemon_start(&at, 0, "");
    int finds = at.finds;
    at.job.low++;
    order_manager(&at, 1);
    wait_for_file(&at, path, text, sizeof(text));
    KIT_UNTIL(&at, at.ends == 2);
    assert_int_equal(at.finds, finds);
    assert_string_equal(strstr(text, "500\n"), first);
    /* Also after the file was overwritten: then it is fetched again. */
    snprintf(blob, sizeof(blob), "%s/blobs/%016llx%016llx", at.daemons[0].folder,
             (unsigned long long)large.high, (unsigned long long)large.low);
    assert_int_equal(truncate(blob, sizeof(bytes) - 1), 0);
    unlink(path);
    snprintf(blob, sizeof(blob), "%s/blobs/%016llx%016llx", at.daemons[0].folder,
             (unsigned long long)side.high, (unsigned long long)side.low);
    assert_int_equal(chmod(blob, 0600), 0);
    int file = open(blob, O_WRONLY);
    assert_true(file >= 0 && write(file, "WRONG", 5) == 5);
    close(file);
    at.job.low++;
    order_manager(&at, 1);
    wait_for_file(&at, path, text, sizeof(text));
    assert_int_equal(strncmp(text, "beside\n", 7), 0);
    assert_string_equal(strstr(text, "500\n"), first);
    assert_int_equal(at.finds, finds + 2);
    KIT_UNTIL(&at, at.ends == 3);
    expect_refused(&at, &program, path);
    kit_close(&at);
}

/* The specification may come with the order; if it does not match its name, it is fetched. */
GY_TEST(small_specs_need_no_transfer)
{
    static kit_scene at;
    kit_open(&at, false);
    kit_daemon_start(&at, 0, "");
    at.is_telling = true;
    shell_job(&at, "echo told");
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends == 1);
    assert_true(at.end_status == GY_OK && at.finds == 0);
    at.job.low++; /* it exists here */
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends == 2);
    assert_true(at.end_status == GY_OK && at.finds == 0);
    at.job.low++;
    shell_job(&at, "echo fetched");
    at.packed[at.packed_bytes - 1] ^= 1;
    memset(at.said, 0, sizeof(at.said));
    order_manager(&at, 1);
    KIT_UNTIL(&at, at.ends == 3);
    assert_true(at.end_status == GY_OK && at.finds == 1);
    assert_int_equal(at.end_output, 8); /* no output is sent after the end */
    assert_string_equal(at.said, "fetched\n");
    kit_close(&at);
}

/* ---- Sections ---- */

static void fetch(kit_scene *at, kit_manager *own, const Gy__Cluster__FetchOne *ones,
                  size_t count)
{
    Gy__Cluster__Key key = kit_key(own->job), contents[64];
    Gy__Cluster__FetchOne rows[64], *sections[64];
    Gy__Cluster__Fetch message;
    gy__cluster__fetch__init(&message);
    for (size_t i = 0; i < count; i++) {
        rows[i] = ones[i];
        gy__cluster__key__init(&contents[i]);
        contents[i].high = 0x77;
        contents[i].low = ones[i].number;
        rows[i].content = &contents[i];
        sections[i] = &rows[i];
    }
    message.job = &key;
    message.epoch = own->epoch;
    message.n_sections = count;
    message.sections = sections;
    KIT_CALL(at, own, GY_NET_FETCH, &message.base, GY_OK);
}

static void expect_fetched(kit_scene *at, kit_manager *own, const Gy__Cluster__FetchOne *one,
                           gy_status status)
{
    size_t before = own->fetched_count;
    fetch(at, own, one, 1);
    KIT_UNTIL(at, own->fetched_count > before);
    assert_int_equal(own->fetched_numbers[before], one->number);
    if (own->fetched[before] != status) {
        fail_msg("fetch %d: %s", (int)one->number, gy_status_text(own->fetched[before]));
    }
}

/* Only the fetched sections of a job. */
static void expect_listed(const char *folder, const char *names)
{
    char line[4200], said[256] = "";
    snprintf(line, sizeof(line), "ls '%s/fetched'", folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    assert_string_equal(said, names);
}

/* Two daemons, each with its own manager. */
static void open_two(kit_scene *at)
{
    kit_open(at, true);
    kit_job_is_this(at);
    for (int i = 0; i < 2; i++) {
        kit_daemon_start(at, i, "");
        kit_lend(at, i, 1 + (uint64_t)i, 1, 1);
        kit_manager_open(at, i, at->job, 1);
        kit_attach(at, &at->managers[i], i, GY_OK);
    }
}

GY_TEST(sections_come_from_other_daemons)
{
    enum { SIZE = 700001 };
    static kit_scene at;
    static uint8_t bytes[SIZE], got[SIZE + 100];
    char path[4200];
    open_two(&at);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    snprintf(path, sizeof(path), "%s/data/out", at.managers[1].folder);
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && fwrite(bytes, 1, SIZE, file) == SIZE && fclose(file) == 0);
    kit_manager *own = &at.managers[0];
    Gy__Cluster__FetchOne message;
    gy__cluster__fetch_one__init(&message);
    message.number = 1;
    message.peer = at.daemons[1].id;
    message.incarnation = at.daemons[1].incarnation;
    message.address = at.daemons[1].address;
    message.size_bytes = SIZE;
    message.name = (char *)(uintptr_t) "out";
    expect_fetched(&at, own, &message, GY_OK);
    snprintf(path, sizeof(path), "%s/fetched/%016x%016x", own->folder, 0x77, 1);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof(got), file), SIZE + 8);
    assert_int_equal(fclose(file), 0);
    assert_memory_equal(got, bytes + SIZE / 3, SIZE - SIZE / 3);
    assert_memory_equal(got + SIZE - SIZE / 3, bytes, SIZE / 3);
    assert_memory_equal(got + SIZE, "note\4\0\0\0", 8);
    expect_fetched(&at, own, &message, GY_OK); /* it exists here */
    /* A missing file, one shorter than announced, another size than announced. */
    message.number = 2;
    message.name = (char *)(uintptr_t) "none";
    expect_fetched(&at, own, &message, GY_NOTFOUND);
    message.number = 3;
    message.name = (char *)(uintptr_t) "out";
    message.size_bytes = SIZE + 10;
    message.wanted = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)(uintptr_t) "cut"};
    expect_fetched(&at, own, &message, GY_IO);
    message.number = 4;
    expect_fetched(&at, own, &message, GY_IO);
    message.number = 5;
    message.size_bytes = SIZE - 1;
    message.wanted.len = 0;
    expect_fetched(&at, own, &message, GY_MISMATCH);
    /* Names that lead out of the folder are refused; a dead peer is reported as such. */
    Gy__Cluster__Key key = kit_key(at.job), content = kit_key((gy_key){1, 1});
    message.name = (char *)(uintptr_t) "../record";
    message.content = &content;
    Gy__Cluster__FetchOne *sections[1] = {&message};
    Gy__Cluster__Fetch all;
    gy__cluster__fetch__init(&all);
    all.job = &key;
    all.epoch = 1;
    KIT_CALL(&at, own, GY_NET_FETCH, &all.base, GY_FORMAT); /* an empty section */
    all.n_sections = 1;
    all.sections = sections;
    KIT_CALL(&at, own, GY_NET_FETCH, &all.base, GY_FORMAT);
    kit_daemon_end(&at, 1, SIGKILL);
    message.number = 6;
    message.name = (char *)(uintptr_t) "out";
    message.size_bytes = SIZE;
    expect_fetched(&at, own, &message, GY_PEER);
    expect_listed(own->folder, "00000000000000770000000000000001\n");
    kit_close(&at);
}

/* Many small sections, some missing or of another size: each has its own result, and few
 * transfers fetch them. */
GY_TEST(small_sections_come_together)
{
    enum { COUNT = 60, LEAST = 3000 };
    static kit_scene at;
    static uint8_t bytes[LEAST + COUNT];
    char path[4200], names[COUNT][16];
    Gy__Cluster__FetchOne ones[COUNT];
    open_two(&at);
    kit_manager *own = &at.managers[0];
    for (size_t i = 0; i < COUNT; i++) {
        gy__cluster__fetch_one__init(&ones[i]);
        snprintf(names[i], sizeof(names[i]), "%zu.1.1", i);
        ones[i].number = 100 + i;
        ones[i].peer = at.daemons[1].id;
        ones[i].incarnation = at.daemons[1].incarnation;
        ones[i].address = at.daemons[1].address;
        ones[i].name = names[i];
        ones[i].size_bytes = LEAST + i - (i == 20);
        memset(bytes, (int)i, sizeof(bytes));
        snprintf(path, sizeof(path), "%s/data/%s", at.managers[1].folder, names[i]);
        FILE *file = i != 10 ? fopen(path, "w") : NULL;
        assert_true(i == 10 ||
                    (file != NULL && fwrite(bytes, 1, LEAST + i, file) == LEAST + i &&
                     fclose(file) == 0));
    }
    fetch(&at, own, ones, COUNT);
    KIT_UNTIL(&at, own->fetched_count == COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t which = own->fetched_numbers[i] - 100;
        const gy_status expected = which == 10   ? GY_NOTFOUND
                                   : which == 20 ? GY_MISMATCH
                                                 : GY_OK;
        static uint8_t got[2 * sizeof(bytes)];
        assert_int_equal(own->fetched[i], expected);
        snprintf(path, sizeof(path), "%s/fetched/%016x%016x", own->folder, 0x77,
                 (unsigned)(which + 100));
        FILE *file = fopen(path, "r");
        assert_true((file != NULL) == (expected == GY_OK));
        if (file != NULL) {
            memset(bytes, (int)which, sizeof(bytes));
            assert_int_equal(fread(got, 1, sizeof(got), file), LEAST + which + 8);
            assert_int_equal(fclose(file), 0);
            assert_memory_equal(got, bytes, LEAST + which);
            assert_memory_equal(got + LEAST + which, "note\4\0\0\0", 8);
        }
    }
    assert_in_range(own->transfers, 3, 4); /* two, and one for the retry */
    /* On the same machine nothing is compressed: heads, notes, frames, and one useless section.
     */
    assert_in_range(own->beyond_bytes, COUNT * 20, LEAST + COUNT * 40 + 1000);
    kit_close(&at);
}

/* A section is cancelled and requested again at once: the cancelled fetch must not harm the new
 * one. */
GY_TEST(a_stopped_one_disturbs_no_other)
{
    enum { SIZE = 64 << 20, ROUNDS = 5 };
    static kit_scene at;
    char path[4200];
    open_two(&at);
    snprintf(path, sizeof(path), "%s/data/out", at.managers[1].folder);
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && ftruncate(fileno(file), SIZE) == 0 && fclose(file) == 0);
    kit_manager *own = &at.managers[0];
    Gy__Cluster__Key key = kit_key(own->job);
    Gy__Cluster__Unfetch unwanted;
    gy__cluster__unfetch__init(&unwanted);
    unwanted.job = &key;
    unwanted.epoch = own->epoch;
    Gy__Cluster__FetchOne message;
    gy__cluster__fetch_one__init(&message);
    message.peer = at.daemons[1].id;
    message.incarnation = at.daemons[1].incarnation;
    message.address = at.daemons[1].address;
    message.size_bytes = SIZE;
    message.name = (char *)(uintptr_t) "out";
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const uint64_t before = own->transfers;
        unwanted.number = message.number = round;
        fetch(&at, own, &message, 1);
        assert_ok(gy_rpc_tell(own->rpc, own->peer, GY_NET_UNFETCH, &unwanted.base));
        expect_fetched(&at, own, &message, GY_OK);
        assert_int_equal(own->transfers - before, 2); /* no third transfer for a retry */
    }
    kit_close(&at);
}

int main(void)
{
    HOST_TEST_SERVE();
    return GY_TESTS_RUN(NULL, NULL);
}
