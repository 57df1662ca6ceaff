#include "verify/describe.h"

#include <cstdint>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::verify {
namespace {

/// How many instructions all ranks run together.
std::int64_t count_instructions(const program::Job& job) {
  std::vector<std::int64_t> of_class;
  for (const program::Bundle& bundle : job.classes) {
    std::int64_t& count = of_class.emplace_back(0);
    for (const program::Program& p : bundle.programs)
      count += static_cast<std::int64_t>(p.instructions.size());
  }
  std::int64_t count = 0;
  for (const program::Binding& binding : job.ranks) count += of_class[binding.of_class];
  return count;
}

}  // namespace

std::string describe_faults(const std::vector<Fault>& faults) {
  constexpr std::size_t shown = 20;
  std::string text = format("{} fault{} found", faults.size(), faults.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < faults.size() && i < shown; ++i)
    text += format("\n  {}: {}", faults[i].rule, faults[i].message);
  if (faults.size() > shown) text += format("\n  ... and {} more", faults.size() - shown);
  return text;
}

std::string describe_proved(const program::Bundle& bundle) {
  std::string text;
  for (const program::Program& p : bundle.programs)
    text += format("{:<9} {:>6} instructions, {:>4} buffers, {:>4} events: no faults\n",
                   op::to_string(p.kind), p.instructions.size(), p.buffers.size(), p.num_events);
  return text + format("memory    {} persistent + {} transient\n",
                       format_bytes(bundle.persistent_bytes), format_bytes(bundle.transient_bytes));
}

std::string describe_proved(const program::Job& job) {
  std::string text;
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    if (job.classes.size() > 1) text += format("class {}\n", i);
    text += describe_proved(job.classes[i]);
  }
  return text + format("ranks     {}, {} instructions in all\n",
                       format_grouped(static_cast<std::int64_t>(job.ranks.size())),
                       format_grouped(count_instructions(job)));
}

}  // namespace fourfold::verify
