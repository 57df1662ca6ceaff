#include "generate/prompt.h"

#include <algorithm>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::generate {

std::int64_t seen_of_prompt(std::int64_t tokens, std::int64_t positions) {
  // One position is left for the first token that is written.
  return std::min(tokens, std::max<std::int64_t>(positions - 1, 1));
}

std::optional<std::string> cut_of_prompt(const SampleSpec& spec,
                                         const tokenizer::Tokenizer& tokenizer,
                                         std::int64_t positions, std::string_view name) {
  const auto tokens = static_cast<std::int64_t>(tokenizer.encode(spec.prompt, name).size());
  const std::int64_t capacity = spec.capacity > 0 ? spec.capacity : positions;
  const std::int64_t seen = seen_of_prompt(tokens, capacity);
  if (seen == tokens) return std::nullopt;
  return format(
      "{} has {}, of which the model sees the last {}, as it knows {}; shorten the prompt to {} "
      "for all of it to count",
      name, counted(tokens, "token"), format_grouped(seen), counted(capacity, "position"),
      counted(seen, "token"));
}

}  // namespace fourfold::generate
