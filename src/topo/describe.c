#include "topo/topo.h"

#include <dlfcn.h>
#include <hwloc.h>

/* Loaded when asked for: start-up of a rank must not pay for a library that only `gyre info`
 * needs. */
typedef struct hwloc_calls {
    void *library;
    __typeof__(&hwloc_topology_init) init;
    __typeof__(&hwloc_topology_set_components) set_components;
    __typeof__(&hwloc_topology_load) load;
    __typeof__(&hwloc_topology_destroy) destroy;
    __typeof__(&hwloc_get_type_depth) type_depth;
    __typeof__(&hwloc_get_nbobjs_by_depth) count;
    __typeof__(&hwloc_get_obj_by_depth) object;
} hwloc_calls;

static bool load_call(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    *(void **)slot = address;
    return address != NULL;
}

static gy_status load_library(hwloc_calls *calls)
{
    calls->library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    if (calls->library == NULL) {
        return gy_fail(GY_UNSUPPORTED, "cannot load libhwloc.so.15: %s", dlerror());
    }
    if (load_call(calls->library, "hwloc_topology_init", &calls->init) &&
        load_call(calls->library, "hwloc_topology_set_components", &calls->set_components) &&
        load_call(calls->library, "hwloc_topology_load", &calls->load) &&
        load_call(calls->library, "hwloc_topology_destroy", &calls->destroy) &&
        load_call(calls->library, "hwloc_get_type_depth", &calls->type_depth) &&
        load_call(calls->library, "hwloc_get_nbobjs_by_depth", &calls->count) &&
        load_call(calls->library, "hwloc_get_obj_by_depth", &calls->object)) {
        return GY_OK;
    }
    dlclose(calls->library);
    return gy_fail(GY_UNSUPPORTED, "libhwloc.so.15 lacks a function of version 2");
}

static void describe_level(const hwloc_calls *calls, hwloc_topology_t topology,
                           hwloc_obj_type_t type, const char *name, gy_text *out)
{
    int depth = calls->type_depth(topology, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) {
        return;
    }
    unsigned count = calls->count(topology, depth);
    hwloc_obj_t first = count > 0 ? calls->object(topology, depth, 0) : NULL;
    if (first == NULL) {
        return;
    }
    char size[32] = "";
    if (type == HWLOC_OBJ_NUMANODE) {
        gy_text_add(out, "%s %u, %s each\n", name, count,
                    gy_text_bytes(size, first->attr->numanode.local_memory));
    } else if (type >= HWLOC_OBJ_L1CACHE && type <= HWLOC_OBJ_L3CACHE) {
        gy_text_add(out, "%s %u, %s each\n", name, count,
                    gy_text_bytes(size, first->attr->cache.size));
    } else {
        gy_text_add(out, "%s %u\n", name, count);
    }
}

gy_status gy_topo_describe(gy_text *out)
{
    hwloc_calls calls = {.library = NULL};
    GY_TRY(load_library(&calls));
    hwloc_topology_t topology = NULL;
    if (calls.init(&topology) != 0) {
        dlclose(calls.library);
        return gy_fail(GY_NOMEM, "hwloc cannot start");
    }
    /* Nobody asks for devices here, and looking for them is what makes hwloc slow. */
    static const char *const unwanted[] = {"pci",  "opencl",    "cuda", "nvml",
                                           "rsmi", "levelzero", "gl"};
    for (size_t i = 0; i < GY_COUNT(unwanted); i++) {
        (void)calls.set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                   unwanted[i]);
    }
    gy_status status = GY_OK;
    if (calls.load(topology) != 0) {
        status = gy_fail(GY_UNSUPPORTED, "hwloc cannot read this machine");
    } else {
        static const struct {
            hwloc_obj_type_t type;
            const char *name;
        } levels[] = {
            {HWLOC_OBJ_PACKAGE, "packages"},    {HWLOC_OBJ_NUMANODE, "memory nodes"},
            {HWLOC_OBJ_L3CACHE, "L3 caches"},   {HWLOC_OBJ_L2CACHE, "L2 caches"},
            {HWLOC_OBJ_L1CACHE, "L1 caches"},   {HWLOC_OBJ_CORE, "cores"},
            {HWLOC_OBJ_PU, "hardware threads"},
        };
        for (size_t i = 0; i < GY_COUNT(levels); i++) {
            describe_level(&calls, topology, levels[i].type, levels[i].name, out);
        }
        status = out->status;
    }
    calls.destroy(topology);
    dlclose(calls.library);
    return status;
}
