// The facts about the CPU kernels that compile/ needs: which implementation for which op, and its
// workspace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "machine/target.h"

namespace fourfold::kernels::cpu {

/// The kernels of cpu/, chosen by `measured` where one of its lines fits, else by a table measured
/// on a two-core Zen 3 (see target.cpp).
machine::Target target(int threads, std::vector<machine::Choice> measured = {});

/// Bytes of workspace that an implementation needs for a problem that it computes.
std::int64_t workspace_bytes(std::string_view implementation, const Problem& problem);

/// Names of the libraries that multiply in a type; in bf16 oneDNN alone where it has products of
/// that type, which no other can reach.
std::vector<std::string> contract_libraries(DType dtype);
/// As above, and our own loops.
std::vector<std::string> contract_implementations(DType dtype);

/// Names of what computes a row of the table in a type, "reference" apart: each for some shapes.
std::vector<std::string> implementations(const std::string& row, DType dtype);
/// Names of the implementations of a problem, "reference" apart.
std::vector<std::string> implementations(const Problem& problem);

/// The plain loops of reference/ for every op, on one thread.
machine::Target reference_target();

}  // namespace fourfold::kernels::cpu
