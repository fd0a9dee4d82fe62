/**
 * All of Gyre's public interface.
 */
#ifndef GYRE_GYRE_H
#define GYRE_GYRE_H

#include <gyre/arrow.h>
#include <gyre/base.h>
#include <gyre/cluster.h>
#include <gyre/coll.h>
#include <gyre/csv.h>
#include <gyre/daemon.h>
#include <gyre/data.h>
#include <gyre/dlpack.h>
#include <gyre/doctor.h>
#include <gyre/engine.h>
#include <gyre/flow.h>
#include <gyre/frame.h>
#include <gyre/function.h>
#include <gyre/gpt.h>
#include <gyre/graph.h>
#include <gyre/info.h>
#include <gyre/job.h>
#include <gyre/key.h>
#include <gyre/launch.h>
#include <gyre/mapreduce.h>
#include <gyre/operation.h>
#include <gyre/pipe.h>
#include <gyre/plan.h>
#include <gyre/ps.h>
#include <gyre/query.h>
#include <gyre/report.h>
#include <gyre/rows.h>
#include <gyre/script.h>
#include <gyre/simulate.h>
#include <gyre/sort.h>
#include <gyre/store.h>
#include <gyre/tensor.h>
#include <gyre/train.h>
#include <gyre/tune.h>
#include <gyre/types.h>
#include <gyre/vertex.h>

#endif
