/* What the iterations of a parfor read and write, from the tree. */
#include "dml/run/parfor_priv.h"

#include <string.h>

/* nrow(X) and the like ask for a size, which no indexed assignment changes. */
static bool is_size_of_name(const gy_dml_node *node)
{
    static const char *const names[] = {"nrow", "ncol", "length"};
    bool is_size = false;
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        is_size = is_size || strcmp(names[i], node->text) == 0;
    }
    return is_size && node->a != NULL && node->a->next == NULL &&
           node->a->a->kind == GY_DML_NAME;
}

typedef struct collector {
    gy_dml_accesses *out;
    int block;
} collector;

static gy_status add_access(const collector *in, gy_dml_access access)
{
    gy_dml_accesses *out = in->out;
    GY_TRY(GY_GROW("dml.accesses", out->items, out->capacity, out->count + 1));
    access.block = in->block;
    out->items[out->count++] = access;
    return GY_OK;
}

static gy_status collect_reads(const collector *in, const gy_dml_node *node);

static gy_status collect_range(const collector *in, const gy_dml_node *range)
{
    GY_TRY(range != NULL ? collect_reads(in, range->a) : GY_OK);
    return range != NULL ? collect_reads(in, range->b) : GY_OK;
}

static gy_status collect_reads(const collector *in, const gy_dml_node *node)
{
    if (node == NULL) {
        return GY_OK;
    }
    switch (node->kind) {
    case GY_DML_NAME:
        return add_access(in,
                          (gy_dml_access){.node = node, .name = node->text, .is_whole = true});
    case GY_DML_INDEX:
        GY_TRY(collect_range(in, node->a));
        GY_TRY(collect_range(in, node->b));
        return add_access(in, (gy_dml_access){.node = node, .name = node->text});
    case GY_DML_UNARY:
        return collect_reads(in, node->a);
    case GY_DML_BINARY:
        GY_TRY(collect_reads(in, node->a));
        return collect_reads(in, node->b);
    case GY_DML_CALL:
        if (is_size_of_name(node)) {
            return GY_OK;
        }
        for (const gy_dml_node *given = node->a; given != NULL; given = given->next) {
            GY_TRY(collect_reads(in, given->a));
        }
        return GY_OK;
    case GY_DML_SEVERAL:
        for (const gy_dml_node *item = node->a; item != NULL; item = item->next) {
            GY_TRY(collect_reads(in, item));
        }
        return GY_OK;
    default:
        return GY_OK;
    }
}

static gy_status collect_write(const collector *in, const gy_dml_node *target,
                               const gy_dml_node *value, bool is_sum)
{
    const bool is_whole = target->kind == GY_DML_NAME;
    if (!is_whole) {
        GY_TRY(collect_range(in, target->a));
        GY_TRY(collect_range(in, target->b));
        if (is_sum) {
            GY_TRY(add_access(in, (gy_dml_access){.node = target, .name = target->text}));
        }
    }
    return add_access(in, (gy_dml_access){.node = target,
                                          .value = is_whole ? value : NULL,
                                          .name = target->text,
                                          .is_write = true,
                                          .is_whole = is_whole,
                                          .is_sum = is_sum && is_whole});
}

static gy_status collect_statements(const collector *in, const gy_dml_node *node);

/* The statements of a pair of braces, of a loop where `loop` is one. */
static gy_status collect_block(const collector *in, const gy_dml_node *statements,
                               const gy_dml_node *loop)
{
    gy_dml_accesses *out = in->out;
    collector inner = {.out = out, .block = (int)out->block_count};
    gy_dml_block made = {.outer = in->block,
                         .loop = in->block >= 0 ? out->blocks[in->block].loop : -1};
    if (loop != NULL) {
        GY_TRY(GY_GROW("dml.accesses", out->loops, out->loop_capacity, out->loop_count + 1));
        out->loops[out->loop_count] = (gy_dml_loop){loop, made.loop};
        made.loop = (int)out->loop_count++;
    }
    GY_TRY(GY_GROW("dml.accesses", out->blocks, out->block_capacity, out->block_count + 1));
    out->blocks[out->block_count++] = made;
    return collect_statements(&inner, statements);
}

static gy_status collect_loop(const collector *in, const gy_dml_node *node)
{
    GY_TRY(collect_reads(in, node->a));
    GY_TRY(collect_reads(in, node->b));
    GY_TRY(collect_reads(in, node->c));
    GY_TRY(add_access(
        in,
        (gy_dml_access){.node = node, .name = node->text, .is_write = true, .is_whole = true}));
    return collect_block(in, node->d, node);
}

