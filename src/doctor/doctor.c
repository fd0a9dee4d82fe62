/* What `gyre doctor` does: find, read, diagnose, say. */
#include "doctor/doctor_priv.h"

#include <gyre/doctor.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "gyre: %s: %s\n", what, gy_error_text());
    return 1;
}

/* Takes the flight. */
static int say(gy_flight *flight, bool is_json)
{
    gy_text text = {.data = NULL};
    gy_diagnosis *diagnosis = gy_diagnose(flight);
    bool is_said = diagnosis != NULL;
    if (is_said) {
        if (is_json) {
            gy_diagnosis_json(diagnosis, &text);
        } else {
            gy_diagnosis_print(diagnosis, &text);
        }
        is_said = text.status == GY_OK && fputs(gy_text_get(&text), stdout) >= 0;
    }
    if (!is_said) {
        fprintf(stderr, "gyre: cannot say what the flight recorder holds\n");
    }
    gy_text_free(&text);
    gy_diagnosis_free(diagnosis);
    gy_flight_free(flight);
    return is_said ? 0 : 1;
}

static int read_file(const gy_doctor_options *options)
{
    gy_flight *flight = NULL;
    int file = open(options->file, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fprintf(stderr, "gyre: cannot open %s: %s\n", options->file, strerror(errno));
        return 1;
    }
    gy_status status = gy_flight_read(file, &flight);
    close(file);
    return status < 0 ? fail(options->file) : say(flight, options->is_json);
}

static gy_status take(const gy_found_run *run, gy_flight **flight)
{
    int segment = open(run->path, O_RDONLY | O_CLOEXEC);
    if (segment < 0) {
        return gy_fail(GY_NOTFOUND, "the run has just ended");
    }
    gy_status status = gy_flight_take(segment, flight);
    close(segment);
    return status;
}

static void list(const gy_found_run *runs, int count, FILE *out)
{
    fprintf(out, "several runs: say which (gyre doctor PROCESS)\n");
    for (int i = 0; i < count; i++) {
        gy_flight *flight = NULL;
        if (take(&runs[i], &flight) == GY_OK && flight != NULL) {
            const gy_flight_head *head = &flight->head;
            fprintf(out, "  %-8d %s, ranks %d to %d of %d\n", (int)runs[i].processes[0],
                    head->program[0] != '\0' ? head->program : "(not joined yet)",
                    head->first_rank, head->first_rank + head->ranks - 1, head->size);
            gy_flight_free(flight);
        }
    }
}

/* All segments of a process: unmodified MPI programs have one a communicator. */
static int look_at(const gy_found_run *runs, int count, const gy_doctor_options *options)
{
    int found = 0, status = 0;
    for (int i = 0; i < count; i++) {
        gy_flight *flight = NULL;
        if (options->process != 0 && !gy_run_has(&runs[i], options->process)) {
            continue;
        }
        found++;
        if (take(&runs[i], &flight) < 0) {
            status = fail(runs[i].path);
        } else if (say(flight, options->is_json) != 0) {
            status = 1;
        }
    }
    if (found > 0) {
        return status;
    }
    if (options->process != 0) {
        fprintf(stderr, "gyre: process %d belongs to no run that this user may look at\n",
                options->process);
    } else {
        fprintf(stderr, "gyre: no run of this user is alive here; one that failed has left a "
                        "file (gyre doctor --recording FILE)\n");
    }
    return 1;
}

int gy_doctor(const gy_doctor_options *options)
{
    if (options->file != NULL) {
        return read_file(options);
    }
    gy_found_run *runs = gy_alloc_zero("doctor", GY_RUNS_MAX, sizeof(*runs));
    if (runs == NULL) {
        return fail("doctor");
    }
    int count = 0, status = 0;
    if (gy_runs_find(runs, &count) < 0) {
        status = fail("doctor");
    } else if (count > 1 && options->process == 0) {
        status = options->is_json ? 1 : 0; /* a program asked, and this is for people */
        list(runs, count, status == 0 ? stdout : stderr);
    } else {
        status = look_at(runs, count, options);
    }
    gy_free(runs);
    return status;
}
