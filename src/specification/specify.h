// Writes down what a job must compute: the serial program of a model, made from its graphs alone.
// Not how to compute it fast, and not who computes what. Written without reading compile/ and
// kernels/, so that a mistake there does not return here.
#pragma once

#include "base/dtype.h"
#include "graph/graph.h"
#include "program/job.h"

namespace fourfold::specification {

/// The job of one rank that has a program for each graph of the model, in their order. It has one
/// stream, "math": first the feeds, then an instruction for each node of the graph, in the order of
/// the nodes, of the implementation "reference". The first producer of a sum overwrites it, every
/// other one adds to it. Each value is a buffer, whole, at an address that no other buffer of the
/// program has; values that persist have one address in all programs. There is one micro-batch:
/// each input is fed once, with as many samples as the graph is written for.
///
/// All numbers that are not of a fixed type have the type `type`, f64 or f32, weights and sums too,
/// so there are no rounded copies. The job reads back from its text as it is, and verify::verify
/// finds nothing in it.
///
/// Requires the graphs of one mesh that is not cut into stages, where one name has one shape in all
/// graphs; else InternalError. Cost: linear in the values and nodes.
program::Job specify(const graph::ModelGraphs& graphs, DType type = DType::f64);

}  // namespace fourfold::specification
