#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "cli/commands.h"
#include "cli/eval_pictures.h"
#include "data/tokenizer.h"
#include "job/job.h"
#include "job/serving_config.h"
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
  const auto tokenizer = data::tokenizer_from_text(model.text_tokenizer(), model.tokenizer_place);
  std::vector<std::int32_t> ids = tokenizer->encode(text, arguments.text);
  if (ids.size() < 2)
    throw UserError(ExitCode::bad_data,
                    format("{}: has {} tokens; expected at least 2, as each is judged by those "
                           "before it",
                           arguments.text, ids.size()));
  config::Config config =
      job::scoring_config(model.config, {arguments.threads, arguments.device}, arguments.window,
                          static_cast<std::int64_t>(ids.size()) - 1);
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
  if (!arguments.logits.empty()) train::write_logits(arguments.logits, windows, scores);
  if (arguments.json)
    screen::print("%s\n", train::to_json(windows, scores).dump().c_str());
  else
    print_table(arguments, model, windows, scores, tokenizer->name() != "number", text.size());
}

}  // namespace

void eval(const EvalArguments& arguments) {
  const rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  if (model.config.kind == model::Kind::unet)
    eval_pictures(arguments, model);
  else
    eval_text(arguments, model);
}

}  // namespace fourfold::cli
