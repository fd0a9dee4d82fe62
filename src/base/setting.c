#include "base/setting.h"

#include "base/options.h"
#include "base/setting_numbers.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/text.h"

#include <gyre/info.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const gy_info_settings[] = {
    /* users set these */
    "GYRE_LOG", "GYRE_TIMEOUT", "GYRE_COLL", "GYRE_TUNE", "GYRE_TRANSPORT", "GYRE_ISA",
    "GYRE_KERNEL", "GYRE_S3_ENDPOINT", "GYRE_S3_STYLE", "GYRE_CA_FILE", "GYRE_STORE_TIMEOUT",
    "GYRE_MPI_CHUNK", "GYRE_DML_PATH", "GYRE_DEVICE", "GYRE_DEVICE_GRAPHS",
    "GYRE_CUDA_LIBRARIES", "GYRE_CACHE_DIR", "GYRE_TF32",
    /* `gyre run` sets these for each rank */
    "GYRE_RANK", "GYRE_SIZE", "GYRE_RUN_FD", "GYRE_CORES", "GYRE_RANKS_ON_HOST",
    /* `gyre train` sets this for workers of the parameter servers that it has started */
    "GYRE_SERVERS",
    /* `gyre job run` and `gyre job resume` set these for the program */
    "GYRE_JOB_RESUME", "GYRE_JOB_EPOCH", "GYRE_JOB_JOURNAL", "GYRE_JOB_PROCESSES",
    "GYRE_JOB_THREADS", "GYRE_JOB_MEMORY", "GYRE_JOB_TIMEOUT", "GYRE_JOB_HEARTBEAT_TIMEOUT",
    "GYRE_JOB_FOLDER", "GYRE_JOB_MEMO", "GYRE_JOB_MEMO_BYTES", "GYRE_JOB_TRACE",
    "GYRE_JOB_SANDBOX", "GYRE_JOB_QUOTA",
    /* a job sets these for its processes and for ranks that are a vertex; a daemon sets the
       last one for the manager of a job */
    "GYRE_VERTEX", "GYRE_INPUTS", "GYRE_OUTPUT", "GYRE_TICKET", NULL};

const char *gy_setting_get(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* "a|b|c" as "a, b or c". */
static const char *list_words(const char *choices, char *out, size_t size_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *word = choices; word != NULL;) {
        const char *end = strchr(word, '|');
        int size = end != NULL ? (int)(end - word) : (int)strlen(word);
        const char *between = word == choices ? "" : end != NULL ? ", " : " or ";
        used += gy_print(out + used, size_bytes - used, "%s%.*s", between, size, word);
        word = end != NULL ? end + 1 : NULL;
    }
    return out;
}

gy_status gy_setting_choice(const char *name, const char *choices, int *index)
{
    const char *value = gy_setting_get(name);
    if (value == NULL) {
        return GY_OK;
    }
    int at = 0;
    size_t size = strlen(value);
    for (const char *word = choices; word != NULL; at++) {
        if (strcspn(word, "|") == size && strncmp(word, value, size) == 0) {
            *index = at;
            return GY_OK;
        }
        word = strchr(word, '|');
        word = word != NULL ? word + 1 : NULL;
    }
    char words[256];
    return gy_fail(GY_ARG, "%s is \"%s\": expected %s", name, value,
                   list_words(choices, words, sizeof(words)));
}

gy_status gy_base_setting_seconds(const char *name, double *seconds)
{
    const char *value = gy_setting_get(name);
    char *end = NULL;
    GY_ASSERT(*seconds > 0);
    if (value == NULL) {
        return GY_OK;
    }
    const double read = strtod(value, &end);
    if (end == value || *end != '\0' || !(read > 0) || read > 1e9) {
        return gy_fail(GY_ARG, "%s is \"%s\": expected seconds, above 0 and up to 1e9", name,
                       value);
    }
    *seconds = read;
    return GY_OK;
}

/* A number of one to three digits; *rest is behind it, or NULL. */
static int take_number(const char *text, const char **rest)
{
    int number = 0;
    const size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits && digits <= 3; i++) {
        number = 10 * number + (text[i] - '0');
    }
    *rest = digits >= 1 && digits <= 3 ? text + digits : NULL;
    return number;
}

gy_status gy_base_setting_numbers(const char *name, const char *value,
                                  gy_setting_numbers *numbers)
{
    gy_setting_numbers read = {.is_said = value != NULL};
    const char *at = value;
    GY_ASSERT(name != NULL);
    read.is_auto = value != NULL && strcmp(value, "auto") == 0;
    if (value != NULL && !read.is_auto && strcmp(value, "none") != 0) {
        do {
            if (read.count == GY_SETTING_NUMBERS_MAX) {
                return gy_fail(GY_ARG, "%s has more than %d numbers", name,
                               GY_SETTING_NUMBERS_MAX);
            }
            read.numbers[read.count++] = take_number(at, &at);
        } while (at != NULL && *at++ == ',');
        if (at == NULL || at[-1] != '\0') {
            return gy_fail(GY_ARG,
                           "%s is \"%s\": expected none, auto or numbers from 0 to 999 with "
                           "commas between",
                           name, value);
        }
    }
    GY_ASSERT(!read.is_auto || read.count == 0);
    *numbers = read;
    return GY_OK;
}

int gy_setting_choose(const char *name, const char *choices, int fallback)
{
    int index = fallback;
    if (gy_setting_choice(name, choices, &index) < 0) {
        gy_warn("%s", gy_error_text());
    }
    return index;
}

gy_status gy_setting_user_path(const char *variable, const char *under, const char *name,
                               char *path, size_t size_bytes)
{
    const char *folder = gy_setting_get(variable), *home = gy_setting_get("HOME");
    if (folder == NULL && home == NULL) {
        return gy_fail(GY_ARG, "neither %s nor HOME is set: expected a file name", variable);
    }
    int size = folder != NULL ? snprintf(path, size_bytes, "%s/gyre%s", folder, name)
                              : snprintf(path, size_bytes, "%s/%s/gyre%s", home, under, name);
    return (size_t)size < size_bytes ? GY_OK
                                     : gy_fail(GY_ARG, "the path under %s is too long",
                                               folder != NULL ? variable : "HOME");
}

/* ---- options structs ---- */

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

gy_status gy_base_options_take(void *known, size_t size_bytes, const void *options,
                               const char *name)
{
    GY_ASSERT(known != NULL && size_bytes > sizeof(size_t));
    size_t given = size_bytes;
    if (options != NULL) {
        memcpy(&given, options, sizeof(given));
        given = given == 0 ? size_bytes : given;
        if (given < sizeof(given)) {
            return gy_fail(GY_ARG, "%s: struct_size is %zu, expected 0 or sizeof(%s)", name,
                           given, name);
        }
        if (given > size_bytes &&
            !is_zero((const unsigned char *)options + size_bytes, given - size_bytes)) {
            return gy_fail(GY_UNSUPPORTED,
                           "%s: struct_size is %zu, this library knows %zu bytes and a later "
                           "member is set: the program was compiled with a later Gyre",
                           name, given, size_bytes);
        }
    }
    unsigned char *out = known;
    const size_t copied = options == NULL ? 0 : given < size_bytes ? given : size_bytes;
    if (copied > 0) {
        memmove(out, options, copied);
    }
    memset(out + copied, 0, size_bytes - copied);
    memcpy(out, &size_bytes, sizeof(size_bytes));
    return GY_OK;
}
