/*
 * Sends a request to etcd: first to the endpoint that answered last, then to the others in
 * turn. When etcd refuses a login's token, the request fetches a new one, a few times for each
 * endpoint.
 *
 * Source: etcd 3.4, "api_grpc_gateway" and "Auth design"; gRPC's status codes.
 */
#include "persist/table/etcd_priv.h"

#include <stdio.h>
#include <string.h>

static const double pause_first_s = 0.01;
/* A member takes up to 2 s to notice that its leader has stopped, and does not answer
 * meanwhile: the first tries are short. But a slow etcd needs longer tries. */
static const int64_t patience_ns_min = 250000000, patience_ns_max = 2000000000;
enum {
    SHORT_ROUNDS = 3,
    PATIENCE = 4, /* timeout as a multiple of the last answer's time */
    DOUBLINGS = 4,
    /* A token's lifetime is in whole seconds, so a new one may have expired, or its user has
     * just changed. */
    RENEWALS_MAX = 3,
};

typedef enum ask_verdict {
    VERDICT_GOOD,
    VERDICT_TOKEN, /* a new token may help */
    VERDICT_NEXT,  /* another endpoint may help; the request may have been applied */
    VERDICT_CLEAR, /* another endpoint may help; the request was not applied */
    VERDICT_HARD,  /* this endpoint will never accept it */
    VERDICT_FAIL,  /* no endpoint will accept it */
} ask_verdict;

typedef struct asking {
    gy_etcd_lane *lane;
    const gy_etcd_question *question;
    size_t round, tries, hard;
    int64_t took_ns;  /* of the last answer */
    int renewals;     /* tokens fetched at this endpoint */
    gy_status status; /* of VERDICT_HARD and VERDICT_FAIL */
    gy_http_answer http;
    char words[400]; /* error text of the last try */
} asking;

/* "HOST:PORT: words" */
static void store_error_text(asking *state, const char *words)
{
    const char *url = strstr(state->lane->etcd->where.urls[state->lane->endpoint], "//") + 2;
    snprintf(state->words, sizeof(state->words), "%.80s: %.300s", url, words);
}

/* Error messages that have been the same since etcd 3.0; any other error is judged by its
 * status code. */
static const struct {
    const char *words;
    ask_verdict verdict;
    gy_status status;
} refusals[] = {
    {"invalid auth token", VERDICT_TOKEN, GY_STATE},
    {"user name is empty", VERDICT_TOKEN, GY_STATE},
    {"revision of auth store is old", VERDICT_TOKEN, GY_STATE},
    {"revision in header is old", VERDICT_TOKEN, GY_STATE},
    {"authentication failed", VERDICT_FAIL, GY_STATE},
    {"permission denied", VERDICT_FAIL, GY_STATE},
    {"database space exceeded", VERDICT_FAIL, GY_LIMIT},
    {"request is too large", VERDICT_FAIL, GY_LIMIT},
    {"too many operations", VERDICT_FAIL, GY_LIMIT},
    {"requested lease not found", VERDICT_FAIL, GY_NOTFOUND},
    {"required revision has been compacted", VERDICT_FAIL, GY_MISMATCH},
    {"too many requests", VERDICT_CLEAR, GY_AGAIN},
};

static ask_verdict judge_refusal(asking *state)
{
    gy_http_answer *http = &state->http;
    http->error[http->error_bytes] = '\0';
    json_t *document = json_loadb(http->error, http->error_bytes, 0, NULL);
    const char *said = json_string_value(json_object_get(document, "error"));
    char words[300];
    snprintf(words, sizeof(words), "HTTP %d: %.250s", http->status,
             said != NULL ? said : http->error);
    words[strcspn(words, "\r\n")] = '\0';
    json_decref(document);
    store_error_text(state, words);
    for (size_t i = 0; i < GY_COUNT(refusals); i++) {
        if (strstr(words, refusals[i].words) != NULL) {
            state->status = refusals[i].status;
            return refusals[i].verdict;
        }
    }
    if (http->status >= 500 || http->status == 408 || http->status == 429) {
        return VERDICT_NEXT; /* no leader, a lost leader, or a timeout */
    }
    state->status = GY_IO;
    return VERDICT_HARD;
}

static gy_deadline try_deadline(const asking *state)
{
    const gy_persist_table *table = state->lane->table;
    const size_t longer = state->round < SHORT_ROUNDS ? 0 : state->round - SHORT_ROUNDS + 1;
    const int64_t patience_ns =
        __atomic_load_n(&state->lane->etcd->patience_ns, __ATOMIC_RELAXED);
    const gy_deadline until = {gy_now_ns(table->env) + (GY_MAX(patience_ns, patience_ns_min)
                                                        << GY_MIN(longer, (size_t)DOUBLINGS))};
    return until.at_ns < state->question->deadline.at_ns ? until : state->question->deadline;
}

