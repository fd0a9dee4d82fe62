/**
 * What tests of remote storage share: servers on loopback that end with the test, and a folder.
 */
#ifndef GY_STORE_KIT_H
#define GY_STORE_KIT_H

#include "base/base.h"
#include "store/remote/remote_priv.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

typedef struct kit_server {
    pid_t pid;
    int input, output; /* the server ends when its input does, or when the test dies */
    int port;
} kit_server;

/** Start a server and wait until it says `mark` with its port behind it. */
static inline void kit_start(kit_server *server, const char *const *arguments, const char *mark)
{
    int in[2], out[2];
    char *words[16] = {NULL};
    for (int i = 0; arguments[i] != NULL; i++) {
        words[i] = gy_copy_text("test", arguments[i]);
    }
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        unsetenv("LD_PRELOAD"); /* of a sanitizer's runtime */
        execvp(words[0], words);
        _exit(127);
    }
    for (int i = 0; words[i] != NULL; i++) {
        gy_free(words[i]);
    }
    close(in[0]);
    close(out[1]);
    server->input = in[1];
    server->output = out[0];
    char said[4096];
    size_t used = 0;
    const gy_deadline deadline = gy_deadline_after(60);
    for (;;) {
        struct pollfd wait = {.fd = server->output, .events = POLLIN};
        assert_true(gy_now_ns(gy_env_real()) < deadline.at_ns && poll(&wait, 1, 60000) == 1);
        const ssize_t more = read(server->output, said + used, sizeof(said) - 1 - used);
        assert_true(more > 0);
        used += (size_t)more;
        said[used] = '\0';
        const char *at = strstr(said, mark);
        if (at != NULL && strchr(at, '\n') != NULL) {
            server->port = (int)strtol(at + strlen(mark), NULL, 10);
            return;
        }
    }
}

static inline void kit_stop(kit_server *server)
{
    if (server->pid > 0) {
        close(server->input);
        close(server->output);
        kill(server->pid, SIGKILL);
        assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
        server->pid = 0;
    }
}

/** One of the programs of tests/servers. */
static inline void kit_start_stub(kit_server *server, const char *name)
{
    char path[1024];
    const char *servers = getenv("GYRE_TEST_SERVERS");
    snprintf(path, sizeof(path), "%s/%s", servers != NULL ? servers : "tests/servers", name);
    kit_start(server, (const char *const[]){"python3", "-B", path, NULL}, "port ");
}

/** Settings as on a machine where nothing is set, and none of the user's files. */
static inline void kit_clear_settings(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_PROFILE",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_CA_BUNDLE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "GYRE_S3_ENDPOINT",
                                        "GYRE_S3_STYLE",
                                        "GYRE_CA_FILE",
                                        "GYRE_STORE_TIMEOUT",
                                        "HADOOP_USER_NAME",
                                        "http_proxy",
                                        "HTTP_PROXY",
                                        "https_proxy",
                                        "HTTPS_PROXY",
                                        "ALL_PROXY",
                                        "all_proxy"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
    setenv("HOME", "/nonexistent", 1);
}

static inline gy_place *kit_place_for(double patience_s, const char *uri)
{
    gy_place *place = NULL;
    const gy_place_options options = {.patience_s = patience_s};
    assert_ok(gy_place_open(gy_env_real(), uri, &options, &place));
    return place;
}

static inline gy_place *kit_place(const char *uri)
{
    return kit_place_for(20, uri);
}

static inline gy_status kit_put(const char *uri, gy_place_mode mode, const void *data,
                                size_t size)
{
    gy_place *place = kit_place(uri);
    const gy_status status = gy_place_write(place, mode, data, size);
    gy_place_close(place);
    return status;
}

/** What is there has these bytes. */
static inline void kit_check(const char *uri, const void *data, size_t size)
{
    gy_place *place = kit_place(uri);
    char *got_data = gy_alloc("test", size + 1);
    size_t got = 0;
    assert_ok(gy_place_read(place, NULL, 0, got_data, size + 1, &got));
    assert_int_equal(got, size);
    assert_memory_equal(got_data, data, size);
    gy_free(got_data);
    gy_place_close(place);
}

