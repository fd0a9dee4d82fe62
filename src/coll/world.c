/* The communicators that need no maker: of the whole launch, and of this process alone. */
#include "coll/coll_priv.h"

static pthread_mutex_t world_lock = PTHREAD_MUTEX_INITIALIZER;
static gy_comm *world;
static bool is_world_tried;
static gy_error world_error;

static gy_status renew(void *launcher, gy_deadline deadline, gy_transport **transport)
{
    (void)launcher;
    *transport = NULL;
    return gy_generation_meet(gy_env_real(), deadline, transport);
}

static gy_status finish(void *launcher, gy_deadline deadline)
{
    (void)launcher;
    return gy_generation_finish(gy_env_real(), deadline);
}

/* Whoever dies before all are there is started anew, and another transport brings it. */
static gy_status open_renewable(gy_transport *transport)
{
    const gy_comm_options options = {.renew = renew, .finish = finish};
    int64_t timeout_ns = 0;
    gy_status status = gy_comm_read_timeout(0, &timeout_ns);
    if (status < 0) {
        gy_transport_close(transport);
        return status;
    }
    gy_deadline deadline = {gy_now_ns(transport->env) + timeout_ns};
    GY_TRY(gy_generation_meet(transport->env, deadline, &transport));
    return gy_comm_new(transport, &options, &world);
}

static gy_status open_world(void)
{
    gy_transport *transport = NULL;
    GY_TRY(gy_transport_open_from_environment(gy_env_real(), &transport));
    gy_comm *made = NULL;
    if (gy_run_is_renewable()) {
        return open_renewable(transport);
    }
    GY_TRY(gy_comm_new(transport, NULL, &made));
    gy_deadline deadline = {gy_now_ns(transport->env) + made->timeout_ns};
    gy_status status = gy_transport_meet(transport, deadline);
    if (status < 0) {
        gy_comm_free(made);
        return status;
    }
    world = made;
    return GY_OK;
}

void gy_comm_world_succeed(const gy_comm *old, gy_comm *whole)
{
    pthread_mutex_lock(&world_lock);
    if (world == old) {
        world = whole;
    }
    pthread_mutex_unlock(&world_lock);
}

gy_status gy_comm_world(gy_comm **comm)
{
    pthread_mutex_lock(&world_lock);
    gy_status status = GY_OK;
    if (!is_world_tried) {
        is_world_tried = true;
        status = gy_error_keep(&world_error, open_world());
    } else if (world == NULL) {
        status = gy_error_raise(&world_error);
    }
    GY_ASSERT((world == NULL) == (status < 0));
    if (world != NULL) {
        *comm = world;
    }
    pthread_mutex_unlock(&world_lock);
    return status;
}

void gy_comm_world_close(void)
{
    pthread_mutex_lock(&world_lock);
    gy_comm_free(world);
    world = NULL;
    is_world_tried = true;
    (void)gy_fail(GY_STATE, "the run was left");
    gy_error_take(&world_error, GY_STATE);
    pthread_mutex_unlock(&world_lock);
}

static pthread_once_t self_once = PTHREAD_ONCE_INIT;
static gy_comm *self;

/* No setting of the launch can make it fail: no table, no algorithm by name, a fixed timeout.
 */
static void make_self(void)
{
    static const gy_comm_options options = {.timeout_s = 60, .table = "none", .is_self = true};
    gy_transport *transport = NULL;
    gy_status status = gy_self_open(gy_env_real(), &transport);
    status = status < 0 ? status : gy_comm_new(transport, &options, &self);
    if (status < 0) {
        gy_panic("GY_COMM_SELF cannot be made: %s", gy_status_text(status));
    }
}

gy_comm *gy_comm_self(void)
{
    pthread_once(&self_once, make_self);
    GY_ASSERT(self != NULL && self->size == 1);
    return self;
}