static gy_status collect_statements(const collector *in, const gy_dml_node *node)
{
    for (; node != NULL; node = node->next) {
        switch (node->kind) {
        case GY_DML_SET:
            GY_TRY(collect_reads(in, node->b));
            if (node->a->kind != GY_DML_SEVERAL) {
                GY_TRY(collect_write(in, node->a, node->b, false));
                break;
            }
            for (const gy_dml_node *target = node->a->a; target != NULL;
                 target = target->next) {
                GY_TRY(collect_write(in, target, NULL, false));
            }
            break;
        case GY_DML_ADD:
            GY_TRY(collect_reads(in, node->b));
            GY_TRY(collect_write(in, node->a, NULL, true));
            break;
        case GY_DML_RUN:
            GY_TRY(collect_reads(in, node->a));
            break;
        case GY_DML_IF:
            GY_TRY(collect_reads(in, node->a));
            GY_TRY(collect_block(in, node->b, NULL));
            GY_TRY(collect_block(in, node->c, NULL));
            break;
        case GY_DML_WHILE:
            GY_TRY(collect_reads(in, node->a));
            GY_TRY(collect_block(in, node->b, NULL));
            break;
        case GY_DML_FOR:
        case GY_DML_PARFOR:
            GY_TRY(collect_loop(in, node));
            break;
        default:
            break;
        }
    }
    return GY_OK;
}

gy_status gy_dml_accesses_collect(const gy_dml_node *parfor, gy_dml_accesses *out)
{
    const collector in = {.out = out, .block = -1};
    return collect_block(&in, parfor->d, parfor);
}

void gy_dml_accesses_fini(gy_dml_accesses *accesses)
{
    gy_free(accesses->items);
    gy_free(accesses->loops);
    gy_free(accesses->blocks);
    *accesses = (gy_dml_accesses){.items = NULL};
}

/* ---- in which order a name is read and written ---- */

