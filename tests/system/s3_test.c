/*
 * Goal: S3 as it is spoken by a real server (npm's s3rver), and by one of ours that checks
 * every signature, obeys If-None-Match and misbehaves on demand: what is read and listed is
 * what was written, what fails says why, in bounded time and memory.
 */
#include "store_kit.h"

#include <pthread.h>
#include <sys/resource.h>

enum { LARGE_BYTES = (16 << 20) + 12345, TWO_PARTS = GY_PART_BYTES + 7, MANY_KEYS = 1005 };

static kit_server stub, real, secure;
static char data_folder[64];

static void use_stub(void)
{
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", stub.port);
    kit_clear_settings();
    setenv("GYRE_S3_ENDPOINT", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", 1);
}

static int start_stub(void **state)
{
    (void)state;
    kit_clear_settings();
    kit_start_stub(&stub, "s3.py");
    return 0;
}

static int stop_stub(void **state)
{
    (void)state;
    gy_http_drop_kept();
    kit_stop(&stub);
    return 0;
}

static void what_is_written_is_read_under_any_name(void **state)
{
    (void)state;
    use_stub();
    static const char *const keys[] = {"a", "a b/\xc3\xbc+&=?#%41.txt", "..//x", "~-._!*'()",
                                       "d/c"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char uri[256];
        snprintf(uri, sizeof(uri), "s3://good/%s", keys[i]);
        assert_ok(kit_put(uri, GY_PLACE_REPLACE, keys[i], strlen(keys[i])));
        kit_check(uri, keys[i], strlen(keys[i]));
        gy_place *place = kit_place(uri);
        gy_place_facts facts;
        assert_ok(gy_place_stat(place, &facts));
        assert_int_equal(facts.size_bytes, strlen(keys[i]));
        assert_false(facts.is_folder);
        assert_int_equal(facts.modified_ms, INT64_C(1770033600000));
        assert_ok(gy_place_remove(place));
        assert_ok(gy_place_remove(place)); /* that there is none is no failure */
        assert_status(gy_place_stat(place, &facts), GY_NOTFOUND);
        gy_place_close(place);
    }
    assert_ok(kit_put("s3://good/empty", GY_PLACE_REPLACE, "", 0));
    kit_check("s3://good/empty", "", 0);
}

static void ranges_end_at_the_end(void **state)
{
    (void)state;
    use_stub();
    assert_ok(kit_put("s3://good/digits", GY_PLACE_REPLACE, "0123456789", 10));
    gy_place *place = kit_place("s3://good/digits");
    char out[16];
    size_t got = 0;
    assert_ok(gy_place_read(place, NULL, 3, out, 4, &got));
    assert_int_equal(got, 4);
    assert_memory_equal(out, "3456", 4);
    assert_ok(gy_place_read(place, NULL, 8, out, 16, &got));
    assert_int_equal(got, 2);
    assert_ok(gy_place_read(place, NULL, 10, out, 16, &got));
    assert_int_equal(got, 0);
    assert_status(gy_place_read(place, "another", 0, out, 4, &got), GY_STATE);
    gy_place_close(place);
}

static void a_session_signs_too(void **state)
{
    (void)state;
    use_stub();
    assert_status(kit_put("s3://session/x", GY_PLACE_REPLACE, "1", 1), GY_IO);
    setenv("AWS_SESSION_TOKEN", "TOKEN/with+signs==", 1);
    assert_ok(kit_put("s3://session/x", GY_PLACE_REPLACE, "1", 1));
}

static void lists_are_sorted_and_paged(void **state)
{
    (void)state;
    use_stub();
    static const char *const keys[] = {"l/b",    "l/a",   "l/d/1", "l/d/2",      "l/d-1",
                                       "l/z&<>", "l/e f", "l/B",   "l/\xc3\xbc", "l/g",
                                       "l/h",    "l/i",   "l/j/1", "l/k"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char uri[64];
        snprintf(uri, sizeof(uri), "s3://listed/%s", keys[i]);
        assert_ok(kit_put(uri, GY_PLACE_REPLACE, "", 0));
    }
    const char *all = "B a b d-1 d/ e f g h i j/ k z&<> \xc3\xbc ";
    kit_check_list("s3://listed/l", all); /* two pages: the stub gives seven at most */
    kit_check_list("s3://listed/l/", all);
    kit_check_list("s3://listed", "l/ ");
    kit_check_list("s3://listed/l/d", "1 2 ");
    kit_check_list("s3://listed/l/d/1", "1 ");
    kit_check_list("s3://none", "");
    gy_place *place = kit_place("s3://listed/no");
    kit_names names = {.count = 0};
    assert_status(gy_place_list(place, kit_note, &names), GY_NOTFOUND);
    gy_place_close(place);
    place = kit_place("s3://listed/l/d");
    gy_place_facts facts;
    assert_ok(gy_place_stat(place, &facts));
    assert_true(facts.is_folder);
    gy_place_close(place);
}

/* Keys that others are prefixes of, and marks of folders that have bytes. */
static void objects_that_are_folders_are_both(void **state)
{
    (void)state;
    use_stub();
    /* "-slash" is put as "/" by the stub, where we refuse to */
    static const char *const keys[] = {"w/both",       "w/both/x", "w/both-2",
                                       "w/mark-slash", "w/mark/y", "w/slash-slash"};
    for (size_t i = 0; i < GY_COUNT(keys); i++) {
        char uri[64];
        snprintf(uri, sizeof(uri), "s3://listed/%s", keys[i]);
        assert_ok(kit_put(uri, GY_PLACE_REPLACE, "bytes", 5));
    }
    assert_ok(kit_put("s3://listed/w/none-slash", GY_PLACE_REPLACE, "", 0)); /* a mark alone */
    kit_check_list("s3://listed/w", "both both-2 both/ mark/ none/ slash/ ");
    kit_check_list("s3://listed/w/both", "both x ");
    kit_check_list("s3://listed/w/both/", "x ");
    kit_check_list("s3://listed/w/mark", "mark/ y ");
    kit_check_list("s3://listed/w/slash/", "slash/ ");
    kit_check_list("s3://listed/w/none", "");
    kit_check("s3://listed/w/mark/", "bytes", 5);
    gy_place *place = kit_place("s3://listed/w/mark/");
    gy_place_facts facts;
    assert_ok(gy_place_stat(place, &facts));
    assert_true(!facts.is_folder && facts.size_bytes == 5 && facts.version[0] != '\0');
    gy_place_close(place);
    place = kit_place("s3://listed/w/none/");
    assert_ok(gy_place_stat(place, &facts));
    assert_true(facts.is_folder);
    gy_place_close(place);
}

static void creation_is_exclusive_where_the_server_obeys(void **state)
{
    (void)state;
    use_stub();
    gy_place_guarantees promises;
    gy_place *place = kit_place("s3://good/new");
    assert_ok(gy_place_guarantee(place, &promises));
    assert_true(promises.is_exclusive);
    assert_ok(gy_place_write(place, GY_PLACE_NEW, "one", 3));
    assert_status(gy_place_write(place, GY_PLACE_NEW, "two", 3), GY_EXISTS);
    gy_place_close(place);
    kit_check("s3://good/new", "one", 3);
    /* the answer to what was done is lost: the second try finds its own */
    assert_ok(kit_put("s3://good/lost", GY_PLACE_NEW, "mine", 4));
    kit_check("s3://good/lost", "mine", 4);
    assert_status(kit_put("s3://old/new", GY_PLACE_NEW, "one", 3), GY_UNSUPPORTED);
    assert_says("does not obey If-None-Match");
    assert_ok(kit_put("s3://old/new", GY_PLACE_REPLACE, "one", 3));
}

static void large_objects_go_in_parts_or_not_at_all(void **state)
{
    (void)state;
    use_stub();
    char *data = kit_bytes(1, LARGE_BYTES);
    assert_ok(kit_put("s3://parts/large", GY_PLACE_REPLACE, data, LARGE_BYTES));
    assert_int_equal(kit_count(&stub, "parts PUT partNumber,uploadId"), 3);
    kit_check("s3://parts/large", data, LARGE_BYTES);
    assert_ok(kit_put("s3://good/lost large", GY_PLACE_NEW, data, TWO_PARTS));
    assert_ok(kit_put("s3://late/large", GY_PLACE_REPLACE, data, TWO_PARTS));
    assert_int_equal(kit_count(&stub, "late POST uploadId"), 3);
    assert_status(kit_put("s3://noparts/large", GY_PLACE_REPLACE, data, TWO_PARTS), GY_IO);
    assert_says("QuotaExceeded: no room");
    assert_int_equal(kit_count(&stub, "noparts DELETE uploadId"), 1);
    gy_place *place = kit_place("s3://noparts/large");
    gy_place_facts facts;
    assert_status(gy_place_stat(place, &facts), GY_NOTFOUND);
    gy_place_close(place);

    kit_check_source("s3://parts/large", data, LARGE_BYTES); /* three ranges, two buffers */
    gy_free(data);
}

static void a_source_is_of_one_version(void **state)
{
    (void)state;
    use_stub();
    const size_t size =
        2 * (size_t)GY_READ_AHEAD_BYTES + 1000; /* the third range is asked for late */
    char *data = kit_bytes(2, size);
    assert_ok(kit_put("s3://good/two", GY_PLACE_REPLACE, data, size));
    gy_source *source = NULL;
    assert_ok(
        gy_source_open_uri(gy_env_real(), "s3://good/two", GY_ENCODING_PLAIN, NULL, &source));
    size_t got = 0;
    assert_ok(gy_source_read(source, data, 1000, &got));
    data[size - 1] ^= 1; /* no other length */
    assert_ok(kit_put("s3://good/two", GY_PLACE_REPLACE, data, size));
    gy_status status = GY_OK;
    for (size_t at = 1000; status == GY_OK && at < size; at += 1 << 20) {
        status = gy_source_read(source, data, 1 << 20, &got);
    }
    assert_status(status, GY_STATE);
    gy_source_close(source);
    assert_ok(
        gy_source_open_uri(gy_env_real(), "s3://good/two", GY_ENCODING_PLAIN, NULL, &source));
    gy_source_close(source); /* while ranges are under way */
    gy_free(data);
    static const unsigned char gz[] = {0x1f, 0x8b, 8,    0,    0,    0,    0, 0, 0,
                                       3,    0xcb, 0x48, 0xcd, 0xc9, 0xc9, 7, 0, 0x86,
                                       0xa6, 0x10, 0x36, 5,    0,    0,    0};
    assert_ok(kit_put("s3://good/gz", GY_PLACE_REPLACE, gz, sizeof(gz)));
    assert_ok(
        gy_source_open_uri(gy_env_real(), "s3://good/gz", GY_ENCODING_AUTO, NULL, &source));
    char text[16];
    assert_ok(gy_source_read(source, text, sizeof(text), &got));
    assert_int_equal(got, 5);
    assert_memory_equal(text, "hello", 5);
    gy_source_close(source);
}

static void passing_failures_pass_and_others_end_in_time(void **state)
{
    (void)state;
    use_stub();
    assert_ok(kit_put("s3://busy/x", GY_PLACE_REPLACE, "x", 1)); /* 503 twice */
    assert_ok(kit_put("s3://cut/x", GY_PLACE_REPLACE, "0123456789", 10));
    kit_check("s3://cut/x", "0123456789", 10); /* each answer breaks off half way */
    assert_true(kit_count(&stub, "cut GET") > 2);
    gy_place *place = kit_place_for(0.4, "s3://ill/x");
    gy_place_facts facts;
    const int64_t begun = gy_now_ns(gy_env_real());
    assert_status(gy_place_stat(place, &facts), GY_IO);
    assert_says("500");
    gy_place_close(place);
    place = kit_place_for(0.4, "s3://silent/x");
    assert_status(gy_place_stat(place, &facts), GY_TIMEOUT);
    assert_says("sent nothing");
    gy_place_close(place);
    assert_true(gy_now_ns(gy_env_real()) - begun < INT64_C(10000000000));
    char out[10];
    size_t got = 0;
    char *many = gy_alloc("test", 1000);
    place = kit_place_for(0.4, "s3://drip/x"); /* always a byte more, never done */
    assert_status(gy_place_read(place, NULL, 0, many, 1000, &got), GY_TIMEOUT);
    assert_int_equal(got, 0);
    gy_place_close(place);
    gy_free(many);
    assert_ok(kit_put("s3://changing/x", GY_PLACE_REPLACE, "0123456789", 10));
    place = kit_place("s3://changing/x");
    assert_status(gy_place_read(place, NULL, 0, out, 10, &got), GY_STATE);
    assert_says("changed meanwhile");
    gy_place_close(place);
    setenv("GYRE_S3_ENDPOINT", "http://127.0.0.1:1", 1);
    place = kit_place("s3://away/x");
    assert_status(gy_place_stat(place, &facts), GY_IO);
    assert_says("4 tries");
    gy_place_close(place);
    /* a name that is too long for any host is asked for as often, and called that */
    char endpoint[128] = "http://";
    memset(endpoint + strlen(endpoint), 'a', 70);
    setenv("GYRE_S3_ENDPOINT", endpoint, 1);
    place = kit_place("s3://away/x");
    assert_status(gy_place_stat(place, &facts), GY_IO);
    assert_says("Could not resolve host");
    assert_says("4 tries");
    gy_place_close(place);
}

static void *look_at(void *arg)
{
    static gy_place_facts facts;
    static gy_status status;
    status = gy_place_stat(arg, &facts);
    return &status;
}

static void a_place_can_be_cancelled(void **state)
{
    (void)state;
    use_stub();
    gy_place *place = kit_place_for(60, "s3://silent/cancelled");
    pthread_t thread;
    const long before = kit_count(&stub, "silent HEAD");
    const int64_t begun = gy_now_ns(gy_env_real());
    assert_int_equal(pthread_create(&thread, NULL, look_at, place), 0);
    while (kit_count(&stub, "silent HEAD") == before) {
        assert_true(gy_now_ns(gy_env_real()) - begun < INT64_C(10000000000));
    }
    gy_place_cancel(place);
    void *result = NULL;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal(*(gy_status *)result, GY_CANCELLED);
    assert_true(gy_now_ns(gy_env_real()) - begun < INT64_C(10000000000));
    gy_place_close(place);
}

static void refusals_say_why_and_tell_no_secret(void **state)
{
    (void)state;
    use_stub();
    setenv("AWS_SECRET_ACCESS_KEY", "wrongSECRETwrong", 1);
    assert_status(kit_put("s3://good/x", GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("access denied (403 SignatureDoesNotMatch: the signature is another)");
    assert_says("credentials: AWS_ACCESS_KEY_ID");
    assert_null(strstr(gy_error_text(), "SECRET"));
    unsetenv("AWS_ACCESS_KEY_ID");
    assert_status(gy_place_open(gy_env_real(), "s3://good/x", NULL, &(gy_place *){NULL}),
                  GY_ARG);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    assert_status(kit_put("s3://good/x", GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("credentials: none");
    use_stub();
    assert_status(kit_put("s3://region/x", GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("eu-north-1: set AWS_REGION");
    assert_status(kit_put("s3://good/folder/", GY_PLACE_REPLACE, "x", 1), GY_ARG);
}

static void write_credentials(const char *path, int mode)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("[default]\naws_access_key_id = AKIDEXAMPLE\n"
          "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY\n"
          "[broken]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = WRONG\n",
          file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, (mode_t)mode), 0);
}

static void credentials_come_from_files_that_are_ones_own(void **state)
{
    (void)state;
    char path[] = "/tmp/gyre-login-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    use_stub();
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    write_credentials(path, 0600);
    assert_ok(kit_put("s3://good/login", GY_PLACE_REPLACE, "x", 1));
    setenv("AWS_PROFILE", "broken", 1);
    assert_status(kit_put("s3://good/login", GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("credentials: profile broken of /tmp/gyre-login-");
    assert_null(strstr(gy_error_text(), "WRONG"));
    setenv("AWS_PROFILE", "nobody", 1);
    gy_place *place = NULL;
    assert_status(gy_place_open(gy_env_real(), "s3://good/x", NULL, &place), GY_ARG);
    unsetenv("AWS_PROFILE");
    write_credentials(path, 0622);
    assert_status(gy_place_open(gy_env_real(), "s3://good/x", NULL, &place), GY_IO);
    assert_says("not trusted");
    assert_int_equal(unlink(path), 0);
}

static void a_bucket_can_be_a_host(void **state)
{
    (void)state;
    use_stub();
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "http://localhost:%d/", stub.port);
    setenv("GYRE_S3_ENDPOINT", endpoint, 1);
    setenv("GYRE_S3_STYLE", "host", 1);
    assert_ok(kit_put("s3://hosted/a b", GY_PLACE_REPLACE, "x", 1)); /* hosted.localhost */
    kit_check("s3://hosted/a b", "x", 1);
    assert_true(kit_count(&stub, "hosted PUT") == 1);
    setenv("GYRE_S3_STYLE", "other", 1);
    gy_place *place = NULL;
    assert_status(gy_place_open(gy_env_real(), "s3://hosted/x", NULL, &place), GY_ARG);
    setenv("GYRE_S3_STYLE", "path", 1);
    setenv("GYRE_S3_ENDPOINT", "localhost:80", 1);
    assert_status(gy_place_open(gy_env_real(), "s3://hosted/x", NULL, &place), GY_ARG);
    setenv("GYRE_STORE_TIMEOUT", "soon", 1);
    assert_status(gy_place_open(gy_env_real(), "s3://hosted/x", NULL, &place), GY_ARG);
}

static void bad_answers_end_well(void **state)
{
    (void)state;
    use_stub();
    static const struct {
        const char *key;
        gy_status expected;
    } ranges[] = {{"huge", GY_OK},        {"large", GY_FORMAT},     {"negative", GY_FORMAT},
                  {"none", GY_FORMAT},    {"elsewhere", GY_FORMAT}, {"overfull", GY_LIMIT},
                  {"garbage", GY_FORMAT}, {"headers", GY_LIMIT}};
    char *room = gy_alloc("test", 1 << 20);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        char uri[64];
        snprintf(uri, sizeof(uri), "s3://bad/%s", ranges[i].key);
        gy_place *place = kit_place_for(0.5, uri);
        size_t got = 0;
        const gy_status status = gy_place_read(place, NULL, 0, room, 10, &got);
        if (ranges[i].expected != GY_OK) {
            assert_status(status, ranges[i].expected);
        } else {
            assert_true(status < 0);
        }
        gy_place_close(place);
    }
    gy_free(room);
    static const char *const lists[] = {"noxml", "cutxml", "other",   "longname", "bomb",
                                        "deep",  "empty",  "outside", "keyless",  "tokenless",
                                        "size",  "nul",    "same"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char uri[64];
        kit_names names = {.count = 0};
        snprintf(uri, sizeof(uri), "s3://bad/%s/", lists[i]);
        gy_place *place = kit_place(uri);
        const gy_status status = gy_place_list(place, kit_note, &names);
        if (status != GY_FORMAT && status != GY_LIMIT) {
            fail_msg("%s gave %s: %s", lists[i], gy_status_text(status), gy_error_text());
        }
        if (strcmp(lists[i], "bomb") == 0) {
            assert_says("document type"); /* before anything can grow */
        }
        gy_text_free(&names.text);
        gy_place_close(place);
    }
    gy_place *place = kit_place("s3://bad/sizeless");
    gy_place_facts facts;
    assert_status(gy_place_stat(place, &facts), GY_FORMAT);
    gy_place_close(place);
}

/* Everything that allocates, once; what it came to. */
static gy_status do_everything(void)
{
    gy_place *place = NULL;
    GY_TRY(gy_place_open(gy_env_real(), "s3://good/memory/x", NULL, &place));
    gy_status status = gy_place_write(place, GY_PLACE_REPLACE, "hello", 5);
    gy_place_close(place);
    GY_TRY(status);
    GY_TRY(kit_list("s3://good/memory"));
    gy_source *source = NULL;
    GY_TRY(gy_source_open_uri(gy_env_real(), "s3://good/memory/x", GY_ENCODING_AUTO, NULL,
                              &source));
    char out[8];
    size_t got = 0;
    status = gy_source_read(source, out, sizeof(out), &got);
    gy_source_close(source);
    return status;
}

static void failed_allocations_are_failures(void **state)
{
    (void)state;
    use_stub();
    kit_check_memory(do_everything, 20);
}

/* ---- the real server ---- */

static void use_real(const kit_server *server, const char *scheme)
{
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "%s://127.0.0.1:%d", scheme, server->port);
    kit_clear_settings();
    setenv("AWS_ENDPOINT_URL", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "S3RVER", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S3RVER", 1);
}

static bool find_real(char path[1024])
{
    const char *given = getenv("GYRE_TEST_S3RVER");
    snprintf(path, 1024, "%s",
             given != NULL ? given : "build/s3rver/node_modules/s3rver/bin/s3rver.js");
    return access(path, R_OK) == 0;
}

static int start_real(void **state)
{
    (void)state;
    char path[1024], many[256];
    if (!find_real(path)) {
        printf("s3rver is not at %s: scripts/s3rver says why\n", path);
        return 0;
    }
    kit_clear_settings();
    snprintf(data_folder, sizeof(data_folder), "/tmp/gyre-s3-XXXXXX");
    assert_non_null(mkdtemp(data_folder));
    /* objects as s3rver keeps them: a file each */
    snprintf(many, sizeof(many), "%s/many", data_folder);
    assert_int_equal(mkdir(many, 0700), 0);
    for (int i = 0; i < MANY_KEYS; i++) {
        snprintf(many, sizeof(many), "%s/many/k%04d._S3rver_object", data_folder, i);
        FILE *file = fopen(many, "wb");
        assert_non_null(file);
        fclose(file);
        snprintf(many, sizeof(many), "%s/many/k%04d._S3rver_object.md5", data_folder, i);
        file = fopen(many, "wb");
        assert_non_null(file);
        fputs("d41d8cd98f00b204e9800998ecf8427e", file);
        fclose(file);
    }
    kit_start(&real,
              (const char *const[]){"node", "--openssl-legacy-provider", path, "-d",
                                    data_folder, "-a", "127.0.0.1", "-p", "0", "-s",
                                    "--configure-bucket", "test", NULL},
              "listening on 127.0.0.1:");
    return 0;
}

static int stop_real(void **state)
{
    (void)state;
    gy_http_drop_kept();
    kit_stop(&real);
    kit_stop(&secure);
    if (data_folder[0] != '\0') {
        assert_int_equal(gy_disk_remove_tree(data_folder), 0);
    }
    return 0;
}

static void skip_without_real(void)
{
    if (real.pid == 0) {
        printf("skipped: s3rver is not installed (scripts/s3rver says why)\n");
        skip();
    }
}

static void a_real_server_keeps_what_it_gets(void **state)
{
    (void)state;
    skip_without_real();
    use_real(&real, "http");
    assert_ok(kit_put("s3://test/a b/\xc3\xbc+&=.txt", GY_PLACE_REPLACE, "0123456789", 10));
    kit_check("s3://test/a b/\xc3\xbc+&=.txt", "0123456789", 10);
    gy_place *place = kit_place("s3://test/a b/\xc3\xbc+&=.txt");
    gy_place_facts facts;
    char out[16];
    size_t got = 0;
    assert_ok(gy_place_stat(place, &facts));
    assert_int_equal(facts.size_bytes, 10);
    assert_ok(gy_place_read(place, facts.version, 4, out, 3, &got));
    assert_int_equal(got, 3);
    assert_memory_equal(out, "456", 3);
    assert_ok(gy_place_read(place, facts.version, 10, out, 3, &got));
    assert_int_equal(got, 0);
    assert_status(gy_place_write(place, GY_PLACE_NEW, "x", 1), GY_UNSUPPORTED);
    assert_says("does not obey If-None-Match");
    assert_ok(gy_place_write(place, GY_PLACE_REPLACE, "other", 5));
    assert_status(gy_place_read(place, facts.version, 0, out, 3, &got), GY_STATE);
    gy_place_close(place);
    kit_check_list("s3://test/a b", "\xc3\xbc+&=.txt ");
    char *data = kit_bytes(3, LARGE_BYTES);
    assert_ok(kit_put("s3://test/large", GY_PLACE_REPLACE, data, LARGE_BYTES));
    kit_check("s3://test/large", data, LARGE_BYTES);
    gy_free(data);
    place = kit_place("s3://test/none");
    assert_status(gy_place_stat(place, &facts), GY_NOTFOUND);
    gy_place_close(place);
    assert_status(kit_put("s3://nobucket/x", GY_PLACE_REPLACE, "x", 1), GY_NOTFOUND);
    assert_says("no such bucket");
}

static gy_status count_entry(void *arg, const gy_place_entry *entry)
{
    int *count = arg;
    char expected[16];
    snprintf(expected, sizeof(expected), "k%04d", (*count)++);
    assert_string_equal(entry->name, expected);
    return GY_OK;
}

static void a_real_server_lists_in_pages(void **state)
{
    (void)state;
    skip_without_real();
    use_real(&real, "http");
    gy_place *place = kit_place("s3://many");
    int count = 0;
    assert_ok(gy_place_list(place, count_entry, &count));
    assert_int_equal(count, MANY_KEYS);
    gy_place_close(place);
}

static void a_real_server_refuses_a_wrong_key(void **state)
{
    (void)state;
    skip_without_real();
    use_real(&real, "http");
    setenv("AWS_ACCESS_KEY_ID", "STRANGER", 1);
    assert_status(kit_put("s3://test/x", GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("access denied (403 InvalidAccessKeyId");
} /* signatures it does not compute: the stub does */

static void tls_is_verified(void **state)
{
    (void)state;
    skip_without_real();
    char line[1024], out[512], path[1024], key[128], certificate[128];
    snprintf(
        line, sizeof(line),
        "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
        "-keyout k -out c -days 2 -subj /CN=gyre -addext subjectAltName=IP:127.0.0.1 2>&1",
        data_folder);
    if (gy_test_shell(line, out, sizeof(out)) != 0) {
        printf("skipped: openssl makes no certificate: %s\n", out);
        skip();
    }
    assert_true(find_real(path));
    snprintf(key, sizeof(key), "%s/k", data_folder);
    snprintf(certificate, sizeof(certificate), "%s/c", data_folder);
    kit_start(&secure,
              (const char *const[]){"node", "--openssl-legacy-provider", path, "-d",
                                    data_folder, "-a", "127.0.0.1", "-p", "0", "-s", "--key",
                                    key, "--cert", certificate, NULL},
              "listening on 127.0.0.1:");
    use_real(&secure, "https");
    assert_status(kit_put("s3://test/tls", GY_PLACE_REPLACE, "x", 1), GY_IO);
    assert_says("certificate");
    setenv("GYRE_CA_FILE", certificate, 1);
    assert_ok(kit_put("s3://test/tls", GY_PLACE_REPLACE, "x", 1));
    kit_check("s3://test/tls", "x", 1);
}

/* Last: it ends the server. */
static void a_server_killed_in_the_middle_is_a_failure(void **state)
{
    (void)state;
    skip_without_real();
    use_real(&real, "http");
    char *data = kit_bytes(4, LARGE_BYTES);
    gy_place *place = kit_place("s3://test/killed");
    assert_ok(gy_place_write(place, GY_PLACE_REPLACE, data, LARGE_BYTES));
    gy_source *source = NULL;
    const gy_place_options options = {.patience_s = 5};
    assert_ok(gy_source_open_uri(gy_env_real(), "s3://test/killed", GY_ENCODING_PLAIN, &options,
                                 &source));
    gy_place_writer *writer = NULL;
    assert_ok(gy_place_writer_open(place, GY_PLACE_REPLACE, &writer));
    assert_ok(gy_place_writer_add(writer, data, GY_PART_BYTES + 1)); /* one part is there */
    size_t got = 1;
    assert_ok(gy_source_read(source, data, 100, &got));
    kit_stop(&real);
    gy_status status = GY_OK;
    while (status == GY_OK && got > 0) {
        status = gy_source_read(source, data, 1 << 20, &got);
    }
    assert_true(status == GY_IO || status == GY_TIMEOUT);
    gy_source_close(source);
    assert_status(gy_place_writer_finish(writer), GY_IO);
    gy_place_close(place);
    gy_free(data);
}

int main(void)
{
    const struct CMUnitTest against_stub[] = {
        cmocka_unit_test(what_is_written_is_read_under_any_name),
        cmocka_unit_test(ranges_end_at_the_end),
        cmocka_unit_test(a_session_signs_too),
        cmocka_unit_test(lists_are_sorted_and_paged),
        cmocka_unit_test(objects_that_are_folders_are_both),
        cmocka_unit_test(creation_is_exclusive_where_the_server_obeys),
        cmocka_unit_test(large_objects_go_in_parts_or_not_at_all),
        cmocka_unit_test(a_source_is_of_one_version),
        cmocka_unit_test(passing_failures_pass_and_others_end_in_time),
        cmocka_unit_test(a_place_can_be_cancelled),
        cmocka_unit_test(refusals_say_why_and_tell_no_secret),
        cmocka_unit_test(credentials_come_from_files_that_are_ones_own),
        cmocka_unit_test(a_bucket_can_be_a_host),
        cmocka_unit_test(bad_answers_end_well),
        cmocka_unit_test(failed_allocations_are_failures),
    };
    const struct CMUnitTest against_real[] = {
        cmocka_unit_test(a_real_server_keeps_what_it_gets),
        cmocka_unit_test(a_real_server_lists_in_pages),
        cmocka_unit_test(a_real_server_refuses_a_wrong_key),
        cmocka_unit_test(tls_is_verified),
        cmocka_unit_test(a_server_killed_in_the_middle_is_a_failure),
    };
    return cmocka_run_group_tests(against_stub, start_stub, stop_stub) +
           cmocka_run_group_tests(against_real, start_real, stop_real);
}
