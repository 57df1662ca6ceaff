// Fourfold itself, in which one allocation fails: for tests of what is left then. Which one stands
// in FAIL_AT, on which rank of mpirun in FAIL_RANK (without it: on all); with COUNT_IN instead,
// their number goes to that file.
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "unit/run/allocation_counter.h"

int main(int argc, char** argv) {
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  const auto rank = variable("FAIL_RANK");
  const bool is_here = !rank || variable("OMPI_COMM_WORLD_RANK") == rank;
  if (is_here) fourfold::fail_allocation(std::stoll(variable("FAIL_AT").value_or("0")));
  const int code = fourfold::cli::run(argc, argv, variable);
  if (const auto file = variable("COUNT_IN"); file && is_here)
    std::ofstream(*file) << fourfold::allocations_so_far();
  return code;
}
