#include "op/table.h"

#include <algorithm>
#include <array>
#include <charconv>
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
  { row.factors(shapes) } -> std::same_as<FactorRule>;
  { row.flops(shapes) } -> std::same_as<double>;
};
template <class... Rows>
constexpr bool all_are_rows(const std::variant<Rows...>*) {
  return (Row<Rows> && ...);
}
static_assert(all_are_rows(static_cast<const AnyRow*>(nullptr)),
              "every row of the op table states all its rules");

template <class Row, class... Rows>
constexpr bool is_one_of = (std::is_same_v<Row, Rows> || ...);

/// True if no dim is negative and the product of any of them is below 2^63.
bool is_countable(const Shape& shape) {
  std::int64_t product = 1;
  return std::ranges::all_of(shape, [&](std::int64_t size) {
    return size >= 0 && !__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product);
  });
}

// --- writing attributes

std::string value_text(bool value) {
  return value ? "true" : "false";
}
std::string value_text(std::int64_t value) {
  return format("{}", value);
}
std::string value_text(double value) {
  return format("{}", value);
}
std::string value_text(RandomStream value) {
  return format("{:#018x}", value.id);
}
std::string value_text(const Shape& value) {
  return to_string(value);
}

std::string value_text(const Numbers& value) {
  std::string text;
  for (const double number : value) text += format("{}{}", text.empty() ? "" : ", ", number);
  return format("[{}]", text);
}

std::string value_text(const TensorWindow& value) {
  return format("global {} at {}", to_string(value.global), to_string(value.first));
}

std::string window_text(const SampleWindow& window, std::optional<std::int64_t> task_micro) {
  const std::string micro = window.micro == task_micro ? "micro" : format("{}", window.micro);
  return format("micro {} samples {} first {}", micro, window.samples, window.first);
}

// --- reading attributes

[[noreturn]] void fail_parse(std::string_view op, std::string_view word) {
  throw UserError(ExitCode::bad_config, format("op {}: cannot read '{}'", op, word));
}

/// Words separated by spaces; a bracketed list counts as one word.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  std::string_view next() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    std::size_t end = 0;
    bool bracketed = false;
    while (end < rest_.size() && (bracketed || rest_[end] != ' ')) {
      if (rest_[end] == '[') bracketed = true;
      if (rest_[end] == ']') bracketed = false;
      ++end;
    }
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return word;
  }

 private:
  std::string_view rest_;
};

struct Reader {
  std::string_view op;
  std::string_view key;
  Words& words;
  std::optional<std::int64_t> task_micro;
  bool found = false;

  template <class Number>
  Number number(std::string_view word, int base = 10) const {
    Number value{};
    std::from_chars_result result{};
    if constexpr (std::is_floating_point_v<Number>)
      result = std::from_chars(word.data(), word.data() + word.size(), value);
    else
      result = std::from_chars(word.data(), word.data() + word.size(), value, base);
    if (result.ec != std::errc() || result.ptr != word.data() + word.size()) fail_parse(op, word);
    return value;
  }
  void read(bool& value) const {
    const auto word = words.next();
    if (word != "true" && word != "false") fail_parse(op, word);
    value = word == "true";
  }
  void read(std::int64_t& value) const { value = number<std::int64_t>(words.next()); }
  void read(double& value) const { value = number<double>(words.next()); }
  void read(RandomStream& value) const {
    const auto word = words.next();
    if (!word.starts_with("0x")) fail_parse(op, word);
    value.id = number<std::uint64_t>(word.substr(2), 16);
  }
  void read(Shape& value) const {
    const auto word = words.next();
    const auto shape = parse_shape(word);
    if (!shape) fail_parse(op, word);
    value = *shape;
  }
  void read(Numbers& value) const {
    const auto word = words.next();
    if (!word.starts_with('[') || !word.ends_with(']')) fail_parse(op, word);
    value.clear();
    for (std::string_view rest = word.substr(1, word.size() - 2); !rest.empty();) {
      const std::size_t comma = rest.find(", ");
      value.push_back(number<double>(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 2);
      if (rest.empty()) fail_parse(op, word);
    }
  }
  template <class T>
  void operator()(std::string_view field, T& value) {
    if (field != key) return;
    found = true;
    read(value);
  }
  void operator()(std::string_view, SampleWindow& window) {
    if (key == "micro") {
      const auto word = words.next();
      if (word == "micro" && !task_micro) fail_parse(op, word);
      window.micro = word == "micro" ? *task_micro : number<std::int64_t>(word);
    } else if (key == "samples") {
      read(window.samples);
    } else if (key == "first") {
      read(window.first);
    } else {
      return;
    }
    found = true;
  }
  void operator()(std::string_view, TensorWindow& window) {
    if (key != "global" && key != "at") return;
    found = true;
    read(key == "global" ? window.global : window.first);
  }
};

const Op& default_row(std::string_view wanted) {
  static const std::vector<Op> rows = all_rows();
  const auto row = std::ranges::find_if(rows, [&](const Op& op) { return name(op) == wanted; });
  if (row == rows.end())
    throw UserError(ExitCode::bad_config, format("there is no op named '{}'", wanted));
  return *row;
}

std::set<State> updated_states(const Operands& operands) {
  std::set<State> states;
  for (const Operand& operand : operands)
    if (operand.role == Role::update && operand.state != State::none) states.insert(operand.state);
  return states;
}

}  // namespace

