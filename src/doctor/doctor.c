/* What `gyre doctor` does: finds the launches, reads the flight record, diagnoses it, and
 * prints the findings. */
#include "doctor/doctor_priv.h"

#include <gyre/doctor.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Takes the flight. */
static gy_status describe(gy_flight *flight, bool is_json, gy_text *out)
{
    gy_diagnosis *diagnosis = gy_doctor_diagnose(flight);
    gy_status status = GY_OK;
    if (diagnosis == NULL) {
        status = gy_fail(GY_NOMEM, "cannot print the flight recording");
    } else if (is_json) {
        gy_diagnosis_json(diagnosis, out);
    } else {
        gy_diagnosis_print(diagnosis, out);
    }
    gy_diagnosis_free(diagnosis);
    gy_flight_free(flight);
    return status;
}

static gy_status read_file(const gy_doctor_options *options, gy_text *out)
{
    gy_flight *flight = NULL;
    int file = open(options->file, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO, "cannot open %s: %s",
                       options->file, strerror(errno));
    }
    gy_status status = gy_flight_read(file, &flight);
    close(file);
    if (status < 0) {
        gy_fail_within(status, "%s", options->file);
        return status;
    }
    return describe(flight, options->is_json, out);
}

static gy_status take(const gy_found_run *run, gy_flight **flight)
{
    int segment = open(run->path, O_RDONLY | O_CLOEXEC);
    if (segment < 0) {
        return gy_fail(GY_NOTFOUND, "the launch has just ended");
    }
    gy_status status = gy_flight_take(segment, flight);
    close(segment);
    return status;
}

static void list(const gy_found_run *runs, int count, gy_text *out)
{
    for (int i = 0; i < count; i++) {
        gy_flight *flight = NULL;
        if (take(&runs[i], &flight) == GY_OK && flight != NULL) {
            const gy_flight_head *head = &flight->head;
            gy_text_add(out, "  %-8d %s, ranks %d to %d of %d\n", (int)runs[i].processes[0],
                        head->program[0] != '\0' ? head->program : "(not joined yet)",
                        head->first_rank, head->first_rank + head->ranks - 1, head->size);
            gy_flight_free(flight);
        }
    }
}

/* Describe all segments of a process: an unmodified MPI program has one for each
 * communicator. */
static gy_status look_at(const gy_found_run *runs, int count, const gy_doctor_options *options,
                         gy_text *out)
{
    int found = 0;
    gy_status status = GY_OK;
    for (int i = 0; i < count; i++) {
        gy_flight *flight = NULL;
        if (options->process != 0 && !gy_doctor_run_has(&runs[i], options->process)) {
            continue;
        }
        found++;
        gy_status one = take(&runs[i], &flight);
        if (one < 0) {
            gy_fail_within(one, "%s", runs[i].path);
        } else {
            one = describe(flight, options->is_json, out);
        }
        status = one < 0 ? one : status;
    }
    if (found > 0) {
        return status;
    }
    return options->process != 0
               ? gy_fail(GY_NOTFOUND,
                         "process %d belongs to no launch that this user may inspect",
                         options->process)
               : gy_fail(GY_NOTFOUND,
                         "no launch of this user is running on this host; a failed "
                         "one has left a file (gyre doctor --recording FILE)");
}

static gy_status look(const gy_doctor_options *options, gy_text *out)
{
    gy_doctor_options known;
    GY_TRY(gy_options_take(gy_doctor_options, &known, options));
    options = &known;
    if (options->file != NULL) {
        return read_file(options, out);
    }
    gy_found_run *runs = gy_alloc_zero("doctor", GY_RUNS_MAX, sizeof(*runs));
    if (runs == NULL) {
        return GY_NOMEM;
    }
    int count = 0;
    gy_status status = gy_doctor_runs_find(runs, &count);
    if (status == GY_OK && count > 1 && options->process == 0) {
        const char *which = "several launches: choose one (gyre doctor PROCESS)";
        if (!options->is_json) {
            gy_text_add(out, "%s\n", which);
        }
        list(runs, count, out);
        /* JSON is for programs, and the list of launches is for people */
        if (options->is_json) {
            status = gy_fail(GY_ARG, "%s", which);
        }
    } else if (status == GY_OK) {
        status = look_at(runs, count, options, out);
    }
    gy_free(runs);
    return status;
}

gy_status gy_doctor(const gy_doctor_options *options, char **text)
{
    gy_text out = {.data = NULL};
    gy_status status = look(options, &out);
    if (status == GY_OK && out.status < 0) {
        status = out.status;
    }
    *text = out.data;
    return status;
}
