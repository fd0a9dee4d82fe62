/**
 * Where vertices of a prototype would best run: hosts that have the files that they read, and
 * those that they are told.
 */
#ifndef GY_FLOW_MEMO_PLACES_H
#define GY_FLOW_MEMO_PLACES_H

#include "flow/memo/key.h"

/** Is it one of the names, which have spaces between? Pure. */
bool gy_flow_places_have(const char *hosts, const char *name);

/**
 * A vertex that reads files of hosts runs on one that has all of them; else `near` says.
 *
 * @param places  `hosts` is of the arena
 * @return GY_OK; GY_ARG no host has all its files, or the name of a host is none;
 * GY_UNSUPPORTED a file of hosts in a growth; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_flow_places_find(const gy_dag *dag, uint32_t proto, gy_arena *arena,
                                            gy_proto_places *places);

#endif
