/* Clusters that need not exist: their description as text, meshes worth a look. */
#include "graph/simulate/simulate.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PER_HOST_MAX = 1024 };

/* ---- the description ---- */

typedef enum key_kind {
    KEY_COUNT,
    KEY_SPEED,
    KEY_TIME,
    KEY_FLOPS,
    KEY_SIZE,
    KEY_WORD
} key_kind;

static const struct {
    const char *name;
    key_kind kind;
    size_t offset;
    double low, high;
    const char *expected;
} keys[] = {
#define PLACE(member) offsetof(gy_virtual_cluster, member)
#define SPEED         "a speed from 1kB/s to 1000TB/s such as 450GB/s or 400Gbit/s"
#define TIME          "a time from 1ns to 1s such as 5us"
    {"hosts", KEY_COUNT, PLACE(hosts), 1, GY_PLAN_RANKS, "1 to 65536"},
    {"gpus", KEY_COUNT, PLACE(ranks_per_host), 1, PER_HOST_MAX, "1 to 1024 ranks of a host"},
    {"near", KEY_SPEED, PLACE(near_bytes_s), 1e3, 1e15, SPEED},
    {"far", KEY_SPEED, PLACE(far_bytes_s), 1e3, 1e15, SPEED},
    {"near-latency", KEY_TIME, PLACE(near_latency_s), 1e-9, 1, TIME},
    {"far-latency", KEY_TIME, PLACE(far_latency_s), 1e-9, 1, TIME},
    {"flops", KEY_FLOPS, PLACE(flops_s), 1e6, 1e18,
     "operations a second from 1M to 1000P such as 400T"},
    {"bandwidth", KEY_SPEED, PLACE(memory_bytes_s), 1e3, 1e15, SPEED},
    {"memory", KEY_SIZE, PLACE(memory_bytes), 1, 1e15, "a size up to 1000TB such as 80GB"},
#undef PLACE
#undef SPEED
#undef TIME
};

static gy_status refuse_key(const char *name)
{
    size_t nearest = 0;
    GY_ASSERT(name != NULL);
    for (size_t i = 1; i < GY_COUNT(keys); i++) {
        if (gy_text_distance(name, keys[i].name, false) <
            gy_text_distance(name, keys[nearest].name, false)) {
            nearest = i;
        }
    }
    return gy_fail(
        GY_ARG,
        "cluster: no setting '%s', the nearest is %s: expected hosts, gpus, near, far, "
        "near-latency, far-latency, flops, bandwidth or memory",
        name, keys[nearest].name);
}

