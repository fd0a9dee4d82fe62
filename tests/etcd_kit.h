/**
 * A cluster of real etcd on loopback, which ends with the test.
 */
#ifndef GY_ETCD_KIT_H
#define GY_ETCD_KIT_H

#include "base/base.h"
#include "base/text.h"
#include "store/remote/http.h"

#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "gy_test.h"

enum { KIT_MEMBERS = 3, KIT_ARGUMENTS = 48 };

typedef struct kit_etcd {
    char folder[64];
    pid_t pids[KIT_MEMBERS];
    int ports[KIT_MEMBERS], peers[KIT_MEMBERS];
    int count;
    char *const *more; /* arguments of each member, NULL behind the last */
    bool is_tls;
    char authorities[128], certificate[128], key[128]; /* of the kit's own questions; "" */
    char token[1024];                                  /* as a header; "": none */
} kit_etcd;

/* Ports that nobody has just now. */
static inline void kit_find_ports(int *ports, int count)
{
    int files[2 * KIT_MEMBERS];
    for (int i = 0; i < count; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(at);
        files[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(files[i], (struct sockaddr *)&at, size), 0);
        assert_int_equal(getsockname(files[i], (struct sockaddr *)&at, &size), 0);
        ports[i] = ntohs(at.sin_port);
    }
    for (int i = 0; i < count; i++) {
        close(files[i]);
    }
}

