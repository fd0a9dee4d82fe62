/*
 * Runs a parfor. Its iterations are cut into pieces by their count alone; threads take pieces
 * as they come, and what pieces leave (prints, sums, changed values, failures) is taken in the
 * pieces' order. So results depend neither on the number of threads nor on timing.
 *
 * What an iteration has: the variables as they were before the loop, copied by counts. A matrix
 * of which iterations write different cells is written by all of them in place; a += begins at
 * zero in each piece; with check=0 a piece keeps what its iterations wrote.
 */
#include "dml/run/parfor_priv.h"
#include "dml/run/profile_priv.h"

#include <string.h>

enum { PIECES = 64, PIECES_MERGED = 16, LOCK_RANK = 9 };

typedef struct failure {
    gy_dml_report report;
    gy_error error;
} failure;

typedef struct piece {
    bool is_done; /* guarded by the spread's lock; what follows is its thread's until then */
    gy_status status;
    gy_text printed;
    gy_dml_profile profile;
    failure *failure;     /* NULL: there was no memory for it */
    gy_dml_value *values; /* (written) of sums and merged variables */
} piece;

typedef struct spread {
    const gy_dml_parfor *parfor;
    const gy_dml_parfor_call *call;
    gy_dml_role *roles;   /* (written): as values allow */
    bool *shared;         /* (variables) */
    gy_dml_value *before; /* (variables): held, so that nobody writes into them by chance */
    gy_dml_value first;
    gy_dml_value step;
    int64_t count;
    uint64_t key; /* of the iterations' random numbers */
    bool may_spread;
    piece *pieces;
    int64_t piece_count;
    _Atomic int64_t next;   /* piece to be taken */
    _Atomic int64_t failed; /* the first piece known to have failed; later ones need not run */
    gy_mutex lock;
    int64_t taken;    /* guarded by the lock: pieces before it are taken */
    gy_status status; /* guarded by the lock, with what follows */
    failure failure;
} spread;

static gy_dml_value value_at(const spread *of, int64_t iteration)
{
    return of->first.kind == GY_DML_IS_INTEGER
               ? gy_dml_of_integer(of->first.whole + iteration * of->step.whole)
               : gy_dml_of_real(of->first.real + (double)iteration * of->step.real);
}

static void print_to_text(void *arg, const char *text, size_t size)
{
    gy_text_add_bytes(arg, text, size);
}

static void set_slot(gy_dml_worker *worker, int32_t slot, gy_dml_value value)
{
    gy_dml_drop(&worker->stack[slot]);
    worker->stack[slot] = value;
}

/* The frame of a piece: the variables as before the loop, sums at zero. */
static gy_status begin_piece(const spread *of, gy_dml_worker *worker)
{
    const gy_dml_function *function = of->call->function;
    size_t base = 0;
    GY_TRY(gy_dml_stack_push(worker, (size_t)function->slot_count, &base));
    for (size_t i = 0; i < function->name_count; i++) {
        worker->stack[i] = gy_dml_hold(of->before[i]);
    }
    for (size_t i = 0; i < of->parfor->written_count; i++) {
        const int32_t slot = of->parfor->written[i].slot;
        if (of->roles[i] == GY_DML_ROLE_SUM) {
            gy_dml_value zero = GY_DML_NONE;
            GY_TRY(gy_dml_merge_begin(&of->before[slot], &zero));
            set_slot(worker, slot, zero);
        }
    }
    if (of->call->worker->state.folder != NULL) { /* a library that eval loads may set it */
        worker->state.folder = gy_copy_text("dml.folder", of->call->worker->state.folder);
        GY_TRY(worker->state.folder != NULL ? GY_OK : GY_NOMEM);
    }
    return GY_OK;
}

static gy_status run_iteration(const spread *of, gy_dml_worker *worker, int64_t iteration)
{
    uint32_t bits[4];
    for (size_t i = 0; i < of->parfor->written_count; i++) {
        const int32_t slot = of->parfor->written[i].slot;
        if (of->roles[i] == GY_DML_ROLE_OWN) {
            set_slot(worker, slot, gy_dml_hold(of->before[slot]));
        }
    }
    set_slot(worker, of->parfor->variable, value_at(of, iteration));
    gy_philox(of->key, 1, (uint64_t)iteration, bits);
    worker->state.random = (gy_random){.key = (uint64_t)bits[1] << 32 | bits[0]};
    return gy_dml_execute_body(worker, of->call->function, of->call->body, of->shared);
}

/* What the piece leaves, out of its frame. */
static void keep_values(const spread *of, gy_dml_worker *worker, piece *out)
{
    for (size_t i = 0; i < of->parfor->written_count && out->values != NULL; i++) {
        const int32_t slot = of->parfor->written[i].slot;
        if (of->roles[i] == GY_DML_ROLE_SUM || of->roles[i] == GY_DML_ROLE_MERGED) {
            out->values[i] = worker->stack[slot];
            worker->stack[slot] = GY_DML_NONE;
        }
    }
}

