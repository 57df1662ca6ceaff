#include "op/table.h"

#include <charconv>
#include <numeric>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::op {
namespace {

template <class T>
concept Row = requires(const T& row, Shapes shapes) {
  { T::name } -> std::convertible_to<std::string_view>;
  { row.operands() } -> std::same_as<Operands>;
  { row.outputs(shapes) } -> std::same_as<std::vector<Shape>>;
  { row.factors(shapes) } -> std::same_as<FactorRule>;
  { row.flops(shapes) } -> std::same_as<double>;
};
template <class... Rows>
constexpr bool all_rows(const std::variant<Rows...>*) {
  return (Row<Rows> && ...);
}
static_assert(all_rows(static_cast<const AnyRow*>(nullptr)),
              "every row of the op table states all its rules");

template <class Row, class... Rows>
constexpr bool is_one_of = (std::is_same_v<Row, Rows> || ...);

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

template <std::size_t... Index>
Op default_row(std::string_view wanted, std::index_sequence<Index...>) {
  std::optional<Op> row;
  ((std::variant_alternative_t<Index, AnyRow>::name == wanted
        ? void(row.emplace(std::variant_alternative_t<Index, AnyRow>{}))
        : void()),
   ...);
  if (!row) throw UserError(ExitCode::bad_config, format("there is no op named '{}'", wanted));
  return *row;
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
Operands operands(const Op& op) {
  return std::visit([](const auto& row) { return row.operands(); }, op);
}
std::vector<Shape> outputs(const Op& op, Shapes reads) {
  return std::visit([&](const auto& row) { return row.outputs(reads); }, op);
}
FactorRule factors(const Op& op, Shapes reads) {
  return std::visit([&](const auto& row) { return row.factors(reads); }, op);
}
double flops(const Op& op, Shapes all) {
  return std::visit([&](const auto& row) { return row.flops(all); }, op);
}

std::vector<Part> parts(const Op& op) {
  return std::visit(
      [&](const auto& row) -> std::vector<Part> {
        if constexpr (requires { parts_of(row); }) return parts_of(row);
        std::vector<std::size_t> all(row.operands().size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        return {{op, std::move(all)}};
      },
      op);
}

bool is_list(const Op& op) {
  return std::visit(
      []<class Row>(const Row& row) {
        if constexpr (is_one_of<Row, SquaredNorm, CountNonFinite>) return row.tensors != 1;
        return is_one_of<Row, AdamWList, CastList>;
      },
      op);
}

bool takes_any_element(const Op& op) {
  return std::visit(
      []<class Row>(const Row&) {
        return is_one_of<Row, Add, SquaredNorm, CountNonFinite, AdamW, AdamWList, InitNormal, Fill,
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
  if (auto* matmul = std::get_if<Matmul>(&op)) matmul->unrounded = true;
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
        // Visits the fields of the row and of a default-made one in step.
        std::vector<std::string> defaults;
        Type::fields(plain, [&]<class T>(std::string_view, const T& value) {
          if constexpr (std::is_same_v<T, SampleWindow>)
            defaults.push_back(window_text(value, std::nullopt));
          else
            defaults.push_back(value_text(value));
        });
        std::size_t index = 0;
        Type::fields(row, [&]<class T>(std::string_view field, const T& value) {
          const std::string& normal = defaults[index++];
          if constexpr (std::is_same_v<T, SampleWindow>) {
            if (window_text(value, std::nullopt) != normal) append(window_text(value, task_micro));
          } else if constexpr (std::is_same_v<T, TensorWindow>) {
            if (value_text(value) != normal) append(value_text(value));
          } else if (value_text(value) != normal) {
            append(format("{} {}", field, value_text(value)));
          }
        });
      },
      op);
  return text;
}

Op parse_op(std::string_view wanted, std::string_view attributes,
            std::optional<std::int64_t> task_micro) {
  Op op = default_row(wanted, std::make_index_sequence<std::variant_size_v<AnyRow>>());
  Words words(attributes);
  std::visit(
      [&](auto& row) {
        for (auto key = words.next(); !key.empty(); key = words.next()) {
          Reader reader{wanted, key, words, task_micro};
          std::decay_t<decltype(row)>::fields(row, reader);
          if (!reader.found) fail_parse(wanted, key);
        }
      },
      op);
  return op;
}

}  // namespace fourfold::op
