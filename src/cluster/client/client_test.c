/* Goal: a program is sent to a name server with its files, once; requests are answered by
 * whichever name server is reachable, or refused with a reason. */
#include "cluster/client/client_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cluster/server/server_test.h"

static kit_server server;
static gy_cluster *cluster;
static char before[96];

static int begin(void **state)
{
    (void)state;
    kit_server_make(&server);
    kit_server_start(&server);
    if (setenv("XDG_CACHE_HOME", server.folder, 1) != 0) {
        return -1;
    }
    snprintf(before, sizeof(before), "127.0.0.1:1,%s", server.address);
    return gy_cluster_open(
        &(gy_cluster_options){.nameservers = before, .key_file = server.ring}, &cluster);
}

static int end(void **state)
{
    (void)state;
    gy_cluster_close(cluster);
    kit_server_remove(&server);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static Gy__Cluster__JobSpec *read_spec(void)
{
    char line[256];
    static char bytes[65536];
    /* The only blob that is a specification, as it names the folder of this test. */
    snprintf(line, sizeof(line), "cat $(grep -al A_VARIABLE= %s/table.files/*)", server.folder);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t size = fread(bytes, 1, sizeof(bytes), pipe);
    assert_int_equal(pclose(pipe), 0);
    Gy__Cluster__JobSpec *spec =
        gy__cluster__job_spec__unpack(NULL, size, (const uint8_t *)bytes);
    assert_non_null(spec);
    return spec;
}

static int count_files(void)
{
    char line[128], said[32];
    snprintf(line, sizeof(line), "ls %s/table.files | wc -l", server.folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    return (int)strtol(said, NULL, 10);
}

static const char *variable(const Gy__Cluster__JobSpec *spec, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < spec->n_environment; i++) {
        if (strncmp(spec->environment[i], name, size) == 0 &&
            spec->environment[i][size] == '=') {
            return spec->environment[i] + size + 1;
        }
    }
    return NULL;
}

/* ---- The files of a program ---- */

static void a_program_comes_with_its_files(void **state)
{
    (void)state;
    char script[64], side[64], id[GY_CLUSTER_ID_BYTES], again[GY_CLUSTER_ID_BYTES];
    char here[4096];
    snprintf(script, sizeof(script), "%s/count.sh", server.folder);
    snprintf(side, sizeof(side), "%s/words", server.folder);
    write_file(script, "#!/bin/sh\n");
    write_file(side, "a b\n");
    assert_int_equal(chmod(script, 0700), 0);
    assert_int_equal(setenv("A_VARIABLE", "its value", 1), 0);
    const char *arguments[] = {script, "in", "out", NULL}, *files[] = {side, NULL};
    const char *variables[] = {"A_VARIABLE", "PATH=/nowhere", NULL};
    const gy_cluster_program program = {
        .arguments = arguments, .files = files, .variables = variables, .name = "words"};
    assert_ok(gy_cluster_submit(cluster, &program, id));
    Gy__Cluster__JobSpec *spec = read_spec();
    assert_int_equal(spec->n_arguments, 3);
    assert_string_equal(spec->arguments[0], "count.sh");
    assert_string_equal(spec->arguments[2], "out");
    assert_int_equal(spec->n_files, 2);
    assert_true(spec->files[0]->is_executable && !spec->files[1]->is_executable);
    assert_string_equal(spec->files[1]->name, "words");
    assert_int_equal(spec->files[1]->size_bytes, 4);
    assert_string_equal(variable(spec, "A_VARIABLE"), "its value");
    assert_string_equal(variable(spec, "PATH"), "/nowhere");
    assert_null(variable(spec, "GYRE_DATA"));
    assert_non_null(getcwd(here, sizeof(here)));
    assert_string_equal(spec->directory, here);
    gy__cluster__job_spec__free_unpacked(spec, NULL);
    assert_int_equal(count_files(), 3);
    /* Another job with the same files. */
    assert_ok(gy_cluster_submit(cluster, &program, again));
    assert_string_not_equal(id, again);
    assert_int_equal(count_files(), 3);
    arguments[0] = "sh"; /* part of the system, which every host has */
    assert_ok(gy_cluster_submit(cluster, &program, id));
    assert_int_equal(count_files(), 4);
}

/* A library outside the system's folders is sent with the program. */
static void libraries_of_ones_own_are_found(void **state)
{
    (void)state;
    char line[CLIENT_PATH_BYTES + 512], said[256], self[CLIENT_PATH_BYTES];
    gy_client_files files = {0};
    gy_cluster alone = {.env = gy_env_real()};
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(size > 0);
    self[size] = '\0';
    assert_ok(gy_client_find_libraries(&alone, self, &files));
    assert_int_equal(files.count, 0);
    snprintf(line, sizeof(line),
             "cp $(ldd %s | sed -n 's/.*libcmocka.* => \\(.*\\) (.*/\\1/p') %s", self,
             server.folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    assert_int_equal(setenv("LD_LIBRARY_PATH", server.folder, 1), 0);
    assert_ok(gy_client_find_libraries(&alone, self, &files));
    assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
    assert_int_equal(files.count, 1);
    assert_non_null(strstr(files.rows[0].name, "libcmocka.so"));
    assert_true(files.rows[0].is_library && files.rows[0].size_bytes > 0);
    gy_free(files.rows);
    files = (gy_client_files){0};
    /* A missing version of symbols, and a missing library. */
    snprintf(line, sizeof(line),
             "sed 's/GLIBC_2\\.2\\.5/GLIBC_9.9.9/g' %s >%s/newer && chmod 755 %s/newer", self,
             server.folder, server.folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
    snprintf(line, sizeof(line), "%s/newer", server.folder);
    gy_status status = gy_client_find_libraries(&alone, line, &files);
    printf("%s\n", gy_error_text());
    assert_int_equal(status, GY_UNSUPPORTED);
    gy_free(files.rows);
}

/* ---- The cache of hashes ---- */

static const int64_t settled_ns = 3000000000;

static struct stat stat_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return about;
}

static int64_t wall_ns(void)
{
    return gy_env_real()->ops->wall_ns(gy_env_real());
}

/* Does another process find it in the cache? */
static bool is_recalled(const char *path, gy_key *content)
{
    const struct stat about = stat_of(path);
    gy_client_digests *digests = gy_client_digests_open();
    const bool is_known = gy_client_digests_find(digests, &about, content);
    gy_client_digests_close(digests);
    return is_known;
}

static void recall(const char *path, gy_key content, int64_t now_ns)
{
    const struct stat about = stat_of(path);
    gy_client_digests *digests = gy_client_digests_open();
    gy_client_digests_put(digests, &about, content, now_ns);
    gy_client_digests_close(digests);
}

static void files_that_are_the_same_are_recalled(void **state)
{
    (void)state;
    char path[64], other[64], kept[96];
    gy_key found = {0};
    snprintf(path, sizeof(path), "%s/a", server.folder);
    snprintf(other, sizeof(other), "%s/b", server.folder);
    snprintf(kept, sizeof(kept), "%s/gyre/digests", server.folder);
    write_file(path, "one");
    write_file(other, "two");
    recall(path, (gy_key){1, 2}, wall_ns()); /* it may be modified at the same moment */
    assert_false(is_recalled(path, &found));
    recall(path, (gy_key){1, UINT64_MAX}, wall_ns() + settled_ns);
    recall(other, (gy_key){3, 4}, wall_ns() + settled_ns);
    assert_true(is_recalled(path, &found) && found.high == 1 && found.low == UINT64_MAX);
    assert_true(is_recalled(other, &found) && found.high == 3 && found.low == 4);
    /* Another file of the same size, with the same time. */
    const struct stat about = stat_of(path);
    write_file(path, "One");
    assert_int_equal(
        utimensat(AT_FDCWD, path, (const struct timespec[]){about.st_atim, about.st_mtim}, 0),
        0);
    assert_false(is_recalled(path, &found));
    recall(path, (gy_key){5, 6}, wall_ns() + settled_ns);
    assert_true(is_recalled(path, &found) && found.high == 5);
    /* A cache file that others may write is ignored. */
    assert_int_equal(chmod(kept, 0620), 0);
    assert_false(is_recalled(path, &found));
    assert_int_equal(chmod(kept, 0600), 0);
    assert_true(is_recalled(other, &found));
    write_file(kept, "gyre digests 1\n1 2 3 4\n");
    assert_false(is_recalled(other, &found));
    /* The cache has a limit; the latest entries stay. */
    gy_client_digests *digests = gy_client_digests_open();
    struct stat many = about;
    for (uint64_t i = 1; i <= 70; i++) {
        many.st_ino = i;
        gy_client_digests_put(digests, &many, (gy_key){i, i}, wall_ns() + settled_ns);
    }
    assert_true(gy_client_digests_find(digests, &many, &found) && found.low == 70);
    many.st_ino = 7;
    assert_true(gy_client_digests_find(digests, &many, &found));
    many.st_ino = 6;
    assert_false(gy_client_digests_find(digests, &many, &found));
    gy_client_digests_close(digests);
}

/* A cached hash is wrong, and the name server has no such file: then the file is read. */
static void what_is_brought_was_read(void **state)
{
    (void)state;
    char script[64], id[GY_CLUSTER_ID_BYTES];
    gy_key found = {0};
    snprintf(script, sizeof(script), "%s/count.sh", server.folder);
    write_file(script, "#!/bin/sh\n");
    assert_int_equal(chmod(script, 0700), 0);
    recall(script, (gy_key){1, 2}, wall_ns() + settled_ns);
    assert_int_equal(setenv("A_VARIABLE", "its value", 1), 0);
    const char *arguments[] = {script, NULL}, *variables[] = {"A_VARIABLE", NULL};
    const gy_cluster_program program = {.arguments = arguments, .variables = variables};
    assert_ok(gy_cluster_submit(cluster, &program, id));
    Gy__Cluster__JobSpec *spec = read_spec();
    const gy_key content = gy_net_key(spec->files[0]->content);
    gy__cluster__job_spec__free_unpacked(spec, NULL);
    assert_int_equal(count_files(), 2);
    assert_false(is_recalled(script, &found));
    /* The cached hash is right: the file is neither read nor sent. */
    recall(script, content, wall_ns() + settled_ns);
    assert_ok(gy_cluster_submit(cluster, &program, id));
    assert_int_equal(count_files(), 2);
}

/* Whether the prewarmed program is submitted or not, no process is left. */
static void a_program_is_looked_at_ahead(void **state)
{
    (void)state;
    char self[CLIENT_PATH_BYTES] = "", id[GY_CLUSTER_ID_BYTES];
    gy_cluster *other = NULL;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    const char *own[] = {self, NULL}, *foreign[] = {"true", NULL};
    const char *const *programs[] = {own, foreign};
    (void)kit_server_end(&server, SIGKILL); /* this process has no child left */
    for (int i = 0; i < 2; i++) {
        const gy_cluster_options options = {.nameservers = before,
                                            .key_file = server.ring,
                                            .connect_timeout_s = 0.01,
                                            .prewarm = self};
        assert_ok(gy_cluster_open(&options, &other));
        assert_true(other->ahead.child > 0);
        assert_int_equal(
            gy_cluster_submit(other, &(gy_cluster_program){.arguments = programs[i]}, id),
            GY_PEER);
        assert_int_equal(other->ahead.child > 0, i == 1);
        gy_cluster_close(other);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    kit_server_start(&server);
}

static void what_cannot_be_submitted_is_output(void **state)
{
    (void)state;
    char id[GY_CLUSTER_ID_BYTES];
    const char *nothing[] = {"no-such-program", NULL}, *fine[] = {"true", NULL};
    const char *gone[] = {"/no/such/file", NULL}, *folder[] = {"/tmp", NULL};
    const char *unset[] = {"NO_SUCH_VARIABLE", NULL};
    gy_cluster_program program = {.arguments = nothing};
    assert_int_equal(gy_cluster_submit(cluster, &program, id), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "no-such-program"));
    program = (gy_cluster_program){.arguments = fine, .files = gone};
    assert_int_equal(gy_cluster_submit(cluster, &program, id), GY_NOTFOUND);
    program.files = folder;
    assert_int_equal(gy_cluster_submit(cluster, &program, id), GY_ARG);
    program = (gy_cluster_program){.arguments = fine, .variables = unset};
    assert_int_equal(gy_cluster_submit(cluster, &program, id), GY_ARG);
    program = (gy_cluster_program){.arguments = fine, .weight = 1001};
    assert_int_equal(gy_cluster_submit(cluster, &program, id), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "weight 1 to 1000"));
    assert_int_equal(
        gy_cluster_open(&(gy_cluster_options){.nameservers = before}, &(gy_cluster *){0}),
        GY_ARG);
}

/* ---- Requests ---- */

static gy_status take_name(void *arg, const gy_cluster_job *job)
{
    snprintf(arg, 64, "%s", job->name);
    return GY_OK;
}

/* Of seventeen ids two begin with the same digit. */
static void expect_several(void)
{
    char id[GY_CLUSTER_ID_BYTES], found[GY_CLUSTER_ID_BYTES], digit[2] = "";
    const char *arguments[] = {"true", NULL};
    bool is_seen[256] = {false};
    for (int i = 0; i < 17; i++) {
        assert_ok(
            gy_cluster_submit(cluster, &(gy_cluster_program){.arguments = arguments}, id));
        digit[0] = is_seen[(unsigned char)id[0]] ? id[0] : digit[0];
        is_seen[(unsigned char)id[0]] = true;
    }
    assert_int_equal(gy_cluster_find_job(cluster, digit, found), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "expected a longer part"));
}

