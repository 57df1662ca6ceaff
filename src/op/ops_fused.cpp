// The rules of a chain of rows, as they follow from those of its pieces.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"
#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

/// Makes the operands of a chain, and its name, while it looks at one piece after another.
class Chain {
 public:
  /// What is wrong with the next piece; "" where nothing is.
  std::string add(const Piece& piece) {
    const std::string_view own_name = name(piece.op);
    if (op::pieces(piece.op).size() != 1) return format("{} is no piece of a chain", own_name);
    const Operands own = op::operands(piece.op);
    if (own.size() != piece.operands.size())
      return format("{} has {} operands, expected {}", own_name, piece.operands.size(), own.size());
    written_by_last_ = std::exchange(written_, {});
    bool reads_last = false, hands_on = false;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t operand = piece.operands[i];
      const bool is_of_last = has(written_by_last_, operand);
      if (own[i].role == Role::read) reads_last = reads_last || is_of_last;
      if (own[i].role != Role::read) {
        hands_on = hands_on || (is_of_last && reads(piece, own, operand));
        written_.push_back(operand);
      }
      if (const std::string problem = see(operand, own[i], piece); !problem.empty()) return problem;
    }
    join_by(piece);
    if (!name_.empty()) name_ += !reads_last ? '|' : hands_on ? '+' : '&';
    name_ += own_name;
    ++pieces_;
    return {};
  }

  /// The operands of all pieces that were added, the last of them between pieces, or what is wrong
  /// with them.
  std::variant<Operands, Mistake> operands(std::size_t between) const {
    if (groups_.size() > 1)
      return Mistake{
          format("{}: some of its pieces have no operand in common with the others", name_)};
    Operands list;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (!seen_[i]) return Mistake{format("{}: no piece has operand {}", name_, i)};
      const bool is_read = seen_[i]->operand.role == Role::read;
      if (is_read && !list.empty() && list.back().role != Role::read)
        return Mistake{
            format("{}: operand {} is read, and stands after one that is written", name_, i)};
      list.push_back(seen_[i]->operand);
      if (const auto below = seen_[i]->lies_on; below && may_lie_on(*seen_[i], *below))
        list.back().may_alias = *below;
    }
    for (std::size_t i = 0; i < between; ++i) {
      const bool is_read_between =
          i + 1 < list.size() && seen_[list.size() - 1 - i]->operand.role == Role::write &&
          seen_[list.size() - 1 - i]->last_read > seen_[list.size() - 1 - i]->first_piece;
      if (!is_read_between)
        return Mistake{
            format("{}: no piece hands its operand {} from the end to another", name_, i + 1)};
      Operand& operand = list[list.size() - 1 - i];
      operand.is_between = true;
      operand.may_alias.reset();
    }
    return list;
  }
  const std::string& name_of_all() const { return name_; }

 private:
  struct Seen {
    Operand operand;
    std::size_t first_piece = 0, last_read = 0;  // numbers of pieces
    std::optional<std::size_t> lies_on = {};     // where its first writer may put it
  };

  static bool has(const std::vector<std::size_t>& list, std::size_t operand) {
    return std::ranges::find(list, operand) != list.end();
  }
  static bool reads(const Piece& piece, const Operands& own, std::size_t operand) {
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].role == Role::read && piece.operands[i] == operand) return true;
    return false;
  }

  /// Joins the groups of pieces that have an operand of this one.
  void join_by(const Piece& piece) {
    std::set<std::size_t> joined(piece.operands.begin(), piece.operands.end());
    std::erase_if(groups_, [&](const std::set<std::size_t>& group) {
      const bool meets = std::ranges::any_of(
          piece.operands, [&](std::size_t operand) { return group.contains(operand); });
      if (meets) joined.insert(group.begin(), group.end());
      return meets;
    });
    groups_.push_back(std::move(joined));
  }

  /// Notes what a piece does with an operand.
  std::string see(std::size_t operand, const Operand& own, const Piece& piece) {
    constexpr std::size_t most = 4096;  // far above what a chain has, far below what hurts
    if (operand >= most) return format("{} has no operand {}", name(piece.op), operand);
    if (seen_.size() <= operand) seen_.resize(operand + 1);
    std::optional<Seen>& seen = seen_[operand];
    if (!seen) {
      seen = Seen{own, pieces_, pieces_};
      seen->operand.may_alias.reset();
      if (own.role == Role::write && own.may_alias) seen->lies_on = piece.operands[*own.may_alias];
      return {};
    }
    if (seen->operand.element != own.element)
      return format("operand {} has one element type in one piece, another in {}", operand,
                    name(piece.op));
    if (own.role == Role::read)
      seen->last_read = pieces_;
    else if (seen->operand.role == Role::read)
      return format("{} writes operand {}, which is read from outside", name(piece.op), operand);
    return {};
  }

  /// True if nobody reads, after this operand is first written, what may lie below it.
  bool may_lie_on(const Seen& output, std::size_t below) const {
    return below < seen_.size() && seen_[below] && seen_[below]->operand.role == Role::read &&
           seen_[below]->last_read <= output.first_piece;
  }

  std::vector<std::optional<Seen>> seen_;
  std::vector<std::size_t> written_, written_by_last_;
  std::vector<std::set<std::size_t>> groups_;  // operands of pieces that hang together
  std::string name_;
  std::size_t pieces_ = 0;
};