bool gy_dml_uses(const char *name, const gy_dml_node *node)
{
    if (node == NULL) {
        return false;
    }
    switch (node->kind) {
    case GY_DML_NAME:
        return strcmp(node->text, name) == 0;
    case GY_DML_INDEX:
        return strcmp(node->text, name) == 0 || gy_dml_uses(name, node->a) ||
               gy_dml_uses(name, node->b);
    case GY_DML_RANGE:
    case GY_DML_BINARY:
        return gy_dml_uses(name, node->a) || gy_dml_uses(name, node->b);
    case GY_DML_UNARY:
        return gy_dml_uses(name, node->a);
    case GY_DML_CALL:
    case GY_DML_SEVERAL:
        for (const gy_dml_node *item = node->a; item != NULL; item = item->next) {
            if (gy_dml_uses(name, node->kind == GY_DML_CALL ? item->a : item)) {
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

/* An indexed assignment needs what was there, so it counts as a read. */
static gy_dml_first first_of_target(const char *name, const gy_dml_node *target)
{
    if (target->kind == GY_DML_INDEX && gy_dml_uses(name, target)) {
        return GY_DML_READ_FIRST;
    }
    return strcmp(target->text, name) == 0 ? GY_DML_WRITTEN_FIRST : GY_DML_UNTOUCHED;
}

static gy_dml_first first_of_targets(const char *name, const gy_dml_node *targets)
{
    gy_dml_first first = GY_DML_UNTOUCHED;
    if (targets->kind != GY_DML_SEVERAL) {
        return first_of_target(name, targets);
    }
    for (const gy_dml_node *one = targets->a; one != NULL; one = one->next) {
        const gy_dml_first found = first_of_target(name, one);
        if (found == GY_DML_READ_FIRST) {
            return found;
        }
        first = found == GY_DML_WRITTEN_FIRST ? found : first;
    }
    return first;
}

static gy_dml_first first_of_if(const char *name, const gy_dml_node *node)
{
    const gy_dml_first yes = gy_dml_first_use(name, node->b),
                       no = gy_dml_first_use(name, node->c);
    if (yes == GY_DML_READ_FIRST || no == GY_DML_READ_FIRST) {
        return GY_DML_READ_FIRST;
    }
    return yes == no ? yes : GY_DML_UNTOUCHED;
}

/* A loop over a:b runs once at least; one over seq(a, b, c) perhaps never. A parfor leaves what
 * its iterations wrote whole to them. */
static gy_dml_first first_of_loop(const char *name, const gy_dml_node *node)
{
    const bool is_variable = strcmp(node->text, name) == 0;
    const gy_dml_first first =
        is_variable ? GY_DML_WRITTEN_FIRST : gy_dml_first_use(name, node->d);
    const bool is_sure = node->kind == GY_DML_FOR && node->c == NULL;
    return first == GY_DML_WRITTEN_FIRST && !is_sure ? GY_DML_UNTOUCHED : first;
}

static gy_dml_first first_of_statement(const char *name, const gy_dml_node *node)
{
    switch (node->kind) {
    case GY_DML_SET:
        return gy_dml_uses(name, node->b) ? GY_DML_READ_FIRST : first_of_targets(name, node->a);
    case GY_DML_ADD:
        return gy_dml_uses(name, node->b) || gy_dml_uses(name, node->a) ? GY_DML_READ_FIRST
                                                                        : GY_DML_UNTOUCHED;
    case GY_DML_RUN:
        return gy_dml_uses(name, node->a) ? GY_DML_READ_FIRST : GY_DML_UNTOUCHED;
    case GY_DML_IF:
        return gy_dml_uses(name, node->a) ? GY_DML_READ_FIRST : first_of_if(name, node);
    case GY_DML_WHILE:
        return gy_dml_uses(name, node->a) ||
                       gy_dml_first_use(name, node->b) == GY_DML_READ_FIRST
                   ? GY_DML_READ_FIRST
                   : GY_DML_UNTOUCHED;
    case GY_DML_FOR:
    case GY_DML_PARFOR:
        return gy_dml_uses(name, node->a) || gy_dml_uses(name, node->b) ||
                       gy_dml_uses(name, node->c)
                   ? GY_DML_READ_FIRST
                   : first_of_loop(name, node);
    default:
        return GY_DML_UNTOUCHED;
    }
}

gy_dml_first gy_dml_first_use(const char *name, const gy_dml_node *statements)
{
    for (; statements != NULL; statements = statements->next) {
        const gy_dml_first first = first_of_statement(name, statements);
        if (first != GY_DML_UNTOUCHED) {
            return first;
        }
    }
    return GY_DML_UNTOUCHED;
}

/* How often an assignment writes the name: several targets may be the same. */
static int count_targets(const char *name, const gy_dml_node *node, const gy_dml_node **value)
{
    const bool is_many = node->a->kind == GY_DML_SEVERAL;
    int count = 0;
    for (const gy_dml_node *one = is_many ? node->a->a : node->a; one != NULL;
         one = is_many ? one->next : NULL) {
        if (strcmp(one->text, name) == 0) {
            const bool is_plain =
                one->kind == GY_DML_NAME && node->kind == GY_DML_SET && !is_many;
            *value = is_plain ? node->b : NULL;
            count++;
        }
    }
    return count;
}

int gy_dml_count_writes(const char *name, const gy_dml_node *statements,
                        const gy_dml_node **value)
{
    int count = 0;
    for (const gy_dml_node *node = statements; node != NULL; node = node->next) {
        if (node->kind == GY_DML_SET || node->kind == GY_DML_ADD) {
            count += count_targets(name, node, value);
        } else if (node->kind == GY_DML_IF || node->kind == GY_DML_WHILE) {
            count += gy_dml_count_writes(name, node->b, value);
            count += gy_dml_count_writes(name, node->c, value);
        } else if (node->kind == GY_DML_FOR || node->kind == GY_DML_PARFOR) {
            if (strcmp(node->text, name) == 0) {
                count++;
                *value = NULL;
            }
            count += gy_dml_count_writes(name, node->d, value);
        }
    }
    return count;
}

/* check=0 */
static bool is_unchecked(const gy_dml_node *parfor)
{
    for (const gy_dml_node *given = parfor->e; given != NULL; given = given->next) {
        if (given->text != NULL && strcmp(given->text, "check") == 0) {
            return given->a->kind == GY_DML_INTEGER && given->a->whole == 0;
        }
    }
    return false;
}

bool gy_dml_writes_unchecked(const char *name, const gy_dml_node *statements)
{
    const gy_dml_node *value = NULL;
    for (const gy_dml_node *node = statements; node != NULL; node = node->next) {
        const bool is_loop = node->kind == GY_DML_FOR || node->kind == GY_DML_PARFOR;
        if (node->kind == GY_DML_PARFOR && is_unchecked(node) &&
            gy_dml_count_writes(name, node->d, &value) > 0) {
            return true;
        }
        if ((is_loop && gy_dml_writes_unchecked(name, node->d)) ||
            ((node->kind == GY_DML_IF || node->kind == GY_DML_WHILE) &&
             (gy_dml_writes_unchecked(name, node->b) ||
              gy_dml_writes_unchecked(name, node->c)))) {
            return true;
        }
    }
    return false;
}
