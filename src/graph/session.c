/* Sessions: parameters, programs by (fetches, batch), the public calls. */
#include "graph/session.h"

#include <gyre/info.h>

#include <string.h>

enum { PROGRAMS_MAX = 32 }; /* the least recently used one goes */

static gy_status start(gy_session *session, const gy_session_options *options)
{
    session->seed = options->seed;
    session->has_no_overlap = options->has_no_overlap;
    if (session->has_no_overlap) {
        gy_debug("nothing runs beside an exchange");
    }
    if (options->mesh != NULL && options->comm != NULL) {
        return gy_fail(GY_ARG, "session: a mesh and a communicator, expected one of them");
    }
    session->mesh = options->mesh != NULL ? *options->mesh : gy_mesh_line(options->comm);
    session->mesh.chunks = options->chunks;
    if (options->chunks < 0 || gy_mesh_stages(&session->mesh) > GY_STAGES_MAX ||
        (options->chunks > 1 && session->mesh.stages < 2)) {
        return gy_fail(
            GY_ARG,
            "session: %d chunks a rank along pipe=%d, expected 1, or up to %d stages "
            "of at least 2 ranks",
            options->chunks, session->mesh.stages, GY_STAGES_MAX);
    }
    gy_comm *whole = session->mesh.whole;
    const int ranks = whole != NULL ? gy_comm_size(whole) : 1;
    session->pool = ranks > 1 ? gy_comm_pool(whole) : gy_pool_heap();
    session->engine = options->engine;
    if (session->engine == NULL) {
        const gy_engine_options engine = {.workers = options->workers, .ranks_on_host = ranks};
        GY_TRY(gy_engine_new(&engine, &session->engine));
        session->owns_engine = true;
    }
    GY_ASSERT(session->engine != NULL);
    GY_ASSERT(session->mesh.axes >= 1 && session->mesh.axes <= GY_MESH_MAX);
    for (int axis = 0; axis < session->mesh.axes; axis++) {
        if (session->mesh.comms[axis] != NULL) {
            GY_TRY(gy_collective_attach(session->engine, session->mesh.comms[axis]));
            session->comms[axis] = session->mesh.comms[axis];
        }
    }
    if (session->mesh.pipe != NULL) {
        GY_TRY(gy_collective_attach(session->engine, session->mesh.pipe));
        session->has_pipe = true;
    }
    return GY_OK;
}

/* A mesh of ranks that do not exist. */
static bool is_imagined(const gy_mesh *mesh)
{
    bool is_grid = mesh->stages > 1;
    GY_ASSERT(mesh->axes >= 1);
    for (int axis = 0; axis < mesh->axes; axis++) {
        is_grid = is_grid || mesh->sizes[axis] > 1;
    }
    return is_grid && mesh->whole == NULL;
}

/* What the options ask for. The other ranks cannot know of a failure: they are told. */
static gy_status open_device(gy_session *session, const gy_session_options *options)
{
    gy_comm *whole = session->mesh.whole;
    gy_device_choice choice = {.number = options->device,
                               .names = options->devices,
                               .rank = options->device_rank,
                               .ranks = options->device_ranks};
    GY_ASSERT(session->lane == NULL && session->opened == NULL);
    if (is_imagined(&session->mesh)) {
        return GY_OK;
    }
    if (options->device_ranks < 0 || options->device_rank < 0) {
        return gy_fail(GY_ARG, "session: a device for rank %d of %d of a host",
                       options->device_rank, options->device_ranks);
    }
    if (choice.ranks == 0 && whole != NULL) {
        choice.rank = gy_comm_local_rank(whole);
        choice.ranks = gy_comm_local_size(whole);
    }
    gy_status status = gy_device_open(&choice, &session->opened);
    if (status >= 0 && session->opened != NULL) {
        gy_device_rates *rates = &session->opened->rates;
        const double share = (double)gy_engine_workers(session->engine) / gy_info_cores();
        rates->host_flops_s *= share; /* of the cores that this session has */
        rates->host_bytes_s *= share;
        status = gy_session_set_device(session, session->opened);
    }
    return status < 0 && whole != NULL ? gy_session_refuse(session, status) : status;
}

