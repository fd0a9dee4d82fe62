/*
 * Meshes: the ranks of a communicator as a grid with named axes, a communicator of each line of
 * the grid, and what its links cost.
 */
#include "graph/graph.h"

#include "coll/coll.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    gy_axis_kind kind;
} kinds[] = {
    {"data", GY_AXIS_DATA},
    {"model", GY_AXIS_MODEL},
    {"auto", GY_AXIS_AUTO},
    {"pipe", GY_AXIS_PIPE},
};

static int size_max(gy_axis_kind kind, int ranks_max)
{
    GY_ASSERT(kind <= GY_AXIS_PIPE);
    return kind == GY_AXIS_PIPE ? GY_STAGES_MAX : ranks_max;
}

/* The next "name=size" of the text. */
static gy_status parse_axis(const char *text, const char **at, int ranks_max, gy_mesh *mesh)
{
    const size_t length = strcspn(*at, "=,");
    size_t which = 0;
    while (which < GY_COUNT(kinds) && (strlen(kinds[which].name) != length ||
                                       strncmp(kinds[which].name, *at, length) != 0)) {
        which++;
    }
    if (which == GY_COUNT(kinds)) {
        return gy_fail(GY_ARG, "mesh '%s': no axis '%.*s': expected data, model, auto or pipe",
                       text, (int)GY_MIN(length, 40), *at);
    }
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->kinds[axis] == kinds[which].kind) {
            return gy_fail(GY_ARG, "mesh '%s': axis %s is named twice", text,
                           kinds[which].name);
        }
    }
    *at += length;
    char *end = NULL;
    long size = **at == '=' && isdigit((unsigned char)(*at)[1]) ? strtol(*at + 1, &end, 10) : 0;
    if (end == NULL || end == *at + 1 || (*end != ',' && *end != '\0') || size < 1 ||
        size > size_max(kinds[which].kind, ranks_max)) {
        return gy_fail(GY_ARG, "mesh '%s': axis %s: expected %s=N with N from 1 to %d", text,
                       kinds[which].name, kinds[which].name,
                       size_max(kinds[which].kind, ranks_max));
    }
    GY_ASSERT(mesh->axes < GY_MESH_MAX);
    mesh->kinds[mesh->axes] = kinds[which].kind;
    mesh->sizes[mesh->axes++] = (int)size;
    *at = *end == ',' ? end + 1 : end;
    return *end == ',' && *(end + 1) == '\0'
               ? gy_fail(GY_ARG, "mesh '%s' ends with a comma", text)
               : GY_OK;
}

/* The axes of the text, and the product of their sizes. */
static gy_status parse(const char *text, int ranks_max, gy_mesh *mesh, int *places)
{
    GY_ASSERT(mesh->axes == 0);
    const char *at = text;
    int64_t product = 1;
    if (*at == '\0') {
        return gy_fail(GY_ARG, "the mesh has no axis: expected such as data=2,model=2");
    }
    while (*at != '\0') {
        GY_TRY(parse_axis(text, &at, ranks_max, mesh));
        product *= mesh->sizes[mesh->axes - 1];
        if (product > ranks_max) {
            return gy_fail(GY_ARG, "mesh '%s' is of more than %d ranks", text, ranks_max);
        }
    }
    GY_ASSERT(product >= 1 && product <= ranks_max);
    *places = (int)product;
    return GY_OK;
}

gy_status gy_mesh_places(const char *axes, int *ranks)
{
    GY_ASSERT(axes != NULL);
    GY_ASSERT(ranks != NULL);
    gy_mesh parsed = {.axes = 0};
    return parse(axes, GY_RANKS_MAX, &parsed, ranks);
}

/* Row-major: the last axis changes fastest, so that it joins neighbouring ranks. */
static void set_coordinates(gy_mesh *mesh, int rank)
{
    int apart = 1;
    GY_ASSERT(rank >= 0);
    for (int axis = mesh->axes - 1; axis >= 0; axis--) {
        mesh->coordinates[axis] = rank % mesh->sizes[axis];
        mesh->apart[axis] = apart;
        rank /= mesh->sizes[axis];
        apart *= mesh->sizes[axis];
    }
    GY_ASSERT(rank == 0);
}

/* The communicator of this rank's line along `axis`: ranks that differ there alone. */
static gy_status join_line(gy_mesh *mesh, int axis)
{
    GY_ASSERT(axis >= 0 && axis < mesh->axes);
    GY_ASSERT(mesh->coordinates[axis] < mesh->sizes[axis]);
    if (mesh->sizes[axis] == 1) {
        return GY_OK;
    }
    if (mesh->sizes[axis] == gy_comm_size(mesh->whole)) {
        mesh->comms[axis] = mesh->whole;
        return GY_OK;
    }
    int colour = 0;
    for (int other = 0; other < mesh->axes; other++) {
        if (other != axis) {
            colour = colour * mesh->sizes[other] + mesh->coordinates[other];
        }
    }
    return gy_comm_split(mesh->whole, colour, mesh->coordinates[axis], &mesh->comms[axis]);
}

