// The lists of mutations, by what they break.
#pragma once

#include <vector>

#include "verify/mutation_places.h"

namespace fourfold::verify {

/// Collectives, and the order in which ranks meet in them.
void add_exchange_mutations(std::vector<Mutation>& list);
/// Messages and groups.
void add_message_mutations(std::vector<Mutation>& list);
/// Boxes of tensors in messages, and the values that they are boxes of.
void add_box_mutations(std::vector<Mutation>& list);
/// What depends on coordinates: attributes, own blocks, feeds; layouts.
void add_part_mutations(std::vector<Mutation>& list);
/// Waits, addresses, updates, and the frame of programs and bundles.
void add_memory_mutations(std::vector<Mutation>& list);
/// Rounded copies of weights.
void add_rounded_mutations(std::vector<Mutation>& list);

}  // namespace fourfold::verify