std::vector<Shape> shapes_of(const Piece& piece, Shapes all) {
  std::vector<Shape> shapes;
  for (const std::size_t operand : piece.operands) shapes.push_back(all[operand]);
  return shapes;
}

std::size_t count_reads(const Operands& operands) {
  return static_cast<std::size_t>(std::ranges::count(operands, Role::read, &Operand::role));
}

}  // namespace

double flops_of_pieces(std::span<const Piece> pieces, Shapes all) {
  double total = 0;
  for (const Piece& piece : pieces) total += flops(piece.op, shapes_of(piece, all));
  return total;
}

Fused::Fused() = default;
Fused::Fused(const Fused& other) = default;
Fused::Fused(Fused&& other) noexcept = default;
Fused& Fused::operator=(const Fused& other) = default;
Fused& Fused::operator=(Fused&& other) noexcept = default;
Fused::~Fused() = default;
bool Fused::operator==(const Fused& other) const {
  return pieces_ == other.pieces_ && between_ == other.between_;
}

std::variant<Fused, Mistake> Fused::of(std::vector<Piece> pieces, std::size_t between) {
  Chain chain;
  for (const Piece& piece : pieces)
    if (std::string problem = chain.add(piece); !problem.empty())
      return Mistake{std::move(problem)};
  std::variant<Operands, Mistake> operands = chain.operands(between);
  if (auto* mistake = std::get_if<Mistake>(&operands)) return std::move(*mistake);
  Fused made;
  made.pieces_ = std::move(pieces);
  made.operands_ = std::get<Operands>(std::move(operands));
  made.chain_name_ = chain.name_of_all();
  made.between_ = between;
  return made;
}

std::vector<Piece> Fused::pieces() const {
  return pieces_;
}
std::size_t Fused::size() const {
  return pieces_.size();
}
const Piece& Fused::piece(std::size_t index) const {
  return pieces_[index];
}

Outputs Fused::outputs(Shapes reads) const {
  std::vector<std::optional<Shape>> shapes(reads.begin(), reads.end());
  shapes.resize(operands_.size());
  for (const auto& [op, own] : pieces_) {
    const std::size_t count = count_reads(op::operands(op));
    std::vector<Shape> of_piece;
    for (std::size_t i = 0; i < count; ++i) of_piece.push_back(*shapes[own[i]]);
    const Outputs made = judge_outputs(op, of_piece);
    if (made.mistake() != nullptr) return made;
    for (std::size_t i = count; i < own.size(); ++i) {
      std::optional<Shape>& shape = shapes[own[i]];
      if (shape && *shape != made.shapes()[i - count])
        return Mistake{format("{}: operand {} has two shapes", chain_name_, own[i])};
      shape = made.shapes()[i - count];
    }
  }
  std::vector<Shape> outputs;
  for (std::size_t i = reads.size(); i < shapes.size(); ++i) outputs.push_back(*shapes[i]);
  return outputs;
}

