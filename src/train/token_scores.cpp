#include "train/token_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/element_type.h"
#include "checkpoint/safetensors.h"
#include "data/source.h"

namespace fourfold::train {
namespace {

std::size_t leading_spaces(std::string_view text) {
  return std::min(text.find_first_not_of(' '), text.size());
}

class WindowFeeder final : public run::Feeder {
 public:
  WindowFeeder(const Windows& windows, std::int64_t first) : windows_(windows), first_(first) {}

  void feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) override {
    const bool is_label = input.name == "labels";
    const std::int64_t first = (first_ + samples.first) * windows_.length();
    for (std::size_t i = 0; i < into.size() / sizeof(std::int32_t); ++i) {
      const std::int32_t id = windows_.at(first + static_cast<std::int64_t>(i), is_label);
      std::memcpy(&into[i * sizeof id], &id, sizeof id);
    }
  }

 private:
  const Windows& windows_;
  std::int64_t first_;
};

/// The values of a buffer right after the instruction that writes it, as later ones may use its
/// memory.
class Capture {
 public:
  Capture(const program::Program& program, std::string_view name) {
    buffer_ = program.find_buffer(name);
    require(buffer_.has_value(), "the program that evaluates has the buffer that is wanted");
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
      for (const program::Access& access : program::accesses(program.instructions[i]))
        if (access.role != op::Role::read && access.slice.buffer == *buffer_ && !writer_)
          writer_ = i;
    require(writer_.has_value(), "a buffer that is wanted is written");
  }

  void after(const program::Program& program, std::size_t instruction, run::Executor& executor) {
    if (instruction != *writer_) return;
    const program::Buffer& buffer = program.buffer(*buffer_);
    const auto bytes = executor.read(buffer);
    values.resize(bytes.size() / static_cast<std::size_t>(size_bytes(buffer.dtype)));
    const std::span<std::byte> into = std::as_writable_bytes(std::span(values));
    checkpoint::convert_elements(bytes, buffer.dtype, into, DType::f64);
  }

  std::vector<double> values;  // of the last run

 private:
  std::optional<program::BufferId> buffer_;
  std::optional<std::size_t> writer_;
};

}  // namespace

std::int32_t Windows::at(std::int64_t place, bool is_label) const {
  if (place >= labels()) return is_label ? data::no_label : 0;
  return ids_[static_cast<std::size_t>(is_label ? place + 1 : place)];
}

double TokenScores::mean_loss() const {
  double sum = 0;
  for (const double value : log_probabilities) sum -= value;
  return sum / static_cast<double>(log_probabilities.size());
}

TokenScores score_tokens(const Windows& windows, run::Executor& executor, bool keeps_logits,
                         const std::function<void(std::int64_t)>& progress) {
  const program::Program& program = executor.bundle().at(op::ProgramKind::evaluate);
  TokenScores scores;
  Capture losses(program, "loss");
  std::optional<Capture> logits;
  if (keeps_logits) logits.emplace(program, "logits");
  const std::int64_t batch = program.feeds.micros * program.feeds.samples;
  for (std::int64_t window = 0; window < windows.count(); window += batch) {
    WindowFeeder feeder(windows, window);
    executor.run_stepwise(op::ProgramKind::evaluate, {}, &feeder,
                          [&](const auto& p, std::size_t instruction) {
                            losses.after(p, instruction, executor);
                            if (logits) logits->after(p, instruction, executor);
                          });
    const std::int64_t places =
        std::min(batch * windows.length(), windows.labels() - window * windows.length());
    for (std::int64_t i = 0; i < places; ++i)
      scores.log_probabilities.push_back(-losses.values[static_cast<std::size_t>(i)]);
    progress(std::min(window + batch, windows.count()));
    if (!logits) continue;
    scores.vocab_size = std::ssize(logits->values) / (batch * windows.length());
    const auto wanted = static_cast<std::size_t>(places * scores.vocab_size);
    for (std::size_t i = 0; i < wanted; ++i)
      scores.logits.push_back(static_cast<float>(logits->values[i]));
  }
  return scores;
}

std::size_t scored_bytes(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                         std::string_view text) {
  const std::string first = tokenizer.decode(ids.first(1));
  const std::size_t spaces = leading_spaces(text), spaces_of_first = leading_spaces(first);
  std::size_t unscored = 0;
  if (spaces_of_first < first.size())
    unscored = spaces + first.size() - spaces_of_first;
  else
    unscored = first.size() - (leading_spaces(tokenizer.decode(ids)) > spaces ? 1 : 0);
  return text.size() - std::min(unscored, text.size());
}

Json to_json(const Windows& windows, const TokenScores& scores) {
  Json ids = Json::array(), values = Json::array();
  for (const std::int32_t id : windows.ids()) ids.push(id);
  for (const double value : scores.log_probabilities) values.push(value);
  return Json::object()
      .set("loss", scores.mean_loss())
      .set("perplexity", std::exp(scores.mean_loss()))
      .set("tokens", windows.labels())
      .set("window", windows.length())
      .set("ids", std::move(ids))
      .set("log_probabilities", std::move(values));
}

void write_logits(const std::string& path, const Windows& windows, const TokenScores& scores) {
  const std::int64_t rows = windows.labels();
  const std::array<checkpoint::TensorView, 2> tensors = {{
      {"ids", DType::i32, {rows + 1}, std::as_bytes(std::span(windows.ids()))},
      {"logits", DType::f32, {rows, scores.vocab_size}, std::as_bytes(std::span(scores.logits))},
  }};
  checkpoint::write_safetensors(path, tensors);
}

}  // namespace fourfold::train
