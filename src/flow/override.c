/* Options of a job that the environment overrides. */
#include "base/base.h"
#include "base/fail.h"
#include "base/setting.h"

#include <gyre/flow.h>

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Read an integer from `low` to `high`; *value is unchanged when the variable is not set. */
static gy_status take_count(const char *name, long long low, long long high, long long *value)
{
    const char *text = gy_setting_get(name);
    if (text == NULL) {
        return GY_OK;
    }
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || isspace((unsigned char)text[0]) ||
        number < low || number > high) {
        return gy_fail(GY_ARG, "%s is \"%s\": expected an integer from %lld to %lld", name,
                       text, low, high);
    }
    *value = number;
    return GY_OK;
}

static gy_status take_seconds(const char *name, double *value)
{
    const char *text = gy_setting_get(name);
    if (text == NULL) {
        return GY_OK;
    }
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(number) ||
        number <= 0) {
        return gy_fail(GY_ARG, "%s is \"%s\": expected seconds above 0", name, text);
    }
    *value = number;
    return GY_OK;
}

static void take_text(const char *name, const char **value)
{
    const char *text = gy_setting_get(name);
    *value = text != NULL ? text : *value;
}

gy_status gy_flow_options_override(gy_flow_options *options)
{
    long long processes = options->processes, threads = options->threads;
    long long memory = (long long)options->memory_bytes, kept = options->memo_bytes_max;
    long long quota = 0; /* the job's end reads the value */
    GY_TRY(take_count("GYRE_JOB_PROCESSES", 1, 4096, &processes));
    GY_TRY(take_count("GYRE_JOB_THREADS", 1, 1024, &threads));
    GY_TRY(take_count("GYRE_JOB_MEMORY", GY_FLOW_MEMORY_BYTES_MIN, INT64_C(1) << 50, &memory));
    GY_TRY(take_count("GYRE_JOB_MEMO_BYTES", 1, INT64_C(1) << 50, &kept));
    GY_TRY(take_count("GYRE_JOB_QUOTA", 0, INT64_MAX, &quota));
    GY_TRY(take_seconds("GYRE_JOB_TIMEOUT", &options->timeout_s));
    GY_TRY(take_seconds("GYRE_JOB_HEARTBEAT_TIMEOUT", &options->heartbeat_timeout_s));
    options->processes = (int)processes;
    options->threads = (int)threads;
    options->memory_bytes = (size_t)memory;
    options->memo_bytes_max = kept;
    take_text("GYRE_JOB_FOLDER", &options->folder);
    take_text("GYRE_JOB_MEMO", &options->memo);
    take_text("GYRE_JOB_TRACE", &options->trace);
    take_text("GYRE_JOB_SANDBOX", &options->sandbox);
    return GY_OK;
}
