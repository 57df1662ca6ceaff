#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/figure.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/units.h"
#include "checkpoint/load_model.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "config/uses.h"
#include "data/source.h"
#include "job/job.h"
#include "job/settle.h"
#include "model/model.h"
#include "run/executor.h"
#include "rundir/trained_model.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "screen/terminal.h"
#include "tokenizer/tokenizer.h"
#include "train/picture_bound.h"
#include "train/token_scores.h"

namespace fourfold::cli {
namespace {

struct EvalArguments {
  std::string run_dir, text, logits, data, device = "auto";
  int threads = 0;
  std::optional<std::int64_t> step, window, pictures;
  bool json = false;
  comm::Variable variable;
};

void list_options(OptionList& options, EvalArguments& given) {
  given.variable = options.caller().variable;
  add_run_option(options, given.run_dir);
  options.add("--text", given.text, "The text, or token numbers where the model has no tokenizer");
  options.add("--data", given.data, "Of a run that makes pictures: a file or folder of pictures");
  options.add("--pictures", given.pictures,
              "At most so many pictures, evenly spread (default: all)", {.within = Least{1}});
  add_step_option(options, given.step);
  options.add("--window", given.window,
              "Tokens that are seen together (default: data.seq_length of the run)",
              {.within = Least{1}});
  options.add("--json", given.json, "Print JSON, with the log-probability of each token");
  options.add("--logits", given.logits, "Write all logits to this safetensors file");
  add_machine_options(options, given.threads, given.device);
}

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
  const std::size_t num_bytes = train::scored_bytes(*tokenizer, ids, text);
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

void check_options(const EvalArguments& arguments) {
  if (arguments.data.empty())
    throw UserError(ExitCode::bad_config,
                    "this run makes pictures; give some to judge with --data PATH");
  refuse_options({{"--text", !arguments.text.empty()},
                  {"--window", arguments.window.has_value()},
                  {"--logits", !arguments.logits.empty()}},
                 "texts", "pictures");
}

void print_bound(const EvalArguments& arguments, const rundir::TrainedModel& model,
                 const train::PictureBound& bound) {
  if (arguments.json) {
    Json terms = Json::array();
    for (const double bits : bound.by_time) terms.push(bits);
    const Json json = Json::object()
                          .set("bits_per_dim", bound.bits())
                          .set("pictures", bound.pictures)
                          .set("by_time", std::move(terms));
    screen::print("%s\n", json.dump().c_str());
    return;
  }
  screen::print("model        %s of %s\npictures     %s of %s\nbits/dim     %.4f\n",
                model.origin.c_str(), arguments.run_dir.c_str(),
                format_grouped(bound.pictures).c_str(), arguments.data.c_str(), bound.bits());
}

void eval_pictures(const EvalArguments& arguments, const rundir::TrainedModel& model) {
  check_options(arguments);
  const config::Config config =
      config::for_judging(model.config, {arguments.threads, arguments.device},
                          {data::Format::pictures, arguments.data}, arguments.pictures);
  const auto source = job::open_data(config, job::DataUse::validation);
  const job::Job job = job::prepare(job::settle(config, {.data = source.get()}),
                                    {.graphs = job::Graphs::evaluation});
  job::require_device(job.device);
  job::check_memory(job);
  const auto backend = job::make_backend(job);
  run::Executor executor(job.bundle(), *backend);
  checkpoint::load_model(*model.parameters, job.bundle().at(op::ProgramKind::bound),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  std::optional<screen::ProgressLine> line;
  if (!arguments.json)
    line.emplace(
        screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
  const std::int64_t times = model::diffusion(job.settled.model())->steps;
  const train::PictureBound bound = train::bound_of_pictures(
      executor, *source, times, arguments.pictures, [&](double done, std::int64_t pictures) {
        if (line)
          line->show(done,
                     format("{} at {} each", counted(pictures, "picture"), counted(times, "time")));
      });
  line.reset();
  for (std::size_t time = 0; time < bound.by_time.size(); ++time)
    finite_figure(bound.by_time[time],
                  format("the bound of {} at time {} by {} of {}", arguments.data, time,
                         model.origin, arguments.run_dir),
                  use_other_weights);
  print_bound(arguments, model, bound);
}

void eval(const EvalArguments& arguments) {
  const rundir::TrainedModel model = rundir::open_trained_model(arguments.run_dir, arguments.step);
  if (model.config.family().makes == model::Makes::pictures)
    eval_pictures(arguments, model);
  else
    eval_text(arguments, model);
}

}  // namespace

void add_eval(Commands& commands) {
  commands.add(
      {"eval", After{"ckpt"}, "Print how well the model of a run predicts a text, or pictures",
       "eval runs/gpt-quickstart --text data/bible.txt"},
      list_options, eval);
}

}  // namespace fourfold::cli
