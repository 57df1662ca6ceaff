#include "kernels/cpu/levels.h"

#include "kernels/cpu/own_loops.h"

namespace fourfold::kernels::cpu {

const std::vector<Level>& levels() {
  static const std::vector<Level> all = [] {
    std::vector<Level> levels = {{"least", &loops_here()}};
    for (const BuiltLevel& built : built_levels())
      if (built.runs_here()) levels.push_back({built.name, &built.loops()});
    return levels;
  }();
  return all;
}

const OwnLoops& own_loops() {
  return *levels().back().loops;
}

std::vector<std::string> instruction_sets() {
  return own_loops().instruction_sets();
}

}  // namespace fourfold::kernels::cpu