Op::Op() = default;
Op::Op(const Op& other) = default;
Op::Op(Op&& other) noexcept = default;
Op& Op::operator=(const Op& other) = default;
Op& Op::operator=(Op&& other) noexcept = default;
Op::~Op() = default;
bool Op::operator==(const Op& other) const {
  return static_cast<const AnyRow&>(*this) == static_cast<const AnyRow&>(other);
}

std::string_view name(const Op& op) {
  return std::visit([](const auto& row) { return std::decay_t<decltype(row)>::name; }, op);
}
std::vector<Op> all_rows() {
#define FOURFOLD_ROW(Row, work) Row{},
  return {FOURFOLD_ROWS(FOURFOLD_ROW)};
#undef FOURFOLD_ROW
}
Operands operands(const Op& op) {
  return std::visit([](const auto& row) { return row.operands(); }, op);
}
Outputs judge_outputs(const Op& op, Shapes reads) {
  const Operands list = operands(op);
  const auto expected =
      static_cast<std::size_t>(std::ranges::count(list, Role::read, &Operand::role));
  if (reads.size() != expected)
    return Mistake{format("{}: has {} reads, expected {}", name(op), reads.size(), expected)};
  if (!std::ranges::all_of(reads, is_countable))
    return Mistake{format("{}: a read has 2^63 elements or more", name(op))};
  Outputs made = std::visit([&](const auto& row) { return row.outputs(reads); }, op);
  if (made.mistake() == nullptr && !std::ranges::all_of(made.shapes(), is_countable))
    return Mistake{format("{}: an output has 2^63 elements or more, or less than none", name(op))};
  return made;
}
std::vector<Shape> outputs(const Op& op, Shapes reads) {
  return judge_outputs(op, reads).shapes();
}
FactorRule factors(const Op& op, Shapes reads) {
  return std::visit([&](const auto& row) { return row.factors(reads); }, op);
}
double flops(const Op& op, Shapes all) {
  return std::visit([&](const auto& row) { return row.flops(all); }, op);
}

WorkClass work_class(const Op& op) {
#define FOURFOLD_ROW(Row, work) WorkClass::work,
  static constexpr WorkClass classes[] = {FOURFOLD_ROWS(FOURFOLD_ROW)};
#undef FOURFOLD_ROW
  return classes[op.index()];
}