double Fused::flops(Shapes all) const {
  return flops_of_pieces(pieces_, all);
}

std::int64_t Fused::integer_bound(Shapes all) const {
  std::optional<std::int64_t> least;
  for (const Piece& piece : pieces_) {
    const Operands own = op::operands(piece.op);
    if (std::ranges::find(own, Element::i32, &Operand::element) == own.end()) continue;
    const std::int64_t bound = op::integer_bound(piece.op, shapes_of(piece, all));
    least = std::min(least.value_or(bound), bound);
  }
  return least.value_or(2);
}

Fused Fused::with_micro(std::int64_t micro) const {
  Fused made = *this;
  for (Piece& piece : made.pieces_) piece.op = op::with_micro(std::move(piece.op), micro);
  return made;
}

std::optional<Contract> product_of(const Op& op) {
  if (const auto* product = op.get_if<Contract>()) return *product;
  const auto* chain = op.get_if<Fused>();
  if (chain == nullptr || chain->size() == 0) return std::nullopt;
  const auto* first = chain->piece(0).op.get_if<Contract>();
  const std::vector<std::size_t>& operands = chain->piece(0).operands;
  if (first == nullptr || operands[0] != 0 || operands[1] != 1) return std::nullopt;
  return *first;
}

std::vector<std::string_view> names_of_chain(std::string_view chain) {
  std::vector<std::string_view> names;
  while (true) {
    const std::size_t link = chain.find_first_of(links);
    names.push_back(chain.substr(0, link));
    if (link == std::string_view::npos) return names;
    chain.remove_prefix(link + 1);
  }
}

// --- what chains are tried on