/* What a unit multiplies by; 0: it is none of the kind. */
static double factor_of(key_kind kind, const char *unit)
{
    GY_ASSERT(unit != NULL);
    static const struct {
        const char *prefix;
        double factor;
    } prefixes[] = {{"", 1},        {"k", 1e3},     {"K", 1e3},    {"M", 1e6},
                    {"G", 1e9},     {"T", 1e12},    {"P", 1e15},   {"Ki", 0x1p10},
                    {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    static const struct {
        const char *suffix;
        key_kind kind;
        double factor;
    } suffixes[] = {{"", KEY_FLOPS, 1},
                    {"", KEY_SIZE, 1},
                    {"B", KEY_SIZE, 1},
                    {"B/s", KEY_SPEED, 1},
                    {"bit/s", KEY_SPEED, 0.125}};
    static const struct {
        const char *name;
        double factor;
    } times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    for (size_t i = 0; kind == KEY_TIME && i < GY_COUNT(times); i++) {
        if (strcmp(unit, times[i].name) == 0) {
            return times[i].factor;
        }
    }
    for (size_t i = 0; kind != KEY_TIME && i < GY_COUNT(prefixes); i++) {
        const size_t length = strlen(prefixes[i].prefix);
        if (strncmp(unit, prefixes[i].prefix, length) != 0) {
            continue;
        }
        for (size_t k = 0; k < GY_COUNT(suffixes); k++) {
            if (suffixes[k].kind == kind && strcmp(unit + length, suffixes[k].suffix) == 0) {
                return prefixes[i].factor * suffixes[k].factor;
            }
        }
    }
    return kind == KEY_COUNT && *unit == '\0' ? 1 : 0;
}

static bool take_number(size_t key, const char *value, gy_virtual_cluster *cluster)
{
    char *end = NULL;
    GY_ASSERT(key < GY_COUNT(keys));
    GY_ASSERT(keys[key].low > 0);
    if (!isdigit((unsigned char)value[0]) || value[1] == 'x' || value[1] == 'X') {
        return false;
    }
    const double number = strtod(value, &end), scaled = number * factor_of(keys[key].kind, end);
    void *place = (char *)cluster + keys[key].offset;
    if (!(scaled >= keys[key].low && scaled <= keys[key].high)) {
        return false;
    }
    if (keys[key].kind == KEY_COUNT) {
        *(int *)place = (int)scaled;
        return floor(scaled) == scaled;
    }
    if (keys[key].kind == KEY_SIZE) {
        *(uint64_t *)place = (uint64_t)scaled;
    } else {
        *(double *)place = scaled;
    }
    return true;
}

static gy_status take_setting(size_t key, const char *value, gy_virtual_cluster *cluster)
{
    GY_ASSERT(key < GY_COUNT(keys) && value != NULL);
    return take_number(key, value, cluster)
               ? GY_OK
               : gy_fail(GY_ARG, "cluster: %s is '%s': expected %s", keys[key].name, value,
                         keys[key].expected);
}

/* What does not depend on one setting alone. */
static gy_status check(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->hosts >= 1 && cluster->ranks_per_host >= 1);
    const int64_t ranks = (int64_t)cluster->hosts * cluster->ranks_per_host;
    if (ranks > GY_PLAN_RANKS) {
        return gy_fail(GY_ARG, "cluster: %d hosts of %d ranks are %lld: expected up to %d",
                       cluster->hosts, cluster->ranks_per_host, (long long)ranks,
                       GY_PLAN_RANKS);
    }
    if (cluster->hosts > 1 && cluster->far_bytes_s == 0) {
        return gy_fail(GY_ARG,
                       "cluster: %d hosts and no speed between them: expected such as "
                       "far=50GB/s",
                       cluster->hosts);
    }
    if (cluster->hosts > 1 && cluster->ranks_per_host > 1 && cluster->near_bytes_s == 0) {
        return gy_fail(GY_ARG,
                       "cluster: %d ranks of a host and no speed between them: expected "
                       "such as near=450GB/s",
                       cluster->ranks_per_host);
    }
    return GY_OK;
}

/* The next "key=value" of the text, which ends at a comma. */
static gy_status parse_setting(char *setting, bool *is_given, gy_virtual_cluster *cluster)
{
    char *value = strchr(setting, '=');
    size_t key = 0;
    GY_ASSERT(is_given != NULL);
    if (value == NULL) {
        return gy_fail(GY_ARG, "cluster: '%s': expected KEY=VALUE, such as gpus=8", setting);
    }
    *value++ = '\0';
    while (key < GY_COUNT(keys) && strcmp(setting, keys[key].name) != 0) {
        key++;
    }
    if (key == GY_COUNT(keys)) {
        return refuse_key(setting);
    }
    if (is_given[key]) {
        return gy_fail(GY_ARG, "cluster: %s is given twice: expected once", setting);
    }
    is_given[key] = true;
    return take_setting(key, value, cluster);
}

gy_status gy_virtual_cluster_parse(const char *text, gy_virtual_cluster *cluster)
{
    GY_ASSERT(text != NULL && cluster != NULL);
    bool is_given[GY_COUNT(keys)] = {false};
    gy_virtual_cluster made = {
        .hosts = 1, .ranks_per_host = 1, .near_latency_s = 2e-6, .far_latency_s = 5e-6};
    char *copy = gy_copy_text("graph.simulate", text);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    char *at = copy;
    while (status >= 0 && at != NULL) {
        char *end = strchr(at, ',');
        if (end != NULL) {
            *end++ = '\0';
        }
        status = parse_setting(at, is_given, &made);
        at = end;
    }
    gy_free(copy);
    GY_TRY(status);
    GY_TRY(check(&made));
    *cluster = made;
    return GY_OK;
}

int gy_virtual_cluster_ranks(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->hosts >= 1 && cluster->ranks_per_host >= 1);
    return cluster->hosts * cluster->ranks_per_host;
}

/* ---- meshes ---- */

