/*
 * Refinement while a job runs: refinement points gather sizes and samples stage by stage, then
 * their functions compose new vertices. The journal records what a refinement point saw
 * together with the tasks it made, so that a resumed manager makes the same graph from the
 * same numbers.
 */
#include "flow/run/run_priv.h"

#include <string.h>

/* ---- lowering ---- */

static gy_status keep_flags(gy_flow_job *job, const gy_growth *growth)
{
    GY_TRY(GY_GROW("flow.flags", job->task_flags, job->task_flags_capacity,
                   job->task_count + growth->task_count));
    for (uint32_t i = 0; i < growth->task_count; i++) {
        if (growth->tasks[i].width > 1) {
            GY_TRY(GY_GROW("flow.cohorts", job->cohorts, job->cohort_capacity,
                           job->cohort_count + 1));
            job->cohorts[job->cohort_count++] = (uint32_t)job->task_count;
        }
        job->task_flags[job->task_count++] = growth->tasks[i].flags;
    }
    return GY_OK;
}

/* Check that the program lists every function that new vertices name. */
static gy_status check_functions(const gy_flow_job *job, size_t first)
{
    for (size_t p = first; p < job->dag->proto_count; p++) {
        const gy_proto *proto = &job->dag->protos[p];
        if (proto->function != NULL && gy_flow_find(job->flow, proto->function) == UINT32_MAX) {
            return gy_fail(GY_ARG,
                           "%s[%u] is of function %s, which was not passed to gy_flow_start",
                           job->dag->stages[proto->stage].name, proto->base, proto->function);
        }
    }
    return GY_OK;
}

static gy_status make_gates(gy_flow_job *job)
{
    const gy_dag *dag = job->dag;
    GY_TRY(GY_GROW("flow.gates", job->refinements, job->refinement_capacity,
                   dag->refinement_count));
    for (; job->refinement_count < dag->refinement_count; job->refinement_count++) {
        const size_t ports = dag->refinements[job->refinement_count].port_count;
        gy_refinement_state refinement = {
            .bytes = gy_alloc("flow.gate", ports * sizeof(int64_t)),
            .samples = gy_alloc_zero("flow.gate", ports, sizeof(gy_refinement_sample_row))};
        if (refinement.bytes == NULL || refinement.samples == NULL) {
            gy_free(refinement.bytes);
            gy_free(refinement.samples);
            return GY_NOMEM;
        }
        memset(refinement.bytes, 0xff, ports * sizeof(int64_t));
        job->refinements[job->refinement_count] = refinement;
    }
    return GY_OK;
}

gy_status gy_flow_run_lower(gy_flow_job *job, gy_growth *growth)
{
    const size_t protos = job->keys.count;
    size_t cut = 0;
    GY_TRY(gy_flow_lower_check(&job->lowering, job->dag));
    GY_TRY(check_functions(job, protos));
    if (job->dag->final_count > 0 && job->output[0] == '\0') {
        return gy_fail(GY_ARG, "the job has files of output %s, and no folder for them",
                       job->dag->output_names[0]);
    }
    GY_TRY(gy_proto_keys_make(&job->keys, job->dag));
    job->lowering.is_over_hosts = job->site->host_max > 0;
    GY_TRY(gy_flow_lower_cohorts(&job->lowering, job->dag, (uint32_t)job->width, &cut));
    if (cut > 0) {
        gy_flow_run_note_text(
            job,
            "%zu pipes or FIFOs became files: their cohorts are wider than the "
            "%d processes that one host has, or would wait for themselves",
            cut, job->width);
    }
    const gy_lower_source source = {gy_proto_keys_tell, &job->keys, gy_proto_keys_places};
    GY_TRY(gy_flow_lower_growth(&job->lowering, job->dag, &source, growth));
    gy_status status = keep_flags(job, growth);
    status = status < 0 ? status : make_gates(job);
    if (status < 0) {
        gy_flow_growth_free(growth);
    }
    return status;
}

static uint32_t stage_of(const gy_flow_job *job, uint32_t vertex)
{
    const gy_lowering *l = &job->lowering;
    const uint32_t first = l->members[l->member_first[l->task[vertex]]];
    return job->dag->protos[job->dag->proto[first]].stage;
}

