#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/model_file.h"
#include "cli/commands.h"
#include "data/source.h"
#include "data/tokenizer.h"
#include "job/job.h"
#include "run/executor.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"

namespace fourfold::cli {
namespace {

using Ids = std::vector<std::int32_t>;

/// A text as windows of T tokens: every token but the first is the label of the one before.
class Windows {
 public:
  Windows(Ids ids, std::int64_t length) : ids_(std::move(ids)), length_(length) {}

  const Ids& ids() const { return ids_; }
  std::int64_t length() const { return length_; }
  std::int64_t labels() const { return static_cast<std::int64_t>(ids_.size()) - 1; }
  std::int64_t count() const { return (labels() + length_ - 1) / length_; }

  /// The token of a place, counted over all windows, or its label; beyond the text 0 and none.
  std::int32_t at(std::int64_t place, bool is_label) const {
    if (place >= labels()) return is_label ? data::no_label : 0;
    return ids_[static_cast<std::size_t>(is_label ? place + 1 : place)];
  }

 private:
  Ids ids_;
  std::int64_t length_;
};

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

/// The values of a buffer right behind the instruction that writes it, as later ones may use its
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

struct Scores {
  std::vector<double> log_probabilities;  // of each token but the first, given those before
  std::vector<float> logits;              // behind each token but the last; where asked for
  std::int64_t vocab_size = 0;

  double mean_loss() const {
    double sum = 0;
    for (const double value : log_probabilities) sum -= value;
    return sum / static_cast<double>(log_probabilities.size());
  }
};

/// `progress` is told how many windows are done.
Scores score(const Windows& windows, const job::Job& job, run::Executor& executor,
             bool keeps_logits, const std::function<void(std::int64_t)>& progress) {
  const program::Program& program = job.bundle().at("evaluate");
  Scores scores;
  scores.vocab_size = job.config.gpt.vocab_size;
  Capture losses(program, "loss");
  std::optional<Capture> logits;
  if (keeps_logits) logits.emplace(program, "logits");
  const std::int64_t batch = program.feeds.micros * program.feeds.samples;
  for (std::int64_t window = 0; window < windows.count(); window += batch) {
    WindowFeeder feeder(windows, window);
    executor.run_stepwise("evaluate", {}, &feeder, [&](const auto& p, std::size_t instruction) {
      losses.after(p, instruction, executor);
      if (logits) logits->after(p, instruction, executor);
    });
    const std::int64_t places =
        std::min(batch * windows.length(), windows.labels() - window * windows.length());
    for (std::int64_t i = 0; i < places; ++i)
      scores.log_probabilities.push_back(-losses.values[static_cast<std::size_t>(i)]);
    progress(std::min(window + batch, windows.count()));
    if (!logits) continue;
    const auto wanted = static_cast<std::size_t>(places * scores.vocab_size);
    for (std::size_t i = 0; i < wanted; ++i)
      scores.logits.push_back(static_cast<float>(logits->values[i]));
  }
  return scores;
}

Scores score_and_tell(const EvalArguments& arguments, const Windows& windows, const job::Job& job,
                      run::Executor& executor) {
  std::optional<screen::ProgressLine> line;
  // What reads JSON reads nothing else.
  if (!arguments.json)
    line.emplace(
        screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
  return score(windows, job, executor, !arguments.logits.empty(), [&](std::int64_t done) {
    if (line)
      line->show(static_cast<double>(done) / static_cast<double>(windows.count()),
                 format("{} of {}", format_grouped(done), counted(windows.count(), "window")));
  });
}

/// One rank scores, without anything of training.
config::Config scoring_config(const EvalArguments& arguments, const config::Config& trained,
                              std::int64_t labels) {
  config::Config config = trained;
  config.threads = arguments.threads;
  config.device = arguments.device;
  config.kernel_table.clear();
  config.plan.grid = {};
  config.plan.strategy = plan::Strategy::axonn;
  config.plan.shard_sequence = config.plan.shard_states = false;
  config.sample.tokens = 0;
  config.data.mask_documents = config.data.restart_positions = false;  // the text is one document
  const std::int64_t length = arguments.window.value_or(config.data.seq_length);
  if (length > config.gpt.max_position_embeddings)
    throw UserError(ExitCode::bad_config,
                    format("--window {}: the model knows {} positions; expected at most that",
                           length, config.gpt.max_position_embeddings));
  constexpr std::int64_t tokens_at_once = 2048;
  config.data.seq_length = length;
  config.plan.global_batch_size =
      std::clamp<std::int64_t>(tokens_at_once / length, 1, (labels + length - 1) / length);
  config.micro_batch_size = config.plan.global_batch_size;
  return config;
}

Json to_json(const Windows& windows, const Scores& scores) {
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

void write_logits(const std::string& path, const Windows& windows, const Scores& scores) {
  const std::int64_t rows = windows.labels();
  const std::array<checkpoint::TensorView, 2> tensors = {{
      {"ids", DType::i32, {rows + 1}, std::as_bytes(std::span(windows.ids()))},
      {"logits", DType::f32, {rows, scores.vocab_size}, std::as_bytes(std::span(scores.logits))},
  }};
  checkpoint::write_safetensors(path, tensors);
}

void print_table(const EvalArguments& arguments, const rundir::TrainedModel& model,
                 const Windows& windows, const Scores& scores, bool is_text,
                 std::size_t text_bytes) {
  const double loss = scores.mean_loss();
  screen::print("model        %s of %s\ntokens       %s in %s of %lld\n", model.origin.c_str(),
                arguments.run_dir.c_str(), format_grouped(windows.labels()).c_str(),
                counted(windows.count(), "window").c_str(),
                static_cast<long long>(windows.length()));
  screen::print("loss         %.6f per token\nperplexity   %.4f\n", loss, std::exp(loss));
  if (!is_text) return;
  const double bits = loss * static_cast<double>(windows.labels()) / std::log(2.0);
  screen::print("bits/byte    %.4f\n", bits / static_cast<double>(text_bytes));
}

}  // namespace

void eval(const EvalArguments& arguments) {
  const rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  const std::string text = read_file(arguments.text);
  const auto tokenizer = data::tokenizer_from_text(model.text_tokenizer(), model.tokenizer_place);
  Ids ids = tokenizer->encode(text, arguments.text);
  if (ids.size() < 2)
    throw UserError(ExitCode::bad_data,
                    format("{}: has {} tokens; expected at least 2, as each is judged by those "
                           "before it",
                           arguments.text, ids.size()));
  config::Config config =
      scoring_config(arguments, model.config, static_cast<std::int64_t>(ids.size()) - 1);
  config::share_values(config);
  const Windows windows(std::move(ids), config.data.seq_length);
  const job::Job job = job::make_job(std::move(config), job::Graphs::evaluation);
  job::require_device(job);
  job::check_memory(job);
  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at("evaluate"),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  const Scores scores = score_and_tell(arguments, windows, job, executor);
  if (!arguments.logits.empty()) write_logits(arguments.logits, windows, scores);
  if (arguments.json)
    screen::print("%s\n", to_json(windows, scores).dump().c_str());
  else
    print_table(arguments, model, windows, scores, tokenizer->name() != "number", text.size());
}

}  // namespace fourfold::cli