/* One try at the lane's endpoint. */
static ask_verdict ask_here(asking *state, const char *path, const char *body, json_t **answer)
{
    gy_etcd_lane *lane = state->lane;
    const gy_etcd *etcd = lane->etcd;
    char url[GY_ETCD_URL_BYTES + 64];
    snprintf(url, sizeof(url), "%s%s", etcd->where.urls[lane->endpoint], path);
    const gy_http_request request = {
        .method = "POST",
        .url = url,
        /* a member without a leader then answers with an error at once */
        .headers = {"Content-Type: application/json", "Grpc-Metadata-hasleader: true",
                    lane->token[0] != '\0' && !lane->needs_token ? lane->token : NULL},
        .body = body,
        .body_bytes = strlen(body),
        .authorities = etcd->authorities,
        .certificate = etcd->certificate,
        .certificate_key = etcd->certificate_key,
        .into = lane->into,
        .into_bytes = GY_ETCD_ANSWER_BYTES,
        .is_once = state->question->is_fresh,
        .silence_s = 1e6, /* the try's own deadline is nearer */
    };
    const bool *is_cancelled = state->question->is_last ? NULL : &lane->table->is_closing;
    state->tries++;
    state->http.body_bytes = 0;
    const int64_t began_ns = gy_now_ns(lane->table->env);
    const gy_status status =
        gy_http_try(lane->http, &request, try_deadline(state), is_cancelled, &state->http);
    state->took_ns = gy_now_ns(lane->table->env) - began_ns;
    if (status == GY_AGAIN) {
        store_error_text(state, state->http.error);
        return VERDICT_NEXT; /* even if unreachable: libcurl may have sent it on a reused
                                connection first */
    }
    if (status < 0) {
        store_error_text(state, gy_error_text());
        state->status = status;
        return status == GY_IO || status == GY_FORMAT ? VERDICT_HARD : VERDICT_FAIL;
    }
    if (state->http.status != 200) {
        return judge_refusal(state);
    }
    *answer = json_loadb(lane->into, state->http.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(*answer)) {
        json_decref(*answer);
        *answer = NULL;
        store_error_text(state, "the answer is no JSON object");
        state->status = GY_FORMAT;
        return VERDICT_HARD;
    }
    return VERDICT_GOOD;
}

/* ---- logins ---- */

static void add_quoted(gy_text *text, const char *words)
{
    json_t *item = json_string(words); /* NULL: not UTF-8; etcd refuses the empty text */
    char *quoted = item != NULL ? json_dumps(item, JSON_ENCODE_ANY) : NULL;
    gy_text_add(text, "%s", quoted != NULL ? quoted : "\"\"");
    if (quoted != NULL) {
        explicit_bzero(quoted, strlen(quoted));
        json_free_t release = NULL;
        json_get_alloc_funcs(NULL, &release);
        release(quoted);
    }
    json_decref(item);
}

static ask_verdict log_in(asking *state)
{
    gy_etcd_lane *lane = state->lane;
    gy_text body = {0};
    gy_text_add(&body, "{\"name\":");
    add_quoted(&body, lane->etcd->user);
    gy_text_add(&body, ",\"password\":");
    add_quoted(&body, lane->etcd->password);
    gy_text_add(&body, "}");
    json_t *answer = NULL;
    ask_verdict verdict = ask_here(state, "/v3/auth/authenticate", gy_text_get(&body), &answer);
    explicit_bzero(body.data, body.capacity);
    gy_text_free(&body);
    if (verdict == VERDICT_HARD && strstr(state->words, "authentication is not enabled")) {
        lane->needs_token = false; /* as etcd's own clients do */
        return VERDICT_GOOD;
    }
    if (verdict != VERDICT_GOOD) {
        return verdict;
    }
    const char *token = json_string_value(json_object_get(answer, "token"));
    if (token == NULL || strlen(token) >= GY_ETCD_TOKEN_BYTES ||
        strpbrk(token, "\r\n") != NULL) {
        store_error_text(state, "a login without a token");
        state->status = GY_FORMAT;
        verdict = VERDICT_HARD;
    } else {
        snprintf(lane->token, sizeof(lane->token), "Authorization: %s", token);
        lane->needs_token = false;
    }
    json_decref(answer);
    return verdict;
}

/* ---- tries ---- */

static gy_status fail_asking(asking *state, gy_status status)
{
    return gy_fail(status, "etcd at %s", state->words);
}

