/* Requests: nonblocking calls, which can be started once or again and again. */
#include "coll/coll_priv.h"

struct gy_request {
    gy_comm *comm;
    gy_request *next; /* spare */
    gy_coll_kind kind;
    gy_coll_call call;
    gy_message message;
    gy_wait_note note;
    bool is_dropped; /* freed while under way; of the root's lock */
    bool is_started; /* started, and its result has not been taken */
};

static void drop(gy_request *request) GY_REQUIRES(request->comm->root->lock)
{
    gy_comm *root = request->comm->root;
    GY_ASSERT(root != NULL && root->root == root);
    request->next = root->spare_requests;
    root->spare_requests = request;
}

void gy_requests_free(gy_comm *root)
{
    GY_ASSERT(root->root == root);
    while (root->spare_requests != NULL) {
        gy_request *request = root->spare_requests;
        root->spare_requests = request->next;
        gy_free(request);
    }
}

static gy_status make(gy_comm *comm, gy_coll_kind kind, gy_request **request)
{
    GY_ASSERT(kind == GY_COLL_COLLECTIVE || kind == GY_COLL_SEND || kind == GY_COLL_RECV);
    GY_ASSERT(request != NULL);
    gy_comm *root = comm->root;
    gy_mutex_lock(&root->lock);
    gy_request *made = root->spare_requests;
    if (made != NULL) {
        root->spare_requests = made->next;
    }
    gy_mutex_unlock(&root->lock);
    if (made == NULL) {
        made = gy_alloc_zero("coll.request", 1, sizeof(*made));
    }
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->comm = comm;
    made->kind = kind;
    made->is_started = false;
    made->is_dropped = false;
    *request = made;
    return GY_OK;
}

gy_status gy_request_init(gy_comm *comm, const gy_coll_call *call, gy_request **request)
{
    GY_COMM_EXPECT(comm);
    GY_TRY(gy_call_check(comm, call));
    GY_TRY(gy_comm_check_buffers(comm, call));
    GY_TRY(make(comm, GY_COLL_COLLECTIVE, request));
    GY_ASSERT((*request)->kind == GY_COLL_COLLECTIVE && !(*request)->is_started);
    (*request)->call = *call;
    return GY_OK;
}

static gy_status init_message(gy_comm *comm, gy_coll_kind kind, const gy_message *message,
                              gy_request **request)
{
    GY_ASSERT(kind == GY_COLL_SEND || kind == GY_COLL_RECV);
    GY_TRY(gy_message_check(comm, kind, message));
    GY_TRY(make(comm, kind, request));
    (*request)->message = *message;
    return GY_OK;
}

gy_status gy_request_init_send(gy_comm *comm, const gy_message *message, gy_request **request)
{
    GY_COMM_EXPECT(comm);
    return init_message(comm, GY_COLL_SEND, message, request);
}

gy_status gy_request_init_recv(gy_comm *comm, const gy_message *message, gy_request **request)
{
    GY_COMM_EXPECT(comm);
    return init_message(comm, GY_COLL_RECV, message, request);
}

static void request_end(void *arg, gy_status status)
{
    gy_request *request = arg;
    gy_comm *root = request->comm->root;
    GY_ASSERT(status <= GY_OK);
    gy_mutex_lock(&root->lock);
    if (request->is_dropped) {
        drop(request);
    } else {
        gy_note_end(&request->note, status);
    }
    gy_mutex_unlock(&root->lock);
}

static bool is_over(const gy_request *request)
{
    /* acquire: with the release in gy_note_end */
    return atomic_load_explicit(&request->note.is_over, memory_order_acquire);
}

static gy_status start_message(gy_request *request) GY_REQUIRES(request->comm->root->lock)
{
    gy_comm *comm = request->comm;
    GY_ASSERT(request->kind == GY_COLL_SEND || request->kind == GY_COLL_RECV);
    GY_ASSERT(request->is_started);
    if (comm->root->is_failed) {
        return gy_error_raise(&comm->root->failure);
    }
    gy_coll *coll = gy_coll_take_unnumbered(comm);
    if (coll == NULL) {
        return GY_NOMEM;
    }
    coll->kind = request->kind;
    coll->message = request->message;
    coll->end = request_end;
    coll->arg = request;
    gy_status status = gy_message_launch(coll);
    if (status < 0) {
        gy_comm_fail(comm, status);
    }
    return GY_OK;
}

