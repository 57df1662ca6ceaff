#include "op/table.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::op {
namespace {

template <class T>
concept Row = requires(const T& row, Shapes shapes) {
  { T::name } -> std::convertible_to<std::string_view>;
  { row.operands() } -> std::same_as<Operands>;
  { row.outputs(shapes) } -> std::same_as<Outputs>;
  { row.flops(shapes) } -> std::same_as<double>;
} && (requires(const T& row, Shapes shapes, const Residues& residues, ResidueTensors all) {
  { row.factors(shapes) } -> std::same_as<FactorRule>;
  { row.residue_form(residues, all) } -> std::same_as<void>;
} || requires(const T& row) {
  { row.pieces() } -> std::same_as<std::vector<Piece>>;
});
#define FOURFOLD_ROW(Type, work) \
  static_assert(Row<Type>,       \
                "every row of the op table states all its rules and its form over residues");
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

template <class Row, class... Rows>
constexpr bool is_one_of = (std::is_same_v<Row, Rows> || ...);

/// True if no dim is negative and the product of any of them is below 2^63.
bool is_countable(const Shape& shape) {
  std::int64_t product = 1;
  return std::ranges::all_of(shape, [&](std::int64_t size) {
    return size >= 0 && !__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product);
  });
}

std::set<State> updated_states(const Operands& operands) {
  std::set<State> states;
  for (const Operand& operand : operands)
    if (operand.role == Role::update && operand.state != State::none) states.insert(operand.state);
  return states;
}

std::vector<Piece> one_piece(const Op& op) {
  std::vector<std::size_t> all(operands(op).size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return {{op, std::move(all)}};
}

}  // namespace

Op::Op() : Op(Contract{}) {}
Op::Op(const Op& other) : index_(other.index_) {
  visit_row([&]<class Row>(const Row& row) { new (bytes_) Row(row); }, other);
}
Op::Op(Op&& other) noexcept : index_(other.index_) {
  visit_row([&]<class Row>(Row& row) { new (bytes_) Row(std::move(row)); }, other);
}
Op& Op::operator=(const Op& other) {
  return *this = Op(other);
}
Op& Op::operator=(Op&& other) noexcept {
  if (this == &other) return *this;
  this->~Op();
  return *new (this) Op(std::move(other));
}
Op::~Op() {
  visit_row([]<class Row>(Row& row) { row.~Row(); }, *this);
}
void Op::fail_as_another() {
  fail_internal("an op is the row that is asked for");
}
bool Op::operator==(const Op& other) const {
  return visit_row(
      [&]<class Row>(const Row& row) {
        const auto* same = other.get_if<Row>();
        return same != nullptr && row == *same;
      },
      *this);
}

std::string_view name(const Op& op) {
  return visit_row(
      []<class Row>(const Row& row) {
        if constexpr (std::is_same_v<Row, Fused>)
          if (row.size() > 0) return std::string_view(row.chain_name());
        return Row::name;
      },
      op);
}
std::vector<Op> all_rows() {
#define FOURFOLD_ROW(Row, work) Row{},
  return {FOURFOLD_ROWS(FOURFOLD_ROW)};
#undef FOURFOLD_ROW
}
Operands operands(const Op& op) {
  return visit_row([](const auto& row) { return row.operands(); }, op);
}
Outputs judge_outputs(const Op& op, Shapes reads) {
  const Operands list = operands(op);
  const auto expected =
      static_cast<std::size_t>(std::ranges::count(list, Role::read, &Operand::role));
  if (reads.size() != expected)
    return Mistake{format("{}: has {} reads, expected {}", name(op), reads.size(), expected)};
  if (!std::ranges::all_of(reads, is_countable))
    return Mistake{format("{}: a read has 2^63 elements or more", name(op))};
  Outputs made = visit_row([&](const auto& row) { return row.outputs(reads); }, op);
  if (made.mistake() == nullptr && !std::ranges::all_of(made.shapes(), is_countable))
    return Mistake{format("{}: an output has 2^63 elements or more, or less than none", name(op))};
  return made;
}
std::vector<Shape> outputs(const Op& op, Shapes reads) {
  return judge_outputs(op, reads).shapes();
}
FactorRule factors(const Op& op, Shapes reads) {
  return visit_row(
      [&](const auto& row) -> FactorRule {
        if constexpr (requires { row.factors(reads); }) return row.factors(reads);
        fail_internal("a row that stands for several is asked for the rule of each of its pieces");
      },
      op);
}
double flops(const Op& op, Shapes all) {
  return visit_row([&](const auto& row) { return row.flops(all); }, op);
}

WorkClass work_class(const Op& op) {
#define FOURFOLD_ROW(Row, work) WorkClass::work,
  static constexpr WorkClass classes[] = {FOURFOLD_ROWS(FOURFOLD_ROW)};
#undef FOURFOLD_ROW
  const auto* chain = op.get_if<Fused>();
  if (chain == nullptr || chain->size() == 0) return classes[op.index()];
  WorkClass most = WorkClass::elementwise;
  for (const Piece& piece : chain->pieces()) {
    const WorkClass own = work_class(piece.op);
    if (is_counted_in_flops(own)) return own;
    if (own != WorkClass::elementwise) most = own;
  }
  return most;
}

