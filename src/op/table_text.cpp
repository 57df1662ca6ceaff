// The attributes of a row as text, and back.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "op/table.h"

namespace fourfold::op {
namespace {

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
  const std::string chunk = window.chunk == 0 ? "" : format(" chunk {}", window.chunk);
  return format("micro {} samples {} first {}{}", micro, window.samples, window.first, chunk);
}

/// An attribute as it prints; windows, which say themselves what they are, without a key.
struct AttributeText {
  std::string_view key;
  std::string value;
};

/// Visits attributes. Not a lambda, so that rows share what is compiled for a type.
struct Writer {
  std::optional<std::int64_t> task_micro;
  std::vector<AttributeText> texts = {};

  template <class T>
  void operator()(std::string_view key, const T& value) {
    texts.push_back({key, value_text(value)});
  }
  void operator()(std::string_view, const SampleWindow& window) {
    texts.push_back({"", window_text(window, task_micro)});
  }
  void operator()(std::string_view, const TensorWindow& window) {
    texts.push_back({"", value_text(window)});
  }
};

std::vector<AttributeText> texts_of(const Op& op, std::optional<std::int64_t> task_micro) {
  Writer writer{task_micro};
  visit_row([&](const auto& row) { for_each_attribute(row, writer); }, op);
  return std::move(writer.texts);
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
    } else if (key == "chunk") {
      read(window.chunk);
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
  if (row == rows.end() || row->is<Fused>())
    throw UserError(ExitCode::bad_config, format("there is no op named '{}'", wanted));
  return *row;
}

// --- chains: "between 1" where the last operand is a value between pieces; then for each piece "of
// [0, 1, 2]", its operands, and its attributes

std::string chain_text(const Fused& chain, std::optional<std::int64_t> task_micro) {
  std::string text = chain.between() == 0 ? "" : format("between {}", chain.between());
  for (const Piece& piece : chain.pieces()) {
    const Shape operands(std::vector<std::int64_t>(piece.operands.begin(), piece.operands.end()));
    const std::string attributes = attributes_text(piece.op, task_micro);
    text += format("{}of {}{}{}", text.empty() ? "" : " ", to_string(operands),
                   attributes.empty() ? "" : " ", attributes);
  }
  return text;
}

std::vector<std::size_t> parse_operands(std::string_view chain, std::string_view word) {
  const auto numbers = parse_shape(word);
  if (!numbers) fail_parse(chain, word);
  std::vector<std::size_t> operands;
  for (const std::int64_t number : *numbers) {
    if (number < 0) fail_parse(chain, word);
    operands.push_back(static_cast<std::size_t>(number));
  }
  return operands;
}

Op parse_chain(std::string_view wanted, std::string_view attributes,
               std::optional<std::int64_t> task_micro) {
  Words words(attributes);
  std::vector<Piece> pieces;
  std::string_view word = words.next();
  std::int64_t between = 0;
  if (word == "between") {
    const std::string_view count = words.next();
    const auto result = std::from_chars(count.data(), count.data() + count.size(), between);
    if (result.ec != std::errc() || result.ptr != count.data() + count.size() || between < 1)
      fail_parse(wanted, count);
    word = words.next();
  }
  for (const std::string_view piece : names_of_chain(wanted)) {
    if (word != "of") fail_parse(wanted, word);
    std::vector<std::size_t> operands = parse_operands(wanted, words.next());
    std::string own;
    for (word = words.next(); !word.empty() && word != "of"; word = words.next())
      own += format("{}{}", own.empty() ? "" : " ", word);
    pieces.push_back({parse_op(piece, own, task_micro), std::move(operands)});
  }
  if (!word.empty()) fail_parse(wanted, word);
  auto chain = Fused::of(std::move(pieces), static_cast<std::size_t>(between));
  if (const auto* mistake = std::get_if<Mistake>(&chain))
    throw UserError(ExitCode::bad_config, format("op {}: {}", wanted, mistake->sentence));
  auto& made = std::get<Fused>(chain);
  if (made.chain_name() != wanted)
    throw UserError(ExitCode::bad_config,
                    format("op {}: its operands make it {}", wanted, made.chain_name()));
  return std::move(made);
}

}  // namespace

std::string attributes_text(const Op& op, std::optional<std::int64_t> task_micro) {
  if (const auto* chain = op.get_if<Fused>()) return chain_text(*chain, task_micro);
  static const std::vector<Op> rows = all_rows();
  const std::vector<AttributeText> defaults = texts_of(rows[op.index()], std::nullopt),
                                   plain = texts_of(op, std::nullopt),
                                   shown = texts_of(op, task_micro);
  std::string text;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (plain[i].value != defaults[i].value)
      text += format("{}{}{}{}", text.empty() ? "" : " ", shown[i].key,
                     shown[i].key.empty() ? "" : " ", shown[i].value);
  return text;
}

Op parse_op(std::string_view wanted, std::string_view attributes,
            std::optional<std::int64_t> task_micro) {
  if (names_of_chain(wanted).size() > 1) return parse_chain(wanted, attributes, task_micro);
  Op op = default_row(wanted);
  Words words(attributes);
  for (auto key = words.next(); !key.empty(); key = words.next()) {
    Reader reader{wanted, key, words, task_micro};
    visit_row([&](auto& row) { for_each_attribute(row, reader); }, op);
    if (!reader.found) fail_parse(wanted, key);
  }
  return op;
}

}  // namespace fourfold::op
