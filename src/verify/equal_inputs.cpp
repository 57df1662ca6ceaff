#include "verify/equal_inputs.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace fourfold::verify {
namespace {

using op::Residue;

std::uint64_t random_word(std::uint64_t seed, std::string_view name, std::int64_t a,
                          std::int64_t b) {
  return Random(seed, random_stream(name))
      .below(~std::uint64_t{0}, static_cast<std::uint64_t>(a), static_cast<std::uint32_t>(b));
}

/// What a row says of the integers that it reads; 0 where it has no rule of its own.
std::int64_t own_bound(const op::Op& op, op::Shapes shapes) {
  return op::visit_row(
      [&](const auto& row) -> std::int64_t {
        if constexpr (requires { row.integer_bound(shapes); }) return row.integer_bound(shapes);
        return 0;
      },
      op);
}

std::vector<Shape> shapes_of(const ResidueRow& row) {
  std::vector<Shape> shapes;
  for (const ResidueRow::Operand& operand : row.operands) shapes.push_back(operand.shape);
  return shapes;
}

}  // namespace

KeyedSamples::KeyedSamples(const ResidueJob& specification, std::uint64_t seed) : seed_(seed) {
  for (std::size_t place = 0; place < specification.bundle(0).programs.size(); ++place)
    note(specification.prepared(0, place));
}

void KeyedSamples::note(const ResidueProgram& program) {
  std::map<BufferId, std::string> inputs;
  for (const Instruction& instruction : program.program->instructions)
    if (const auto* feed = std::get_if<Feed>(&instruction.what))
      inputs[feed->to.buffer] = program.program->inputs[feed->input.index()].name;
  for (const ResidueRow& row : program.rows) {
    const op::Operands operands = op::operands(row.op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto input = inputs.find(row.operands[i].slice.buffer);
      if (input == inputs.end() || operands[i].role != op::Role::read) continue;
      Content& content = contents_[input->second];
      content.are_labels = content.are_labels || operands[i].name == "labels";
      content.are_document_starts =
          content.are_document_starts || operands[i].name == "document_starts";
      const auto bound = static_cast<std::uint64_t>(own_bound(row.op, shapes_of(row)));
      if (bound > 0) content.bound = content.bound == 0 ? bound : std::min(content.bound, bound);
    }
  }
}

bool KeyedSamples::begins_document(std::int64_t sample, std::int64_t element) const {
  return element == 0 || random_word(seed_, "verify.documents", sample, element) % 3 == 0;
}

Residue KeyedSamples::element(const Input& input, std::int64_t sample, std::int64_t element,
                              bool has_labels) const {
  const auto found = contents_.find(input.name);
  const Content content = found == contents_.end() ? Content{} : found->second;
  const std::int64_t size = input.sample_shape.elements(), number = sample * size + element;
  const std::uint64_t random = random_word(seed_, input.name, sample, element);
  if (!is_integer(input.dtype)) return random % op::residue_prime;
  if (content.are_document_starts) {
    while (!begins_document(sample, element)) --element;
    return static_cast<Residue>(element);
  }
  if (input.dtype == DType::u8) return random % 256;
  // Every fifth label is missing, of many in a sample as of one.
  if (content.are_labels && (number % 5 == 3 || !has_labels)) return ~Residue{0};
  if (content.bound < 2) return 0;
  // Numbers that follow one another are different ones, until all have been there. Then they come
  // in another order: else micro-batches of as many numbers, or of twice as many, would be equal.
  const auto bound = static_cast<std::int64_t>(content.bound);
  const std::int64_t round = number / bound;
  std::uint64_t factor = random_word(seed_, input.name, -1, round) % content.bound;
  while (std::gcd(factor, content.bound) != 1) factor = (factor + 1) % content.bound;
  const std::uint64_t first = random_word(seed_, input.name, -2, round) % content.bound;
  return (factor * static_cast<std::uint64_t>(number % bound) + first) % content.bound;
}

std::int64_t bound_of_field(const ResidueProgram& program, std::string_view name) {
  const op::BlockField field = *op::find_block_field(name);
  std::int64_t bound = 0;
  for (const ResidueRow& row : program.rows)
    for (const ResidueRow::Operand& operand : row.operands) {
      if (program.program->buffer(operand.slice.buffer).role != BufferRole::step_block ||
          operand.slice.offset_bytes != static_cast<std::int64_t>(field.offset_bytes))
        continue;
      const std::int64_t own = own_bound(row.op, shapes_of(row));
      if (own > 0) bound = bound == 0 ? own : std::min(bound, own);
    }
  return std::max<std::int64_t>(bound, 1);
}

VotesOfHosts votes_of_hosts(std::size_t ranks, std::uint64_t seed) {
  VotesOfHosts votes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t random =
        random_word(seed, "verify.votes", static_cast<std::int64_t>(rank), 0);
    // So few that all ranks together stay below the bits of a field.
    const op::Votes own{.stop = static_cast<std::int64_t>(random % 4096),
                        .written = static_cast<std::int64_t>(random / 4096 % 4096),
                        .save = rank == 0 ? 1 : 0};
    votes.of_ranks.push_back(own.packed());
    votes.sum += own.packed();
  }
  return votes;
}

}  // namespace fourfold::verify
