// Small operations on words: near misses for "did you mean", splitting, trimming. Not formatting
// (format.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

/// Damerau-Levenshtein distance, optimal string alignment: insertions, deletions, replacements and
/// swaps of neighbours each count 1. Cost: |a| |b|.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, if near enough to be meant: at most a third of the longer
/// word's letters differ, and at least one difference is allowed. The first of equals; capital
/// letters and "-" for "_" count nothing.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

std::string_view trim(std::string_view text);
/// "a.b" at '.' gives "a", "b"; always one piece more than there are separators.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> pieces, std::string_view separator);

}  // namespace fourfold