gy_status gy_request_start(gy_request *request)
{
    GY_ASSERT(request != NULL && !request->is_dropped);
    gy_comm *comm = request->comm;
    if (request->is_started) {
        return gy_fail(GY_STATE, "a request is started that has not been waited for");
    }
    request->is_started = true;
    atomic_store_explicit(&request->note.is_over, false,
                          memory_order_relaxed); /* no thread reads it before the start */
    gy_status status = GY_OK;
    if (request->kind == GY_COLL_COLLECTIVE) {
        status = gy_coll_begin(comm, &request->call, request_end, request);
    } else {
        gy_mutex_lock(&comm->root->lock);
        status = start_message(request);
        gy_comm_call_ends(comm);
        gy_mutex_unlock(&comm->root->lock);
    }
    request->is_started = status >= 0;
    return status;
}

static gy_status start_or_free(gy_request *made, gy_request **request)
{
    GY_ASSERT(made != NULL && !made->is_started);
    gy_status status = gy_request_start(made);
    if (status < 0) {
        gy_request_free(made);
        return status;
    }
    *request = made;
    return GY_OK;
}

gy_status gy_request_begin(gy_comm *comm, const gy_coll_call *call, gy_request **request)
{
    GY_COMM_EXPECT(comm);
    gy_request *made = NULL;
    GY_TRY(gy_request_init(comm, call, &made));
    return start_or_free(made, request);
}

gy_status gy_request_begin_send(gy_comm *comm, const gy_message *message, gy_request **request)
{
    GY_COMM_EXPECT(comm);
    gy_request *made = NULL;
    GY_TRY(gy_request_init_send(comm, message, &made));
    return start_or_free(made, request);
}

gy_status gy_request_begin_recv(gy_comm *comm, const gy_message *message, gy_request **request)
{
    GY_COMM_EXPECT(comm);
    gy_request *made = NULL;
    GY_TRY(gy_request_init_recv(comm, message, &made));
    return start_or_free(made, request);
}

/* Takes the status of a call that has ended; the request can then be started again. */
static gy_status take_end(gy_request *request)
{
    GY_ASSERT(request->is_started && is_over(request));
    request->is_started = false;
    const gy_error *error = &request->note.error;
    GY_ASSERT(error->status <= GY_OK);
    return error->status != GY_OK ? gy_error_raise(error) : GY_OK;
}

gy_status gy_request_test(gy_request *request)
{
    GY_ASSERT(request != NULL && !request->is_dropped);
    if (!request->is_started) {
        return GY_OK;
    }
    if (!is_over(request)) {
        (void)gy_comm_progress(request->comm);
    }
    return is_over(request) ? take_end(request) : GY_AGAIN;
}

/* Makes progress, or waits a little where nothing moves. GY_TIMEOUT; any other failure ends all
 * calls in flight. */
static gy_status drive_once(gy_comm *comm, gy_wait *wait)
{
    gy_status status = GY_OK;
    GY_ASSERT(wait->transport != NULL);
    gy_mutex_lock(&comm->root->lock);
    if (gy_progress_all(comm)) {
        gy_wait_again(wait);
    } else {
        status = gy_wait_round(wait);
        if (status < 0 && status != GY_TIMEOUT) {
            gy_comm_fail(comm, status);
            status = GY_OK;
        }
    }
    gy_comm_call_ends(comm);
    gy_mutex_unlock(&comm->root->lock);
    return status;
}

gy_status gy_request_wait(gy_request *request, gy_deadline deadline)
{
    GY_ASSERT(request != NULL && !request->is_dropped);
    gy_comm *comm = request->comm;
    gy_wait wait = gy_wait_start(comm->transport, -1, "a request", deadline);
    while (request->is_started && !is_over(request)) {
        GY_TRY(drive_once(comm, &wait));
    }
    return request->is_started ? take_end(request) : GY_OK;
}

