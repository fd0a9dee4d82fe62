/**
 * On which hosts a prototype's vertices run best: hosts that have their input files, and hosts
 * that the program requests.
 */
#ifndef GY_FLOW_MEMO_PLACES_H
#define GY_FLOW_MEMO_PLACES_H

#include "flow/memo/key.h"

/** Is `name` in the list, which is separated by spaces? Pure. */
bool gy_flow_places_have(const char *hosts, const char *name);

/**
 * Find the hosts for a prototype: a vertex that reads files of hosts runs on a host that has
 * all of them; otherwise `near` decides.
 *
 * @param places  its `hosts` is in the arena
 * @return GY_OK; GY_ARG no host has all the files, or a malformed host name; GY_UNSUPPORTED a
 *     host's file in a refinement; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_flow_places_find(const gy_dag *dag, uint32_t proto, gy_arena *arena,
                                            gy_proto_places *places);

#endif