std::vector<Part> parts(const Op& op) {
  return std::visit(
      [&](const auto& row) -> std::vector<Part> {
        if constexpr (requires { row.parts(); }) return row.parts();
        std::vector<std::size_t> all(row.operands().size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        return {{op, std::move(all)}};
      },
      op);
}

std::int64_t integer_bound(const Op& op, Shapes all) {
  return std::visit(
      [&](const auto& row) -> std::int64_t {
        if constexpr (requires { row.integer_bound(all); })
          return row.integer_bound(all);
        else
          return 2;
      },
      op);
}

std::optional<CutForm> cut_form(const Op& op, Shapes reads, std::int64_t chunks) {
  return std::visit(
      [&](const auto& row) -> std::optional<CutForm> {
        if constexpr (requires { row.cut_form(reads, chunks); }) return row.cut_form(reads, chunks);
        return std::nullopt;
      },
      op);
}

bool is_list(const Op& op) {
  return std::visit(
      []<class Row>(const Row& row) {
        if constexpr (std::is_same_v<Row, SquaredNorm>) return row.tensors != 1;
        return requires { row.tensors; };
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
  static const auto answers = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array<std::set<State>, sizeof...(Index)>{
        updated_states(std::variant_alternative_t<Index, AnyRow>{}.operands())...};
  }(std::make_index_sequence<std::variant_size_v<AnyRow>>());
  return answers[op.index()].contains(state);
}

Op sum_of_two() {
  return Add{};
}
Op rounding() {
  return Cast{};
}
bool is_sum_of_two(const Op& op) {
  return std::holds_alternative<Add>(op);
}
bool is_rounding(const Op& op) {
  return std::holds_alternative<Cast>(op);
}

std::optional<double> constant_of(const Op& op) {
  const auto* fill = std::get_if<Fill>(&op);
  return fill != nullptr ? std::optional(fill->value) : std::nullopt;
}

bool takes_any_element(const Op& op) {
  return std::visit(
      []<class Row>(const Row&) {
        if constexpr (requires { Row::rule; }) return Row::rule.takes_any_element;
        return is_one_of<Row, SquaredNorm, AdamW, AdamWList, Sgd, SgdList, InitNormal, Fill,
                         Digest>;
      },
      op);
}

double traffic_bytes(const Op& op, Shapes all, DType compute) {
  double total = 0;
  const Operands list = operands(op);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double once = static_cast<double>(all[i].elements()) *
                        static_cast<double>(size_bytes(element_dtype(list[i].element, compute)));
    total += list[i].role == Role::update ? 2 * once : once;
  }
  return total;
}

bool can_accumulate(const Op& op) {
  return std::visit([](const auto& row) { return requires { row.accumulate; }; }, op);
}

Op with_accumulate(Op op, bool accumulate) {
  std::visit(
      [&](auto& row) {
        if constexpr (requires { row.accumulate; })
          row.accumulate = accumulate;
        else
          require(!accumulate, "only ops with the attribute can accumulate");
      },
      op);
  return op;
}

Op with_unrounded(Op op) {
  std::visit(
      [](auto& row) {
        if constexpr (requires { row.unrounded; }) row.unrounded = true;
      },
      op);
  return op;
}

Op with_micro(Op op, std::int64_t micro) {
  std::visit(
      [&](auto& row) {
        if constexpr (requires { row.window; }) row.window.micro = micro;
      },
      op);
  return op;
}

std::string attributes_text(const Op& op, std::optional<std::int64_t> task_micro) {
  std::string text;
  const auto append = [&](const std::string& piece) { text += (text.empty() ? "" : " ") + piece; };
  std::visit(
      [&](const auto& row) {
        using Type = std::decay_t<decltype(row)>;
        const Type plain{};
        // Visits the attributes of the row and of a default-made one in step.
        std::vector<std::string> defaults;
        for_each_attribute(plain, [&]<class T>(std::string_view, const T& value) {
          if constexpr (std::is_same_v<T, SampleWindow>)
            defaults.push_back(window_text(value, std::nullopt));
          else
            defaults.push_back(value_text(value));
        });
        std::size_t index = 0;
        for_each_attribute(row, [&]<class T>(std::string_view name, const T& value) {
          const std::string& normal = defaults[index++];
          if constexpr (std::is_same_v<T, SampleWindow>) {
            if (window_text(value, std::nullopt) != normal) append(window_text(value, task_micro));
          } else if constexpr (std::is_same_v<T, TensorWindow>) {
            if (value_text(value) != normal) append(value_text(value));
          } else if (value_text(value) != normal) {
            append(format("{} {}", name, value_text(value)));
          }
        });
      },
      op);
  return text;
}

Op parse_op(std::string_view wanted, std::string_view attributes,
            std::optional<std::int64_t> task_micro) {
  Op op = default_row(wanted);
  Words words(attributes);
  std::visit(
      [&](auto& row) {
        for (auto key = words.next(); !key.empty(); key = words.next()) {
          Reader reader{wanted, key, words, task_micro};
          for_each_attribute(row, reader);
          if (!reader.found) fail_parse(wanted, key);
        }
      },
      op);
  return op;
}

}  // namespace fourfold::op
