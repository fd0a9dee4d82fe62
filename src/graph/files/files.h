/**
 * Folder files: a session's parameters in files of whole tensors, whatever parts of them its
 * ranks have. Reading order: agree.c, piece.c, save.c, load.c.
 *
 * A file's bytes depend on the values alone. No rank holds more than its parts and a window of
 * 1 MiB.
 */
#ifndef GY_GRAPH_FILES_FILES_H
#define GY_GRAPH_FILES_FILES_H

#include "store/bundle/bundle.h"

#include <gyre/graph.h>

/**
 * All ranks get the failure of the lowest rank that has one, with its words; else `status`. A
 * collective: every rank calls it, and the communicator stays usable. NULL: one rank.
 */
gy_status gy_session_agree(gy_comm *comm, gy_status status);

/**
 * Write a bundle, whose tensors without elements are the session's parameters of those names;
 * tensors with elements and texts are rank 0's. All ranks of `comm` (those of the session's
 * mesh; NULL: one rank) call it, with the same tensors.
 *
 * Each rank writes what it has at its place in one temporary file; of values that several ranks
 * have each writes a share. Where a rank does not see that file, all send what they have to
 * rank 0, a window of the file at a time, and rank 0 writes. A sum that is Partial is
 * completed, a window at a time.
 *
 * @return on all ranks the same: GY_OK; the first failure of any, with its rank, and the file
 * is what it was; what a collective failed with
 * @cost elements / ranks written a rank
 */
GY_MUST_CHECK gy_status gy_session_save(gy_session *session, gy_comm *comm, gy_bundle *bundle,
                                        const char *path);

/**
 * Verify the checksum of an open bundle, each rank a share of it. All ranks of `comm` call it,
 * each with its own opening of the file. GY_MISMATCH they opened different files; GY_FORMAT.
 */
GY_MUST_CHECK gy_status gy_session_verify(gy_comm *comm, gy_bundle *bundle);

/** Read this rank's part of a parameter from an open bundle. The bundle's tensor of that name
 * has the parameter's type and sizes. GY_NOTFOUND; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_session_read_part(gy_session *session, const char *name,
                                             const gy_bundle *bundle);
/** A gy_session_fill; `arg` is the open bundle. GY_AGAIN it has no such tensor. */
gy_status gy_session_fill_from(void *arg, const char *name, const int64_t *offsets,
                               gy_tensor *tensor);

#endif