std::vector<Piece> pieces(const Op& op) {
  return visit_row(
      [&](const auto& row) -> std::vector<Piece> {
        if constexpr (requires { row.pieces(); }) return row.pieces();
        return one_piece(op);
      },
      op);
}

std::int64_t integer_bound(const Op& op, Shapes all) {
  return visit_row(
      [&](const auto& row) -> std::int64_t {
        if constexpr (requires { row.integer_bound(all); })
          return row.integer_bound(all);
        else
          return 2;
      },
      op);
}

std::optional<CutForm> cut_form(const Op& op, Shapes reads, std::int64_t chunks) {
  return visit_row(
      [&](const auto& row) -> std::optional<CutForm> {
        if constexpr (requires { row.cut_form(reads, chunks); }) return row.cut_form(reads, chunks);
        return std::nullopt;
      },
      op);
}

bool stands_for_itself(const Op& op) {
  return visit_row(
      []<class Row>(const Row& row) {
        if constexpr (std::is_same_v<Row, SquaredNorm>) return row.tensors == 1;
        return !requires { row.pieces(); };
      },
      op);
}

std::optional<std::size_t> operand_of(const Op& op, State state) {
  const Operands list = operands(op);
  const auto place = std::find_if(list.begin(), list.end(),
                                  [&](const Operand& operand) { return operand.state == state; });
  if (place == list.end()) return std::nullopt;
  return static_cast<std::size_t>(place - list.begin());
}

bool updates(const Op& op, State state) {
  // Asked of every instruction of every rank: answered once for each row.
  static const std::vector<std::set<State>> answers = [] {
    std::vector<std::set<State>> of_rows;
    for (const Op& row : all_rows()) of_rows.push_back(updated_states(operands(row)));
    return of_rows;
  }();
  return answers[op.index()].contains(state);
}

Op sum_of_two() {
  return Add{};
}
Op rounding() {
  return Cast{};
}
Op widening() {
  return Widen{};
}
Op sum_with_rounded() {
  return AddRounded{};
}
bool is_sum_of_two(const Op& op) {
  return op.is<Add>();
}
bool is_rounding(const Op& op) {
  return op.is<Cast>();
}
bool is_widening(const Op& op) {
  return op.is<Widen>();
}
bool is_sum_with_rounded(const Op& op) {
  return op.is<AddRounded>();
}

std::optional<double> constant_of(const Op& op) {
  const auto* fill = op.get_if<Fill>();
  return fill != nullptr ? std::optional(fill->value) : std::nullopt;
}

bool takes_any_element(const Op& op) {
  return visit_row(
      []<class Row>(const Row& row) {
        if constexpr (requires { Row::rule; }) return Row::rule.takes_any_element && !is_wide(row);
        if constexpr (requires { row.rounds; }) return !row.rounds;
        return is_one_of<Row, SquaredNorm, MovingAverage, MovingAverageList, InitNormal,
                         InitUniform, Fill, Digest>;
      },
      op);
}

double traffic_bytes(const Op& op, Shapes all, DType compute) {
  double total = 0;
  const Operands list = operands(op);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_between) continue;
    const double once = static_cast<double>(all[i].elements()) *
                        static_cast<double>(size_bytes(element_dtype(list[i].element, compute)));
    total += list[i].role == Role::update ? 2 * once : once;
  }
  return total;
}

bool can_accumulate(const Op& op) {
  return visit_row([](const auto& row) { return requires { row.accumulate; }; }, op);
}

Op with_accumulate(Op op, bool accumulate) {
  visit_row(
      [&](auto& row) {
        if constexpr (requires { row.accumulate; })
          row.accumulate = accumulate;
        else
          require(!accumulate, "only ops with the attribute can accumulate");
      },
      op);
  return op;
}

Op with_rounded(Op op) {
  visit_row(
      [](auto& row) {
        if constexpr (requires { row.rounds; })
          row.rounds = true;
        else
          fail_internal("only updates round what they write");
      },
      op);
  return op;
}

Op with_unrounded(Op op) {
  visit_row(
      [](auto& row) {
        if constexpr (requires { row.unrounded; }) row.unrounded = true;
      },
      op);
  return op;
}

Op with_micro(Op op, std::int64_t micro) {
  visit_row(
      [&](auto& row) {
        if constexpr (requires { row.with_micro(micro); }) row = row.with_micro(micro);
        if constexpr (requires { row.window; }) row.window.micro = micro;
      },
      op);
  return op;
}

Op with_chunk(Op op, std::int64_t chunk, std::int64_t chunks) {
  for_each_place(op, [&]<class T>(const Place&, T& told) {
    if constexpr (std::is_same_v<T, SampleWindow>) {
      told.samples *= chunks;
      told.chunk = chunk;
    }
  });
  return op;
}

std::optional<SampleWindow> samples_of(const Op& op) {
  std::optional<SampleWindow> samples;
  for_each_place(op, [&]<class T>(const Place&, const T& told) {
    if constexpr (std::is_same_v<T, SampleWindow>) samples = told;
  });
  return samples;
}

}  // namespace fourfold::op