/* Later pieces need not run; the failure is kept for when its turn comes. */
static void keep_failure(spread *of, int64_t index, const gy_dml_report *report,
                         gy_status status)
{
    piece *out = &of->pieces[index];
    out->failure = gy_alloc("dml.parfor", sizeof(*out->failure));
    if (out->failure != NULL) {
        out->failure->report = *report;
        gy_error_take(&out->failure->error, status);
    }
    int64_t before = atomic_load_explicit(&of->failed, memory_order_relaxed);
    while (index < before &&
           !atomic_compare_exchange_weak_explicit(&of->failed, &before, index,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void run_piece(spread *of, int64_t index)
{
    piece *out = &of->pieces[index];
    const gy_dml_worker *parent = of->call->worker;
    gy_dml_report report = {.status = GY_OK};
    gy_dml_worker worker = {.script = parent->script,
                            .state = parent->state,
                            .report = &report,
                            .call_depth = parent->call_depth,
                            .profile = parent->profile != NULL ? &out->profile : NULL,
                            .may_spread = of->may_spread};
    worker.state.print = print_to_text;
    worker.state.print_arg = &out->printed;
    worker.state.folder = NULL;
    const int64_t begin = index * of->count / of->piece_count,
                  end = (index + 1) * of->count / of->piece_count;
    gy_status status = begin_piece(of, &worker);
    for (int64_t i = begin; i < end && status == GY_OK; i++) {
        if (atomic_load_explicit(&of->failed, memory_order_relaxed) < index) {
            break; /* an earlier iteration failed: nobody sees this one */
        }
        status = run_iteration(of, &worker, i);
    }
    if (status == GY_OK) {
        status = out->printed.status;
        keep_values(of, &worker, out);
    }
    if (status != GY_OK) {
        keep_failure(of, index, &report, status);
    }
    out->status = status;
    gy_dml_stack_pop(&worker, 0);
    gy_free(worker.stack);
    gy_free(worker.state.folder);
}

/* Add what a piece made to what is there. */
static gy_status take_values(spread *of, const piece *from)
{
    for (size_t i = 0; i < of->parfor->written_count; i++) {
        const int32_t slot = of->parfor->written[i].slot;
        gy_dml_value *to = &of->call->worker->stack[of->call->base + (size_t)slot];
        gy_dml_value sum = GY_DML_NONE;
        if (of->roles[i] == GY_DML_ROLE_MERGED) {
            GY_TRY(gy_dml_merge(&of->before[slot], &from->values[i], to));
        } else if (of->roles[i] == GY_DML_ROLE_SUM && to->kind != GY_DML_IS_NOTHING) {
            GY_TRY(gy_dml_operate(GY_DML_CELL_PLUS, to, &from->values[i], 1, &sum));
            gy_dml_drop(to);
            *to = sum;
        }
    }
    return GY_OK;
}

/* Take one piece: what it printed, then what it made or why it failed. */
static void take_piece(spread *of, piece *from)
{
    const gy_dml_state *state = &of->call->worker->state;
    if (of->status == GY_OK) {
        if (from->printed.size_bytes > 0) {
            state->print(state->print_arg, from->printed.data, from->printed.size_bytes);
        }
        of->status = from->status == GY_OK ? take_values(of, from) : from->status;
        if (from->failure != NULL) {
            of->failure = *from->failure;
        } else if (of->status != GY_OK) {
            gy_error_take(&of->failure.error, of->status);
        }
    }
    if (of->call->worker->profile != NULL) {
        gy_dml_profile_add(of->call->worker->profile, &from->profile);
        gy_dml_profile_fini(&from->profile);
    }
    gy_free(from->failure);
    gy_text_free(&from->printed);
    for (size_t i = 0; i < of->parfor->written_count && from->values != NULL; i++) {
        gy_dml_drop(&from->values[i]);
    }
}

/* Take pieces until none is left; who ends the piece that is awaited takes all that follow. */
static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    spread *of = arg;
    GY_ASSERT(end == begin + 1);
    for (;;) {
        const int64_t index = atomic_fetch_add_explicit(&of->next, 1, memory_order_relaxed);
        if (index >= of->piece_count) {
            return;
        }
        if (atomic_load_explicit(&of->failed, memory_order_relaxed) > index) {
            run_piece(of, index);
        }
        gy_mutex_lock(&of->lock);
        of->pieces[index].is_done = true;
        while (of->taken < of->piece_count && of->pieces[of->taken].is_done) {
            take_piece(of, &of->pieces[of->taken++]);
        }
        gy_mutex_unlock(&of->lock);
    }
}

/* par=: how many pieces run at once at most. */
static gy_status threads_of(const gy_dml_parfor *parfor, const gy_dml_parfor_call *call,
                            int64_t *threads)
{
    const gy_dml_worker *worker = call->worker;
    const gy_dml_value *given = parfor->par >= 0
                                    ? &worker->stack[call->base + (size_t)parfor->par]
                                    : &call->function->constants[~parfor->par];
    *threads = INT64_MAX;
    if (parfor->par == GY_DML_ABSENT) {
        return GY_OK;
    }
    GY_TRY(gy_dml_as_integer(given, "parfor: par", threads));
    return *threads >= 1 ? GY_OK
                         : gy_fail(GY_ARG, "parfor: par is %lld, expected a number from 1",
                                   (long long)*threads);
}

/* What iterations do with their variables, by the values that these have. */
static gy_status choose_roles(spread *of)
{
    const gy_dml_parfor *parfor = of->parfor;
    gy_dml_value *slots = of->call->worker->stack + of->call->base;
    for (size_t i = 0; i < parfor->written_count; i++) {
        const int32_t slot = parfor->written[i].slot;
        gy_dml_role role = parfor->written[i].role;
        const bool was_shared = of->call->shared != NULL && of->call->shared[slot];
        if (role == GY_DML_ROLE_CELLS && slots[slot].kind == GY_DML_IS_MATRIX) {
            GY_TRY(was_shared ? GY_OK : gy_dml_index_own(&slots[slot]));
            of->shared[slot] = true;
        } else if (role == GY_DML_ROLE_CELLS) {
            role = GY_DML_ROLE_MERGED;
        }
        of->roles[i] = role;
    }
    for (size_t i = 0; i < of->call->function->name_count; i++) {
        of->before[i] = gy_dml_hold(slots[i]);
    }
    return GY_OK;
}

static gy_status begin_spread(spread *of)
{
    const gy_dml_parfor *parfor = of->parfor;
    const size_t names = of->call->function->name_count, written = parfor->written_count;
    bool is_merged = false;
    of->roles = gy_alloc_zero("dml.parfor", written + 1, sizeof(*of->roles));
    of->shared = gy_alloc_zero("dml.parfor", names + 1, sizeof(*of->shared));
    of->before = gy_alloc_zero("dml.parfor", names + 1, sizeof(*of->before));
    if (of->roles == NULL || of->shared == NULL || of->before == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(choose_roles(of));
    for (size_t i = 0; i < written; i++) {
        is_merged = is_merged || of->roles[i] == GY_DML_ROLE_MERGED;
    }
    of->piece_count = GY_MIN(of->count, is_merged ? PIECES_MERGED : PIECES);
    of->pieces = gy_alloc_zero("dml.parfor", (size_t)of->piece_count, sizeof(*of->pieces));
    if (of->pieces == NULL) {
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < of->piece_count; i++) {
        of->pieces[i].values =
            gy_alloc_zero("dml.parfor", written + 1, sizeof(*of->pieces[i].values));
        if (of->pieces[i].values == NULL) {
            return GY_NOMEM;
        }
    }
    return GY_OK;
}

static void end_spread(spread *of)
{
    for (int64_t i = 0; i < of->piece_count && of->pieces != NULL; i++) {
        gy_free(of->pieces[i].values);
    }
    for (size_t i = 0; i < of->call->function->name_count && of->before != NULL; i++) {
        gy_dml_drop(&of->before[i]);
    }
    gy_free(of->pieces);
    gy_free(of->before);
    gy_free(of->shared);
    gy_free(of->roles);
    gy_mutex_fini(&of->lock);
}

/* Other threads help where the loop is not inside one that keeps them all busy. */
static gy_status run_spread(spread *of, int64_t threads)
{
    gy_dml_script *script = of->call->worker->script;
    threads = GY_MIN(threads, of->piece_count);
    if (threads > 1 && of->call->worker->may_spread) {
        if (script->engine == NULL) { /* the script's own thread: pieces find it made */
            GY_TRY(gy_engine_new(NULL, &script->engine));
        }
        of->may_spread = of->piece_count < gy_engine_workers(script->engine);
        threads = GY_MIN(threads, gy_engine_workers(script->engine));
        gy_parallel_for(script->engine, threads, 1, run_pieces, of);
    } else {
        run_pieces(of, 0, 1);
    }
    GY_ASSERT(of->taken == of->piece_count);
    return GY_OK;
}

gy_status gy_dml_parfor_run(const gy_dml_parfor *parfor, const gy_dml_parfor_call *call)
{
    gy_dml_worker *worker = call->worker;
    const gy_dml_value *loop = &worker->stack[call->base + (size_t)call->loop];
    gy_dml_source source = call->function->unit->source;
    int64_t threads = 0;
    source.report = worker->report;
    spread of = {.parfor = parfor,
                 .call = call,
                 .first = loop[0],
                 .step = loop[2],
                 .count = loop[1].whole,
                 .failed = INT64_MAX};
    GY_TRY(threads_of(parfor, call, &threads));
    if (of.count == 0) {
        return GY_OK;
    }
    GY_TRY(gy_dml_parfor_decide(parfor, call->function, worker->stack + call->base, &source));
    of.key = gy_random_u64(&worker->state.random);
    gy_mutex_init(&of.lock, LOCK_RANK);
    gy_status status = begin_spread(&of);
    status = status == GY_OK ? run_spread(&of, threads) : status;
    if (status == GY_OK && of.status != GY_OK) {
        status = of.status;
        if (worker->report->status == GY_OK && of.failure.report.status != GY_OK) {
            *worker->report = of.failure.report;
        }
        of.failure.error.status = status;
        (void)gy_error_raise(&of.failure.error);
    }
    end_spread(&of);
    return status;
}