namespace {

Op chain(std::vector<Piece> pieces, std::size_t between = 0) {
  auto made = Fused::of(std::move(pieces), between);
  const auto* mistake = std::get_if<Mistake>(&made);
  require(mistake == nullptr, [&] { return mistake->sentence; });
  return std::get<Fused>(std::move(made));
}

const Dropout some_dropout{{7}, 0.1, some_samples, some_window};

const GroupNormApply some_norm{2, 12, 4, 2};

std::vector<Example> examples_of_row_chains() {
  const LayerNorm rms_norm{1e-6, false, true, false};
  const Contract product{2, 1, false, true}, wide{2, 2};
  return {
      {chain({{AddBias{}, {0, 1, 2}}, {Gelu{}, {2, 3}}}), {usual, {3, 4}}},
      {chain({{AddBias{}, {0, 1, 7}},
              {some_dropout, {7, 2, 3, 7}},
              {Add{}, {7, 4, 7}},
              {LayerNorm{1e-6, true}, {7, 5, 6, 8, 9, 10}}}),
       {usual, {4}, scalar, scalar, usual, {4}, {4}}},
      {chain({{Add{}, {0, 1, 3}}, {LayerNorm{1e-6, false}, {3, 2, 4, 5, 6}}}), {usual, usual, {4}}},
      {chain({{LayerNormGradient{}, {0, 1, 2, 3, 4, 8}},
              {Add{}, {8, 5, 8}},
              {some_dropout, {8, 6, 7, 9}}}),
       {usual, {4}, {2, 3}, {2, 3}, usual, usual, scalar, scalar},
       {any, any, any, positive}},
      {chain({{AddRounded{}, {0, 1, 4}},
              {LayerNorm{.epsilon = 1e-6, .wide = true}, {4, 2, 3, 5, 6, 7}}}),
       {usual, usual, {4}, {4}}},
      {chain({{LayerNormGradient{true}, {0, 1, 2, 3, 4, 8}},
              {Add{true}, {8, 5, 8}},
              {Cast{}, {8, 9}},
              {some_dropout, {9, 6, 7, 9}}}),
       {usual, {4}, {2, 3}, {2, 3}, usual, usual, scalar, scalar},
       {any, any, any, positive}},
      {chain({{AddRounded{}, {0, 1, 3}}, {rms_norm, {3, 2, 4, 5}}}), {usual, usual, {4}}},
      {chain({{LayerNormGradient{false, false}, {0, 1, 2, 3, 5}}, {Add{}, {5, 4, 5}}}),
       {usual, {4}, {2, 3}, usual, usual},
       {any, any, positive}},
      {chain({{LayerNormWeightGradient{.bias = false, .centred = false}, {0, 2, 3, 5}},
              {LayerNormGradient{false, false}, {0, 1, 2, 3, 6}},
              {Add{}, {6, 4, 6}}}),
       {usual, {4}, {2, 3}, usual, usual},
       {any, any, positive}},
      {chain({{LayerNormWeightGradient{.accumulate = true}, {0, 2, 3, 4, 6, 7}},
              {LayerNormGradient{}, {0, 1, 2, 3, 4, 8}},
              {Add{}, {8, 5, 8}},
              {BiasGradient{2}, {8, 9}}}),
       {usual, {4}, {2, 3}, {2, 3}, usual, usual},
       {any, any, any, positive}},
      {chain({{CrossEntropy{}, {0, 1, 2, 3}}, {CrossEntropyGradient{1.0 / 3}, {0, 1, 3, 4}}}),
       {{2, 3, 10}, {2, 3}}},
      {chain({{product, {0, 1, 3}}, {AddBias{}, {3, 2, 3}}}), {usual, {5, 4}, {5}}},
      // Far below zero a GELU is a difference of nearly equal numbers.
      {chain({{wide, {0, 1, 3}}, {AddBias{}, {3, 2, 3}}, {Gelu{}, {3, 4}}}),
       {{2, 3, 4, 5}, {4, 5, 6, 7}, {6, 7}},
       {small}},
      {chain({{product, {0, 1, 3}}, {GeluGradient{}, {2, 3, 3}}, {BiasGradient{2, true}, {3, 4}}}),
       {usual, {5, 4}, {2, 3, 5}}}};
}

/// A norm over groups of channels and what follows it; the way back to the norm, and to x.
std::vector<Example> examples_of_group_norms() {
  return {{chain({{some_norm, {0, 1, 2, 3, 5}}, {ScaleShift{}, {5, 4, 5}}, {Silu{}, {5, 5}}}),
           {usual_picture, {2, 2, 2}, {3}, {3}, {2, 2, 3}},
           {any, positive}},
          {chain({{GroupNormMoments{}, {0, 1}}, {GroupNormStatistics{1, 1, 6}, {1, 2}}}),
           {usual_picture}},
          {chain({{some_norm, {0, 1, 2, 3, 11}},
                  {ScaleShift{}, {11, 5, 12}},
                  {SiluGradient{}, {12, 4, 6}},
                  {ScaleShiftSums{}, {11, 6, 7}},
                  {ScaleShiftGradient{}, {5, 6, 6}},
                  {GroupNormSums{2, 12, 4, 2}, {0, 1, 6, 13}},
                  {GroupNormWeightGradient{}, {13, 8, 9}},
                  {GroupNormGroupSums{2, 12, 4, 2}, {13, 1, 2, 10}}},
                 3),
           {usual_picture, {2, 2, 2}, {3}, {3}, usual_picture, {2, 2, 3}},
           {any, positive}},
          {chain({{GroupNormStatisticsGradient{2, 12, 6, 4, 2}, {0, 1, 2, 9}},
                  {GroupNormMomentsGradient{}, {3, 2, 9, 8}},
                  {GroupNormApplyGradient{2, 12, 4, 2}, {0, 4, 5, 6}},
                  {Add{}, {6, 8, 6}},
                  {BiasGradient{3}, {6, 7}}},
                 2),
           {{2, 2, 2}, {2, 2, 2}, {3, 2, 2}, usual_picture, {3}, usual_picture},
           {positive}}};
}

}  // namespace

std::vector<Example> examples_of(const Fused&) {
  std::vector<Example> all = examples_of_group_norms();
  for (Example& example : examples_of_row_chains()) all.push_back(std::move(example));
  return all;
}

}  // namespace fourfold::op