gy_status gy_session_new(gy_graph *graph, const gy_session_options *options, gy_session **out)
{
    GY_ASSERT(out != NULL);
    gy_session_options known;
    GY_TRY(gy_options_take(gy_session_options, &known, options));
    options = &known;
    GY_TRY(gy_graph_status(graph));
    gy_session *session = gy_alloc_zero("graph.session", 1, sizeof(*session));
    if (session == NULL) {
        return GY_NOMEM;
    }
    session->graph = graph;
    gy_meter_init(&session->meter);
    gy_status status = start(session, options);
    status = status >= 0 ? open_device(session, options) : status;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_session_free(session);
        return gy_error_raise(&error);
    }
    *out = session;
    return GY_OK;
}

void gy_session_free(gy_session *session)
{
    if (session == NULL) {
        return;
    }
    gy_pipe_programs_free(session);
    for (size_t i = 0; i < session->program_count; i++) {
        gy_program_free(session->programs[i]);
    }
    for (int axis = 0; axis < GY_MESH_MAX; axis++) {
        if (session->comms[axis] != NULL) {
            gy_collective_detach(session->engine, session->comms[axis]);
        }
    }
    if (session->has_pipe) {
        gy_collective_detach(session->engine, session->mesh.pipe);
    }
    for (size_t i = 0; i < session->parameter_count; i++) {
        gy_device_lane_drop(session->lane, &session->parameters[i]);
        gy_var_free(session->parameters[i].var);
    }
    for (size_t i = 0; session->lane != NULL && i < session->chunks.count; i++) {
        GY_ASSERT(session->chunks.list[i].kind != GY_STORAGE_DEVICE ||
                  session->chunks.list[i].data == NULL);
    }
    gy_device_lane_free(session->lane);
    gy_device_close(session->opened);
    if (session->owns_engine) {
        gy_engine_free(session->engine);
    }
    for (size_t i = 0; i < session->parameter_count; i++) {
        gy_tensor_unpin(session->parameters[i].tensor);
        gy_tensor_drop(session->parameters[i].tensor);
    }
    gy_free(session->parameters);
    gy_free(session->programs);
    gy_free(session->chunks.list);
    gy_free(session->homes);
    gy_meter_fini(&session->meter);
    gy_free(session);
}

gy_status gy_session_set_device(gy_session *session, gy_device *device)
{
    GY_ASSERT(session->lane == NULL && session->program_count == 0);
    return gy_device_lane_new(device, session->engine, &session->lane);
}

const char *gy_session_device(const gy_session *session)
{
    return session->lane != NULL ? gy_device_lane_device(session->lane)->name : NULL;
}

bool gy_session_device_counts(const gy_session *session, gy_device_counts *counts)
{
    gy_device *device = session->lane != NULL ? gy_device_lane_device(session->lane) : NULL;
    if (device == NULL || device->ops->count == NULL) {
        return false;
    }
    GY_ASSERT(counts != NULL);
    device->ops->count(device, counts);
    return true;
}

bool gy_session_precision_share(const gy_session *session, gy_precision_share *share)
{
    GY_ASSERT(session->narrowed.narrowed <= session->narrowed.products);
    if (session->narrowed.products == 0) {
        return false;
    }
    *share = session->narrowed;
    return true;
}

void gy_session_keep_narrowed(gy_session *session, const gy_graph *compiled)
{
    GY_ASSERT(compiled->is_placed);
    if (compiled->narrowed.products > session->narrowed.products) {
        session->narrowed = compiled->narrowed;
    }
}

bool gy_session_device_share(const gy_session *session, gy_device_share *share)
{
    GY_ASSERT(session->share.nodes == 0 || session->lane != NULL);
    if (session->share.nodes == 0) {
        return false;
    }
    *share = session->share;
    return true;
}

/* ---- programs ---- */

