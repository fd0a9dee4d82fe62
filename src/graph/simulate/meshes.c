/* Meshes of a cluster's ranks: those worth a look, all there are, and one as ranks would see
 * it. */
#include "graph/simulate/simulate.h"

#include <string.h>

/* ---- worth a look ---- */

/* Is it a mesh of the ranks with a row for each? It is added unless it is there. */
static void add_mesh(const gy_virtual_cluster *cluster, int64_t batch, const int shape[3],
                     gy_virtual_mesh *meshes, int *count)
{
    const int pipe = shape[0], model = shape[1], ranks = gy_virtual_cluster_ranks(cluster);
    gy_virtual_mesh made = {.zero = shape[2]};
    GY_ASSERT(pipe >= 1 && model >= 1);
    const int data = ranks / pipe / model;
    made.data = data;
    made.pipe = pipe;
    made.model = model;
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

/* ---- all meshes ---- */

/* Axes from the outermost to the innermost: ranks that differ along the last one alone are
 * neighbours, of one host where it is no larger than that. */
typedef enum order {
    ORDER_PIPE_DATA_MODEL,
    ORDER_DATA_PIPE_MODEL,
    ORDER_PIPE_MODEL_DATA,
    ORDERS
} order;
enum { PIPE, DATA, MODEL, AXES };

static const char *const axis_names[AXES] = {"pipe", "data", "model"};
static const int axis_orders[ORDERS][AXES] = {
    [ORDER_PIPE_DATA_MODEL] = {PIPE, DATA, MODEL},
    [ORDER_DATA_PIPE_MODEL] = {DATA, PIPE, MODEL},
    [ORDER_PIPE_MODEL_DATA] = {PIPE, MODEL, DATA},
};

typedef struct listing {
    gy_virtual_mesh *meshes; /* (capacity) */
    int capacity, count;     /* also of those that have no room */
} listing;

/* An axis of size 1 is none. */
static void name_axes(const int sizes[AXES], order which, gy_virtual_mesh *mesh)
{
    size_t size = 0;
    GY_ASSERT(which < ORDERS);
    GY_ASSERT(sizes[PIPE] >= 1 && sizes[DATA] >= 1 && sizes[MODEL] >= 1);
    *mesh = (gy_virtual_mesh){.data = sizes[DATA], .pipe = sizes[PIPE], .model = sizes[MODEL]};
    for (int i = 0; i < AXES; i++) {
        const int axis = axis_orders[which][i];
        if (sizes[axis] > 1) {
            size += gy_print(mesh->axes + size, sizeof(mesh->axes) - size, "%s%s=%d",
                             size > 0 ? "," : "", axis_names[axis], sizes[axis]);
        }
    }
    if (size == 0) {
        gy_print(mesh->axes, sizeof(mesh->axes), "data=1");
    }
}

/* The same sizes in all orders that are not the same text. */
static void list_sizes(listing *l, const int sizes[AXES], int orders)
{
    gy_virtual_mesh made[ORDERS];
    GY_ASSERT(orders >= 1 && orders <= ORDERS);
    for (int which = 0; which < orders; which++) {
        bool is_new = true;
        name_axes(sizes, (order)which, &made[which]);
        for (int earlier = 0; earlier < which; earlier++) {
            is_new = is_new && strcmp(made[earlier].axes, made[which].axes) != 0;
        }
        if (is_new && l->count < l->capacity) {
            l->meshes[l->count] = made[which];
        }
        l->count += is_new ? 1 : 0;
    }
}

int gy_virtual_meshes_all(const gy_virtual_cluster *cluster, int64_t batch,
                          gy_virtual_mesh *meshes, int capacity)
{
    const int ranks = gy_virtual_cluster_ranks(cluster);
    const bool has_places = cluster->hosts > 1 && cluster->ranks_per_host > 1;
    const int inside = has_places ? cluster->ranks_per_host : ranks;
    listing l = {.meshes = meshes, .capacity = capacity};
    GY_ASSERT(batch >= 1 && capacity >= 1);
    for (int is_far = 0; is_far < 2; is_far++) { /* operators cut inside a host first */
        for (int pipe = 1; pipe <= GY_MIN(ranks, GY_STAGES_MAX); pipe++) {
            for (int model = 1; ranks % pipe == 0 && model <= ranks / pipe; model++) {
                const int data = ranks / pipe / model;
                if (data * pipe * model != ranks || data > batch ||
                    (model > inside) != is_far) {
                    continue;
                }
                const int sizes[AXES] = {[PIPE] = pipe, [DATA] = data, [MODEL] = model};
                list_sizes(&l, sizes, has_places ? ORDERS : 1);
            }
        }
    }
    GY_ASSERT(l.count >= 0);
    return l.count;
}

/* ---- a mesh ---- */

/* How much faster a rank of the cluster is than placement reckons. */
static double faster_of(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->flops_s >= 0);
    return cluster->flops_s > 0 ? cluster->flops_s / gy_simulate_nominal_flops_s : 1;
}

/* The links of an axis as placement reckons with them: its own rate of a rank is a constant,
 * so that links are slower beside it where the rank is faster. */
static gy_links search_links(const gy_virtual_cluster *cluster, const gy_virtual_line *line)
{
    const bool is_far = line->hosts > 1;
    const double faster = faster_of(cluster);
    GY_ASSERT(faster > 0);
    if (line->is_shared_memory && !is_far) {
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
    gy_status status =
        made == NULL || links == NULL ? GY_NOMEM : gy_simulate_cluster_check(cluster);
    if (status >= 0) {
        status = gy_mesh_imagine(axes, gy_virtual_cluster_ranks(cluster), made);
    }
    if (status >= 0) {
        gy_virtual_links_init(links, cluster, made);
        for (int axis = 0; axis < made->axes; axis++) {
            made->links[axis] = search_links(cluster, &links->lines[axis]);
        }
        made->stage_links = search_links(cluster, &links->pipe);
        made->memory_bytes_s =
            cluster->flops_s > 0 ? gy_simulate_memory_rate(cluster) / faster_of(cluster) : 0;
    }
    gy_free(links);
    if (status < 0) {
        gy_free(made);
        return status;
    }
    *mesh = made;
    return GY_OK;
}