/* Go to the next endpoint; pause after a round over all of them. GY_OK: try again. */
static gy_status move_on(asking *state)
{
    gy_etcd_lane *lane = state->lane;
    gy_persist_table *table = lane->table;
    const size_t count = lane->etcd->where.count;
    size_t silent = lane->endpoint;
    lane->endpoint = (lane->endpoint + 1) % count;
    (void)__atomic_compare_exchange_n(&lane->etcd->first, &silent, lane->endpoint, false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    state->renewals = 0;
    double pause = 0;
    if (state->tries % count == 0) {
        const uint64_t drawn = table->env->ops->random(table->env, GY_CHANCE_NETWORK);
        pause = pause_first_s * (double)(1 << GY_MIN(state->round, (size_t)DOUBLINGS)) *
                (0.5 + gy_random_part(drawn));
        state->round++;
    }
    const gy_deadline until = gy_env_deadline(table->env, pause);
    if (until.at_ns >= state->question->deadline.at_ns) {
        /* A member that cannot be spoken to is said to be one, although others were slow. */
        const bool is_broken = state->hard > 0 && state->status == GY_IO;
        return gy_fail(is_broken ? GY_IO : GY_TIMEOUT,
                       "etcd gave no answer in %zu tries, at last %s", state->tries,
                       state->words);
    }
    if (pause > 0 && !state->question->is_last && !gy_persist_table_pause(table, until)) {
        return gy_fail(GY_CANCELLED, "the table is being closed");
    }
    return GY_OK;
}

/* Handle the verdict of a try; GY_AGAIN: try again. */
static gy_status follow(asking *state, ask_verdict verdict, bool is_login)
{
    gy_etcd_lane *lane = state->lane;
    switch (verdict) {
    case VERDICT_GOOD:
        return is_login ? GY_AGAIN : GY_OK;
    case VERDICT_TOKEN:
        if (lane->etcd->user == NULL || state->renewals >= RENEWALS_MAX || is_login) {
            return fail_asking(state, state->status);
        }
        lane->needs_token = true;
        state->renewals++;
        return GY_AGAIN;
    case VERDICT_HARD:
        if (++state->hard >= lane->etcd->where.count) {
            return fail_asking(state, state->status);
        }
        break;
    case VERDICT_FAIL:
        return fail_asking(state, state->status);
    case VERDICT_NEXT:
    case VERDICT_CLEAR:
        state->hard = 0;
        break;
    }
    gy_debug("etcd at %s: try %zu failed", state->words, state->tries);
    const gy_status status = move_on(state);
    return status < 0 ? status : GY_AGAIN;
}

/* Remember for later requests of all lanes which endpoint answered, and how fast. */
static void learn(const asking *state, gy_status status)
{
    gy_etcd *etcd = state->lane->etcd;
    int64_t patience_ns = __atomic_load_n(&etcd->patience_ns, __ATOMIC_RELAXED);
    if (status == GY_OK) {
        __atomic_store_n(&etcd->first, state->lane->endpoint, __ATOMIC_RELAXED);
        patience_ns = state->took_ns * PATIENCE;
    } else if (status == GY_TIMEOUT) {
        patience_ns = GY_MAX(patience_ns, patience_ns_min) * 2;
    }
    __atomic_store_n(&etcd->patience_ns, GY_MIN(patience_ns, patience_ns_max),
                     __ATOMIC_RELAXED);
}

gy_status gy_etcd_ask(gy_etcd_lane *lane, const gy_etcd_question *question, json_t **answer)
{
    asking *state = gy_alloc_zero("persist.table", 1, sizeof(*state));
    if (state == NULL) {
        return GY_NOMEM;
    }
    state->lane = lane;
    state->question = question;
    lane->endpoint = __atomic_load_n(&lane->etcd->first, __ATOMIC_RELAXED);
    gy_status status = GY_AGAIN;
    bool is_unsure = false;
    *answer = NULL;
    while (status == GY_AGAIN && !is_unsure) {
        const bool is_login = lane->needs_token && lane->etcd->user != NULL;
        const ask_verdict verdict =
            is_login ? log_in(state) : ask_here(state, question->path, question->body, answer);
        status = follow(state, verdict, is_login);
        is_unsure = question->is_once && !is_login && verdict == VERDICT_NEXT;
    }
    learn(state, status);
    if (is_unsure && status == GY_TIMEOUT) {
        status = GY_AGAIN; /* the caller must find out whether it was applied */
    }
    gy_free(state);
    return status;
}

gy_status gy_etcd_lane_open(gy_persist_table *table, gy_etcd_lane *lane)
{
    lane->table = table;
    lane->etcd = table->place;
    lane->needs_token = lane->etcd->user != NULL;
    lane->into = gy_alloc("persist.table", GY_ETCD_ANSWER_BYTES);
    return lane->into != NULL ? gy_http_open(table->env, &lane->http) : GY_NOMEM;
}

void gy_etcd_lane_close(gy_etcd_lane *lane)
{
    gy_http_close(lane->http);
    explicit_bzero(lane->token, sizeof(lane->token));
    gy_free(lane->into);
}