gy_status gy_session_keep_homes(gy_session *session, const gy_graph *compiled)
{
    const size_t nodes = (size_t)session->graph->node_count;
    GY_ASSERT(session->home_count <= nodes && compiled->device != NULL);
    GY_TRY(GY_GROW("graph.homes", session->homes, session->home_capacity, nodes + 1));
    while (session->home_count < nodes) {
        session->homes[session->home_count++] = GY_HOME_OPEN;
    }
    gy_devices_keep(compiled, session->homes);
    if (compiled->share.nodes > session->share.nodes) {
        session->share = compiled->share;
    }
    return GY_OK;
}

gy_status gy_session_bind(const gy_session *session, const gy_mesh *mesh,
                          const gy_planned_run *run, gy_graph **out)
{
    gy_graph *bound = NULL;
    GY_ASSERT(run->loss >= 0 && run->loss <= run->fetch_count);
    GY_TRY(gy_bind(session->graph, mesh, run->batch, run->fetches, run->fetch_count, &bound));
    bound->loss = run->loss;
    bound->device = session->lane != NULL ? gy_device_lane_device(session->lane) : NULL;
    for (int32_t i = 0; i < bound->node_count; i++) {
        gy_graph_node *node = &bound->nodes[i];
        if (node->op == &gy_ops_row_parameter && node->origin < (int32_t)session->home_count) {
            GY_ASSERT(node->origin >= 0);
            node->home = session->homes[node->origin];
        }
    }
    *out = bound;
    return GY_OK;
}

gy_status gy_session_compile(const gy_session *session, const gy_mesh *mesh,
                             const gy_planned_run *run, gy_text *text, gy_graph **out)
{
    GY_ASSERT(mesh->axes >= 1 && run->batch > 0);
    gy_graph *bound = NULL;
    GY_TRY(gy_session_bind(session, mesh, run, &bound));
    gy_status status = gy_compile(bound, session->skip, text, out);
    gy_graph_free(bound);
    return status;
}

static void drop_oldest(gy_session *session)
{
    GY_ASSERT(session->program_count > 0);
    size_t oldest = 0;
    for (size_t i = 1; i < session->program_count; i++) {
        if (session->programs[i]->used < session->programs[oldest]->used) {
            oldest = i;
        }
    }
    gy_program_free(session->programs[oldest]);
    session->programs[oldest] = session->programs[--session->program_count];
}

static gy_status find_program(gy_session *session, int64_t batch, const gy_value *fetches,
                              int fetch_count, gy_program **program)
{
    GY_ASSERT(batch > 0 && fetch_count >= 0);
    for (size_t i = 0; i < session->program_count; i++) {
        gy_program *have = session->programs[i];
        if (have->batch == batch && have->fetch_count == fetch_count &&
            memcmp(have->fetches, fetches, (size_t)fetch_count * sizeof(*fetches)) == 0) {
            *program = have;
            return GY_OK;
        }
    }
    GY_TRY(GY_GROW("graph.programs", session->programs, session->program_capacity,
                   session->program_count + 1));
    GY_TRY(gy_program_new(session, batch, fetches, fetch_count, program));
    if (session->program_count == PROGRAMS_MAX) {
        drop_oldest(session);
    }
    GY_ASSERT(session->program_count < PROGRAMS_MAX);
    GY_ASSERT((*program)->fetch_count == fetch_count);
    session->programs[session->program_count++] = *program;
    return GY_OK;
}

/* ---- runs ---- */

gy_status gy_session_fetches(const gy_session *session, const gy_node *nodes, int count,
                             gy_value *values)
{
    GY_ASSERT(count >= 0);
    GY_TRY(gy_graph_status(session->graph));
    for (int i = 0; i < count; i++) {
        if (nodes[i].graph != session->graph || nodes[i].index < 0) {
            return gy_fail(GY_ARG, "fetch %d is not a node of the session's graph", i);
        }
        values[i] = (gy_value){nodes[i].index, nodes[i].output};
    }
    return GY_OK;
}

/* The global batch that the feeds tell: rows * ranks; 1 when nothing is symbolic. */
static int64_t fed_batch(const gy_session *session, const gy_feed *feeds, int feed_count)
{
    for (int i = 0; i < feed_count; i++) {
        if (feeds[i].node.graph != session->graph || feeds[i].node.index < 0 ||
            feeds[i].tensor == NULL || gy_tensor_rank(feeds[i].tensor) == 0) {
            continue;
        }
        const gy_type *type = &session->graph->nodes[feeds[i].node.index].types[0];
        if (type->rank > 0 && type->sizes[0] < 0) {
            return gy_tensor_size(feeds[i].tensor, 0) * gy_mesh_row_ranks(&session->mesh) /
                   -type->sizes[0];
        }
    }
    return 1;
}