/* All ranks reckon with the slowest line of each axis, so that they decide alike. */
static gy_status agree_on_links(gy_mesh *mesh)
{
    GY_ASSERT(mesh->whole != NULL);
    double figures[GY_MESH_MAX][3] = {{0}};
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->comms[axis] != NULL) {
            const gy_links links = gy_coll_links(mesh->comms[axis]);
            figures[axis][0] = links.alpha;
            figures[axis][1] = links.beta;
            figures[axis][2] = links.gamma;
        }
    }
    GY_TRY(gy_allreduce(mesh->whole, figures, figures, sizeof(figures) / sizeof(double), GY_F64,
                        GY_MAX));
    for (int axis = 0; axis < mesh->axes; axis++) {
        mesh->links[axis] = (gy_links){
            .alpha = figures[axis][0], .beta = figures[axis][1], .gamma = figures[axis][2]};
    }
    return GY_OK;
}

/* Placement knows nothing of stages: their axis stands beside the others. */
static void take_pipe_out(gy_mesh *mesh)
{
    int axes = 0;
    GY_ASSERT(mesh->stages == 0 && mesh->pipe == NULL);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->kinds[axis] == GY_AXIS_PIPE) {
            GY_ASSERT(mesh->stages == 0);
            mesh->stages = mesh->sizes[axis];
            mesh->stage = mesh->coordinates[axis];
            mesh->stage_apart = mesh->apart[axis];
            mesh->stage_links = mesh->links[axis];
            mesh->pipe = mesh->comms[axis];
            continue;
        }
        mesh->kinds[axes] = mesh->kinds[axis];
        mesh->sizes[axes] = mesh->sizes[axis];
        mesh->coordinates[axes] = mesh->coordinates[axis];
        mesh->apart[axes] = mesh->apart[axis];
        mesh->links[axes] = mesh->links[axis];
        mesh->comms[axes++] = mesh->comms[axis];
    }
    for (int axis = axes; axis < mesh->axes; axis++) {
        mesh->comms[axis] = NULL;
    }
    mesh->axes = axes;
    if (axes == 0) {
        mesh->axes = 1;
        mesh->kinds[0] = GY_AXIS_DATA;
        mesh->sizes[0] = 1;
        mesh->coordinates[0] = 0;
        mesh->links[0] = (gy_links){.alpha = 0};
    }
}

gy_mesh gy_mesh_line(gy_comm *comm)
{
    const int ranks = comm != NULL ? gy_comm_size(comm) : 1;
    return (gy_mesh){.axes = 1,
                     .kinds = {GY_AXIS_DATA},
                     .sizes = {ranks},
                     .coordinates = {comm != NULL ? gy_comm_rank(comm) : 0},
                     .comms = {ranks > 1 ? comm : NULL},
                     .whole = comm};
}

static gy_status refuse_size(const char *axes, int places, int ranks)
{
    GY_ASSERT(places != ranks);
    return gy_fail(GY_ARG,
                   "mesh '%s' is of %d ranks, and there are %d: expected axes whose product "
                   "is %d",
                   axes, places, ranks, ranks);
}

gy_status gy_mesh_new(gy_comm *comm, const char *axes, gy_mesh **mesh)
{
    GY_ASSERT(mesh != NULL);
    gy_mesh made = gy_mesh_line(comm);
    if (axes != NULL) {
        const int ranks = comm != NULL ? gy_comm_size(comm) : 1;
        int places = 0;
        made = (gy_mesh){.whole = comm};
        GY_TRY(parse(axes, GY_RANKS_MAX, &made, &places));
        if (places != ranks) {
            return refuse_size(axes, places, ranks);
        }
        set_coordinates(&made, comm != NULL ? gy_comm_rank(comm) : 0);
    }
    gy_mesh *out = gy_alloc_zero("graph.mesh", 1, sizeof(*out));
    if (out == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    for (int axis = 0; axes != NULL && axis < made.axes && status >= 0; axis++) {
        status = join_line(&made, axis);
    }
    if (status >= 0 && comm != NULL && gy_comm_size(comm) > 1) {
        status = agree_on_links(&made);
    }
    take_pipe_out(&made);
    *out = made;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_mesh_free(out);
        return gy_error_raise(&error);
    }
    GY_ASSERT(out->axes >= 1 && out->axes <= GY_MESH_MAX);
    *mesh = out;
    return GY_OK;
}