static inline void kit_etcd_start_member(kit_etcd *etcd, int index)
{
    char texts[10][256];
    const char *scheme = etcd->is_tls ? "https" : "http";
    char all[512];
    size_t used = 0;
    for (int i = 0; i < etcd->count; i++) {
        used += gy_print(all + used, sizeof(all) - used, "%sm%d=http://127.0.0.1:%d",
                         i > 0 ? "," : "", i, etcd->peers[i]);
    }
    snprintf(texts[0], 256, "m%d", index);
    snprintf(texts[1], 256, "%s/m%d", etcd->folder, index);
    snprintf(texts[2], 256, "%s://127.0.0.1:%d", scheme, etcd->ports[index]);
    snprintf(texts[3], 256, "http://127.0.0.1:%d", etcd->peers[index]);
    char *words[KIT_ARGUMENTS] = {"etcd",   "--name",
                                  texts[0], "--data-dir",
                                  texts[1], "--listen-client-urls",
                                  texts[2], "--advertise-client-urls",
                                  texts[2], "--listen-peer-urls",
                                  texts[3], "--initial-advertise-peer-urls",
                                  texts[3], "--initial-cluster",
                                  all,      "--heartbeat-interval",
                                  "20",     "--election-timeout",
                                  "200",    "--logger",
                                  "zap",    "--log-level",
                                  "error"};
    size_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    for (size_t i = 0; etcd->more != NULL && etcd->more[i] != NULL; i++) {
        assert_true(count < KIT_ARGUMENTS - 1);
        words[count++] = etcd->more[i];
    }
    snprintf(texts[4], 256, "%s/log%d", etcd->folder, index);
    fflush(NULL);
    etcd->pids[index] = fork();
    assert_true(etcd->pids[index] >= 0);
    if (etcd->pids[index] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int log = open(texts[4], O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        unsetenv("LD_PRELOAD"); /* of a sanitizer's runtime */
        setenv("GOMAXPROCS", "2", 1);
        execvp("etcd", words);
        _exit(127);
    }
}

/* Until it serves its peers. One that asks others that listen and do not serve yet waits for a
 * second for each; those that do not listen yet it does not wait for. */
static inline void kit_etcd_await_peer(kit_etcd *etcd, int index)
{
    char url[64];
    static gy_http_answer told;
    gy_http *http = NULL;
    gy_status status = GY_AGAIN;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/members", etcd->peers[index]);
    assert_ok(gy_http_open(gy_env_real(), &http));
    const gy_deadline deadline = gy_deadline_after(10);
    while (status != GY_OK && gy_now_ns(gy_env_real()) < deadline.at_ns) {
        const gy_http_request request = {.method = "GET", .url = url, .silence_s = 1};
        status = gy_http_try(http, &request, gy_deadline_after(0.2), NULL, &told);
        (void)poll(NULL, 0, 2);
    }
    gy_http_close(http); /* one that has died is found later */
}

/** Ask a member; its status of HTTP, 0: no answer. `answer` (size) gets the words. */
static inline int kit_etcd_ask(kit_etcd *etcd, int index, const char *path, const char *body,
                               char *answer, size_t size)
{
    char url[128];
    snprintf(url, sizeof(url), "http%s://127.0.0.1:%d%s", etcd->is_tls ? "s" : "",
             etcd->ports[index], path);
    gy_http *http = NULL;
    assert_ok(gy_http_open(gy_env_real(), &http));
    static gy_http_answer told;
    const gy_http_request request = {
        .method = "POST",
        .url = url,
        .headers = {"Content-Type: application/json",
                    etcd->token[0] != '\0' ? etcd->token : NULL},
        .body = body,
        .body_bytes = strlen(body),
        .authorities = etcd->authorities[0] != '\0' ? etcd->authorities : NULL,
        .certificate = etcd->certificate[0] != '\0' ? etcd->certificate : NULL,
        .certificate_key = etcd->key[0] != '\0' ? etcd->key : NULL,
        .into = answer,
        .into_bytes = size - 1,
        .is_once = true,
        .silence_s = 5};
    told.body_bytes = 0;
    const gy_status status = gy_http_try(http, &request, gy_deadline_after(0.5), NULL, &told);
    gy_http_close(http);
    answer[status == GY_OK && told.status == 200 ? told.body_bytes : 0] = '\0';
    if (status == GY_OK && told.status != 200) {
        printf("etcd: %s: HTTP %d: %.*s\n", path, told.status, (int)told.error_bytes,
               told.error);
    }
    return status == GY_OK ? told.status : 0;
}

/* One has ended by itself: somebody else has a port of its. */
static inline bool kit_etcd_has_died(kit_etcd *etcd)
{
    bool has_died = false;
    for (int i = 0; i < etcd->count; i++) {
        if (etcd->pids[i] > 0 && waitpid(etcd->pids[i], NULL, WNOHANG) == etcd->pids[i]) {
            etcd->pids[i] = 0;
            has_died = true;
        }
    }
    return has_died;
}

/** The member that leads, as `through` sees it; waits until it sees one. -1: one has died. */
static inline int kit_etcd_leader(kit_etcd *etcd, int through)
{
    const gy_deadline deadline = gy_deadline_after(30);
    char ids[KIT_MEMBERS][64] = {""}, leader[64] = "";
    for (;;) {
        for (int i = 0; i < etcd->count; i++) {
            char answer[2048];
            const bool is_early =
                leader[0] == '\0' && i != through; /* it may answer nobody yet */
            if (etcd->pids[i] <= 0 || is_early ||
                kit_etcd_ask(etcd, i, "/v3/maintenance/status", "{}", answer, sizeof(answer)) !=
                    200) {
                continue;
            }
            json_t *told = json_loads(answer, 0, NULL);
            const char *id = json_string_value(
                json_object_get(json_object_get(told, "header"), "member_id"));
            snprintf(ids[i], sizeof(ids[i]), "%s", id != NULL ? id : "");
            const char *first = json_string_value(json_object_get(told, "leader"));
            if (i == through) {
                snprintf(leader, sizeof(leader), "%s", first != NULL ? first : "");
            }
            json_decref(told);
        }
        for (int i = 0; i < etcd->count; i++) {
            if (leader[0] != '\0' && strcmp(leader, ids[i]) == 0) {
                return i;
            }
        }
        if (kit_etcd_has_died(etcd)) {
            return -1;
        }
        if (gy_now_ns(gy_env_real()) >= deadline.at_ns) {
            char line[256], words[2048];
            snprintf(line, sizeof(line), "tail -n 5 %s/log*", etcd->folder);
            (void)gy_test_shell(line, words, sizeof(words));
            fail_msg("etcd finds no leader in 30 s: %s", words);
        }
        (void)poll(NULL, 0, 5);
    }
}

/** It is stopped when this returns; SIGCONT lets it go on. */
static inline void kit_etcd_freeze(kit_etcd *etcd, int index)
{
    kill(etcd->pids[index], SIGSTOP);
    assert_int_equal(waitpid(etcd->pids[index], NULL, WUNTRACED), etcd->pids[index]);
}

static inline void kit_etcd_kill(kit_etcd *etcd, int index)
{
    if (etcd->pids[index] > 0) {
        kill(etcd->pids[index], SIGKILL);
        assert_int_equal(waitpid(etcd->pids[index], NULL, 0), etcd->pids[index]);
        etcd->pids[index] = 0;
    }
}

/** Fill in more, is_tls and the kit's own certificates before; or all zero. */
static inline void kit_etcd_start(kit_etcd *etcd, int count)
{
    etcd->count = count;
    if (etcd->folder[0] == '\0') {
        snprintf(etcd->folder, sizeof(etcd->folder), "/tmp/gyre-etcd-XXXXXX");
        assert_non_null(mkdtemp(etcd->folder));
    }
    int leader = -1;
    for (int attempt = 0; leader < 0; attempt++) {
        assert_true(attempt < 5);
        int ports[2 * KIT_MEMBERS];
        kit_find_ports(ports, 2 * count);
        for (int i = 0; i < count; i++) {
            char path[128];
            snprintf(path, sizeof(path), "%s/m%d", etcd->folder, i);
            assert_int_equal(gy_disk_remove_tree(path), 0); /* of the attempt before */
            etcd->ports[i] = ports[i];
            etcd->peers[i] = ports[count + i];
        }
        for (int i = 0; i < count; i++) {
            kit_etcd_start_member(etcd, i);
            kit_etcd_await_peer(etcd, i);
        }
        leader = kit_etcd_leader(etcd, 0);
        for (int i = 0; i < count && leader < 0; i++) {
            kit_etcd_kill(etcd, i);
        }
    }
}

static inline void kit_etcd_stop(kit_etcd *etcd)
{
    for (int i = 0; i < etcd->count; i++) {
        kit_etcd_kill(etcd, i);
    }
    gy_http_drop_kept();
    assert_int_equal(gy_disk_remove_tree(etcd->folder), 0);
}

/**
 * Certificates in etcd->folder, which is made: of an authority, a server on 127.0.0.1, a client
 * without a common name, one with; and keys for tokens. The kit asks as the first client.
 */
static inline void kit_etcd_secure(kit_etcd *etcd)
{
    snprintf(etcd->folder, sizeof(etcd->folder), "/tmp/gyre-etcd-XXXXXX");
    assert_non_null(mkdtemp(etcd->folder));
    char line[2048], said[4096];
    snprintf(
        line, sizeof(line),
        "exec 2>&1; set -e; cd %s; new='openssl req -x509 -newkey ec -pkeyopt "
        "ec_paramgen_curve:prime256v1 -nodes -days 2'; by='-CA ca.pem -CAkey ca.key'; "
        "$new -keyout ca.key -out ca.pem -subj /CN=gyre-test; "
        "$new $by -keyout server.key -out server.pem -subj /O=server -addext "
        "subjectAltName=IP:127.0.0.1 -addext extendedKeyUsage=serverAuth,clientAuth; "
        "$new $by -keyout client.key -out client.pem -subj /O=client -addext "
        "extendedKeyUsage=clientAuth; "
        "$new $by -keyout named.key -out named.pem -subj /CN=gyre -addext "
        "extendedKeyUsage=clientAuth; "
        "openssl genrsa -out token.key 2048; openssl rsa -in token.key -pubout -out token.pub",
        etcd->folder);
    if (gy_test_shell(line, said, sizeof(said)) != 0) {
        fail_msg("no certificates: %s", said);
    }
    etcd->is_tls = true;
    snprintf(etcd->authorities, sizeof(etcd->authorities), "%s/ca.pem", etcd->folder);
    snprintf(etcd->certificate, sizeof(etcd->certificate), "%s/client.pem", etcd->folder);
    snprintf(etcd->key, sizeof(etcd->key), "%s/client.key", etcd->folder);
}

/** "etcd:http://127.0.0.1:A,127.0.0.1:B/PREFIX" */
static inline const char *kit_etcd_where(const kit_etcd *etcd, const char *prefix,
                                         char out[512])
{
    size_t used = gy_print(out, 512, "etcd:http%s://", etcd->is_tls ? "s" : "");
    for (int i = 0; i < etcd->count; i++) {
        used += gy_print(out + used, 512 - used, "%s127.0.0.1:%d", i > 0 ? "," : "",
                         etcd->ports[i]);
    }
    snprintf(out + used, 512 - used, "/%s", prefix);
    return out;
}

static inline void kit_etcd_manage(kit_etcd *etcd, const char *path, const char *body)
{
    static char told[4096];
    assert_int_equal(kit_etcd_ask(etcd, 0, path, body, told, sizeof(told)), 200);
}

/**
 * Three members with TLS, certificates of clients, and tokens that are good for `token_s`
 * seconds; `more` arguments of each, NULL at the end, or NULL. Nobody needs a login before
 * kit_etcd_add_users.
 */
static inline void kit_etcd_start_secured(kit_etcd *etcd, int token_s, char *const *more)
{
    static char files[3][160], tokens[400];
    static char *all[KIT_ARGUMENTS] = {"--cert-file",
                                       files[0],
                                       "--key-file",
                                       files[1],
                                       "--trusted-ca-file",
                                       files[2],
                                       "--client-cert-auth",
                                       "--auth-token",
                                       tokens,
                                       "--bcrypt-cost",
                                       "4"};
    size_t count = 11;
    kit_etcd_secure(etcd);
    snprintf(files[0], sizeof(files[0]), "%s/server.pem", etcd->folder);
    snprintf(files[1], sizeof(files[1]), "%s/server.key", etcd->folder);
    snprintf(files[2], sizeof(files[2]), "%s/ca.pem", etcd->folder);
    snprintf(tokens, sizeof(tokens),
             "jwt,pub-key=%s/token.pub,priv-key=%s/token.key,sign-method=RS256,ttl=%ds",
             etcd->folder, etcd->folder, token_s);
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) {
        assert_true(count < KIT_ARGUMENTS - 1);
        all[count++] = more[i];
    }
    etcd->more = all;
    kit_etcd_start(etcd, KIT_MEMBERS);
}