/* Can a program fail so on one rank alone: for want of memory, of its file of first values, or
 * of its device? What else can be wrong is so on all ranks. */
static bool is_own(const gy_session *session, gy_status status)
{
    GY_ASSERT(session != NULL);
    return status == GY_NOMEM || (session->lane != NULL && status < 0) ||
           (session->fill != NULL &&
            (status == GY_IO || status == GY_FORMAT || status == GY_STATE));
}

/* One batch, whose first row is row `first` for random draws. The step stays. */
static gy_status run_batch(gy_session *session, const gy_micro_batch *micro,
                           const gy_node *fetches, int fetch_count, gy_tensor **results)
{
    const int feed_count = micro->feed_count;
    GY_ASSERT(session->graph != NULL);
    int64_t batch = micro->rows;
    gy_value few[16], *values = few;
    gy_program *program = NULL;
    if (feed_count < 0 || fetch_count < 0 || batch < 0) {
        return gy_fail(GY_ARG, "feeds %d, fetches %d, batch %lld: a count is negative",
                       feed_count, fetch_count, (long long)batch);
    }
    if (is_imagined(&session->mesh)) {
        return gy_fail(GY_STATE, "a run on a mesh of ranks that do not exist: its steps are "
                                 "simulated");
    }
    if ((size_t)fetch_count > GY_COUNT(few)) {
        values = gy_alloc("graph.fetches", (size_t)fetch_count * sizeof(*values));
        if (values == NULL) {
            return GY_NOMEM;
        }
    }
    gy_status status = gy_session_fetches(session, fetches, fetch_count, values);
    if (batch == 0) {
        batch = fed_batch(session, micro->feeds, feed_count);
    }
    if (status >= 0 && batch < 1) {
        status = gy_fail(GY_ARG, "the batch is empty");
    }
    if (status >= 0) {
        status = find_program(session, batch, values, fetch_count, &program);
        if (is_own(session, status)) {
            (void)gy_session_refuse(session, status);
        }
    }
    if (status >= 0) {
        GY_ASSERT(program->session == session && program->batch == batch);
        program->used = ++session->runs;
        status = gy_program_run(program, micro, results);
    }
    if (values != few) {
        gy_free(values);
    }
    return status;
}

gy_status gy_session_run(gy_session *session, const gy_feed *feeds, int feed_count,
                         int64_t batch, const gy_node *fetches, int fetch_count,
                         gy_tensor **results)
{
    const gy_micro_batch whole = {.feeds = feeds, .feed_count = feed_count, .rows = batch};
    gy_status status = run_batch(session, &whole, fetches, fetch_count, results);
    session->step += status >= 0 ? 1 : 0;
    return status;
}

gy_status gy_session_run_micros(gy_session *session, const gy_micro_run *run,
                                gy_tensor **results)
{
    gy_micro_run known;
    GY_TRY(gy_options_take(gy_micro_run, &known, run));
    if (known.count < 1 || known.fetch_count < 0) {
        return gy_fail(GY_ARG, "%d micro-batches of %d fetches, expected at least 1 and 0",
                       known.count, known.fetch_count);
    }
    for (int k = 0; k < known.count; k++) {
        if (known.micros[k].rows < 0 || known.micros[k].first < 0) {
            return gy_fail(GY_ARG,
                           "micro-batch %d has %lld rows from %lld on, expected 0 at least", k,
                           (long long)known.micros[k].rows, (long long)known.micros[k].first);
        }
    }
    const size_t fetches = (size_t)known.fetch_count;
    const size_t all = (size_t)known.count * fetches;
    gy_tensor **made = gy_alloc_zero("graph.results", all + 1, sizeof(gy_tensor *));
    gy_status status = made == NULL ? gy_session_refuse(session, GY_NOMEM) : GY_OK;
    const bool is_scheduled = known.schedule != NULL && session->mesh.stages > 1;
    if (status >= 0 && is_scheduled) {
        status = gy_session_run_pipe(session, &known, made);
    }
    for (int k = 0; k < known.count && status >= 0 && !is_scheduled; k++) {
        status = known.micros[k].rows > 0
                     ? run_batch(session, &known.micros[k], known.fetches, known.fetch_count,
                                 made + (size_t)k * fetches)
                     : GY_OK;
    }
    for (size_t i = 0; i < all && made != NULL; i++) {
        if (status >= 0) {
            results[i] = made[i];
        } else {
            gy_tensor_drop(made[i]);
        }
    }
    session->step += status >= 0 ? 1 : 0;
    gy_free(made);
    return status;
}