gy_status gy_flow_run_mark_refinements(gy_flow_job *job)
{
    for (size_t g = 0; g < job->dag->refinement_count; g++) {
        const gy_dag_refinement *refinement = &job->dag->refinements[g];
        for (uint32_t k = 0; k < refinement->port_count; k++) {
            job->dag->stages[stage_of(job, refinement->ports[(size_t)k * 2])].is_gate = true;
        }
    }
    for (size_t s = 0; s < job->dag->stage_count; s++) {
        gy_dag_stage *stage = &job->dag->stages[s];
        /* a refinement point may wait for its vertices */
        stage->is_gate = stage->is_gate || stage->is_growth;
    }
    return GY_OK;
}

/* ---- inputs of refinements ---- */

/* A journal record of one port; `sample_bytes` bytes follow, unless the previous port has the
 * same sample. */
typedef struct gy_refinement_seen {
    uint32_t refinement, port;
    int64_t bytes;
    uint64_t sample_bytes;
} gy_refinement_seen;
#define SAMPLE_AS_BEFORE UINT64_MAX

static gy_status see(gy_flow_job *job, const gy_refinement_seen *seen, const void *sample)
{
    gy_refinement_state *refinement = &job->refinements[seen->refinement];
    GY_ASSERT(refinement->is_done == (refinement->bytes == NULL));
    if (refinement->is_done) {
        return GY_OK;
    }
    if (refinement->bytes[seen->port] >= 0) {
        return GY_OK;
    }
    if (seen->sample_bytes == SAMPLE_AS_BEFORE) {
        GY_ASSERT(seen->port > 0);
        refinement->bytes[seen->port] = seen->bytes;
        refinement->samples[seen->port] = refinement->samples[seen->port - 1];
        refinement->seen++;
        return GY_OK;
    }
    void *copy = NULL;
    if (seen->sample_bytes > 0) {
        copy = gy_arena_alloc(&job->arena, (size_t)seen->sample_bytes);
        if (copy == NULL) {
            return GY_NOMEM;
        }
        memcpy(copy, sample, (size_t)seen->sample_bytes);
    }
    refinement->bytes[seen->port] = seen->bytes;
    refinement->samples[seen->port] =
        (gy_refinement_sample_row){copy, (size_t)seen->sample_bytes};
    refinement->seen++;
    return GY_OK;
}

/* Does the previous port have the same sample? A vertex has one sample for all its ports. */
static bool is_as_before(const gy_refinement_state *refinement, uint32_t port,
                         const gy_report *report)
{
    if (port == 0 || report->sample_bytes == 0 || refinement->bytes[port - 1] < 0) {
        return false;
    }
    const gy_refinement_sample_row *before = &refinement->samples[port - 1];
    return before->size_bytes == report->sample_bytes &&
           memcmp(before->data, report->sample, report->sample_bytes) == 0;
}

static gy_status look_at_port(gy_flow_job *job, const gy_manager *manager, uint32_t refinement,
                              uint32_t port)
{
    const uint32_t *at = &job->dag->refinements[refinement].ports[(size_t)port * 2];
    const uint32_t task = job->lowering.task[at[0]];
    gy_sched_task_state state;
    gy_manager_task(manager, task, &state);
    if (state.committed.attempt == 0) {
        return GY_OK; /* the vertex was lost since; its stage will complete once more */
    }
    gy_report report;
    GY_TRY(gy_flow_run_report(job, task, state.report, state.report_bytes,
                              gy_flow_lower_member(&job->lowering, at[0]), &report));
    const bool is_told = is_as_before(&job->refinements[refinement], port, &report);
    const gy_refinement_seen seen = {
        .refinement = refinement,
        .port = port,
        .bytes = (int64_t)gy_report_output(&report, at[1]).size_bytes,
        .sample_bytes = is_told ? SAMPLE_AS_BEFORE : report.sample_bytes};
    gy_text_add_bytes(&job->detail, &seen, sizeof(seen));
    if (report.sample_bytes > 0 && !is_told) {
        gy_text_add_bytes(&job->detail, report.sample, report.sample_bytes);
    }
    return see(job, &seen, report.sample);
}

/* Gather all ports of this stage, and write them to job->detail too. */
static gy_status look(gy_flow_job *job, const gy_manager *manager, uint32_t stage)
{
    for (uint32_t g = 0; g < job->refinement_count; g++) {
        const gy_dag_refinement *refinement = &job->dag->refinements[g];
        for (uint32_t k = 0; !job->refinements[g].is_done && k < refinement->port_count; k++) {
            if (job->refinements[g].bytes[k] < 0 &&
                stage_of(job, refinement->ports[(size_t)k * 2]) == stage) {
                GY_TRY(look_at_port(job, manager, g, k));
            }
        }
    }
    return job->detail.status;
}