/** From now on nobody may do anything but root, whose password is r, and gyre, whose password
 * is se"cret, below t/. */
static inline void kit_etcd_add_users(kit_etcd *etcd)
{
    static const char *const asked[][2] = {
        {"user/add", "{\"name\":\"root\",\"password\":\"r\"}"},
        {"role/add", "{\"name\":\"root\"}"},
        {"user/grant", "{\"user\":\"root\",\"role\":\"root\"}"},
        {"user/add", "{\"name\":\"gyre\",\"password\":\"se\\\"cret\"}"},
        {"role/add", "{\"name\":\"names\"}"},
        {"role/grant", /* from t/ to t0 */
         "{\"name\":\"names\",\"perm\":{\"permType\":\"READWRITE\",\"key\":\"dC8=\","
         "\"range_end\":\"dDA=\"}}"},
        {"user/grant", "{\"user\":\"gyre\",\"role\":\"names\"}"},
        {"enable", "{}"}};
    for (size_t i = 0; i < GY_COUNT(asked); i++) {
        char path[64];
        snprintf(path, sizeof(path), "/v3/auth/%s", asked[i][0]);
        kit_etcd_manage(etcd, path, asked[i][1]);
    }
}

/** The kit asks as root from now on, as long as a token lasts. */
static inline void kit_etcd_log_in(kit_etcd *etcd)
{
    char answer[4096];
    etcd->token[0] = '\0';
    assert_int_equal(kit_etcd_ask(etcd, 0, "/v3/auth/authenticate",
                                  "{\"name\":\"root\",\"password\":\"r\"}", answer,
                                  sizeof(answer)),
                     200);
    json_t *told = json_loads(answer, 0, NULL);
    const char *token = json_string_value(json_object_get(told, "token"));
    assert_non_null(token);
    snprintf(etcd->token, sizeof(etcd->token), "Authorization: %s", token);
    json_decref(told);
}

#endif