gy_status gy_session_check_micros(const gy_session *session, gy_node loss, int64_t batch)
{
    gy_value value;
    gy_graph *bound = NULL;
    GY_ASSERT(session->mesh.axes >= 1);
    if (batch < 1) {
        return gy_fail(GY_ARG, "a batch of %lld rows", (long long)batch);
    }
    GY_TRY(gy_session_fetches(session, &loss, 1, &value));
    /* A dimension of one row cannot be told from one that is broadcast. */
    GY_TRY(gy_bind(session->graph, &session->mesh, GY_MAX(batch, 2), &value, 1, &bound));
    const gy_status status = gy_graph_check_rows(bound);
    gy_graph_free(bound);
    return status;
}

void gy_session_set_fetch_hook(gy_session *session, gy_fetch_hook hook, void *arg)
{
    session->hook = hook;
    session->hook_arg = arg;
}

uint64_t gy_session_step(const gy_session *session)
{
    return session->step;
}

void gy_session_set_step(gy_session *session, uint64_t step)
{
    session->step = step;
}

gy_session_stats gy_session_statistics(const gy_session *session)
{
    const gy_meter *meter = &session->meter;
    gy_session_stats stats = {.compute_s = (double)meter->compute_ns * 1e-9,
                              .exposed_communication_s = (double)meter->exposed_ns * 1e-9,
                              .hidden_communication_s = (double)meter->hidden_ns * 1e-9,
                              .bubble_s = (double)meter->bubble_ns * 1e-9,
                              .other_s = (double)meter->other_ns * 1e-9,
                              .runs = session->runs};
    gy_exchange_stats rows[GY_EXCHANGE_KINDS_MAX];
    const int count = gy_session_exchanges(session, rows);
    for (int i = 0; i < count; i++) {
        stats.bytes_sent += rows[i].sent_bytes;
    }
    return stats;
}

/* ---- explain ---- */

static void explain_graph(const gy_session *session, gy_text *text)
{
    gy_text_add(text, "== graph: %d nodes\n", (int)session->graph->node_count);
    gy_graph_print(session->graph, text);
}

gy_status gy_session_explain(gy_session *session, int64_t batch, const gy_node *fetches,
                             int fetch_count, char **out)
{
    if (fetch_count < 0 || batch < 0) {
        return gy_fail(GY_ARG, "fetches %d, batch %lld: a count is negative", fetch_count,
                       (long long)batch);
    }
    gy_value *values = gy_alloc("graph.fetches", ((size_t)fetch_count + 1) * sizeof(*values));
    if (values == NULL) {
        return GY_NOMEM;
    }
    gy_text text = {.data = NULL};
    gy_graph *graph = NULL;
    gy_status status = gy_session_fetches(session, fetches, fetch_count, values);
    if (status >= 0) {
        const gy_planned_run run = {
            .batch = GY_MAX(batch, 1), .fetches = values, .fetch_count = fetch_count};
        explain_graph(session, &text);
        status = gy_session_compile(session, &session->mesh, &run, &text, &graph);
    }
    if (status >= 0) {
        gy_explain_program(graph, gy_engine_workers(session->engine), &text);
        status = text.status;
    }
    gy_graph_free(graph);
    gy_free(values);
    if (status < 0) {
        gy_text_free(&text);
        return status;
    }
    *out = text.data;
    return GY_OK;
}