static void expect_no_resume(void)
{
    uint32_t epoch = 0;
    gy_status ended = GY_OK;
    char other[GY_CLUSTER_ID_BYTES], reason[GY_CLUSTER_REASON_BYTES];
    const char *arguments[] = {"true", NULL};
    assert_int_equal(gy_cluster_resume(cluster, "f", &epoch), GY_ARG);
    assert_int_equal(gy_cluster_resume(cluster, "00000000000000010000000000000001", &epoch),
                     GY_NOTFOUND);
    assert_ok(gy_cluster_submit(cluster, &(gy_cluster_program){.arguments = arguments}, other));
    assert_int_equal(gy_cluster_resume(cluster, other, &epoch), GY_STATE);
    /* The client notices: the name server would take it for a repeated resume. */
    assert_non_null(strstr(gy_error_text(), "has not ended: the cluster continues it"));
    assert_non_null(strstr(gy_error_text(), other));
    assert_ok(gy_cluster_kill(cluster, other));
    assert_ok(gy_cluster_wait(cluster, other, 20, &ended, reason));
    assert_int_equal(gy_cluster_resume(cluster, other, &epoch), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "no manager of it had started"));
}

static void a_job_is_found_killed_and_waited_for(void **state)
{
    (void)state;
    char id[GY_CLUSTER_ID_BYTES], found[GY_CLUSTER_ID_BYTES], name[64] = "", beginning[9];
    char reason[GY_CLUSTER_REASON_BYTES];
    gy_status ended = GY_OK;
    const char *arguments[] = {"true", NULL};
    const gy_cluster_program program = {.arguments = arguments};
    assert_ok(gy_cluster_submit(cluster, &program, id));
    assert_ok(gy_cluster_list(cluster, &(gy_cluster_visit){.job = take_name, .arg = name}));
    assert_string_equal(name, "true");
    snprintf(beginning, sizeof(beginning), "%.8s", id);
    assert_ok(gy_cluster_find_job(cluster, beginning, found));
    assert_string_equal(found, id);
    assert_int_equal(gy_cluster_find_job(cluster, "x", found), GY_NOTFOUND);
    /* Although it is the only job. */
    assert_int_equal(gy_cluster_find_job(cluster, "", found), GY_ARG);
    assert_int_equal(gy_cluster_wait(cluster, id, 0.02, &ended, reason), GY_TIMEOUT);
    (void)kit_server_end(&server, SIGKILL); /* and it comes back while the client waits */
    kit_server_start(&server);
    assert_ok(gy_cluster_kill(cluster, id));
    assert_ok(gy_cluster_wait(cluster, id, 20, &ended, reason));
    assert_int_equal(ended, GY_CANCELLED);
    assert_string_equal(reason, "killed by its user");
    assert_int_equal(gy_cluster_kill(cluster, beginning), GY_ARG);
    expect_no_resume();
    expect_several();
    gy_cluster *keeper = NULL;
    assert_ok(gy_cluster_open(&(gy_cluster_options){.nameservers = before,
                                                    .key_file = server.ring,
                                                    .is_operator = true},
                              &keeper));
    assert_int_equal(gy_cluster_drain(keeper, "nobody", true), GY_NOTFOUND);
    gy_cluster_close(keeper);
}