gy_status gy_mesh_imagine(const char *axes, int ranks, gy_mesh *mesh)
{
    int places = 0;
    GY_ASSERT(axes != NULL && ranks >= 1 && ranks <= GY_PLAN_RANKS);
    *mesh = (gy_mesh){.axes = 0};
    GY_TRY(parse(axes, GY_PLAN_RANKS, mesh, &places));
    if (places != ranks) {
        return refuse_size(axes, places, ranks);
    }
    set_coordinates(mesh, ranks - 1);
    take_pipe_out(mesh);
    mesh->stage = 0;
    return GY_OK;
}

gy_mesh gy_mesh_largest(const gy_mesh *mesh)
{
    gy_mesh last = *mesh;
    GY_ASSERT(mesh->axes >= 1 && mesh->axes <= GY_MESH_MAX);
    for (int axis = 0; axis < last.axes; axis++) {
        last.coordinates[axis] = last.sizes[axis] - 1;
    }
    return last;
}

void gy_mesh_free(gy_mesh *mesh)
{
    if (mesh == NULL) {
        return;
    }
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->comms[axis] != mesh->whole) {
            gy_comm_free(mesh->comms[axis]);
        }
    }
    if (mesh->pipe != mesh->whole) {
        gy_comm_free(mesh->pipe);
    }
    gy_free(mesh);
}

/* Axis `pipe` is said to stand behind those that placement knows. */
static bool is_pipe(const gy_mesh *mesh, int axis)
{
    GY_ASSERT(axis < gy_mesh_axes(mesh));
    return axis == mesh->axes;
}

int gy_mesh_axes(const gy_mesh *mesh)
{
    GY_ASSERT(mesh != NULL);
    return mesh->axes + (mesh->stages > 0 ? 1 : 0);
}

const char *gy_mesh_axis_name(const gy_mesh *mesh, int axis)
{
    GY_ASSERT(axis >= 0 && axis < gy_mesh_axes(mesh));
    return kinds[is_pipe(mesh, axis) ? GY_AXIS_PIPE : mesh->kinds[axis]].name;
}

/* The axis of that kind; -1: none. */
static int find_axis(const gy_mesh *mesh, gy_axis_kind kind)
{
    GY_ASSERT(kind < GY_AXIS_KINDS);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->kinds[axis] == kind) {
            return axis;
        }
    }
    return -1;
}

gy_status gy_mesh_kind_parse(const char *name, gy_axis_kind *kind)
{
    GY_ASSERT(name != NULL && kind != NULL);
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        if (kinds[i].kind != GY_AXIS_PIPE && strcmp(kinds[i].name, name) == 0) {
            *kind = kinds[i].kind;
            return GY_OK;
        }
    }
    return gy_fail(GY_ARG, "no axis '%.40s': expected data, model or auto", name);
}

int gy_mesh_find(const gy_mesh *mesh, const char *name)
{
    gy_axis_kind kind = GY_AXIS_DATA;
    if (mesh->stages > 0 && strcmp(name, "pipe") == 0) {
        return mesh->axes;
    }
    return gy_mesh_kind_parse(name, &kind) == GY_OK ? find_axis(mesh, kind) : -1;
}

int gy_mesh_size(const gy_mesh *mesh, int axis)
{
    GY_ASSERT(axis >= -1 && axis < gy_mesh_axes(mesh));
    return axis < 0 ? 1 : is_pipe(mesh, axis) ? mesh->stages : mesh->sizes[axis];
}

int gy_mesh_rank(const gy_mesh *mesh, int axis)
{
    GY_ASSERT(axis >= -1 && axis < gy_mesh_axes(mesh));
    return axis < 0 ? 0 : is_pipe(mesh, axis) ? mesh->stage : mesh->coordinates[axis];
}

gy_comm *gy_mesh_comm(const gy_mesh *mesh)
{
    GY_ASSERT(mesh->axes >= 1);
    return mesh->whole;
}

gy_comm *gy_mesh_axis_comm(const gy_mesh *mesh, int axis)
{
    GY_ASSERT(axis >= 0 && axis < gy_mesh_axes(mesh));
    return is_pipe(mesh, axis) ? mesh->pipe : mesh->comms[axis];
}

int gy_mesh_data_axis(const gy_mesh *mesh)
{
    return find_axis(mesh, GY_AXIS_DATA);
}

int gy_mesh_row_ranks(const gy_mesh *mesh)
{
    return gy_mesh_size(mesh, gy_mesh_data_axis(mesh));
}
