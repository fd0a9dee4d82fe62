/* What instructions cost: counted by what they do, shown with the costliest first. */
#include "dml/run/profile_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const char *const binaries[] = {
#define GY_X(id, name, value) name,
    GY_DML_BINARY_LIST(GY_X)
#undef GY_X
};
static const char *const unaries[] = {
#define GY_X(id, name, value) name,
    GY_DML_UNARY_LIST(GY_X)
#undef GY_X
};

enum { OTHERS = 32 }; /* kinds of instructions */

/* A row: an operator, a builtin, another kind of instruction, or a function of the script. */
static size_t row_of(const gy_dml_function *function, const gy_dml_instruction *at)
{
    const size_t unary = GY_DML_BINARY_COUNT, builtin = unary + GY_DML_UNARY_COUNT,
                 other = builtin + (size_t)gy_dml_builtin_count;
    switch ((int)at->what) {
    case GY_DML_DO_BINARY:
        return at->code;
    case GY_DML_DO_UNARY:
        return unary + at->code;
    case GY_DML_DO_BUILTIN:
        return builtin + (size_t)function->operands[at->a];
    case GY_DML_DO_CALL:
        return other + OTHERS + (size_t)function->callees[function->operands[at->a]]->index;
    default:
        return other + at->what;
    }
}

int64_t gy_dml_profile_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Room for a row; without memory it is not counted, which the text says. */
static bool has_row(gy_dml_profile *profile, size_t row)
{
    const size_t before = profile->capacity;
    if (GY_GROW("dml.profile", profile->rows, profile->capacity, row + 1) != GY_OK) {
        profile->is_cut = true;
        return false;
    }
    if (profile->capacity > before) {
        memset(profile->rows + before, 0,
               (profile->capacity - before) * sizeof(*profile->rows));
    }
    return true;
}

void gy_dml_profile_note(gy_dml_profile *profile, const gy_dml_function *function,
                         const gy_dml_instruction *at, int64_t begun_ns)
{
    static const bool is_control[OTHERS] = {
        [GY_DML_DO_JUMP] = true,   [GY_DML_DO_JUMP_FALSE] = true, [GY_DML_DO_JUMP_GIVEN] = true,
        [GY_DML_DO_EXISTS] = true, [GY_DML_DO_LOOP] = true,       [GY_DML_DO_NEXT] = true};
    const size_t row = row_of(function, at);
    if (!is_control[at->what] && has_row(profile, row)) {
        profile->rows[row].count++;
        profile->rows[row].time_ns += gy_dml_profile_now() - begun_ns;
    }
}

void gy_dml_profile_add(gy_dml_profile *profile, const gy_dml_profile *other)
{
    for (size_t i = 0; i < other->capacity; i++) {
        if (other->rows[i].count > 0 && has_row(profile, i)) {
            profile->rows[i].count += other->rows[i].count;
            profile->rows[i].time_ns += other->rows[i].time_ns;
        }
    }
    profile->is_cut = profile->is_cut || other->is_cut;
}

void gy_dml_profile_fini(gy_dml_profile *profile)
{
    gy_free(profile->rows);
    *profile = (gy_dml_profile){.rows = NULL};
}

static const char *name_of(const gy_dml_script *script, size_t row)
{
    static const char *const others[OTHERS] = {[GY_DML_DO_MOVE] = "=",
                                               [GY_DML_DO_PRODUCT] = "%*%",
                                               [GY_DML_DO_CUT] = "x[i, j]",
                                               [GY_DML_DO_PASTE] = "x[i, j] =",
                                               [GY_DML_DO_PARFOR] = "parfor"};
    if (row < GY_DML_BINARY_COUNT) {
        return binaries[row];
    }
    row -= GY_DML_BINARY_COUNT;
    if (row < GY_DML_UNARY_COUNT) {
        return unaries[row];
    }
    row -= GY_DML_UNARY_COUNT;
    if (row < (size_t)gy_dml_builtin_count) {
        return gy_dml_builtins[row].name;
    }
    row -= (size_t)gy_dml_builtin_count;
    return row < OTHERS ? (others[row] != NULL ? others[row] : "?")
                        : script->functions[row - OTHERS]->name;
}

void gy_dml_profile_text(const gy_dml_script *script, int most, gy_text *text)
{
    const gy_dml_profile *profile = &script->profile;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    gy_text_add(text,
                "time in all: %.3f s\n"
                "compilation: %.3f s\n"
                "peak memory: %.1f MiB\n"
                "heavy hitters (a function's or parfor's time has what it runs):\n"
                "  #  instruction                        count      time\n",
                (double)script->total_ns / 1e9, (double)script->compile_ns / 1e9,
                (double)usage.ru_maxrss / 1024);
    gy_dml_profile_row last = {.time_ns = INT64_MAX};
    size_t last_row = 0;
    for (int n = 1; n <= most; n++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < profile->capacity; i++) {
            const gy_dml_profile_row *row = &profile->rows[i];
            const bool is_later =
                row->time_ns < last.time_ns || (row->time_ns == last.time_ns && i > last_row);
            if (row->count > 0 && is_later &&
                (best == SIZE_MAX || row->time_ns > profile->rows[best].time_ns)) {
                best = i;
            }
        }
        if (best == SIZE_MAX) {
            break;
        }
        last = profile->rows[best];
        last_row = best;
        gy_text_add(text, "%3d  %-28.60s %11lld %9.3f s\n", n, name_of(script, best),
                    (long long)last.count, (double)last.time_ns / 1e9);
    }
    if (profile->is_cut) {
        gy_text_add(text, "some instructions are not counted: out of memory\n");
    }
}
