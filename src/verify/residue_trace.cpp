#include "verify/residue_trace.h"

#include <algorithm>

namespace fourfold::verify {

void ResidueTrace::collect(const Cells& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells.kinds[i] != no_element) collected_.insert(cells.words[i]);
}

void ResidueTrace::begin(std::size_t rank, std::size_t place, std::size_t instruction) {
  if (is_collecting_) return;
  Node& node = nodes_.emplace_back();
  node.rank = static_cast<std::uint32_t>(rank);
  node.place = static_cast<std::uint32_t>(place);
  node.instruction = static_cast<std::uint32_t>(instruction);
}

void ResidueTrace::read(const Cells& cells) {
  if (is_collecting_) return;
  const auto own = static_cast<std::uint32_t>(nodes_.size() - 1);
  Node& node = nodes_.back();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells.kinds[i] == no_element || cells.writers[i] == own || collected_.has(cells.words[i]))
      continue;
    node.reads_foreign = true;
    if (std::ranges::find(node.from, cells.writers[i]) == node.from.end())
      node.from.push_back(cells.writers[i]);
  }
}

void ResidueTrace::write(Cells& cells) {
  if (is_collecting_) return collect(cells);
  Node& node = nodes_.back();
  std::ranges::fill(cells.writers, static_cast<std::uint32_t>(nodes_.size() - 1));
  if (!node.makes_foreign)
    node.makes_foreign =
        std::ranges::any_of(cells.words, [&](op::Residue word) { return !collected_.has(word); });
}

}  // namespace fourfold::verify