static void nobody_answers(void **state)
{
    (void)state;
    gy_cluster *other = NULL;
    const gy_cluster_options options = {
        .nameservers = "127.0.0.1:1", .key_file = server.ring, .connect_timeout_s = 0.1};
    assert_ok(gy_cluster_open(&options, &other));
    assert_int_equal(gy_cluster_list(other, &(gy_cluster_visit){0}), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "127.0.0.1:1"));
    assert_non_null(strstr(gy_error_text(), "refused"));
    gy_cluster_close(other);
}

/* Requests with short deadlines follow each other while a name server is down: over all of them
 * the client waits as long as its connect timeout. */
static void one_that_was_there_is_waited_for(void **state)
{
    (void)state;
    char id[GY_CLUSTER_ID_BYTES];
    const char *arguments[] = {"true", NULL};
    gy_cluster *other = NULL;
    gy_cluster_result end = {.epoch = 0};
    gy_status status = GY_TIMEOUT;
    const gy_cluster_options options = {
        .nameservers = before, .key_file = server.ring, .connect_timeout_s = 1};
    assert_ok(gy_cluster_open(&options, &other));
    assert_ok(gy_cluster_submit(other, &(gy_cluster_program){.arguments = arguments}, id));
    assert_int_equal(gy_cluster_follow_from(other, id, 0.02, NULL, NULL, &end), GY_TIMEOUT);
    (void)kit_server_end(&server, SIGKILL);
    const int64_t gone_ns = gy_now_ns(gy_env_real());
    while (status == GY_TIMEOUT) {
        status = gy_cluster_follow_from(other, id, 0.02, NULL, NULL, &end);
    }
    assert_int_equal(status, GY_PEER);
    assert_true(gy_now_ns(gy_env_real()) - gone_ns >= 900000000);
    gy_cluster_close(other);
}

int main(void)
{
    gy_log_set_level(getenv("GYRE_LOG") != NULL ? GY_LOG_DEBUG : GY_LOG_ERROR);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_program_comes_with_its_files),       TEST(libraries_of_ones_own_are_found),
        TEST(files_that_are_the_same_are_recalled), TEST(what_is_brought_was_read),
        TEST(a_program_is_looked_at_ahead),         TEST(what_cannot_be_submitted_is_output),
        TEST(a_job_is_found_killed_and_waited_for), TEST(nobody_answers),
        TEST(one_that_was_there_is_waited_for),
    };
    return cmocka_run_group_tests_name("cluster_client", tests, NULL, NULL);
}
