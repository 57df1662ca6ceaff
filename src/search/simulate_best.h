// The best plans of a list compiled and simulated: what closed forms leave out (what runs beside
// computation, in which order, where buffers lie) is then counted. Not the choice of whom to look
// at by closed form (rank_grids.h).
#pragma once

#include <cstddef>

#include "search/rank_grids.h"

namespace fourfold::search {

/// Compiles the first `count` plans of an answer for all ranks, and those of the `count` best by
/// the plain sum of all that a step computes and sends, simulates their training step on the
/// question's cluster, and sizes what a rank holds. One formula hides too much, the other nothing:
/// what is best may be far down in one of the two lists. Where their orders of ranks differ, both
/// are simulated, and the faster one stays. They are sorted by that, the fastest first; what fits a
/// rank's memory by closed form alone comes after what does, and has others looked at in its place.
/// A plan whose programs take more than a rank has, where memory is not limited, is compiled again
/// within that; one whose ranks wait for each other for ever leaves the list for
/// `Answer::never_ending`. Cost: compiling a run for each, on all cores; of equal ranks one is
/// followed.
void simulate_best(const Question& question, Answer& answer, std::size_t count);

}  // namespace fourfold::search
