/*
 * Repeats a request until it has an answer, with pauses that double and have a random part, so
 * that many clients do not return at once.
 *
 * Source: Brooker, "Exponential backoff and jitter", AWS Architecture Blog, 2015; RFC 9110
 * (Retry-After).
 */
#include "store/remote/remote_priv.h"

#include <string.h>

enum { UNREACHABLE_TRIES = 4, FRUITLESS_MOST = 32 };
static const double pause_first_s = 0.1, pause_most_s = 5, silence_least_s = 0.25;

double gy_store_retry_pause_s(int index, double chance)
{
    double pause = pause_first_s;
    for (int i = 1; i < index && pause < pause_most_s; i++) {
        pause *= 2;
    }
    pause = GY_MIN(pause, pause_most_s);
    return pause * (1 - chance / 2);
}

static bool is_passing(int status)
{
    return status == 408 || status == 429 ||
           (status >= 500 && status != 501 && status != 505 && status != 507);
}

/* Sleep, or wake early when cancelled. False: the deadline would pass. */
static bool wait_s(gy_place *place, double seconds, gy_deadline deadline)
{
    const gy_deadline until = gy_env_deadline(place->env, seconds);
    if (until.at_ns >= deadline.at_ns) {
        return false;
    }
    gy_mutex_lock(&place->lock);
    while (!place->is_cancelled && gy_now_ns(place->env) < until.at_ns) {
        /* only the end of the wait matters */
        (void)gy_cond_wait(&place->wakes, &place->lock, until);
    }
    gy_mutex_unlock(&place->lock);
    return true;
}

static gy_status fail_tried(const gy_place *place, const gy_http_answer *answer, int tries)
{
    const char *last = answer->status == 0 ? answer->error : "the server fails";
    if (answer->is_unreachable) {
        return gy_fail(GY_IO, "%s: %s (%d tries)", place->uri.text, last, tries);
    }
    return gy_fail(GY_TIMEOUT, "%s: no answer in %.3g s and %d tries, at last: %s",
                   place->uri.text, place->patience_s, tries, last);
}

/* State of a request and its tries. */
typedef struct asking {
    gy_place *place;
    gy_http_request *request;
    gy_http_answer *answer;
    gy_deadline deadline;
    int tries, fruitless; /* all tries; tries since the last one that brought bytes */
    size_t kept_bytes;    /* bytes of a range from earlier tries */
    char version[GY_VERSION_BYTES];
} asking;

/* Prepare the next try; false: there is none. */
static bool prepare_next(asking *state)
{
    gy_http_request *request = state->request;
    gy_http_answer *answer = state->answer;
    if (!request->is_range) {
        answer->body_bytes = 0;
    } else if (request->version == NULL && answer->body_bytes > 0 && answer->etag[0] != '\0') {
        memcpy(state->version, answer->etag,
               GY_VERSION_BYTES); /* the bytes received so far are of this version */
        request->version = state->version;
    }
    state->fruitless = answer->body_bytes > state->kept_bytes ? 1 : state->fruitless + 1;
    state->kept_bytes = answer->body_bytes;
    if (request->is_once || state->fruitless > FRUITLESS_MOST ||
        (answer->is_unreachable && state->fruitless >= UNREACHABLE_TRIES)) {
        return false;
    }
    gy_place *place = state->place;
    const uint64_t drawn = place->env->ops->random(place->env, GY_CHANCE_NETWORK);
    const double pause = gy_store_retry_pause_s(state->fruitless, gy_random_part(drawn));
    gy_debug("%s: try %d: %s: the next in %.3g s", place->uri.text, state->tries,
             answer->status == 0 ? answer->error : "a transient failure", pause);
    return wait_s(place, GY_MAX(pause, answer->retry_after_s), state->deadline);
}

static gy_status open_http(gy_place *place)
{
    if (place->http == NULL) {
        gy_http *http = NULL;
        GY_TRY(gy_http_open(place->env, &http));
        gy_mutex_lock(&place->lock);
        place->http = http; /* gy_place_cancel reads it */
        gy_mutex_unlock(&place->lock);
    }
    return GY_OK;
}

gy_status gy_place_ask(gy_place *place, gy_http_request *request, gy_http_answer *answer,
                       int *tries)
{
    asking state = {.place = place,
                    .request = request,
                    .answer = answer,
                    .deadline = gy_env_deadline(place->env, place->patience_s)};
    const char *wanted = request->version;
    GY_TRY(open_http(place));
    request->authorities = place->authorities;
    request->silence_s = GY_MAX(place->patience_s / 4, silence_least_s);
    answer->body_bytes = 0;
    gy_status status = GY_OK;
    do {
        status =
            gy_http_try(place->http, request, state.deadline, &place->is_cancelled, answer);
        state.tries++;
    } while ((status == GY_AGAIN || (status == GY_OK && is_passing(answer->status))) &&
             prepare_next(&state));
    request->version = wanted;
    if (tries != NULL) {
        *tries = state.tries;
    }
    if (status == GY_AGAIN) {
        return fail_tried(place, answer, state.tries);
    }
    return status < 0 ? gy_fail_within(status, "%s", place->uri.text) : GY_OK;
}

gy_status gy_place_page(gy_place *place, gy_http_request *request)
{
    if (place->answer == NULL) {
        place->answer = gy_alloc("store.page", GY_PAGE_BYTES);
    }
    request->into = place->answer;
    request->into_bytes = GY_PAGE_BYTES;
    return place->answer != NULL ? GY_OK : GY_NOMEM;
}