/* Is it a mesh of the ranks with a row for each? It is added unless it is there. */
static void add_mesh(const gy_virtual_cluster *cluster, int64_t batch, const int shape[3],
                     gy_virtual_mesh *meshes, int *count)
{
    const int pipe = shape[0], model = shape[1], ranks = gy_virtual_cluster_ranks(cluster);
    gy_virtual_mesh made = {.zero = shape[2]};
    GY_ASSERT(pipe >= 1 && model >= 1);
    const int data = ranks / pipe / model;
    if (*count == GY_VIRTUAL_MESHES_MAX || ranks % pipe != 0 || ranks / pipe % model != 0 ||
        data > batch || pipe > GY_STAGES_MAX || (made.zero > 0 && data == 1)) {
        return;
    }
    size_t size = gy_print(made.axes, sizeof(made.axes), "data=%d", data);
    if (pipe > 1) {
        size += gy_print(made.axes + size, sizeof(made.axes) - size, ",pipe=%d", pipe);
    }
    if (model > 1) {
        gy_print(made.axes + size, sizeof(made.axes) - size, ",model=%d", model);
    }
    for (int i = 0; i < *count; i++) {
        if (meshes[i].zero == made.zero && strcmp(meshes[i].axes, made.axes) == 0) {
            return;
        }
    }
    GY_ASSERT(data >= 1 && data * pipe * model == ranks);
    meshes[(*count)++] = made;
}

int gy_virtual_meshes(const gy_virtual_cluster *cluster, int64_t batch, gy_virtual_mesh *meshes)
{
    const int host = cluster->ranks_per_host;
    const int half = host % 2 == 0 && host > 2 ? host / 2 : host;
    const int shapes[][3] = {{1, 1, 0},    {1, 1, 1},    {1, 1, 3}, {1, host, 0},
                             {1, 2, 0},    {2, 1, 0},    {4, 1, 0}, {2, host, 0},
                             {4, host, 0}, {2, half, 0}, {2, 2, 0}, {8, 1, 0}};
    int count = 0;
    GY_ASSERT(batch >= 0 && host >= 1);
    for (size_t i = 0; i < GY_COUNT(shapes); i++) {
        add_mesh(cluster, batch, shapes[i], meshes, &count);
    }
    for (int pipe = 1; pipe <= GY_STAGES_MAX; pipe *= 2) { /* few rows: more of the others */
        for (int model = 1; model <= host; model *= 2) {
            add_mesh(cluster, batch, (const int[3]){pipe, model, 0}, meshes, &count);
        }
    }
    GY_ASSERT(count <= GY_VIRTUAL_MESHES_MAX);
    return count;
}

/* The links of an axis as placement reckons with them: its own rate of a rank is a constant,
 * so that links are slower beside it where the rank is faster. */
static gy_links search_links(const gy_virtual_cluster *cluster, const gy_virtual_line *line)
{
    const bool is_far = line->hosts > 1;
    const double faster =
        cluster->flops_s > 0 ? cluster->flops_s / gy_simulate_nominal_flops_s : 1;
    GY_ASSERT(faster > 0);
    if (line->is_shared_memory) {
        return (gy_links){.alpha = 0};
    }
    return (gy_links){.alpha = faster * (is_far ? line->far_latency_s : line->near_latency_s),
                      .beta = faster * (is_far ? line->far_byte_s : line->near_byte_s),
                      .gamma = faster * line->combine_byte_s};
}

gy_status gy_mesh_virtual(const gy_virtual_cluster *cluster, const char *axes, gy_mesh **mesh)
{
    GY_ASSERT(cluster != NULL && axes != NULL);
    gy_mesh *made = gy_alloc_zero("graph.mesh", 1, sizeof(*made));
    gy_virtual_links *links = gy_alloc_zero("graph.simulate", 1, sizeof(*links));
    gy_status status = made == NULL || links == NULL ? GY_NOMEM : check(cluster);
    if (status >= 0) {
        status = gy_mesh_imagine(axes, gy_virtual_cluster_ranks(cluster), made);
    }
    if (status >= 0) {
        gy_virtual_links_init(links, cluster, made);
        for (int axis = 0; axis < made->axes; axis++) {
            made->links[axis] = search_links(cluster, &links->lines[axis]);
        }
        made->stage_links = search_links(cluster, &links->pipe);
    }
    gy_free(links);
    if (status < 0) {
        gy_free(made);
        return status;
    }
    *mesh = made;
    return GY_OK;
}
