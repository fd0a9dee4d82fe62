/* Which part a key belongs to, and whether a table is well-formed. */
#include "ps/part/part_priv.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables ---- */

static gy_status out_of(const char *name, const char *what, double value, const char *range)
{
    return gy_fail(GY_ARG, "table %s: %s is %g, expected %s", name, what, value, range);
}

static gy_status judge_numbers(const char *name, const gy_ps_table_options *o)
{
    const struct {
        const char *name;
        double value, below;
        const char *range;
    } numbers[] = {
        {"the rate", o->rate, INFINITY, "above 0"},
        {"momentum", o->momentum, 1, "in (0, 1)"},
        {"beta1", o->beta1, 1, "in (0, 1)"},
        {"beta2", o->beta2, 1, "in (0, 1)"},
        {"epsilon", o->epsilon, INFINITY, "above 0"},
        {"beta of FTRL", o->ftrl_beta, INFINITY, "above 0"},
        {"weight decay", o->weight_decay, INFINITY, "0 or above"},
        {"l1", o->l1, INFINITY, "0 or above"},
        {"l2", o->l2, INFINITY, "0 or above"},
        {"the initial range", o->initial_range, INFINITY, "0 or above"},
    };
    enum { POSITIVE = 6 };
    for (size_t i = 0; i < GY_COUNT(numbers); i++) {
        double value = numbers[i].value;
        bool is_good = i < POSITIVE ? value > 0 : value >= 0;
        if (!is_good || !(value < numbers[i].below)) {
            return out_of(name, numbers[i].name, value, numbers[i].range);
        }
    }
    return GY_OK;
}

static gy_status judge_sync(const char *name, gy_ps_sync sync, uint32_t workers)
{
    if (sync.rule >= GY_PS_RULES) {
        return out_of(name, "the rule of consistency", sync.rule, "one of enum gy_ps_rule");
    }
    if (sync.rule == GY_PS_BACKUP && sync.bound >= workers) {
        return gy_fail(GY_ARG, "table %s: %u backup workers of %u: expected fewer", name,
                       sync.bound, workers);
    }
    if (sync.rule != GY_PS_BACKUP && sync.rule != GY_PS_SSP && sync.bound != 0) {
        return out_of(name, "the bound of a rule that has none", sync.bound, "0");
    }
    return GY_OK;
}

static gy_status judge_shape(const char *name, const gy_ps_table_options *o)
{
    bool is_known = o->dtype == GY_F32 || o->dtype == GY_F64 || o->dtype == GY_I64;
    if (!is_known || o->update >= GY_PS_UPDATES) {
        return gy_fail(GY_ARG,
                       "table %s: dtype %d with update %d: expected float32, float64 or "
                       "int64, and one of enum gy_ps_update",
                       name, (int)o->dtype, (int)o->update);
    }
    bool is_whole = o->dtype == GY_I64;
    if (is_whole && ((o->update != GY_PS_SUM && o->update != GY_PS_FUNCTION) ||
                     o->sync.rule == GY_PS_WEIGHTED || o->initial_range > 0)) {
        return gy_fail(GY_ARG, "table %s: whole numbers are only summed", name);
    }
    if (o->width > GY_PS_WIDTH_MAX) {
        return out_of(name, "the width", o->width, "at most 1048576");
    }
    if (o->is_sparse != (o->rows == 0)) {
        return gy_fail(GY_ARG,
                       "table %s: %llu rows: a dense table has 1 or more, a sparse one "
                       "says none",
                       name, (unsigned long long)o->rows);
    }
    if (o->rows > ((uint64_t)1 << 40) / o->width) {
        return out_of(name, "the number of values", (double)o->rows * o->width, "at most 2^40");
    }
    if ((o->update == GY_PS_FUNCTION) != (o->function != NULL && o->function[0] != '\0')) {
        return gy_fail(GY_ARG, "table %s: a function and an update that is none", name);
    }
    return GY_OK;
}

static bool is_name(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return false;
        }
    }
    return size > 0 && size < 64;
}

gy_status gy_ps_table_judge(const char *name, const gy_ps_table_options *options,
                            uint32_t workers, gy_ps_table_options *judged)
{
    gy_ps_table_options o;
    GY_TRY(gy_options_take(gy_ps_table_options, &o, options));
    if (!is_name(name)) {
        return gy_fail(GY_ARG, "the name of a table has 1 to 63 printable characters");
    }
    if (workers == 0 || workers > GY_PS_WORKERS_MAX) {
        return out_of(name, "the number of workers", workers, "1 to 4096");
    }
    bool is_adam = o.update == GY_PS_ADAM || o.update == GY_PS_ADAMW;
    o.dtype = o.dtype == GY_DTYPE_NONE ? GY_F32 : o.dtype;
    o.width = o.width == 0 ? 1 : o.width;
    o.rate = o.rate == 0 ? (is_adam ? 1e-3 : 1e-2) : o.rate;
    o.momentum = o.momentum == 0 ? 0.9 : o.momentum;
    o.beta1 = o.beta1 == 0 ? 0.9 : o.beta1;
    o.beta2 = o.beta2 == 0 ? 0.999 : o.beta2;
    o.epsilon = o.epsilon == 0 ? 1e-8 : o.epsilon;
    o.ftrl_beta = o.ftrl_beta == 0 ? 1 : o.ftrl_beta;
    GY_TRY(judge_shape(name, &o));
    GY_TRY(judge_numbers(name, &o));
    GY_TRY(judge_sync(name, o.sync, workers));
    *judged = o;
    return GY_OK;
}