gy_status gy_request_wait_all(gy_request *const *requests, size_t count, gy_deadline deadline)
{
    GY_ASSERT(requests != NULL || count == 0);
    gy_error first = {.status = GY_OK};
    for (size_t i = 0; i < count; i++) {
        gy_status status = requests[i] != NULL ? gy_request_wait(requests[i], deadline) : GY_OK;
        if (status < 0 && first.status == GY_OK) {
            gy_error_take(&first, status);
        }
    }
    return first.status != GY_OK ? gy_error_raise(&first) : GY_OK;
}

/* Waits until a started request has ended. GY_ARG: no request is started. */
static gy_status await_first(gy_request *const *requests, size_t count, gy_deadline deadline,
                             size_t *index)
{
    GY_ASSERT(index != NULL && (requests != NULL || count == 0));
    gy_wait wait = {.transport = NULL};
    for (;;) {
        gy_comm *comm = NULL;
        for (size_t i = 0; i < count; i++) {
            if (requests[i] == NULL || !requests[i]->is_started) {
                continue;
            }
            if (is_over(requests[i])) {
                *index = i;
                return GY_OK;
            }
            comm = requests[i]->comm;
        }
        if (comm == NULL) {
            return gy_fail(GY_ARG, "none of %zu requests is started", count);
        }
        if (wait.transport == NULL) {
            wait = gy_wait_start(comm->transport, -1, "any of some requests", deadline);
        }
        GY_TRY(drive_once(comm, &wait));
    }
}

gy_status gy_request_wait_any(gy_request *const *requests, size_t count, gy_deadline deadline,
                              size_t *index)
{
    GY_TRY(await_first(requests, count, deadline, index));
    GY_ASSERT(*index < count);
    return take_end(requests[*index]);
}

gy_status gy_request_wait_some(gy_request *const *requests, size_t count, gy_deadline deadline,
                               size_t *indices, gy_status *statuses, size_t *ended)
{
    GY_ASSERT(indices != NULL && ended != NULL);
    gy_error failure = {.status = GY_OK};
    size_t first = 0, found = 0;
    *ended = 0;
    GY_TRY(await_first(requests, count, deadline, &first));
    GY_ASSERT(first < count);
    for (size_t i = first; i < count; i++) {
        if (requests[i] != NULL && requests[i]->is_started && is_over(requests[i])) {
            gy_status status = take_end(requests[i]);
            if (status < 0 && failure.status == GY_OK) {
                gy_error_take(&failure, status);
            }
            if (statuses != NULL) {
                statuses[found] = status;
            }
            indices[found++] = i;
        }
    }
    GY_ASSERT(found > 0 && found <= count);
    *ended = found;
    return failure.status != GY_OK ? gy_error_raise(&failure) : GY_OK;
}

gy_status gy_sendrecv(gy_comm *comm, const gy_message *send, const gy_message *receive)
{
    GY_COMM_EXPECT(comm);
    gy_request *requests[2] = {NULL, NULL};
    GY_TRY(gy_message_check(comm, GY_COLL_SEND, send));
    gy_status status = gy_request_begin_recv(comm, receive, &requests[0]);
    status = status < 0 ? status : gy_request_begin_send(comm, send, &requests[1]);
    if (status == GY_OK) {
        status = gy_request_wait_all(requests, 2, GY_NEVER);
    }
    gy_request_free(requests[0]);
    gy_request_free(requests[1]);
    return status;
}

void gy_request_free(gy_request *request)
{
    if (request == NULL) {
        return;
    }
    GY_ASSERT(!request->is_dropped); /* a request is freed once */
    gy_comm *root = request->comm->root;
    gy_mutex_lock(&root->lock);
    if (request->is_started && !is_over(request)) {
        request->is_dropped = true;
    } else {
        drop(request);
    }
    gy_mutex_unlock(&root->lock);
}
