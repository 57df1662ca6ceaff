#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/figure.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "cli/commands.h"
#include "cli/eval_pictures.h"
#include "config/uses.h"
#include "job/job.h"
#include "job/settle.h"
#include "run/executor.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"
#include "tokenizer/tokenizer.h"
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

std::size_t leading_spaces(std::string_view text) {
  return std::min(text.find_first_not_of(' '), text.size());
}

/// Counts the bytes of the text that the scored tokens stand for: the first token is not predicted,
/// and its bytes do not count. A tokenizer may put a space before a text, or drop those that it
/// begins with.
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

void require_finite(const EvalArguments& arguments, const rundir::TrainedModel& model,
                    const train::TokenScores& scores) {
  const auto bad = std::ranges::find_if(scores.log_probabilities,
                                        [](double value) { return !std::isfinite(value); });
  if (bad == scores.log_probabilities.end()) return;
  finite_figure(
      -*bad,
      format("the loss of token {} of {} by {} of {}", bad - scores.log_probabilities.begin() + 1,
             arguments.text, model.origin, arguments.run_dir),
      use_other_weights);
}

/// "12.3"; a loss above 709 has a perplexity beyond all doubles.
std::string perplexity_text(double loss) {
  const double perplexity = std::exp(loss);
  return std::isfinite(perplexity) ? format("{:.4f}", perplexity) : "above 1e308";
}

void print_table(const EvalArguments& arguments, const rundir::TrainedModel& model,
                 const train::Windows& windows, const train::TokenScores& scores, bool is_text,
                 std::size_t num_bytes) {
  const double loss = scores.mean_loss();
  screen::print("model        %s of %s\ntokens       %s in %s of %lld\n", model.origin.c_str(),
                arguments.run_dir.c_str(), format_grouped(windows.labels()).c_str(),
                counted(windows.count(), "window").c_str(),
                static_cast<long long>(windows.length()));
  screen::print("loss         %.6f per token\nperplexity   %s\n", loss,
                perplexity_text(loss).c_str());
  if (!is_text || num_bytes == 0) return;
  const double bits = loss * static_cast<double>(windows.labels()) / std::log(2.0);
  screen::print("bits/byte    %.4f\n", bits / static_cast<double>(num_bytes));
}

void need_text(const EvalArguments& arguments) {
  if (arguments.text.empty())
    throw UserError(ExitCode::bad_config, "the text to predict is missing; give --text FILE");
  if (!arguments.data.empty() || arguments.pictures)
    throw UserError(ExitCode::bad_config,
                    format("{} is an option for a run that makes pictures; leave it out",
                           arguments.pictures ? "--pictures" : "--data"));
}

void eval_text(const EvalArguments& arguments, const rundir::TrainedModel& model) {
  need_text(arguments);
  const std::string text = read_file(arguments.text);
  const auto tokenizer =
      tokenizer::tokenizer_from_text(model.text_tokenizer(), model.tokenizer_place);
  std::vector<std::int32_t> ids = tokenizer->encode(text, arguments.text);
  if (ids.size() < 2)
    throw UserError(ExitCode::bad_data,
                    format("{}: has {} tokens; expected at least 2, as each is judged by those "
                           "before it",
                           arguments.text, ids.size()));
  const config::Config config =
      config::for_scoring(model.config, {arguments.threads, arguments.device}, arguments.window,
                          static_cast<std::int64_t>(ids.size()) - 1);
  const std::size_t num_bytes = scored_bytes(*tokenizer, ids, text);
  const train::Windows windows(std::move(ids), config.data.seq_length);
  const job::Job job = job::prepare(job::settle(config, {}), {.graphs = job::Graphs::evaluation});
  job::require_device(job.device);
  job::check_memory(job);
  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at(op::ProgramKind::evaluate),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  const train::TokenScores scores = score_and_tell(arguments, windows, executor);
  require_finite(arguments, model, scores);
  if (!arguments.logits.empty()) train::write_logits(arguments.logits, windows, scores);
  if (arguments.json)
    screen::print("%s\n", train::to_json(windows, scores).dump().c_str());
  else
    print_table(arguments, model, windows, scores, tokenizer->name() != "number", num_bytes);
}

}  // namespace

void eval(const EvalArguments& arguments) {
  const rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  if (model.config.family().makes == model::Makes::pictures)
    eval_pictures(arguments, model);
  else
    eval_text(arguments, model);
}

}  // namespace fourfold::cli