/* ---- Rules as texts ---- */

static const char *const rule_names[] = {"bsp", "asp", "ssp", "backup", "weighted"};
static_assert(GY_COUNT(rule_names) == GY_PS_RULES, "a name for each rule");

gy_status gy_ps_sync_read(const char *text, gy_ps_sync *sync)
{
    for (int rule = 0; rule < GY_PS_RULES; rule++) {
        size_t size = strlen(rule_names[rule]);
        bool has_bound = rule == GY_PS_SSP || rule == GY_PS_BACKUP;
        if (strncmp(text, rule_names[rule], size) != 0 ||
            text[size] != (has_bound ? ':' : '\0')) {
            continue;
        }
        *sync = (gy_ps_sync){.rule = (gy_ps_rule)rule};
        if (!has_bound) {
            return GY_OK;
        }
        char *end = NULL;
        const char *number = text + size + 1;
        unsigned long bound = strtoul(number, &end, 10);
        if (number[0] >= '0' && number[0] <= '9' && *end == '\0' && bound <= UINT32_MAX) {
            sync->bound = (uint32_t)bound;
            return GY_OK;
        }
    }
    return gy_fail(GY_ARG,
                   "'%s' is no rule of consistency: expected bsp, asp, ssp:N, backup:N or "
                   "weighted",
                   text);
}

void gy_ps_sync_print(gy_ps_sync sync, char *out, size_t size_bytes)
{
    GY_ASSERT(sync.rule < GY_PS_RULES);
    if (sync.rule == GY_PS_SSP || sync.rule == GY_PS_BACKUP) {
        snprintf(out, size_bytes, "%s:%u", rule_names[sync.rule], sync.bound);
    } else {
        snprintf(out, size_bytes, "%s", rule_names[sync.rule]);
    }
}

/* ---- Keys ---- */

void gy_ps_part_range(const gy_ps_table_options *table, uint32_t part, uint32_t parts,
                      uint64_t *first, uint64_t *end)
{
    GY_ASSERT(part < parts && !table->is_sparse);
    *first = table->rows / parts * part + table->rows % parts * part / parts;
    *end = table->rows / parts * (part + 1) + table->rows % parts * (part + 1) / parts;
}

/* A bijection whose bits all depend on all bits of the key (the end of SplitMix64, Steele et
 * al., OOPSLA 2014). */

uint32_t gy_ps_key_part(const gy_ps_table_options *table, uint64_t key, uint32_t parts)
{
    GY_ASSERT(parts > 0 && parts <= GY_PS_PARTS_MAX);
    if (!table->is_sparse) {
        uint64_t first = 0, end = 0;
        uint32_t part = (uint32_t)(key / (table->rows / parts + 1));
        for (gy_ps_part_range(table, part, parts, &first, &end); key >= end;) {
            part++;
            gy_ps_part_range(table, part, parts, &first, &end);
        }
        return part;
    }
    uint64_t place = table->is_by_range ? key : gy_ps_key_mixed(key);
    /* the upper 64 bits of place * parts */
    return (uint32_t)(((place >> 32) * parts + ((place & UINT32_MAX) * parts >> 32)) >> 32);
}

gy_status gy_ps_keys_check(const gy_ps_table_options *table, const uint64_t *keys, size_t count,
                           uint32_t part, uint32_t parts)
{
    for (size_t i = 1; i < count; i++) {
        if (keys[i] <= keys[i - 1]) {
            return gy_fail(GY_ARG,
                           "key %zu is %llu after %llu: expected strictly ascending keys", i,
                           (unsigned long long)keys[i], (unsigned long long)keys[i - 1]);
        }
    }
    bool is_any = part == UINT32_MAX || (parts == 1 && part == 0);
    for (size_t i = 0; !is_any && i < count; i++) {
        uint32_t of = gy_ps_key_part(table, keys[i], parts);
        if (of != part) {
            return gy_fail(GY_ARG, "key %zu, %llu, belongs to part %u: this is part %u of %u",
                           i, (unsigned long long)keys[i], of, part, parts);
        }
    }
    return GY_OK;
}
