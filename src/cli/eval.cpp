#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "cli/commands.h"
#include "data/tokenizer.h"
#include "job/job.h"
#include "run/executor.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"
#include "train/token_scores.h"

namespace fourfold::cli {
namespace {

train::TokenScores score_and_tell(const EvalArguments& arguments, const train::Windows& windows,
                                  run::Executor& executor) {
  std::optional<screen::ProgressLine> line;
  // What reads JSON reads nothing else.
  if (!arguments.json)
    line.emplace(
        screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
  return train::score_tokens(windows, executor, !arguments.logits.empty(), [&](std::int64_t done) {
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

Json to_json(const train::Windows& windows, const train::TokenScores& scores) {
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

void write_logits(const std::string& path, const train::Windows& windows,
                  const train::TokenScores& scores) {
  const std::int64_t rows = windows.labels();
  const std::array<checkpoint::TensorView, 2> tensors = {{
      {"ids", DType::i32, {rows + 1}, std::as_bytes(std::span(windows.ids()))},
      {"logits", DType::f32, {rows, scores.vocab_size}, std::as_bytes(std::span(scores.logits))},
  }};
  checkpoint::write_safetensors(path, tensors);
}

void print_table(const EvalArguments& arguments, const rundir::TrainedModel& model,
                 const train::Windows& windows, const train::TokenScores& scores, bool is_text,
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
  std::vector<std::int32_t> ids = tokenizer->encode(text, arguments.text);
  if (ids.size() < 2)
    throw UserError(ExitCode::bad_data,
                    format("{}: has {} tokens; expected at least 2, as each is judged by those "
                           "before it",
                           arguments.text, ids.size()));
  config::Config config =
      scoring_config(arguments, model.config, static_cast<std::int64_t>(ids.size()) - 1);
  config::share_values(config);
  const train::Windows windows(std::move(ids), config.data.seq_length);
  const job::Job job = job::make_job(std::move(config), job::Graphs::evaluation);
  job::require_device(job);
  job::check_memory(job);
  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at("evaluate"),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  const train::TokenScores scores = score_and_tell(arguments, windows, executor);
  if (!arguments.logits.empty()) write_logits(arguments.logits, windows, scores);
  if (arguments.json)
    screen::print("%s\n", to_json(windows, scores).dump().c_str());
  else
    print_table(arguments, model, windows, scores, tokenizer->name() != "number", text.size());
}

}  // namespace fourfold::cli
