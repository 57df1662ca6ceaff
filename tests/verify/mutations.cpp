#include "verify/mutations.h"

#include "verify/mutation_lists.h"

namespace fourfold::verify {

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = [] {
    std::vector<Mutation> list;
    add_exchange_mutations(list);
    add_message_mutations(list);
    add_box_mutations(list);
    add_part_mutations(list);
    add_memory_mutations(list);
    add_rounded_mutations(list);
    return list;
  }();
  return all;
}

std::string uncaught(const Mutation& mutation, const Seeded& seeded,
                     const std::vector<Fault>& faults) {
  if (faults.empty()) return "no fault at all";
  const std::string rank = format("rank {}", seeded.rank);
  std::string problem = "no fault of the expected rules; the first is " + faults.front().rule +
                        ": " + faults.front().message;
  for (const Fault& fault : faults) {
    if (std::find(mutation.rules.begin(), mutation.rules.end(), fault.rule) == mutation.rules.end())
      continue;
    if (!fault.rank || fault.message.find(format("rank {}", fault.rank->index())) != 0)
      problem = "no rank in " + fault.message;
    else if (seeded.on_one_rank && fault.message.find(rank) == std::string::npos)
      problem = rank + " is not in " + fault.message;
    else if (mutation.at_instruction &&
             (!fault.instruction ||
              fault.message.find(format("instruction {} (", *fault.instruction)) ==
                  std::string::npos))
      problem = "no instruction in " + fault.message;
    else
      return {};
  }
  return problem;
}

}  // namespace fourfold::verify