/** Bytes that no compression makes small, the same for a seed. */
static inline char *kit_bytes(uint64_t seed, size_t size)
{
    char *data = gy_alloc("test", size + 8);
    gy_random random = {.key = seed};
    for (size_t at = 0; at < size; at += 8) {
        const uint64_t word = gy_random_u64(&random);
        memcpy(data + at, &word, 8);
    }
    return data;
}

/** Names of a list, each with a space behind it; folders with their slash. */
typedef struct kit_names {
    gy_text text;
    size_t count;
} kit_names;

static inline gy_status kit_note(void *arg, const gy_place_entry *entry)
{
    kit_names *names = arg;
    gy_text_add(&names->text, "%s ", entry->name);
    names->count++;
    return GY_OK;
}

static inline void kit_check_list(const char *uri, const char *expected)
{
    kit_names names = {.count = 0};
    gy_place *place = kit_place(uri);
    assert_ok(gy_place_list(place, kit_note, &names));
    assert_string_equal(gy_text_get(&names.text), expected);
    gy_text_free(&names.text);
    gy_place_close(place);
}

/** What a server counted, as GET /counts tells it. */
static inline long kit_count(const kit_server *server, const char *what)
{
    char url[128], body[8192], key[160];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/counts", server->port);
    gy_http *http = NULL;
    assert_ok(gy_http_open(gy_env_real(), &http));
    gy_http_request request = {.method = "GET",
                               .url = url,
                               .into = body,
                               .into_bytes = sizeof(body) - 1,
                               .silence_s = 20};
    static gy_http_answer answer;
    answer.body_bytes = 0;
    assert_ok(gy_http_try(http, &request, gy_deadline_after(20), NULL, &answer));
    gy_http_close(http);
    body[answer.body_bytes] = '\0';
    snprintf(key, sizeof(key), "\"%s\": ", what);
    const char *found = strstr(body, key);
    return found != NULL ? strtol(found + strlen(key), NULL, 10) : 0;
}

/** What is at `uri`, read as a source, has these bytes. */
static inline void kit_check_source(const char *uri, const char *data, size_t size)
{
    gy_source *source = NULL;
    assert_ok(gy_source_open_uri(gy_env_real(), uri, GY_ENCODING_AUTO, NULL, &source));
    static char piece[70001]; /* the pieces end within ranges and buffers */
    size_t at = 0, got = 1;
    while (got > 0) {
        assert_ok(gy_source_read(source, piece, sizeof(piece), &got));
        assert_true(at + got <= size);
        assert_memory_equal(piece, data + at, got);
        at += got;
    }
    assert_int_equal(at, size);
    gy_source_close(source);
}

/** The names below a folder are noted; what it came to, of memory too. */
static inline gy_status kit_list(const char *uri)
{
    gy_place *place = NULL;
    GY_TRY(gy_place_open(gy_env_real(), uri, NULL, &place));
    kit_names names = {.count = 0};
    gy_status status = gy_place_list(place, kit_note, &names);
    status = status < 0 ? status : names.text.status;
    gy_text_free(&names.text);
    gy_place_close(place);
    return status;
}

/** `work` fails whenever one of its allocations does, and leaves none; it has more than
 * `least`. */
static inline void kit_check_memory(gy_status (*work)(void), int least)
{
    assert_ok(work());
    gy_http_drop_kept();
    const int64_t live = gy_alloc_live();
    gy_status status = GY_NOMEM;
    int n = 0;
    while (status != GY_OK) {
        gy_alloc_fail_after(++n);
        status = work();
        gy_alloc_fail_after(0);
        if (status != GY_OK) {
            assert_status(status, GY_NOMEM);
        }
        gy_http_drop_kept();
        assert_int_equal(gy_alloc_live(), live);
        assert_true(n < 1000);
    }
    assert_true(n > least);
    printf("%d allocations failed\n", n - 1);
}

static inline void assert_says(const char *part)
{
    if (strstr(gy_error_text(), part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", gy_error_text(), part);
    }
}

#endif