/* Restore what an earlier manager gathered. */
static gy_status recall(gy_flow_job *job, const gy_grown *grown)
{
    const char *at = grown->detail;
    size_t left = grown->detail_bytes;
    while (left > 0) {
        gy_refinement_seen seen;
        if (left < sizeof(seen)) {
            return gy_fail(GY_FORMAT, "a refinement in the journal is truncated");
        }
        memcpy(&seen, at, sizeof(seen));
        at += sizeof(seen);
        left -= sizeof(seen);
        const bool is_told = seen.sample_bytes == SAMPLE_AS_BEFORE && seen.port > 0;
        const size_t sample_bytes = is_told ? 0 : (size_t)seen.sample_bytes;
        if (sample_bytes > left || seen.refinement >= job->refinement_count ||
            seen.port >= job->dag->refinements[seen.refinement].port_count || seen.bytes < 0) {
            return gy_fail(GY_FORMAT, "a refinement in the journal belongs to another job");
        }
        GY_TRY(see(job, &seen, at));
        at += sample_bytes;
        left -= sample_bytes;
    }
    return GY_OK;
}

/* ---- running refinements ---- */

/* Call the functions of all refinement points that have seen all their ports. */
static void open_gates(gy_flow_job *job)
{
    for (size_t g = 0; g < job->refinement_count; g++) {
        gy_refinement_state *state = &job->refinements[g];
        if (state->is_done || state->seen < job->dag->refinements[g].port_count) {
            continue;
        }
        state->is_done = true;
        const gy_dag_refinement row =
            job->dag->refinements[g]; /* a copy, because growth may add refinements */
        gy_refinement refinement = {.row = &row,
                                    .bytes = state->bytes,
                                    .samples = state->samples,
                                    .processes = job->processes};
        job->dag->part_floor = job->dag->part_count;
        row.work(&refinement, job->dag, gy_refinement_part(job->dag, &row));
        gy_free(state->bytes);
        gy_free(state->samples);
        state->bytes = NULL;
        state->samples = NULL;
    }
}

static gy_status grow(gy_flow_job *job, gy_growth *growth)
{
    *growth = (gy_growth){0};
    open_gates(job);
    job->grown_count++;
    GY_TRY(gy_dag_status(job->dag));
    return gy_flow_run_lower(job, growth);
}

/* Restore bad records that an earlier manager knew. */
static gy_status learn(gy_flow_job *job, const gy_manager *manager)
{
    const void *data = NULL;
    size_t size_bytes = 0;
    while (gy_manager_learnt(manager, job->learnt_count, &data, &size_bytes)) {
        GY_TRY(gy_bad_learn(job->bad, data, size_bytes));
        job->learnt_count++;
    }
    return GY_OK;
}

gy_status gy_flow_run_follow(gy_flow_job *job, const gy_manager *manager)
{
    gy_grown grown;
    GY_TRY(learn(job, manager));
    while (gy_manager_grown(manager, job->grown_count, &grown)) {
        gy_growth growth;
        const size_t before = job->task_count;
        GY_TRY(recall(job, &grown));
        GY_TRY(grow(job, &growth));
        gy_flow_growth_free(&growth);
        if (before != grown.first_task || job->task_count - before != grown.task_count) {
            return gy_fail(GY_MISMATCH,
                           "the refinement after stage %s makes %zu tasks, the journal has %u: "
                           "expected a function of sizes alone",
                           job->dag->stages[grown.stage].name, job->task_count - before,
                           grown.task_count);
        }
    }
    return GY_OK;
}

gy_status gy_flow_run_grow(void *arg, const gy_manager *manager, uint32_t stage,
                           const gy_growth **growth)
{
    gy_flow_job *job = arg;
    GY_TRY(gy_flow_run_follow(job, manager));
    gy_flow_growth_free(&job->growth);
    job->detail.size_bytes = 0;
    *growth = NULL;
    GY_TRY(look(job, manager, stage));
    GY_TRY(grow(job, &job->growth));
    job->growth.detail = job->detail.data;
    job->growth.detail_bytes = job->detail.size_bytes;
    *growth = &job->growth; /* also when it made no task, because the growths are counted */
    return GY_OK;
}

gy_status gy_flow_run_check_refinements(const gy_flow_job *job)
{
    for (size_t g = 0; g < job->refinement_count; g++) {
        if (!job->refinements[g].is_done) {
            return gy_fail(
                GY_STATE,
                "a refinement did not happen: %u of the %u outputs that it waits for exist",
                job->refinements[g].seen, job->dag->refinements[g].port_count);
        }
    }
    return GY_OK;
}
